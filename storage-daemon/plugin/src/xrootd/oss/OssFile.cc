// SPDX-License-Identifier: Apache-2.0
#include "xrootd/oss/OssFile.hh"

#include <algorithm>
#include <climits>
#include <fcntl.h>
#include <sys/stat.h>

#include "XrdSfs/XrdSfsAio.hh"
#include "core/Context.hh"
#include "core/PageCache.hh"

namespace beer {
namespace {

constexpr off_t kUnaligned = 1; // a list of places is never read directly

constexpr IoPriority kInternal{IoPriority::Class::best_effort, 7}; // of the server's own work

size_t Sum(const XrdOucIOVec* pieces, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; ++i)
        bytes += static_cast<size_t>(pieces[i].size);
    return bytes;
}

} // namespace

int OssFile::Open(const char* path, int flags, mode_t mode, XrdOucEnv& env) {
    filesystem_ = core_.FilesystemOf(path);
    writable_ = (flags & O_ACCMODE) != O_RDONLY;
    OperationTimer timer = Timer(Event::open);
    const int result = timer.Done(wrapDF.Open(path, flags, mode, env));
    if (result == 0) AfterOpen(path, flags);
    return result;
}

void OssFile::AfterOpen(const char* path, int flags) noexcept {
    const int fd = wrapDF.getFD();
    if (fd < 0) return;
    filesystem_ = core_.FilesystemOfOpen(path, fd);
    try {
        direct_ = std::make_unique<DirectFile>(storage_, path, flags, fd);
    } catch (...) { // no memory: through the page cache then
        if (core_.recorder()) core_.recorder()->InternalError();
    }
    // XRootD itself would give this hint, had getFD() told it the descriptor.
    const Context* context = Context::Current();
    if (context && context->sequential) (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

int OssFile::Close(long long* size) {
    const IoPrioritySentry priority(core_.io_priorities(), Priority());
    OperationTimer timer = Timer(writable_ ? Event::sync : Event::meta);
    direct_.reset();
    return timer.Done(wrapDF.Close(size));
}

const Policy* OssFile::PolicyNow() const {
    const Context* context = Context::Current();
    return context ? context->policy : nullptr;
}

std::optional<IoPriority> OssFile::Priority() const {
    if (core_.CurrentOrigin().traffic == Traffic::internal) return kInternal;
    const Policy* policy = PolicyNow();
    if (!policy || policy->priority_from == Level::none) return std::nullopt;
    return policy->priority;
}

OssFile::Ahead OssFile::AheadOf(off_t offset, size_t size, uint64_t length) noexcept {
    Ahead ahead;
    ahead.stretch = StretchesOf(static_cast<uint64_t>(offset), size, length);
    const int fd = ahead.stretch.empty() ? -1 : wrapDF.getFD();
    struct stat now;
    if (fd < 0 || fstat(fd, &now) != 0) return {};
    ahead.stretch.end = std::min(ahead.stretch.end, static_cast<uint64_t>(now.st_size));
    // Who finds all of it in memory waits for nobody's disk.
    if (ahead.stretch.begin >= ahead.stretch.end || InMemory(fd, ahead.stretch)) return {};
    try {
        const uint64_t came_ns = core_.platform().MonotonicNs();
        ahead.turn = core_.shaping().stretches().Pass(filesystem_);
        const uint64_t waited_ns = core_.platform().MonotonicNs() - came_ns;
        const Origin origin = core_.CurrentOrigin();
        if (core_.recorder() && waited_ns > 0 && origin.traffic != Traffic::internal)
            core_.recorder()->Pacing(filesystem_, origin.traffic, waited_ns);
        ahead.fd = fd;
    } catch (...) { // the lock failed: only a hint
        if (core_.recorder()) core_.recorder()->InternalError();
    }
    return ahead;
}

template <typename Call>
ssize_t OssFile::Do(Event event, const void* buffer, off_t offset, size_t size, Call&& call) {
    const Policy* policy = PolicyNow();
    const IoType type = policy ? policy->type : IoType::buffered;
    XrdOssDF* file = &wrapDF;
    if (type == IoType::direct && direct_)
        if (XrdOssDF* direct = direct_->For(buffer, offset, size)) file = direct;
    // What direct I/O was wanted for and cannot be is at least on the disk when the client is told so, as in EOS.
    const bool through = event == Event::write && (type == IoType::sync || (type == IoType::direct && file == &wrapDF));

    const IoPrioritySentry priority(core_.io_priorities(), Priority());
    // The others' stretches are waited for before the clock starts, as turns are: it is our delay and not the disk's.
    Ahead ahead;
    if (event == Event::read && buffer && file == &wrapDF && policy) ahead = AheadOf(offset, size, policy->readahead);
    OperationTimer timer = Timer(event, size);
    if (ahead.fd >= 0) {
        AskFor(ahead.fd, ahead.stretch);
        if (ahead.turn) ahead.turn.unlock();
    }
    ssize_t result = call(*file);
    if (through && result > 0)
        if (const int failed = wrapDF.Fsync(); failed < 0) result = failed;
    return timer.Done(result, true);
}

ssize_t OssFile::Read(void* buffer, off_t offset, size_t size) {
    return Do(Event::read, buffer, offset, size, [&](XrdOssDF& file) { return file.Read(buffer, offset, size); });
}

ssize_t OssFile::ReadRaw(void* buffer, off_t offset, size_t size) {
    return Do(Event::read, buffer, offset, size, [&](XrdOssDF& file) { return file.ReadRaw(buffer, offset, size); });
}

ssize_t OssFile::ReadV(XrdOucIOVec* pieces, int count) {
    return Do(Event::read, nullptr, kUnaligned, Sum(pieces, count),
              [&](XrdOssDF& file) { return file.ReadV(pieces, count); });
}

ssize_t OssFile::pgRead(void* buffer, off_t offset, size_t size, uint32_t* checksums, uint64_t options) {
    return Do(Event::read, buffer, offset, size,
              [&](XrdOssDF& file) { return file.pgRead(buffer, offset, size, checksums, options); });
}

ssize_t OssFile::Write(const void* buffer, off_t offset, size_t size) {
    return Do(Event::write, buffer, offset, size, [&](XrdOssDF& file) { return file.Write(buffer, offset, size); });
}

ssize_t OssFile::WriteV(XrdOucIOVec* pieces, int count) {
    return Do(Event::write, nullptr, kUnaligned, Sum(pieces, count),
              [&](XrdOssDF& file) { return file.WriteV(pieces, count); });
}

ssize_t OssFile::pgWrite(void* buffer, off_t offset, size_t size, uint32_t* checksums, uint64_t options) {
    return Do(Event::write, buffer, offset, size,
              [&](XrdOssDF& file) { return file.pgWrite(buffer, offset, size, checksums, options); });
}

ssize_t OssFile::Read(off_t offset, size_t size) {
    const Context* context = Context::Current();
    const int fd = context && context->descriptor ? wrapDF.getFD() : -1;
    if (fd < 0) return wrapDF.Read(offset, size); // a hint; not a request that a client waits for
    const auto begin = static_cast<uint64_t>(offset), end = begin + size;
    if (!InMemory(fd, {begin, end})) return 0;
    OperationTimer timer = Timer(Event::read, size);
    *context->descriptor = fd;
    return timer.Done(static_cast<ssize_t>(size), true);
}

int OssFile::Fsync() {
    const IoPrioritySentry priority(core_.io_priorities(), Priority());
    OperationTimer timer = Timer(Event::sync);
    return timer.Done(wrapDF.Fsync());
}

int OssFile::Ftruncate(unsigned long long size) {
    OperationTimer timer = Timer(Event::meta);
    return timer.Done(wrapDF.Ftruncate(size));
}

int OssFile::Fchmod(mode_t mode) {
    OperationTimer timer = Timer(Event::meta);
    return timer.Done(wrapDF.Fchmod(mode));
}

// glibc declares aio_buf volatile, XRootD wants it plain.
static void* BufferOf(XrdSfsAio* request) { return const_cast<void*>(request->sfsAio.aio_buf); }

int OssFile::Read(XrdSfsAio* request) {
    request->Result = Read(BufferOf(request), request->sfsAio.aio_offset, request->sfsAio.aio_nbytes);
    request->doneRead();
    return 0;
}

int OssFile::pgRead(XrdSfsAio* request, uint64_t options) {
    request->Result =
        pgRead(BufferOf(request), request->sfsAio.aio_offset, request->sfsAio.aio_nbytes, request->cksVec, options);
    request->doneRead();
    return 0;
}

int OssFile::Write(XrdSfsAio* request) {
    request->Result = Write(BufferOf(request), request->sfsAio.aio_offset, request->sfsAio.aio_nbytes);
    request->doneWrite();
    return 0;
}

int OssFile::pgWrite(XrdSfsAio* request, uint64_t options) {
    request->Result =
        pgWrite(BufferOf(request), request->sfsAio.aio_offset, request->sfsAio.aio_nbytes, request->cksVec, options);
    request->doneWrite();
    return 0;
}

int OssFile::Fsync(XrdSfsAio* request) {
    request->Result = Fsync();
    request->doneWrite();
    return 0;
}

} // namespace beer
