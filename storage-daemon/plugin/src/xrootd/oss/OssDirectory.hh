// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "XrdOss/XrdOssWrapper.hh"
#include "core/Core.hh"

namespace beer {

class OssDirectory final : public XrdOssWrapDF {
  public:
    OssDirectory(XrdOssDF& lower, Core& core) : XrdOssWrapDF(lower), core_(core) { dfType = lower.DFType(); }
    ~OssDirectory() override { delete &wrapDF; } // XrdOssWrapDF does not own what it wraps

    int Opendir(const char* path, XrdOucEnv& env) override {
        filesystem_ = core_.FilesystemOf(path);
        OperationTimer timer(core_.recorder(), filesystem_, Event::meta, core_.CurrentOrigin());
        return timer.Done(wrapDF.Opendir(path, env));
    }
    int Readdir(char* name, int size) override {
        OperationTimer timer(core_.recorder(), filesystem_, Event::meta, core_.CurrentOrigin());
        return timer.Done(wrapDF.Readdir(name, size));
    }

  private:
    Core& core_;
    uint32_t filesystem_ = kNoFilesystem;
};

} // namespace beer
