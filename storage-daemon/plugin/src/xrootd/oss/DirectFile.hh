// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "XrdOss/XrdOss.hh"

namespace beer {

// A second descriptor of an open file, with O_DIRECT, opened when the first client wants it: an OSS file is shared by
// clients that want different things. Only for requests that are aligned in place, size and
// memory, and only while the path still leads to the same file.
class DirectFile {
  public:
    // `flags`: those of the first descriptor, `fd`.
    DirectFile(XrdOss& lower, const char* path, int flags, int fd)
        : lower_(lower), path_(path), flags_(flags), fd_(fd) {}
    ~DirectFile();
    DirectFile(const DirectFile&) = delete;
    DirectFile& operator=(const DirectFile&) = delete;

    // The descriptor for this request; null = it must go through the page cache (not aligned, or the filesystem has no
    // direct I/O).
    XrdOssDF* For(const void* buffer, off_t offset, size_t size) noexcept;

  private:
    void Open();

    XrdOss& lower_;
    const std::string path_;
    const int flags_, fd_;
    std::once_flag opened_;
    std::unique_ptr<XrdOssDF> file_;
    size_t memory_alignment_ = 4096, offset_alignment_ = 4096;
};

} // namespace beer
