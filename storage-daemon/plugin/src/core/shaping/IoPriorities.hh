// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "core/Platform.hh"
#include "core/shaping/Policy.hh"

namespace beer {

// Gives threads I/O priorities. What the kernel refuses it would refuse again and again: the log says it once.
class IoPriorities {
  public:
    using Log = std::function<void(const std::string&)>;
    IoPriorities(const Platform& platform, Log log) : platform_(platform), log_(std::move(log)) {}

    // To the calling thread. False: the kernel refused.
    bool Give(const IoPriority& priority) noexcept;
    // Back to what the server was started with.
    void TakeBack() noexcept { platform_.SetIoPriority(platform_.StartingIoPriority()); }

    // Has the kernel ever refused one?
    bool refused() const { return refused_.load(std::memory_order_relaxed); }

  private:
    const Platform& platform_;
    const Log log_;
    std::atomic<bool> refused_{false};
};

} // namespace beer
