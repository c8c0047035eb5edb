// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "XrdSfs/XrdSfsInterface.hh"
#include "core/Core.hh"

namespace beer {

// Passes every call on, says meanwhile for whom the calls below it are, and keeps clients to their limits. It offers no
// asynchronous I/O, which would go around the OSS half, and sendfile only for what that half has found in memory.
class SfsFilesystem final : public XrdSfsFileSystem {
  public:
    SfsFilesystem(XrdSfsFileSystem& next, Core& core);

    XrdSfsDirectory* newDir(char* user, int monitor) override;
    XrdSfsDirectory* newDir(XrdOucErrInfo& error) override;
    XrdSfsFile* newFile(char* user, int monitor) override;
    XrdSfsFile* newFile(XrdOucErrInfo& error) override;

    int chksum(csFunc function, const char* name, const char* path, XrdOucErrInfo& error, const XrdSecEntity* client,
               const char* opaque) override;
    int chmod(const char* path, XrdSfsMode mode, XrdOucErrInfo& error, const XrdSecEntity* client,
              const char* opaque) override;
    void Connect(const XrdSecEntity* client) override;
    void Disc(const XrdSecEntity* client) override;
    void EnvInfo(XrdOucEnv* env) override;
    int exists(const char* path, XrdSfsFileExistence& flag, XrdOucErrInfo& error, const XrdSecEntity* client,
               const char* opaque) override;
    int FAttr(XrdSfsFACtl* request, XrdOucErrInfo& error, const XrdSecEntity* client) override;
    int FSctl(int command, XrdSfsFSctl& arguments, XrdOucErrInfo& error, const XrdSecEntity* client) override;
    int fsctl(int command, const char* arguments, XrdOucErrInfo& error, const XrdSecEntity* client) override;
    int getChkPSize() override;
    int getStats(char* buffer, int size) override;
    const char* getVersion() override;
    int gpFile(gpfFunc& action, XrdSfsGPFile& request, XrdOucErrInfo& error, const XrdSecEntity* client) override;
    int mkdir(const char* path, XrdSfsMode mode, XrdOucErrInfo& error, const XrdSecEntity* client,
              const char* opaque) override;
    int prepare(XrdSfsPrep& arguments, XrdOucErrInfo& error, const XrdSecEntity* client) override;
    int rem(const char* path, XrdOucErrInfo& error, const XrdSecEntity* client, const char* opaque) override;
    int remdir(const char* path, XrdOucErrInfo& error, const XrdSecEntity* client, const char* opaque) override;
    int rename(const char* from, const char* to, XrdOucErrInfo& error, const XrdSecEntity* client,
               const char* from_opaque, const char* to_opaque) override;
    int stat(const char* path, struct stat* to, XrdOucErrInfo& error, const XrdSecEntity* client,
             const char* opaque) override;
    int stat(const char* path, mode_t& mode, XrdOucErrInfo& error, const XrdSecEntity* client,
             const char* opaque) override;
    int truncate(const char* path, XrdSfsFileOffset size, XrdOucErrInfo& error, const XrdSecEntity* client,
                 const char* opaque) override;

  private:
    // The one gate for metadata: makes `call` once, in the name of the client, unless he is told to come back.
    template <typename Call>
    int For(const XrdSecEntity* client, const char* path, MetaOperation operation, XrdOucErrInfo& error, Call&& call);

    XrdSfsFileSystem& next_;
    Core& core_;
};

} // namespace beer
