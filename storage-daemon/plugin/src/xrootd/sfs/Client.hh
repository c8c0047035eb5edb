// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "XrdNet/XrdNetAddrInfo.hh"
#include "XrdSec/XrdSecEntity.hh"
#include "core/Core.hh"

namespace beer {

// For whom a request is. XRootD itself calls the filesystem without a client: that is internal work.
inline Origin OriginOf(const Core& core, const XrdSecEntity* client) {
    if (!client) return {Traffic::internal, 0};
    return core.OriginOf(client->addrInfo ? client->addrInfo->SockAddr() : nullptr);
}

// Counts a result of a metadata call that told the client to wait, and hands it on.
inline int CountStall(const Core& core, const char* path, const Origin& origin, int result) {
    if (result < SFS_STALL || !core.recorder()) return result;
    core.recorder()->Stall(core.FilesystemOf(path), origin.traffic, static_cast<uint64_t>(result) * 1000000000u);
    return result;
}

} // namespace beer
