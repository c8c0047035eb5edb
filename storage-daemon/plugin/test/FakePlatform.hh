// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <stdexcept>

#include "core/Platform.hh"

namespace beer {

// Time goes on only when the test says so; thread ids are 1001, 1002, ... in the order of asking.
class FakePlatform final : public Platform {
  public:
    uint64_t MonotonicNs() const override {
        if (broken || broken_here) throw std::runtime_error("the clock is broken");
        return now_ns;
    }
    uint64_t RealtimeNs() const override { return 1767225600000000000; } // 2026-01-01 00:00:00 UTC
    uint32_t ProcessId() const override { return 4242; }
    uint32_t ThreadId() const override { return ++last_thread; }

    std::atomic<uint64_t> now_ns{1000000000000}; // 1000 s after boot
    std::atomic<bool> broken{false};
    static inline thread_local bool broken_here = false; // for this thread alone; a heartbeat goes on
    mutable std::atomic<uint32_t> last_thread{1000};
};

} // namespace beer
