// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "core/shaping/Fence.hh"

namespace beer {

// How many links (connections) have files open whose requests may be held. A held request holds a worker thread of the
// server, and XRootD never gives one up (xrootd #1799, "passive deadlock"): so links are counted when they open a file.
// A link that is in may always have one request held. What is held beside that comes from a common reserve, and is
// refused when that is used up: a client may bind further connections to a link (kXR_bind, 15 at most), and a limit may
// be new for a link that has had files open before.
class LinkBudget {
  public:
    LinkBudget(uint32_t links, uint32_t reserve) : most_(links), reserve_(reserve) {}

    // For one more open file of a link of this client. False: the link has none yet, and there are as many links as may
    // be, or half of them are this client's.
    bool Admit(const std::string& link, const std::string& client);
    void Release(const std::string& link);

    // For one more held request: in the place that its link has, or in one of the reserve, or nowhere.
    enum class Place { none, own, reserve };
    Place Enter(const std::string& link);
    void Leave(const std::string& link, Place place);

    uint32_t most() const { return most_; }
    uint32_t links() const;

  private:
    struct Link {
        std::string client;
        uint32_t files = 0;
        bool held = false; // its own place is taken
    };
    void ForgetIfUnused(std::unordered_map<std::string, Link>::iterator link);

    const uint32_t most_, reserve_;
    mutable std::mutex mutex_;
    std::unordered_map<std::string, Link> links_;
    std::unordered_map<std::string, uint32_t> links_of_; // by client
    uint32_t reserve_used_ = 0;
};

// The fence of one link for the Pacer.
class LinkFence final : public Fence {
  public:
    LinkFence(LinkBudget& budget, const std::string& link) : budget_(budget), link_(link) {}
    bool Enter() noexcept override;
    void Leave() noexcept override;

  private:
    LinkBudget& budget_;
    const std::string& link_;
    LinkBudget::Place place_ = LinkBudget::Place::none;
};

} // namespace beer
