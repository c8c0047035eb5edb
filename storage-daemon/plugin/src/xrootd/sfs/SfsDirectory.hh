// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <optional>

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
        gate_.emplace(core_, client, origin_, MetaOperation::open_dir, path, error);
        if (gate_->answer() != SFS_OK) return gate_->answer();
        const Context context(origin_);
        const int result = next_.open(path, client, opaque);
        // do_DirStat() of XRootD neither closes nor deletes a listing that asks for a checksum it does not have.
        const bool may_be_lost = opaque && std::strstr(opaque, "cks.type");
        if (result != SFS_OK || may_be_lost) gate_.reset();
        return Answer(core_, client, origin_, path, error, result);
    }
    const char* nextEntry() override {
        const Context context(origin_);
        return next_.nextEntry();
    }
    int close() override {
        const Context context(origin_);
        gate_.reset();
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
    std::optional<MetaGate> gate_; // a listing is under way until it is closed, or lost
};

} // namespace beer
