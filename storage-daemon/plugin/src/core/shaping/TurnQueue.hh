// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "core/Platform.hh"
#include "core/shaping/Fence.hh"
#include "core/shaping/Turns.hh"

namespace beer {

// Where the requests to one disk wait for their turns. As long as all of them are best effort, nobody takes a lock.
class TurnQueue {
  public:
    // What is shown to people as the rule that is waited for.
    static const std::string kRule;

    explicit TurnQueue(const Platform& platform) : platform_(platform) {}

    // On where the disk has a scheduler and `beer.turns` is not off.
    void Use(bool on) { on_.store(on, std::memory_order_relaxed); }
    bool on() const { return on_.load(std::memory_order_relaxed); }

    // Returns how long it waited, ns: at most so long. Who may not wait, by the fence or for want of a clock, goes on
    // at once and takes no part.
    uint64_t Enter(Turn& turn, Fence& fence, uint64_t most_ns);
    // Of one that has begun.
    void Leave(Turn& turn) noexcept;

    uint32_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

  private:
    void Wait(std::unique_lock<std::mutex>& lock, Turn& turn, uint64_t until_ns);
    void Admit(uint64_t now_ns);
    uint64_t Now() noexcept;

    const Platform& platform_;
    std::atomic<bool> on_{false};
    std::atomic<bool> engaged_{false}; // there is work of another class than best effort
    std::atomic<uint32_t> waiting_{0};
    std::mutex mutex_; // of what follows
    Turns turns_;
    uint64_t now_ns_ = 0;          // at the last look
    const Turn* keeper_ = nullptr; // who looks after the time for all,
    uint64_t looks_again_ns_ = 0;  // and when it does so again
};

// A turn until the end of the block. Never throws: in any trouble the request goes on.
class TurnSentry {
  public:
    TurnSentry(TurnQueue& queue, IoPriority::Class io_class, Fence& fence, uint64_t most_ns) noexcept;
    ~TurnSentry() {
        if (turn_.began) queue_.Leave(turn_);
    }
    TurnSentry(const TurnSentry&) = delete;
    TurnSentry& operator=(const TurnSentry&) = delete;

    uint64_t waited_ns() const { return waited_ns_; }

  private:
    TurnQueue& queue_;
    Turn turn_;
    uint64_t waited_ns_ = 0;
};

} // namespace beer
