// SPDX-License-Identifier: Apache-2.0
#include "xrootd/sfs/SfsFile.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "XrdSfs/XrdSfsAio.hh"
#include "XrdSfs/XrdSfsDio.hh"
#include "core/Context.hh"
#include "core/PageCache.hh"
#include "xrootd/sfs/Client.hh"
#include "xrootd/sfs/MetaGate.hh"

namespace beer {
namespace {

// glibc declares aio_buf volatile, XRootD wants it plain.
char* BufferOf(XrdSfsAio* request) { return static_cast<char*>(const_cast<void*>(request->sfsAio.aio_buf)); }
XrdSfsXferSize SizeOf(const XrdSfsAio* request) { return static_cast<XrdSfsXferSize>(request->sfsAio.aio_nbytes); }

bool Writes(XrdSfsFileOpenMode mode) { return mode & (SFS_O_WRONLY | SFS_O_RDWR | SFS_O_CREAT | SFS_O_TRUNC); }

// All of a request must be in memory while it is sent.
constexpr XrdSfsXferSize kMostSent = 16 << 20;
constexpr int kNotSent = -1;

// Direct I/O goes past the page cache; and who has a priority of his own, or whom we read ahead for, has that where the
// plug-in reads.
bool ReadsLikeAll(const Policy& policy) {
    return policy.type != IoType::direct && policy.priority_from == Level::none && !policy.readahead;
}

// The checksums from the page at `offset + done` on, which is the beginning of a page unless nothing is done yet.
uint32_t* After(uint32_t* checksums, XrdSfsFileOffset offset, XrdSfsXferSize done) {
    constexpr XrdSfsFileOffset kPage = 4096;
    return checksums && done ? checksums + ((offset + done) / kPage - offset / kPage) : checksums;
}

} // namespace

SfsFile::~SfsFile() {
    // A client that went away without closing: the next layer closes the file in its destructor.
    CountClosed();
    const Context context(origin_);
    delete &next_;
}

int SfsFile::open(const char* path, XrdSfsFileOpenMode mode, mode_t create_mode, const XrdSecEntity* client,
                  const char* opaque) {
    origin_ = OriginOf(core_, client);
    const uint32_t filesystem = core_.FilesystemOf(path);
    const MetaGate gate(core_, client, origin_, Writes(mode) ? MetaOperation::open_write : MetaOperation::open_read,
                        path, error);
    if (gate.answer() != SFS_OK) return gate.answer();
    // Asked before it is open: on a slow disk that takes long, and others come meanwhile.
    const bool writes = Writes(mode);
    Overload& overload = core_.shaping().overload();
    if (client && !overload.Enter(filesystem, writes))
        return RefuseForNow(core_, client, origin_, filesystem, error, "too many files are open on this filesystem");
    const int result = OpenNext(path, mode, create_mode, client, opaque, filesystem);
    if (client) overload.Entered(filesystem, writes, result == SFS_OK);
    if (result == SFS_OK) {
        CountOpen(filesystem, writes, !client);
        LearnName(client);
        List(path, mode, client, filesystem);
    } else {
        stream_.Close();
    }
    return Answer(core_, client, origin_, path, error, result);
}

int SfsFile::OpenNext(const char* path, XrdSfsFileOpenMode mode, mode_t create_mode, const XrdSecEntity* client,
                      const char* opaque, uint32_t filesystem) {
    if (const int answer = Admit(path, client, opaque, filesystem); answer != SFS_OK) return answer;
    const Context context(origin_, mode & SFS_O_SEQIO);
    return next_.open(path, mode, create_mode, client, opaque);
}

int SfsFile::Admit(const char* path, const XrdSecEntity* client, const char* opaque, uint32_t filesystem) noexcept {
    if (!client) return SFS_OK; // the server itself
    try {
        std::string wrong;
        Identity who = IdentityOf(core_, client, origin_, path, opaque, filesystem, wrong);
        if (!wrong.empty()) {
            error.setErrInfo(EINVAL, wrong.c_str());
            return SFS_ERROR;
        }
        if (stream_.Open(std::move(who), client->tident, HostOf(client), filesystem)) return SFS_OK;
    } catch (...) { // no memory: what cannot be held is not let in
        if (core_.recorder()) core_.recorder()->InternalError();
        if (origin_.traffic != Traffic::batch) return SFS_OK;
    }
    return RefuseForNow(core_, client, origin_, filesystem, error,
                        "too many connections that may be held have files open on this server");
}

void SfsFile::LearnName(const XrdSecEntity* client) noexcept {
    if (!client) return;
    try {
        Identity who = stream_.who();
        const std::string name = NameOf(client);
        if (name == who.user) return;
        who.user = name;
        stream_.Rename(who);
    } catch (...) { // no memory: as it was
        if (core_.recorder()) core_.recorder()->InternalError();
    }
}

void SfsFile::List(const char* path, XrdSfsFileOpenMode mode, const XrdSecEntity* client,
                   uint32_t filesystem) noexcept {
    try {
        OpenStream::Owner owner;
        if (client && client->tident) owner.link = client->tident;
        Address address;
        if (client && client->addrInfo && AddressOf(client->addrInfo->SockAddr(), address)) owner.host = address;
        owner.traffic = origin_.traffic;
        owner.filesystem = filesystem;
        owner.path.assign(path, strnlen(path, OpenStream::kMostPath));
        owner.writer = Writes(mode);
        stream_.List(std::move(owner));
    } catch (...) { // no memory: it is served, and not shown
        if (core_.recorder()) core_.recorder()->InternalError();
    }
}

void SfsFile::CountOpen(uint32_t filesystem, bool writer, bool judge) {
    if (judge) core_.shaping().overload().Count(filesystem, writer, +1);
    if (core_.recorder()) core_.recorder()->Streams(filesystem, writer, +1);
    writer_ = writer;
    counted_on_ = filesystem;
}

void SfsFile::CountClosed() {
    if (counted_on_ == kNoFilesystem) return;
    core_.shaping().overload().Count(counted_on_, writer_, -1);
    if (core_.recorder()) core_.recorder()->Streams(counted_on_, writer_, -1);
    counted_on_ = kNoFilesystem;
}

XrdSfsXferSize SfsFile::Told(XrdSfsXferSize result) {
    if (result != Stream::kRefused) return result;
    error.setErrInfo(EUSERS, "too many requests wait for their limit on this server");
    return SFS_ERROR;
}

int SfsFile::close() {
    CountClosed();
    const Context context(origin_);
    // With `csync` the client is told whether its data are on the disk. Here and not in the OSS half: that one shares
    // the file among its writers and closes it after the last.
    const bool failed = wrote_for_csync_.exchange(false) && next_.sync() != SFS_OK;
    const int code = failed ? error.getErrInfo() : 0;
    const std::string text = failed ? error.getErrText() : "";
    stream_.Close();
    const int closed = next_.close();
    if (!failed) return closed;
    error.setErrInfo(code, text.c_str());
    return SFS_ERROR;
}

int SfsFile::fctl(int command, const char* arguments, XrdOucErrInfo& result) {
    if (command == SFS_FCTL_GETFD) { // asked for sendfile, which the OSS half sees by SendData() alone
        const bool may = MaySend(result);
        result.setErrInfo(may ? static_cast<int>(SFS_SFIO_FDVAL) : ENOTSUP, may ? "" : "sendfile is not offered");
        return may ? SFS_OK : SFS_ERROR;
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
    return Told(stream_.Do(Direction::write, [&](const Policy* policy) {
        const Context context(origin_, false, policy);
        return next_.checkpoint(action, range, count);
    }));
}

const char* SfsFile::FName() { return next_.FName(); }

XrdSfsXferSize SfsFile::pgRead(XrdSfsFileOffset offset, char* buffer, XrdSfsXferSize size, uint32_t* checksums,
                               uint64_t options) {
    return Told(stream_.Move(
        Direction::read, offset, size, [&](XrdSfsXferSize done, XrdSfsXferSize piece, const Policy* policy) {
            const Context context(origin_, false, policy);
            return next_.pgRead(offset + done, buffer + done, piece, After(checksums, offset, done), options);
        }));
}

int SfsFile::pgRead(XrdSfsAio* request, uint64_t options) {
    request->Result =
        Number(pgRead(request->sfsAio.aio_offset, BufferOf(request), SizeOf(request), request->cksVec, options));
    request->doneRead();
    return SFS_OK;
}

XrdSfsXferSize SfsFile::pgWrite(XrdSfsFileOffset offset, char* buffer, XrdSfsXferSize size, uint32_t* checksums,
                                uint64_t options) {
    return Told(stream_.Move(
        Direction::write, offset, size, [&](XrdSfsXferSize done, XrdSfsXferSize piece, const Policy* policy) {
            const Context context(origin_, false, policy);
            NoteWrite(policy);
            return next_.pgWrite(offset + done, buffer + done, piece, After(checksums, offset, done), options);
        }));
}

int SfsFile::pgWrite(XrdSfsAio* request, uint64_t options) {
    request->Result =
        Number(pgWrite(request->sfsAio.aio_offset, BufferOf(request), SizeOf(request), request->cksVec, options));
    request->doneWrite();
    return SFS_OK;
}

XrdSfsXferSize SfsFile::read(XrdSfsFileOffset offset, XrdSfsXferSize size) {
    // Only a hint, and one that makes the disk work: who may be held gets what he asks for when he asks for it.
    if (stream_.limited(Direction::read)) return SFS_OK;
    const Context context(origin_);
    return next_.read(offset, size);
}

XrdSfsXferSize SfsFile::read(XrdSfsFileOffset offset, char* buffer, XrdSfsXferSize size) {
    return Told(stream_.Move(Direction::read, offset, size,
                             [&](XrdSfsXferSize done, XrdSfsXferSize piece, const Policy* policy) {
                                 const Context context(origin_, false, policy);
                                 return next_.read(offset + done, buffer + done, piece);
                             }));
}

int SfsFile::read(XrdSfsAio* request) {
    request->Result = Number(read(request->sfsAio.aio_offset, BufferOf(request), SizeOf(request)));
    request->doneRead();
    return SFS_OK;
}

XrdSfsXferSize SfsFile::readv(XrdOucIOVec* entries, int count) {
    return Told(stream_.MoveVector(Direction::read, entries, count, [&](int first, int some, const Policy* policy) {
        const Context context(origin_, false, policy);
        return next_.readv(entries + first, some);
    }));
}

bool SfsFile::MaySend(XrdOucErrInfo& result) {
    if (!core_.settings().sendfile || stream_.limited(Direction::read)) return false;
    int unused = kNotSent;
    const Context context(origin_, false, nullptr, &unused);
    // A layer between the halves that changes what is read has no descriptor.
    if (next_.fctl(SFS_FCTL_GETFD, nullptr, result) != SFS_OK) return false;
    return result.getErrInfo() >= 0 && TellsWhatIsInMemory(result.getErrInfo());
}

int SfsFile::SendData(XrdSfsDio* sender, XrdSfsFileOffset offset, XrdSfsXferSize size) {
    int descriptor = kNotSent;
    const auto look = [&](const Policy* policy) -> XrdSfsXferSize {
        if (policy && !ReadsLikeAll(*policy)) return SFS_ERROR;
        const Context context(origin_, false, policy, &descriptor);
        if (next_.read(offset, size) != size) descriptor = kNotSent;
        return descriptor == kNotSent ? SFS_ERROR : size;
    };
    if (offset >= 0 && size > 0 && size <= kMostSent) (void)stream_.FromMemory(look);
    // A failure ends the connection, for XRootD knows of it: after an error from here it would go on after half an
    // answer (do_ReadAll(), whatever XrdSfsDio.hh says). What is not sent is read from now on, and who may be held by
    // now is held there: the file is not in memory, and XRootD counts a request twice that is asked for in vain.
    if (descriptor >= 0) {
        (void)sender->SendFile(descriptor);
    } else {
        sender->SetFD(kNotSent);
    }
    return SFS_OK;
}

XrdSfsXferSize SfsFile::write(XrdSfsFileOffset offset, const char* buffer, XrdSfsXferSize size) {
    return Told(stream_.Move(Direction::write, offset, size,
                             [&](XrdSfsXferSize done, XrdSfsXferSize piece, const Policy* policy) {
                                 const Context context(origin_, false, policy);
                                 NoteWrite(policy);
                                 return next_.write(offset + done, buffer + done, piece);
                             }));
}

int SfsFile::write(XrdSfsAio* request) {
    request->Result = Number(write(request->sfsAio.aio_offset, BufferOf(request), SizeOf(request)));
    request->doneWrite();
    return SFS_OK;
}

XrdSfsXferSize SfsFile::writev(XrdOucIOVec* entries, int count) {
    return Told(stream_.MoveVector(Direction::write, entries, count, [&](int first, int some, const Policy* policy) {
        const Context context(origin_, false, policy);
        NoteWrite(policy);
        return next_.writev(entries + first, some);
    }));
}

int SfsFile::stat(struct stat* to) {
    const Context context(origin_);
    return next_.stat(to);
}

int SfsFile::sync() {
    return Told(stream_.Do(Direction::write, [&](const Policy* policy) {
        const Context context(origin_, false, policy);
        return next_.sync();
    }));
}

int SfsFile::sync(XrdSfsAio* request) {
    request->Result = Number(sync());
    request->doneWrite();
    return SFS_OK;
}

int SfsFile::truncate(XrdSfsFileOffset size) {
    return Told(stream_.Do(Direction::write, [&](const Policy* policy) {
        const Context context(origin_, false, policy);
        return next_.truncate(size);
    }));
}

int SfsFile::getCXinfo(char type[4], int& size) { return next_.getCXinfo(type, size); }

void SfsFile::setXio(XrdSfsXio* exchange) { next_.setXio(exchange); }

} // namespace beer
