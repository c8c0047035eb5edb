// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace beer {

// Stretches of one filesystem are asked for one after the other: each of them is many requests of 128 KiB, and those of
// several stretches must not reach the disk in turns.
class StretchGate {
  public:
    explicit StretchGate(size_t filesystems) : gates_(filesystems) {}

    // Waits until nobody else's is under way there; it is one's own turn for as long as the lock is kept. None for a
    // filesystem that is not known.
    std::unique_lock<std::mutex> Pass(uint32_t filesystem) {
        if (filesystem >= gates_.size()) return {};
        return std::unique_lock<std::mutex>(gates_[filesystem]);
    }

  private:
    std::vector<std::mutex> gates_; // by filesystem
};

} // namespace beer
