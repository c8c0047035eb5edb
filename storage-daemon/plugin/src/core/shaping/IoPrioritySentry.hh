// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/shaping/IoPriorities.hh"

namespace beer {

// Gives the calling thread an I/O priority until the end of the block. Threads inherit the priority of the one that
// makes them (Linux: block/blk-ioc.c, __copy_io), and XRootD makes worker threads from worker threads: so it is always
// taken back, to what the server was started with. Without a priority it makes no system call.
class IoPrioritySentry {
  public:
    IoPrioritySentry(IoPriorities& priorities, const std::optional<IoPriority>& priority) noexcept
        : given_(priority && priorities.Give(*priority) ? &priorities : nullptr) {}
    ~IoPrioritySentry() {
        if (given_) given_->TakeBack();
    }
    IoPrioritySentry(const IoPrioritySentry&) = delete;
    IoPrioritySentry& operator=(const IoPrioritySentry&) = delete;

  private:
    IoPriorities* const given_; // null: there is nothing to take back
};

} // namespace beer
