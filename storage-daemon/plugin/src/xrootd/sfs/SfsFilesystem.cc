// SPDX-License-Identifier: Apache-2.0
#include "xrootd/sfs/SfsFilesystem.hh"

#include "XrdSfs/XrdSfsFlags.hh"
#include "core/Context.hh"
#include "xrootd/sfs/Client.hh"
#include "xrootd/sfs/MetaGate.hh"
#include "xrootd/sfs/SfsDirectory.hh"
#include "xrootd/sfs/SfsFile.hh"

namespace beer {
namespace {

// Without memory for the wrapper the request is served by the next layer alone; it then counts as internal.
template <typename Wrapper, typename Wrapped>
Wrapped* Wrap(Wrapped* next, Core& core) {
    if (!next) return nullptr;
    try {
        return new Wrapper(*next, core);
    } catch (...) {
        if (core.recorder()) core.recorder()->InternalError();
        return next;
    }
}

} // namespace

SfsFilesystem::SfsFilesystem(XrdSfsFileSystem& next, Core& core) : next_(next), core_(core) {
    FeatureSet = next.Features() | XrdSfs::hasNAIO;
    if (!core.settings().sendfile) FeatureSet |= XrdSfs::hasNOSF;
}

template <typename Call>
int SfsFilesystem::For(const XrdSecEntity* client, const char* path, MetaOperation operation, XrdOucErrInfo& error,
                       Call&& call) {
    const Context context(OriginOf(core_, client));
    const MetaGate gate(core_, client, context.origin, operation, path, error);
    if (gate.answer() != SFS_OK) return gate.answer();
    return Answer(core_, client, context.origin, path, error, call());
}

// The wrapper shares the error object of what it wraps: it carries what the client can do.
XrdSfsDirectory* SfsFilesystem::newDir(char* user, int monitor) {
    return Wrap<SfsDirectory>(next_.newDir(user, monitor), core_);
}

XrdSfsDirectory* SfsFilesystem::newDir(XrdOucErrInfo& error) { return Wrap<SfsDirectory>(next_.newDir(error), core_); }

XrdSfsFile* SfsFilesystem::newFile(char* user, int monitor) {
    return Wrap<SfsFile>(next_.newFile(user, monitor), core_);
}

XrdSfsFile* SfsFilesystem::newFile(XrdOucErrInfo& error) { return Wrap<SfsFile>(next_.newFile(error), core_); }

int SfsFilesystem::chksum(csFunc function, const char* name, const char* path, XrdOucErrInfo& error,
                          const XrdSecEntity* client, const char* opaque) {
    // What is asked for here the server does for the client; the file itself it reads later, in its own name.
    Origin origin = OriginOf(core_, client);
    const MetaGate gate(core_, client, origin, MetaOperation::checksum, path, error);
    if (gate.answer() != SFS_OK) return gate.answer();
    if (origin.traffic == Traffic::storage) origin.traffic = Traffic::internal;
    const Context context(origin);
    return Answer(core_, client, origin, path, error, next_.chksum(function, name, path, error, client, opaque));
}

int SfsFilesystem::chmod(const char* path, XrdSfsMode mode, XrdOucErrInfo& error, const XrdSecEntity* client,
                         const char* opaque) {
    return For(client, path, MetaOperation::chmod, error,
               [&] { return next_.chmod(path, mode, error, client, opaque); });
}

void SfsFilesystem::Connect(const XrdSecEntity* client) { next_.Connect(client); }

void SfsFilesystem::Disc(const XrdSecEntity* client) { next_.Disc(client); }

void SfsFilesystem::EnvInfo(XrdOucEnv* env) { next_.EnvInfo(env); }

int SfsFilesystem::exists(const char* path, XrdSfsFileExistence& flag, XrdOucErrInfo& error, const XrdSecEntity* client,
                          const char* opaque) {
    return For(client, path, MetaOperation::exists, error,
               [&] { return next_.exists(path, flag, error, client, opaque); });
}

int SfsFilesystem::FAttr(XrdSfsFACtl* request, XrdOucErrInfo& error, const XrdSecEntity* client) {
    return For(client, nullptr, MetaOperation::xattr, error, [&] { return next_.FAttr(request, error, client); });
}

int SfsFilesystem::FSctl(int command, XrdSfsFSctl& arguments, XrdOucErrInfo& error, const XrdSecEntity* client) {
    return For(client, nullptr, MetaOperation::query, error,
               [&] { return next_.FSctl(command, arguments, error, client); });
}

int SfsFilesystem::fsctl(int command, const char* arguments, XrdOucErrInfo& error, const XrdSecEntity* client) {
    return For(client, nullptr, MetaOperation::query, error,
               [&] { return next_.fsctl(command, arguments, error, client); });
}

int SfsFilesystem::getChkPSize() { return next_.getChkPSize(); }

int SfsFilesystem::getStats(char* buffer, int size) { return next_.getStats(buffer, size); }

const char* SfsFilesystem::getVersion() { return next_.getVersion(); }

int SfsFilesystem::gpFile(gpfFunc& action, XrdSfsGPFile& request, XrdOucErrInfo& error, const XrdSecEntity* client) {
    return For(client, nullptr, MetaOperation::query, error,
               [&] { return next_.gpFile(action, request, error, client); });
}

int SfsFilesystem::mkdir(const char* path, XrdSfsMode mode, XrdOucErrInfo& error, const XrdSecEntity* client,
                         const char* opaque) {
    return For(client, path, MetaOperation::mkdir, error,
               [&] { return next_.mkdir(path, mode, error, client, opaque); });
}

int SfsFilesystem::prepare(XrdSfsPrep& arguments, XrdOucErrInfo& error, const XrdSecEntity* client) {
    return For(client, nullptr, MetaOperation::prepare, error, [&] { return next_.prepare(arguments, error, client); });
}

int SfsFilesystem::rem(const char* path, XrdOucErrInfo& error, const XrdSecEntity* client, const char* opaque) {
    return For(client, path, MetaOperation::remove, error, [&] { return next_.rem(path, error, client, opaque); });
}

int SfsFilesystem::remdir(const char* path, XrdOucErrInfo& error, const XrdSecEntity* client, const char* opaque) {
    return For(client, path, MetaOperation::rmdir, error, [&] { return next_.remdir(path, error, client, opaque); });
}

int SfsFilesystem::rename(const char* from, const char* to, XrdOucErrInfo& error, const XrdSecEntity* client,
                          const char* from_opaque, const char* to_opaque) {
    return For(client, from, MetaOperation::rename, error,
               [&] { return next_.rename(from, to, error, client, from_opaque, to_opaque); });
}

int SfsFilesystem::stat(const char* path, struct stat* to, XrdOucErrInfo& error, const XrdSecEntity* client,
                        const char* opaque) {
    return For(client, path, MetaOperation::stat, error, [&] { return next_.stat(path, to, error, client, opaque); });
}

int SfsFilesystem::stat(const char* path, mode_t& mode, XrdOucErrInfo& error, const XrdSecEntity* client,
                        const char* opaque) {
    return For(client, path, MetaOperation::stat, error, [&] { return next_.stat(path, mode, error, client, opaque); });
}

int SfsFilesystem::truncate(const char* path, XrdSfsFileOffset size, XrdOucErrInfo& error, const XrdSecEntity* client,
                            const char* opaque) {
    return For(client, path, MetaOperation::truncate, error,
               [&] { return next_.truncate(path, size, error, client, opaque); });
}

} // namespace beer
