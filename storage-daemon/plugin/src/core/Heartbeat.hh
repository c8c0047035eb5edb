// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/Segment.hh"

namespace beer {

// Says every 100 ms that the writer is alive, in a thread that never touches a disk: its silence means a dead or
// stopped process and never a slow disk. The thread is joined in the destructor.
class Heartbeat {
  public:
    Heartbeat(Segment& segment, const Platform& platform,
              std::chrono::milliseconds interval = std::chrono::milliseconds(100));
    ~Heartbeat();

  private:
    void Loop();

    Segment& segment_;
    const Platform& platform_;
    const std::chrono::milliseconds interval_;
    std::mutex mutex_;
    std::condition_variable stopped_;
    bool stop_ = false;
    std::thread thread_; // last: it uses the others
};

} // namespace beer
