// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "XrdNet/XrdNetAddrInfo.hh"
#include "XrdSec/XrdSecEntity.hh"
#include "XrdSfs/XrdSfsInterface.hh"
#include "core/Core.hh"

namespace beer {

// For whom a request is. XRootD itself calls the filesystem without a client: that is internal work.
inline Origin OriginOf(const Core& core, const XrdSecEntity* client) {
    if (!client) return {Traffic::internal, 0};
    return core.OriginOf(client->addrInfo ? client->addrInfo->SockAddr() : nullptr);
}

// As the mapping of the authorisation has it (known from the first request on that OFS has looked at), else as the
// authentication has it.
std::string NameOf(const XrdSecEntity* client);

// Its address, the same for all its connections: the names in `tident` are not ("[::127.0.0.2]", "[::ffff:127.0.0.2]").
std::string HostOf(const XrdSecEntity* client);

// Its name, groups and class of traffic.
Identity PersonOf(const XrdSecEntity* client, const Origin& origin);

// XRootD before 5.9 breaks when a client of HTTP is told to wait (#2480, #2503, #2602): it gets an error.
// With VOMS attributes a certificate is "gsi" there too (XrdVomsHttp.cc); then all but XRootD's own protocol is HTTP.
bool IsHttp(const Core& core, const XrdSecEntity* client);

// The answer for who must come back later: XRootD does what `xrootd.fsoverload` says. Returns SFS_ERROR.
int RefuseForNow(const Core& core, const XrdSecEntity* client, const Origin& origin, uint32_t filesystem,
                 XrdOucErrInfo& error, const char* why);

// Who opens a file, for the policy. The application is what the client claims in `eos.app=`; an operator may ask for
// `eos.iotype=`, `eos.iopriority=`, `eos.iobw=` (as in EOS, a number alone is MB/s) and `eos.iops=`, and `wrong` says
// what was wrong with that.
Identity IdentityOf(Core& core, const XrdSecEntity* client, const Origin& origin, const char* path, const char* opaque,
                    uint32_t filesystem, std::string& wrong);

// An application's name as it may appear in rules, logs and statistics; "default" for anything else.
std::string CleanApplication(const char* text);

// Hands on the result of a metadata call. If it tells the client to wait, whoever says so, that is counted, and for a
// client of HTTP it becomes an error with the same text.
int Answer(const Core& core, const XrdSecEntity* client, const Origin& origin, const char* path, XrdOucErrInfo& error,
           int result);

} // namespace beer
