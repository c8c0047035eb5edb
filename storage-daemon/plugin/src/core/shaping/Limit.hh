// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <string>
#include <vector>

#include "core/shaping/TokenBucket.hh"

namespace beer {

struct Rates {
    uint64_t bytes = kUnlimited;      // per second
    uint64_t operations = kUnlimited; // per second

    bool limited() const { return bytes != kUnlimited || operations != kUnlimited; }
    friend bool operator==(const Rates& a, const Rates& b) {
        return a.bytes == b.bytes && a.operations == b.operations;
    }
};

// How fast one stream, or all streams that share this limit, may go. Only the Pacer looks inside.
class Limit {
  public:
    Limit(std::string rule, uint64_t now_ns) : rule(std::move(rule)), bytes_(now_ns), operations_(now_ns) {}

    const std::string rule; // for people: "guard on /data/01", "user:alice r"

    // Without a lock: most limits are not limited most of the time.
    bool limited() const { return limited_.load(std::memory_order_relaxed); }
    // Does it hold everything now?
    bool holds() const { return holds_.load(std::memory_order_relaxed); }

  private:
    friend class Pacer;

    TokenBucket bytes_;
    TokenBucket operations_;
    std::atomic<bool> limited_{false}, holds_{false};
    std::condition_variable changed_; // for those who wait longest for this one
    uint32_t waiters_ = 0;
};

// All that one stream has to pass; made when it is opened and when the policy changes.
using Limits = std::vector<std::shared_ptr<Limit>>;

} // namespace beer
