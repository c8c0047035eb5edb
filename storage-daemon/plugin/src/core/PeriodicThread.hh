// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace beer {

// Does something again and again, at once and then with a pause between. The work must not throw. Joined in the
// destructor.
class PeriodicThread {
  public:
    // `name`: at most 15 characters, as the kernel has it.
    PeriodicThread(const char* name, std::chrono::milliseconds pause, std::function<void()> work);
    ~PeriodicThread();
    PeriodicThread(const PeriodicThread&) = delete;
    PeriodicThread& operator=(const PeriodicThread&) = delete;

  private:
    void Loop();

    const std::chrono::milliseconds pause_;
    const std::function<void()> work_;
    std::mutex mutex_;
    std::condition_variable stopped_;
    bool stop_ = false;
    std::thread thread_; // last: it uses the others
};

} // namespace beer
