// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "core/Platform.hh"
#include "core/StreamTable.hh"
#include "core/shaping/Turns.hh"

namespace beer {

// How many requests may wait for a turn, at all disks together: each holds a worker thread of the server.
class WaitingPlaces {
  public:
    explicit WaitingPlaces(uint32_t places) : free_(places) {}
    bool Take() noexcept {
        if (free_.fetch_sub(1, std::memory_order_relaxed) > 0) return true;
        Return();
        return false;
    }
    void Return() noexcept { free_.fetch_add(1, std::memory_order_relaxed); }

  private:
    std::atomic<int64_t> free_;
};

// Where the requests to one disk wait for their turns. As long as all of them are best effort, nobody takes a lock.
class TurnQueue {
  public:
    TurnQueue(const Platform& platform, WaitingPlaces& places) : platform_(platform), places_(places) {}

    // On while the disk's scheduler leaves it to us.
    void Use(bool on) { on_.store(on, std::memory_order_relaxed); }
    bool on() const { return on_.load(std::memory_order_relaxed); }

    // Returns how long it waited, ns. Without a place to wait, or without a clock, it goes on at once.
    uint64_t Enter(Turn& turn, OpenStream::Wait& shown);
    // Of one that has begun.
    void Leave(Turn& turn) noexcept;

    uint32_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

  private:
    void Admit(uint64_t now_ns);
    uint64_t Now() noexcept;

    const Platform& platform_;
    WaitingPlaces& places_;
    std::atomic<bool> on_{false};
    std::atomic<bool> engaged_{false}; // there is work of another class than best effort
    std::atomic<uint32_t> waiting_{0};
    std::mutex mutex_; // of what follows
    Turns turns_;
    uint64_t now_ns_ = 0; // at the last look
};

// A turn until the end of the block; without a queue it is none. Never throws: in any trouble the request goes on.
class TurnSentry {
  public:
    // `stream` is told when and how long it waits; null = nobody.
    TurnSentry(TurnQueue* queue, IoPriority::Class io_class, OpenStream* stream = nullptr) noexcept;
    ~TurnSentry() {
        if (turn_.began) queue_->Leave(turn_);
    }
    TurnSentry(const TurnSentry&) = delete;
    TurnSentry& operator=(const TurnSentry&) = delete;

    uint64_t waited_ns() const { return waited_ns_; }

  private:
    TurnQueue* const queue_;
    Turn turn_;
    uint64_t waited_ns_ = 0;
};

} // namespace beer
