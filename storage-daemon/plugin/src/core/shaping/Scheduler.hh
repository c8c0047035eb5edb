// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace beer {

// The I/O scheduler of a block device ("bfq", "mq-deadline", "none"); of a partition that of its disk, of a mapped
// device that of the first disk below it. Empty: it is not known (no block device, or no sysfs).
std::string SchedulerOf(uint32_t major_number, uint32_t minor_number, const std::string& sys = "/sys");

// What I/O priorities do with it, and with the turns of the Arbiter or without: bfq knows all of them
// (Documentation/block/ioprio.rst). mq-deadline knows the classes, but only until a request is with the disk, and the
// others none. Buffered writes have no priority at all: the kernel's own threads write them.
const char* PriorityEffect(const std::string& scheduler, bool turns);

} // namespace beer
