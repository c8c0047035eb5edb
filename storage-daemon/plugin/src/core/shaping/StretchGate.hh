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

    // Calls `ask` when nobody else's is under way there.
    template <typename Call>
    void Pass(uint32_t filesystem, Call&& ask) {
        if (filesystem >= gates_.size()) return ask();
        const std::lock_guard<std::mutex> lock(gates_[filesystem]);
        ask();
    }

  private:
    std::vector<std::mutex> gates_; // by filesystem
};

} // namespace beer
