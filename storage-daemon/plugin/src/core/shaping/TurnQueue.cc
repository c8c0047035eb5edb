// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/TurnQueue.hh"

#include <algorithm>
#include <chrono>

namespace beer {
namespace {

// A wait is looked at again at least that often, whatever the times say.
constexpr uint64_t kLongestSleepNs = 1000000000;
const std::string kRule = "turn: a higher class of I/O priority is at work";

} // namespace

uint64_t TurnQueue::Enter(Turn& turn, OpenStream::Wait& shown) {
    const bool special = turn.io_class != IoPriority::Class::best_effort;
    if (!on() || (!special && !engaged_.load(std::memory_order_relaxed))) return 0;
    std::unique_lock<std::mutex> lock(mutex_);
    uint64_t now = now_ns_ = platform_.MonotonicNs();
    if (special || turns_.engaged(now)) {
        engaged_.store(true, std::memory_order_relaxed);
    } else {
        engaged_.store(false, std::memory_order_relaxed);
        return 0;
    }
    if (!turns_.Blocked(turn.io_class, now)) {
        turns_.Begin(turn, now);
        return 0;
    }
    shown.Begin(kRule, now); // before all that would have to be undone if it throws
    if (!places_.Take()) return 0;
    std::condition_variable changed;
    turn.waits = &changed;
    turns_.Wait(turn, now);
    waiting_.fetch_add(1, std::memory_order_relaxed);
    for (;;) {
        Admit(now);
        if (turn.began) break;
        // The first one looks after the time for all.
        const uint64_t next = turns_.first() == &turn ? turns_.NextNs(now) : now + kLongestSleepNs;
        changed.wait_for(lock, std::chrono::nanoseconds(std::min(next - now, kLongestSleepNs)));
        if (turn.began) break;
        now = Now();
    }
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    places_.Return();
    return turn.began_ns - turn.came_ns;
}

void TurnQueue::Admit(uint64_t now_ns) {
    turns_.Admit(now_ns, [](Turn& turn) { static_cast<std::condition_variable*>(turn.waits)->notify_one(); });
    // The times may be others now.
    if (const Turn* first = turns_.first()) static_cast<std::condition_variable*>(first->waits)->notify_one();
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

TurnSentry::TurnSentry(TurnQueue* queue, IoPriority::Class io_class, OpenStream* stream) noexcept
    : queue_(queue), turn_(io_class) {
    if (!queue) return;
    try {
        OpenStream::Wait shown(stream);
        waited_ns_ = queue->Enter(turn_, shown);
        if (waited_ns_ && stream) stream->Waited(waited_ns_, kRule);
    } catch (...) { // no memory or no clock: it goes on
    }
}

} // namespace beer
