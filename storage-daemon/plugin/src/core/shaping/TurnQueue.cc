// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/TurnQueue.hh"

#include <algorithm>
#include <chrono>

namespace beer {
namespace {

// A wait is looked at again at least that often, whatever the times say.
constexpr uint64_t kLongestSleepNs = 1000000000;

std::condition_variable& ConditionOf(const Turn& turn) { return *static_cast<std::condition_variable*>(turn.waits); }

} // namespace

const std::string TurnQueue::kRule = "turn: a higher class is at work";

uint64_t TurnQueue::Enter(Turn& turn, Fence& fence, uint64_t most_ns) {
    const bool special = turn.io_class != IoPriority::Class::best_effort;
    if (!on() || (!special && !engaged_.load(std::memory_order_relaxed))) return 0;
    Inside inside(fence); // left after the lock: the fence has one of its own
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t now = now_ns_ = std::max(now_ns_, platform_.MonotonicNs());
    const bool engaged = special || turns_.engaged(now);
    engaged_.store(engaged, std::memory_order_relaxed);
    if (!engaged) return 0;
    if (!turns_.Blocked(turn.io_class, now)) {
        turns_.Begin(turn, now);
        return 0;
    }
    if (!most_ns || !inside.Enter()) return 0;
    turns_.Wait(turn, now);
    waiting_.fetch_add(1, std::memory_order_relaxed);
    fence.Waits(kRule, now);
    Wait(lock, turn, now + most_ns);
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    return (turn.began ? turn.began_ns : now_ns_) - now;
}

void TurnQueue::Wait(std::unique_lock<std::mutex>& lock, Turn& turn, uint64_t until_ns) {
    std::condition_variable changed;
    turn.waits = &changed;
    uint64_t now = now_ns_;
    for (;;) {
        Admit(now);
        if (turn.began) return;
        if (now >= until_ns) break;
        uint64_t next = std::min(until_ns, now + kLongestSleepNs);
        if (turns_.first() == &turn) {
            keeper_ = &turn;
            looks_again_ns_ = next = std::min(next, turns_.NextNs(now));
        }
        changed.wait_for(lock, std::chrono::nanoseconds(next - now));
        if (turn.began) return;
        now = Now();
    }
    turns_.GiveUp(turn);
    if (keeper_ == &turn) keeper_ = nullptr;
    Admit(now);
}

void TurnQueue::Admit(uint64_t now_ns) {
    turns_.Admit(now_ns, [this](Turn& turn) {
        if (keeper_ == &turn) keeper_ = nullptr;
        ConditionOf(turn).notify_one();
    });
    const Turn* first = turns_.first();
    if (first && (first != keeper_ || turns_.NextNs(now_ns) < looks_again_ns_)) ConditionOf(*first).notify_one();
}

void TurnQueue::Leave(Turn& turn) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t now = Now();
    turns_.End(turn, now);
    Admit(now);
}

// Without a clock, a second later: that ends every wait.
uint64_t TurnQueue::Now() noexcept {
    try {
        return now_ns_ = std::max(now_ns_, platform_.MonotonicNs());
    } catch (...) {
        return now_ns_ += kLongestSleepNs;
    }
}

TurnSentry::TurnSentry(TurnQueue& queue, IoPriority::Class io_class, Fence& fence, uint64_t most_ns) noexcept
    : queue_(queue), turn_(io_class) {
    try {
        waited_ns_ = queue.Enter(turn_, fence, most_ns);
    } catch (...) { // no memory or no clock: it goes on
    }
}

} // namespace beer
