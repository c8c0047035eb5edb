// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/Platform.hh"
#include "core/shaping/Policy.hh"

namespace beer {

// Gives the calling thread an I/O priority until the end of the block. Threads inherit the priority of the one that
// makes them (Linux: block/blk-ioc.c, __copy_io), and XRootD makes worker threads from worker threads: so it is always
// taken back, to what the server was started with. Without a priority it makes no system call.
class IoPrioritySentry {
  public:
    IoPrioritySentry(const Platform& platform, const std::optional<IoPriority>& priority) noexcept
        : platform_(priority ? &platform : nullptr) {
        if (platform_ && !platform_->SetIoPriority(Number(*priority))) platform_ = nullptr;
    }
    ~IoPrioritySentry() {
        if (platform_) platform_->SetIoPriority(platform_->StartingIoPriority());
    }
    IoPrioritySentry(const IoPrioritySentry&) = delete;
    IoPrioritySentry& operator=(const IoPrioritySentry&) = delete;

    // As ioprio_set(2) takes it: the class in the upper three bits of 16.
    static int Number(const IoPriority& priority) {
        return (static_cast<int>(priority.io_class) << 13) | priority.level;
    }

  private:
    const Platform* platform_;
};

} // namespace beer
