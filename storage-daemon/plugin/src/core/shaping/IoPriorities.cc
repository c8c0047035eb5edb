// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/IoPriorities.hh"

namespace beer {
namespace {

// As ioprio_set(2) takes it: the class in the upper three bits of 16.
int Number(const IoPriority& priority) { return (static_cast<int>(priority.io_class) << 13) | priority.level; }

} // namespace

bool IoPriorities::Give(const IoPriority& priority) noexcept {
    if (platform_.SetIoPriority(Number(priority))) return true;
    if (refused_.exchange(true, std::memory_order_relaxed)) return false;
    try {
        log_("the kernel refuses I/O priority " + Text(priority) + ": requests go on without (rt needs CAP_SYS_NICE)");
    } catch (...) { // no memory: the policy's report says it
    }
    return false;
}

} // namespace beer
