// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "XrdSfs/XrdSfsInterface.hh"
#include "core/Context.hh"
#include "xrootd/sfs/Client.hh"
#include "xrootd/sfs/MetaGate.hh"

namespace beer {

class SfsDirectory final : public XrdSfsDirectory {
  public:
    SfsDirectory(XrdSfsDirectory& next, Core& core) : XrdSfsDirectory(next), next_(next), core_(core) {}
    ~SfsDirectory() override {
        const Context context(origin_);
        delete &next_;
    }

    int open(const char* path, const XrdSecEntity* client, const char* opaque) override {
        origin_ = OriginOf(core_, client);
        const MetaGate gate(core_, client, origin_, MetaOperation::open_dir, path, error);
        if (gate.answer() != SFS_OK) return gate.answer();
        const Context context(origin_);
        return Answer(core_, client, origin_, path, error, next_.open(path, client, opaque));
    }
    const char* nextEntry() override {
        const Context context(origin_);
        return next_.nextEntry();
    }
    int close() override {
        const Context context(origin_);
        return next_.close();
    }
    const char* FName() override { return next_.FName(); }
    int autoStat(struct stat* to) override {
        const Context context(origin_);
        return next_.autoStat(to);
    }

  private:
    XrdSfsDirectory& next_;
    Core& core_;
    Origin origin_;
};

} // namespace beer
