// SPDX-License-Identifier: Apache-2.0
#include "xrootd/oss/DirectFile.hh"

#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>

#include "XrdOuc/XrdOucEnv.hh"

namespace beer {

DirectFile::~DirectFile() {
    long long size = 0;
    if (file_) file_->Close(&size);
}

void DirectFile::Open() {
    std::unique_ptr<XrdOssDF> file(lower_.newFile("beer.direct"));
    XrdOucEnv env;
    if (!file || file->Open(path_.c_str(), (flags_ & O_ACCMODE) | O_DIRECT, 0, env) != 0) return;
    struct stat first{}, second{};
    const int fd = file->getFD();
    if (fstat(fd_, &first) != 0 || fstat(fd, &second) != 0 || first.st_dev != second.st_dev ||
        first.st_ino != second.st_ino)
        return; // renamed or replaced since: there is another file now
    struct statx found{};
    // Linux 6.1 and later; before, a page is always enough.
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &found) == 0 && (found.stx_mask & STATX_DIOALIGN)) {
        if (!found.stx_dio_mem_align) return; // the file has no direct I/O, whatever open said
        memory_alignment_ = std::max<size_t>(512, found.stx_dio_mem_align);
        offset_alignment_ = std::max<size_t>(512, found.stx_dio_offset_align);
    }
    file_ = std::move(file);
}

XrdOssDF* DirectFile::For(const void* buffer, off_t offset, size_t size) noexcept {
    try {
        std::call_once(opened_, [this] { Open(); });
    } catch (...) { // no memory: tried again at the next request
        return nullptr;
    }
    const bool aligned = reinterpret_cast<uintptr_t>(buffer) % memory_alignment_ == 0 &&
                         static_cast<size_t>(offset) % offset_alignment_ == 0 && size % offset_alignment_ == 0;
    return file_ && aligned && size ? file_.get() : nullptr;
}

} // namespace beer
