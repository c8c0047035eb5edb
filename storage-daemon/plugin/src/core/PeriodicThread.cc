// SPDX-License-Identifier: Apache-2.0
#include "core/PeriodicThread.hh"

#include <csignal>
#include <pthread.h>

namespace beer {

PeriodicThread::PeriodicThread(const char* name, std::chrono::milliseconds pause, std::function<void()> work)
    : pause_(pause), work_(std::move(work)) {
    // The thread inherits this mask: signals are for the threads of the server, which expect them.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        thread_ = std::thread([this, name] { Loop(name); });
    } catch (...) {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PeriodicThread::~PeriodicThread() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
    }
    stopped_.notify_all();
    thread_.join();
}

void PeriodicThread::Loop(const char* name) {
    pthread_setname_np(pthread_self(), name);
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stop_) {
        work_();
        stopped_.wait_for(lock, pause_, [this] { return stop_; });
    }
}

} // namespace beer
