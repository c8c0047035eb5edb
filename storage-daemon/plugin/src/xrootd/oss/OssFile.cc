// SPDX-License-Identifier: Apache-2.0
#include "xrootd/oss/OssFile.hh"

#include <climits>
#include <fcntl.h>

#include "XrdSfs/XrdSfsAio.hh"
#include "core/Context.hh"

namespace beer {
namespace {

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
    if (result == 0) AfterOpen(path);
    return result;
}

void OssFile::AfterOpen(const char* path) noexcept {
    const int fd = wrapDF.getFD();
    if (fd < 0) return;
    filesystem_ = core_.FilesystemOfOpen(path, fd);
    // XRootD itself would give this hint, had getFD() told it the descriptor.
    const Context* context = Context::Current();
    if (context && context->sequential) (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

int OssFile::Close(long long* size) {
    OperationTimer timer = Timer(writable_ ? Event::sync : Event::meta);
    return timer.Done(wrapDF.Close(size));
}

ssize_t OssFile::Read(void* buffer, off_t offset, size_t size) {
    OperationTimer timer = Timer(Event::read, size);
    return timer.Done(wrapDF.Read(buffer, offset, size), true);
}

ssize_t OssFile::ReadRaw(void* buffer, off_t offset, size_t size) {
    OperationTimer timer = Timer(Event::read, size);
    return timer.Done(wrapDF.ReadRaw(buffer, offset, size), true);
}

ssize_t OssFile::ReadV(XrdOucIOVec* pieces, int count) {
    OperationTimer timer = Timer(Event::read, Sum(pieces, count));
    return timer.Done(wrapDF.ReadV(pieces, count), true);
}

ssize_t OssFile::pgRead(void* buffer, off_t offset, size_t size, uint32_t* checksums, uint64_t options) {
    OperationTimer timer = Timer(Event::read, size);
    return timer.Done(wrapDF.pgRead(buffer, offset, size, checksums, options), true);
}

ssize_t OssFile::Write(const void* buffer, off_t offset, size_t size) {
    OperationTimer timer = Timer(Event::write, size);
    return timer.Done(wrapDF.Write(buffer, offset, size), true);
}

ssize_t OssFile::WriteV(XrdOucIOVec* pieces, int count) {
    OperationTimer timer = Timer(Event::write, Sum(pieces, count));
    return timer.Done(wrapDF.WriteV(pieces, count), true);
}

ssize_t OssFile::pgWrite(void* buffer, off_t offset, size_t size, uint32_t* checksums, uint64_t options) {
    OperationTimer timer = Timer(Event::write, size);
    return timer.Done(wrapDF.pgWrite(buffer, offset, size, checksums, options), true);
}

int OssFile::Fsync() {
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
