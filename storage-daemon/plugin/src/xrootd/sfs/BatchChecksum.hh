// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>

#include "XrdOuc/XrdOucErrInfo.hh"
#include "core/Context.hh"
#include "xrootd/sfs/Client.hh"
#include "xrootd/sfs/Stream.hh"

namespace beer {

// A checksum that a batch job wants: what the server reads for it is held like what the job would read by itself.
class BatchChecksum final : PacedReads {
  public:
    BatchChecksum(Core& core, const Origin& origin) : core_(core), origin_(origin), stream_(core) {}

    // Calls `checksum`, unless too many batch connections are at work.
    template <typename Call>
    int Do(const char* path, XrdOucErrInfo& error, const XrdSecEntity* client, const char* opaque, Call&& checksum) {
        const uint32_t filesystem = core_.FilesystemOf(path);
        if (!Admit(path, client, opaque, filesystem))
            return RefuseForNow(core_, client, origin_, filesystem, error, "too many batch connections are at work");
        const Context context(origin_, false, nullptr, nullptr, this);
        return Answer(core_, client, origin_, path, error, checksum());
    }

  private:
    bool Admit(const char* path, const XrdSecEntity* client, const char* opaque, uint32_t filesystem) noexcept {
        try {
            std::string wrong; // with an operator's wishes, which are for files
            return stream_.Open(IdentityOf(core_, client, origin_, path, opaque, filesystem, wrong), client->tident,
                                HostOf(client), filesystem);
        } catch (...) { // no memory: what cannot be held is not let in
            if (core_.recorder()) core_.recorder()->InternalError();
            return false;
        }
    }

    ssize_t Read(off_t offset, size_t size, const std::function<ssize_t(size_t, size_t)>& read) override {
        if (size > INT32_MAX) return -EINVAL; // the checksum managers of XRootD read 64 MiB at most
        const auto moved = stream_.Move(Direction::read, offset, static_cast<XrdSfsXferSize>(size),
                                        [&](XrdSfsXferSize done, XrdSfsXferSize piece, const Policy* policy) {
                                            const Context context(origin_, false, policy);
                                            return static_cast<XrdSfsXferSize>(
                                                read(static_cast<size_t>(done), static_cast<size_t>(piece)));
                                        });
        return moved == Stream::kRefused ? -EBUSY : moved;
    }

    Core& core_;
    const Origin origin_;
    Stream stream_;
};

} // namespace beer
