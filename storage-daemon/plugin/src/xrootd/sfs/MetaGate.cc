// SPDX-License-Identifier: Apache-2.0
#include "xrootd/sfs/MetaGate.hh"

#include <cerrno>

namespace beer {

MetaGate::MetaGate(Core& core, const XrdSecEntity* client, const Origin& origin, MetaOperation operation,
                   const char* path, XrdOucErrInfo& error) noexcept
    : core_(core), operation_(operation) {
    if (!client) return; // the server itself
    try {
        who_ = PersonOf(client, origin);
        const auto config = core.shaping().config();
        const uint64_t now = core.platform().MonotonicNs();
        // What batch does is held; requests without data are told to come back.
        const bool held = who_.batch && core.shaping().control().Holds(core.FilesystemOf(path));
        const MetaLimiter::Verdict verdict = held ? core.shaping().metadata().Hold(who_, now)
                                                  : core.shaping().metadata().Begin(*config, who_, operation, now);
        if (verdict.banned) {
            error.setErrInfo(EACCES, verdict.reason.c_str());
            answer_ = SFS_ERROR;
        } else if (!verdict.stall_s) {
            begun_ns_ = now;
        } else {
            error.setErrInfo(0, verdict.reason.c_str());
            answer_ = Answer(core, client, origin, path, error, static_cast<int>(verdict.stall_s));
        }
    } catch (...) { // no memory, no clock: served, but not counted
        if (core.recorder()) core.recorder()->InternalError();
    }
}

MetaGate::~MetaGate() {
    if (!begun_ns_) return;
    try {
        core_.shaping().metadata().End(who_, operation_, begun_ns_, core_.platform().MonotonicNs());
    } catch (...) {
        if (core_.recorder()) core_.recorder()->InternalError();
    }
}

} // namespace beer
