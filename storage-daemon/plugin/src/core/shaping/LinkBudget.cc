// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/LinkBudget.hh"

#include <algorithm>

namespace beer {

bool LinkBudget::Admit(const std::string& link, const std::string& client) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (auto known = links_.find(link); known != links_.end()) {
        ++known->second.files;
        return true;
    }
    uint32_t& own = links_of_[client];
    if (links_.size() >= most_ || own >= std::max<uint32_t>(1, most_ / 2)) {
        if (!own) links_of_.erase(client);
        return false;
    }
    links_.emplace(link, Link{client, 1, false});
    ++own;
    return true;
}

void LinkBudget::ForgetIfUnused(std::unordered_map<std::string, Link>::iterator link) {
    if (link->second.files || link->second.held) return;
    const auto own = links_of_.find(link->second.client);
    if (own != links_of_.end() && --own->second == 0) links_of_.erase(own);
    links_.erase(link);
}

void LinkBudget::Release(const std::string& link) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto known = links_.find(link);
    if (known == links_.end() || !known->second.files) return;
    --known->second.files;
    ForgetIfUnused(known);
}

LinkBudget::Place LinkBudget::Enter(const std::string& link) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto known = links_.find(link);
    if (known != links_.end() && !known->second.held) {
        known->second.held = true;
        return Place::own;
    }
    if (reserve_used_ >= reserve_) return Place::none;
    ++reserve_used_;
    return Place::reserve;
}

void LinkBudget::Leave(const std::string& link, Place place) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (place == Place::reserve) --reserve_used_;
    const auto known = links_.find(link);
    if (place != Place::own || known == links_.end()) return;
    known->second.held = false;
    ForgetIfUnused(known);
}

uint32_t LinkBudget::links() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<uint32_t>(links_.size());
}

bool LinkFence::Enter() noexcept {
    try {
        place_ = budget_.Enter(link_);
    } catch (...) { // the lock failed: not held, and so refused
        place_ = LinkBudget::Place::none;
    }
    return place_ != LinkBudget::Place::none;
}

void LinkFence::Leave() noexcept { budget_.Leave(link_, place_); }

} // namespace beer
