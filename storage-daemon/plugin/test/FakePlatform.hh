// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <stdexcept>
#include <vector>

#include "core/Platform.hh"

namespace beer {

// Time goes on only as the test says; thread ids are 1001, 1002, ... in the order of asking.
class FakePlatform final : public Platform {
  public:
    uint64_t MonotonicNs() const override {
        if (broken || broken_here) throw std::runtime_error("the clock is broken");
        return now_ns += step_ns;
    }
    uint64_t RealtimeNs() const override { return 1767225600000000000; } // 2026-01-01 00:00:00 UTC
    uint32_t ProcessId() const override { return 4242; }
    uint32_t ThreadId() const override { return ++last_thread; }
    int StartingIoPriority() const noexcept override { return 0; }
    bool SetIoPriority(int priority) const noexcept override {
        io_priorities.push_back(priority);
        return !refuses_priority;
    }

    mutable std::atomic<uint64_t> now_ns{1000000000000}; // 1000 s after boot
    std::atomic<uint64_t> step_ns{0};                    // goes on by itself at every look
    mutable std::vector<int> io_priorities;              // by one thread at a time
    bool refuses_priority = false;
    std::atomic<bool> broken{false};
    static inline thread_local bool broken_here = false; // for this thread alone; a heartbeat goes on
    mutable std::atomic<uint32_t> last_thread{1000};
};

} // namespace beer
