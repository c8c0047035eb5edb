// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace beer {

// A thread that does one thing after the other when told to, and lives as long as this object.
class OtherThread {
  public:
    OtherThread() : thread_([this] { Loop(); }) {}
    ~OtherThread() {
        Hand(nullptr, true);
        thread_.join();
    }
    void Run(std::function<void()> work) {
        Hand(std::move(work), false);
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return !work_; });
    }

  private:
    void Hand(std::function<void()> work, bool stop) {
        std::lock_guard<std::mutex> lock(mutex_);
        work_ = std::move(work);
        stop_ = stop;
        changed_.notify_all();
    }
    void Loop() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return work_ || stop_; });
            if (stop_) return;
            work_();
            work_ = nullptr;
            changed_.notify_all();
        }
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> work_;
    bool stop_ = false;
    std::thread thread_; // last: it uses the others
};

} // namespace beer
