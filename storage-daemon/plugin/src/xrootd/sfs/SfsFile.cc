// SPDX-License-Identifier: Apache-2.0
#include "xrootd/sfs/SfsFile.hh"

#include <cerrno>

#include "core/Context.hh"
#include "xrootd/sfs/Client.hh"

namespace beer {

SfsFile::~SfsFile() {
    // A client that went away without closing: the next layer closes the file in its destructor.
    CountClosed();
    const Context context(origin_);
    delete &next_;
}

int SfsFile::open(const char* path, XrdSfsFileOpenMode mode, mode_t create_mode, const XrdSecEntity* client,
                  const char* opaque) {
    origin_ = OriginOf(core_, client);
    const Context context(origin_, mode & SFS_O_SEQIO);
    const int result = next_.open(path, mode, create_mode, client, opaque);
    if (result == SFS_OK) CountOpen(path, mode);
    return CountStall(core_, path, origin_, result);
}

void SfsFile::CountOpen(const char* path, XrdSfsFileOpenMode mode) {
    if (!core_.recorder() || counted_on_ != kNoFilesystem) return;
    writer_ = mode & (SFS_O_WRONLY | SFS_O_RDWR | SFS_O_CREAT | SFS_O_TRUNC);
    counted_on_ = core_.FilesystemOf(path);
    core_.recorder()->Streams(counted_on_, writer_, +1);
}

void SfsFile::CountClosed() {
    if (!core_.recorder() || counted_on_ == kNoFilesystem) return;
    core_.recorder()->Streams(counted_on_, writer_, -1);
    counted_on_ = kNoFilesystem;
}

int SfsFile::close() {
    CountClosed();
    const Context context(origin_);
    return next_.close();
}

int SfsFile::fctl(int command, const char* arguments, XrdOucErrInfo& result) {
    if (command == SFS_FCTL_GETFD) { // asked for sendfile, which the OSS half would not see
        result.setErrInfo(ENOTSUP, "sendfile is not offered");
        return SFS_ERROR;
    }
    const Context context(origin_);
    return next_.fctl(command, arguments, result);
}

int SfsFile::fctl(int command, int size, const char* arguments, const XrdSecEntity* client) {
    const Context context(origin_);
    return next_.fctl(command, size, arguments, client);
}

int SfsFile::getMmap(void** address, off_t& size) {
    *address = nullptr;
    size = 0;
    return SFS_OK;
}

int SfsFile::checkpoint(cpAct action, struct iov* range, int count) {
    const Context context(origin_);
    return next_.checkpoint(action, range, count);
}

const char* SfsFile::FName() { return next_.FName(); }

XrdSfsXferSize SfsFile::pgRead(XrdSfsFileOffset offset, char* buffer, XrdSfsXferSize size, uint32_t* checksums,
                               uint64_t options) {
    const Context context(origin_);
    return next_.pgRead(offset, buffer, size, checksums, options);
}

int SfsFile::pgRead(XrdSfsAio* request, uint64_t options) {
    const Context context(origin_);
    return next_.pgRead(request, options);
}

XrdSfsXferSize SfsFile::pgWrite(XrdSfsFileOffset offset, char* buffer, XrdSfsXferSize size, uint32_t* checksums,
                                uint64_t options) {
    const Context context(origin_);
    return next_.pgWrite(offset, buffer, size, checksums, options);
}

int SfsFile::pgWrite(XrdSfsAio* request, uint64_t options) {
    const Context context(origin_);
    return next_.pgWrite(request, options);
}

XrdSfsXferSize SfsFile::read(XrdSfsFileOffset offset, XrdSfsXferSize size) {
    const Context context(origin_);
    return next_.read(offset, size);
}

XrdSfsXferSize SfsFile::read(XrdSfsFileOffset offset, char* buffer, XrdSfsXferSize size) {
    const Context context(origin_);
    return next_.read(offset, buffer, size);
}

int SfsFile::read(XrdSfsAio* request) {
    const Context context(origin_);
    return next_.read(request);
}

XrdSfsXferSize SfsFile::readv(XrdOucIOVec* pieces, int count) {
    const Context context(origin_);
    return next_.readv(pieces, count);
}

int SfsFile::SendData(XrdSfsDio* sender, XrdSfsFileOffset offset, XrdSfsXferSize size) {
    const Context context(origin_);
    return next_.SendData(sender, offset, size);
}

XrdSfsXferSize SfsFile::write(XrdSfsFileOffset offset, const char* buffer, XrdSfsXferSize size) {
    const Context context(origin_);
    return next_.write(offset, buffer, size);
}

int SfsFile::write(XrdSfsAio* request) {
    const Context context(origin_);
    return next_.write(request);
}

XrdSfsXferSize SfsFile::writev(XrdOucIOVec* pieces, int count) {
    const Context context(origin_);
    return next_.writev(pieces, count);
}

int SfsFile::stat(struct stat* to) {
    const Context context(origin_);
    return next_.stat(to);
}

int SfsFile::sync() {
    const Context context(origin_);
    return next_.sync();
}

int SfsFile::sync(XrdSfsAio* request) {
    const Context context(origin_);
    return next_.sync(request);
}

int SfsFile::truncate(XrdSfsFileOffset size) {
    const Context context(origin_);
    return next_.truncate(size);
}

int SfsFile::getCXinfo(char type[4], int& size) { return next_.getCXinfo(type, size); }

void SfsFile::setXio(XrdSfsXio* exchange) { next_.setXio(exchange); }

} // namespace beer
