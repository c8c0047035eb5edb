// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/PeriodicThread.hh"
#include "core/Segment.hh"

namespace beer {

// Says every 100 ms that the writer is alive, in a thread that never touches a disk: its silence means a dead or
// stopped process and never a slow disk.
class Heartbeat {
  public:
    Heartbeat(Segment& segment, const Platform& platform,
              std::chrono::milliseconds interval = std::chrono::milliseconds(100))
        : thread_("beer-heartbeat", interval, [&segment, &platform] { Beat(segment, platform); }) {}

  private:
    static void Beat(Segment& segment, const Platform& platform) {
        try {
            segment.header().heartbeat_ns.store(platform.MonotonicNs(), std::memory_order_release);
        } catch (...) {
            segment.header().internal_errors.fetch_add(1, std::memory_order_relaxed);
        }
    }

    PeriodicThread thread_;
};

} // namespace beer
