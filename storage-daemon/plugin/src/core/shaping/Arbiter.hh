// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/PeriodicThread.hh"
#include "core/Segment.hh"
#include "core/shaping/Scheduler.hh"
#include "core/shaping/TurnQueue.hh"

namespace beer {

// Keeps the classes of I/O priorities apart on every disk whose scheduler is known. Most schedulers do not, or only
// inside the kernel: a disk that has 32 requests of a lower class already serves them first. bfq does, but for each
// thread by itself, and the requests of one stream come by many threads: alone it gave rt less of a disk than with
// turns.
class Arbiter {
  public:
    using Log = std::function<void(const std::string&)>;
    Arbiter(const std::vector<Filesystem>& filesystems, const Platform& platform, Log log, std::string sys = "/sys");

    // Null: the filesystem is not known.
    TurnQueue* QueueOf(uint32_t filesystem) { return filesystem < disks_.size() ? &disks_[filesystem].queue : nullptr; }
    // Requests that wait for their turn now.
    uint32_t waiting() const {
        uint32_t sum = 0;
        for (const Disk& disk : disks_)
            sum += disk.queue.waiting();
        return sum;
    }
    // Looks at the schedulers, which may be changed while the server runs.
    void Look();
    void Use(bool wanted);
    // Does so every 5 s, in a thread of its own.
    void Start();

  private:
    struct Disk;
    void Judge(Disk& disk, const std::string& scheduler);

    struct Disk {
        Disk(const Filesystem& filesystem, const Platform& platform) : filesystem(filesystem), queue(platform) {}
        const Filesystem filesystem;
        std::string scheduler;
        bool turns = false;
        TurnQueue queue;
    };
    const Log log_;
    const std::string sys_;
    std::deque<Disk> disks_; // by filesystem; they stay where they are
    std::mutex mutex_;       // of all but the queues
    bool wanted_ = true;
    bool looked_ = false;
    std::unique_ptr<PeriodicThread> thread_; // last: it uses the others
};

} // namespace beer
