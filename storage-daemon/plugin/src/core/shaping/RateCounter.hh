// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace beer {

// How often something happened: since the start and in the last 5 s, minute, 5 minutes and hour (as `eos ns stat`
// shows it). Not thread-safe, and told the time.
class RateCounter {
  public:
    void Add(uint64_t now_ns, uint32_t count = 1) {
        Forget(now_ns);
        total_ += count;
        seconds_[second_ % kSlots] += count;
        minutes_[second_ / 60 % kSlots] += count;
    }
    uint64_t total() const { return total_; }
    // In the last seconds (at most 60), the one that is not over yet included.
    uint64_t Seconds(uint64_t now_ns, unsigned seconds) {
        Forget(now_ns);
        return Sum(seconds_, second_, seconds);
    }
    // In the last minutes (at most 60), the one that is not over yet included.
    uint64_t Minutes(uint64_t now_ns, unsigned minutes) {
        Forget(now_ns);
        return Sum(minutes_, second_ / 60, minutes);
    }

  private:
    static constexpr unsigned kSlots = 60;
    using Slots = std::array<uint32_t, kSlots>;

    static uint64_t Sum(const Slots& slots, uint64_t last, unsigned count) {
        uint64_t sum = 0;
        for (unsigned i = 0; i < count && i < kSlots && i <= last; ++i)
            sum += slots[(last - i) % kSlots];
        return sum;
    }
    static void Empty(Slots& slots, uint64_t before, uint64_t now) {
        for (uint64_t i = before + 1; i <= now && i <= before + kSlots; ++i)
            slots[i % kSlots] = 0;
    }
    void Forget(uint64_t now_ns) {
        const uint64_t now = now_ns / 1000000000;
        if (now <= second_) return;
        Empty(seconds_, second_, now);
        Empty(minutes_, second_ / 60, now / 60);
        second_ = now;
    }

    uint64_t total_ = 0, second_ = 0;
    Slots seconds_{}, minutes_{};
};

} // namespace beer
