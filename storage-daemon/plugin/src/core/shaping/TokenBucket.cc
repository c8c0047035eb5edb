// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/TokenBucket.hh"

#include <algorithm>

namespace beer {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr uint64_t kSecond = 1000000000;
// 50 ms of the rate: a client's round trips do not cost it throughput, and a disk queue of 50 ms is what a storage user
// meets at worst.
constexpr uint64_t kBurstPart = 20;

} // namespace

void TokenBucket::SetRate(uint64_t per_second, uint64_t now_ns) {
    ComeIn(now_ns);
    rate_ = per_second;
    burst_ = rate_ == kUnlimited || rate_ == 0 ? 0 : std::max<uint64_t>(1, rate_ / kBurstPart);
    rest_ = 0;
    ComeIn(now_ns);
}

// Not more than a burst is ever kept for later.
void TokenBucket::ComeIn(uint64_t now_ns) {
    if (rate_ == kUnlimited) {
        came_in_ = std::max(came_in_, taken_);
    } else if (now_ns > last_ns_) {
        const Wide more = Wide{rate_} * (now_ns - last_ns_) + rest_;
        const Wide room = taken_ + burst_ > came_in_ ? taken_ + burst_ - came_in_ : 0;
        if (more / kSecond >= room) {
            came_in_ += static_cast<uint64_t>(room);
            rest_ = 0;
        } else {
            came_in_ += static_cast<uint64_t>(more / kSecond);
            rest_ = static_cast<uint64_t>(more % kSecond);
        }
    }
    while (!left_.empty() && came_in_ >= left_.begin()->first - left_.begin()->second) {
        came_in_ += left_.begin()->second;
        left_.erase(left_.begin());
    }
    came_in_ = std::min(came_in_, taken_ + burst_);
    last_ns_ = std::max(last_ns_, now_ns);
}

TokenBucket::Ticket TokenBucket::Take(uint64_t tokens, uint64_t now_ns) {
    ComeIn(now_ns);
    taken_ += tokens;
    if (rate_ == kUnlimited) came_in_ = taken_;
    return taken_;
}

void TokenBucket::Leave(Ticket ticket, uint64_t tokens) {
    if (ticket <= came_in_) return GiveBack(tokens); // it was its turn just now
    if (ticket != taken_) {
        left_.emplace(ticket, tokens);
        return;
    }
    taken_ -= tokens;
    // Those who left before it are the last ones now, and as if they had never been.
    while (!left_.empty() && left_.rbegin()->first == taken_ && taken_ > came_in_) {
        taken_ -= left_.rbegin()->second;
        left_.erase(std::prev(left_.end()));
    }
    came_in_ = std::min(came_in_, taken_ + burst_);
}

void TokenBucket::GiveBack(uint64_t tokens) {
    if (rate_ != 0) came_in_ = std::min(came_in_ + tokens, taken_ + burst_);
}

uint64_t TokenBucket::WaitNs(Ticket ticket, uint64_t now_ns) {
    ComeIn(now_ns);
    if (came_in_ >= ticket) return 0;
    if (rate_ == 0) return kNever;
    uint64_t tokens = ticket - came_in_;
    for (auto left = left_.begin(); left != left_.end() && left->first <= ticket; ++left)
        tokens -= left->second;
    const Wide missing = Wide{tokens} * kSecond - rest_;
    const Wide wait = (missing + rate_ - 1) / rate_;
    return wait >= kNever ? kNever - 1 : static_cast<uint64_t>(wait);
}

} // namespace beer
