// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/Arbiter.hh"

namespace beer {

Arbiter::Arbiter(const std::vector<Filesystem>& filesystems, const Platform& platform, Log log, std::string sys)
    : log_(std::move(log)), sys_(std::move(sys)) {
    for (const auto& filesystem : filesystems)
        disks_.emplace_back(filesystem, platform);
    Look();
}

void Arbiter::Use(bool wanted) {
    std::lock_guard<std::mutex> lock(mutex_);
    wanted_ = wanted;
    for (Disk& disk : disks_)
        Judge(disk, disk.scheduler);
}

void Arbiter::Look() {
    for (Disk& disk : disks_) {
        // May wait for the device: not under the lock.
        const std::string scheduler = SchedulerOf(disk.filesystem.major_number, disk.filesystem.minor_number, sys_);
        std::lock_guard<std::mutex> lock(mutex_);
        Judge(disk, scheduler);
    }
    std::lock_guard<std::mutex> lock(mutex_);
    looked_ = true;
}

void Arbiter::Judge(Disk& disk, const std::string& scheduler) {
    const bool turns = wanted_ && !scheduler.empty();
    if (looked_ && (scheduler != disk.scheduler || turns != disk.turns))
        log_("scheduler of " + disk.filesystem.path + (scheduler == disk.scheduler ? "" : " was " + disk.scheduler) +
             (scheduler == disk.scheduler ? " is " : ", is ") + scheduler + ": " + PriorityEffect(scheduler, turns));
    if (turns != disk.turns) disk.queue.Use(turns);
    disk.turns = turns;
    disk.scheduler = scheduler;
}

void Arbiter::Start() {
    thread_ = std::make_unique<PeriodicThread>("beer-scheduler", std::chrono::seconds(5), [this] {
        try {
            Look();
        } catch (...) { // no memory: as it was
        }
    });
}

} // namespace beer
