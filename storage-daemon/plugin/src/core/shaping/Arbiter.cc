// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/Arbiter.hh"

namespace beer {

Arbiter::Arbiter(const std::vector<Filesystem>& filesystems, const Platform& platform, Log log, std::string sys)
    : log_(std::move(log)), sys_(std::move(sys)) {
    for (const auto& filesystem : filesystems)
        disks_.emplace_back(filesystem, platform);
    Look();
}

void Arbiter::Use(KeepTurns wanted) {
    {
        std::lock_guard<std::mutex> lock(looks_);
        wanted_ = wanted;
    }
    Look();
}

void Arbiter::Look() {
    std::lock_guard<std::mutex> lock(looks_);
    for (Disk& disk : disks_) {
        const std::string scheduler = SchedulerOf(disk.filesystem.major_number, disk.filesystem.minor_number, sys_);
        const bool turns = TurnsKept(scheduler, wanted_);
        if (turns != disk.turns) disk.queue.Use(turns);
        disk.turns = turns;
        if (looked_ && scheduler != disk.scheduler)
            log_("scheduler of " + disk.filesystem.path + " was " + disk.scheduler + ", is " + scheduler + ": " +
                 PriorityEffect(scheduler, turns));
        disk.scheduler = scheduler;
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
