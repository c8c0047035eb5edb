// SPDX-License-Identifier: Apache-2.0
#include "core/PeriodicThread.hh"

#include "core/QuietThread.hh"

namespace beer {

PeriodicThread::PeriodicThread(const char* name, std::chrono::milliseconds pause, std::function<void()> work)
    : pause_(pause), work_(std::move(work)), thread_(QuietThread(name, [this] { Loop(); })) {}

PeriodicThread::~PeriodicThread() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
    }
    stopped_.notify_all();
    thread_.join();
}

void PeriodicThread::Loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stop_) {
        work_();
        stopped_.wait_for(lock, pause_, [this] { return stop_; });
    }
}

} // namespace beer
