// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "XrdOuc/XrdOucErrInfo.hh"
#include "xrootd/sfs/Client.hh"

namespace beer {

// One metadata request: it may be told to come back, and it is under way as long as this object.
class MetaGate {
  public:
    MetaGate(Core& core, const XrdSecEntity* client, const Origin& origin, MetaOperation operation, const char* path,
             XrdOucErrInfo& error) noexcept;
    ~MetaGate();
    MetaGate(const MetaGate&) = delete;
    MetaGate& operator=(const MetaGate&) = delete;

    // SFS_OK = go on; else what XRootD is to be answered: SFS_ERROR, or so many seconds to stall.
    int answer() const { return answer_; }

  private:
    Core& core_;
    const MetaOperation operation_;
    Identity who_;
    uint64_t begun_ns_ = 0; // 0 = not counted
    int answer_ = SFS_OK;
};

} // namespace beer
