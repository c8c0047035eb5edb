// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace beer {

// So many files may be open on a filesystem; 0 = as many as like.
struct OpenLimits {
    uint32_t readers = 0;
    uint32_t writers = 0;
};

// Which filesystems have so many files open that new ones would only make all of them slower ("black hole": sequential
// I/O turns into random I/O). Overloaded from the limit on, until not more than nine tenths of it are open.
class Overload {
  public:
    // `changed` is told of every change, under a lock: it must not call back.
    using Changed = std::function<void(uint32_t filesystem, bool overloaded)>;
    explicit Overload(size_t filesystems) : states_(filesystems) {}

    void OnChange(Changed changed);
    void SetLimits(uint32_t filesystem, const OpenLimits& limits);

    // For a file that is to be opened; refused if with those that are being opened there would be too many. In one
    // step, for many come at once. Those alone never make a filesystem overloaded: whether they may be opened is not
    // known yet.
    bool Enter(uint32_t filesystem, bool writer);
    // What became of it.
    void Entered(uint32_t filesystem, bool writer, bool open);
    // A file was opened (+1) or closed (-1). Filesystems that are not known are not judged.
    void Count(uint32_t filesystem, bool writer, int change);
    bool overloaded(uint32_t filesystem) const {
        return filesystem < states_.size() && states_[filesystem].overloaded.load(std::memory_order_relaxed);
    }

  private:
    struct State {
        OpenLimits limits;
        uint32_t readers = 0, writers = 0;
        uint32_t entering_readers = 0, entering_writers = 0;
        bool readers_over = false, writers_over = false;
        std::atomic<bool> overloaded{false};
    };
    void Judge(uint32_t filesystem);

    std::mutex mutex_; // of the states, but for the flag
    std::vector<State> states_;
    Changed changed_;
};

} // namespace beer
