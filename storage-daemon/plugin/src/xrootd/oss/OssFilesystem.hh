// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "XrdOss/XrdOssWrapper.hh"
#include "core/Core.hh"

namespace beer {

// Times every call that can wait for a disk, and closes the ways around it: mmap, asynchronous I/O, sendfile
// of what is not in memory.
class OssFilesystem final : public XrdOssWrapper {
  public:
    OssFilesystem(XrdOss& lower, Core& core);

    XrdOssDF* newDir(const char* tident) override;
    XrdOssDF* newFile(const char* tident) override;
    uint64_t Features() override;

    int Chmod(const char* path, mode_t mode, XrdOucEnv* env) override;
    int Create(const char* tid, const char* path, mode_t mode, XrdOucEnv& env, int options) override;
    int Mkdir(const char* path, mode_t mode, int make_path, XrdOucEnv* env) override;
    int Remdir(const char* path, int options, XrdOucEnv* env) override;
    int Rename(const char* from, const char* to, XrdOucEnv* from_env, XrdOucEnv* to_env) override;
    int Stat(const char* path, struct stat* to, int options, XrdOucEnv* env) override;
    // What the lower layer says, and our own behind it (docs/formats/storage-info.md).
    int Stats(char* buffer, int size) override;
    int Truncate(const char* path, unsigned long long size, XrdOucEnv* env) override;
    int Unlink(const char* path, int options, XrdOucEnv* env) override;

  private:
    // The one gate for calls with a path: makes `call` exactly once, timed.
    template <typename Call>
    int Timed(const char* path, bool on_node, Event event, Call&& call) {
        const uint32_t filesystem = on_node ? OnNode(path) : core_.FilesystemOf(path);
        OperationTimer timer(core_.recorder(), filesystem, event, core_.CurrentOrigin());
        return timer.Done(call());
    }
    uint32_t OnNode(const char* path) const { return core_.filesystems().FindPath(path); }

    Core& core_;
};

} // namespace beer
