// SPDX-License-Identifier: Apache-2.0
#include "core/Heartbeat.hh"

#include <csignal>
#include <pthread.h>

namespace beer {

Heartbeat::Heartbeat(Segment& segment, const Platform& platform, std::chrono::milliseconds interval)
    : segment_(segment), platform_(platform), interval_(interval) {
    // The thread inherits this mask: signals are for the threads of the server, which expect them.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        thread_ = std::thread([this] { Loop(); });
    } catch (...) {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Heartbeat::~Heartbeat() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
    }
    stopped_.notify_all();
    thread_.join();
}

void Heartbeat::Loop() {
    pthread_setname_np(pthread_self(), "beer-heartbeat");
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stop_) {
        try {
            segment_.header().heartbeat_ns.store(platform_.MonotonicNs(), std::memory_order_release);
        } catch (...) {
            segment_.header().internal_errors.fetch_add(1, std::memory_order_relaxed);
        }
        stopped_.wait_for(lock, interval_, [this] { return stop_; });
    }
}

} // namespace beer
