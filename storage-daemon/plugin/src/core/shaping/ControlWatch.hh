// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/PeriodicThread.hh"
#include "core/Segment.hh"
#include "core/shaping/ControlFile.hh"
#include "core/shaping/Pacer.hh"

namespace beer {

// Does what the guard says: one limit per filesystem, shared by all batch streams on it, and one for what is on none.
class ControlWatch {
  public:
    using Log = std::function<void(const std::string&)>;
    ControlWatch(std::string path, uid_t owner, const std::vector<Filesystem>& filesystems, Pacer& pacer,
                 const Platform& platform, Log log);

    // For a stream on this filesystem, kNoFilesystem included.
    const std::shared_ptr<Limit>& LimitOf(uint32_t filesystem) const;
    // Is everything of batch held there now?
    bool Holds(uint32_t filesystem) const { return LimitOf(filesystem)->holds(); }

    // What was read last, whether its lease still runs or not; all zero = nothing yet.
    struct Said {
        uint64_t sequence = 0, lease_until_ns = 0;
    };
    Said said() const {
        return {sequence_.load(std::memory_order_relaxed), lease_until_ns_.load(std::memory_order_relaxed)};
    }

    // Begins to look every 20 ms, in a thread of its own.
    void Start();
    void Look();
    // From now on the sequence of what was applied is written there, too.
    void ReportTo(std::atomic<uint64_t>& sequence) { report_.store(&sequence, std::memory_order_release); }

  private:
    struct Governed {
        uint32_t major_number, minor_number;
        std::shared_ptr<Limit> limit;
        Rates rates;
    };

    ControlFile file_;
    Pacer& pacer_;
    const Platform& platform_;
    const Log log_;
    std::vector<Governed> governed_;  // devices, and last what is on none of them
    std::vector<size_t> governed_by_; // by filesystem
    unsigned failures_ = 0;           // in a row
    std::optional<Control> last_;
    std::atomic<std::atomic<uint64_t>*> report_{nullptr};
    std::atomic<uint64_t> sequence_{0}, lease_until_ns_{0};
    std::unique_ptr<PeriodicThread> thread_; // last: it uses the others
};

} // namespace beer
