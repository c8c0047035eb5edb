// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/Arbiter.hh"

#include "core/shaping/Scheduler.hh"

namespace beer {

Arbiter::Arbiter(const std::vector<Filesystem>& filesystems, const Platform& platform, Log log, std::string sys)
    : log_(std::move(log)), sys_(std::move(sys)) {
    for (const auto& filesystem : filesystems)
        disks_.emplace_back(filesystem, platform);
    Look();
}

void Arbiter::Look() {
    for (Disk& disk : disks_) {
        const std::string scheduler = SchedulerOf(disk.filesystem.major_number, disk.filesystem.minor_number, sys_);
        if (looked_ && scheduler == disk.scheduler) continue;
        if (looked_)
            log_("scheduler of " + disk.filesystem.path + " was " + disk.scheduler + ", is " + scheduler + ": " +
                 PriorityEffect(scheduler));
        disk.scheduler = scheduler;
        disk.queue.Use(!scheduler.empty() && scheduler != "bfq");
    }
    looked_ = true;
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
