// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <set>

#include "core/Platform.hh"
#include "core/shaping/Fence.hh"
#include "core/shaping/Limit.hh"

namespace beer {

// Where requests wait for their limits.
class Pacer {
  public:
    explicit Pacer(const Platform& platform) : platform_(platform) {}
    Pacer(const Pacer&) = delete;
    Pacer& operator=(const Pacer&) = delete;

    // From now on, for those who wait already, too.
    void Set(Limit& limit, const Rates& rates);
    Rates Get(const Limit& limit) const;

    struct Outcome {
        bool passed = true; // false: the fence is closed, or `again`
        bool again = false; // the limits are of an older version than the Pacer's: ask for new ones
        uint64_t waited_ns = 0;
        const Limit* by = nullptr; // whose turn came last; null = it did not wait
    };
    // Waits until every limit has room. Without a limited one it takes no lock and makes no system call. `version`: of
    // the configuration that the limits are from. `goes_on`: it is served even if the fence is closed, and then owes
    // what it took: the next ones of these limits wait for it.
    Outcome Pass(const Limits& limits, uint64_t bytes, uint64_t operations, uint64_t version, Fence& fence,
                 bool goes_on = false);
    // Limits of older versions are no longer waited for.
    void Outdate(uint64_t version);

    // Bytes of a request that has passed and that it did not move (end of the file).
    void GiveBack(const Limits& limits, uint64_t bytes);

    // How much to move between two calls of Pass(), so that a large request under a small limit neither comes in one
    // burst nor misses a change of the limit for long: a tenth of a second, but at least 64 KiB.
    uint64_t PieceBytes(const Limits& limits) const;

    uint32_t waiters() const { return waiters_.load(std::memory_order_relaxed); }

  private:
    struct Place {
        Limit* limit;
        uint64_t bytes, operations;
        TokenBucket::Ticket bytes_ticket, operations_ticket;
    };
    Limit* Strictest(const std::vector<Place>& places, uint64_t now_ns, uint64_t& wait_ns);
    void Wait(std::unique_lock<std::mutex>& lock, Limit& limit, uint64_t wait_ns);

    const Platform& platform_;
    mutable std::mutex mutex_; // of the limits' inside, and of what follows
    uint64_t version_ = 0;
    std::set<Limit*> waited_for_;
    std::atomic<uint32_t> waiters_{0};
};

} // namespace beer
