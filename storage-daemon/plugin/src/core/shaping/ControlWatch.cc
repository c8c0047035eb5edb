// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/ControlWatch.hh"

#include <algorithm>

namespace beer {
namespace {

constexpr unsigned kFailuresToTell = 10; // a fifth of a second

} // namespace

ControlWatch::ControlWatch(std::string path, uid_t owner, const std::vector<Filesystem>& filesystems, Pacer& pacer,
                           const Platform& platform, Log log)
    : file_(std::move(path), owner), pacer_(pacer), platform_(platform), log_(std::move(log)) {
    const uint64_t now = platform.MonotonicNs();
    for (const auto& filesystem : filesystems) {
        // Two directories of one disk have one limit.
        const auto same = std::find_if(governed_.begin(), governed_.end(), [&](const Governed& one) {
            return one.major_number == filesystem.major_number && one.minor_number == filesystem.minor_number;
        });
        governed_by_.push_back(static_cast<size_t>(same - governed_.begin()));
        if (same == governed_.end())
            governed_.push_back({filesystem.major_number, filesystem.minor_number,
                                 std::make_shared<Limit>("guard on " + filesystem.path, now), Rates{}});
    }
    governed_.push_back({kEveryDevice, kEveryDevice, std::make_shared<Limit>("guard", now), Rates{}});
}

const std::shared_ptr<Limit>& ControlWatch::LimitOf(uint32_t filesystem) const {
    return (filesystem < governed_by_.size() ? governed_[governed_by_[filesystem]] : governed_.back()).limit;
}

void ControlWatch::Start() {
    thread_ = std::make_unique<PeriodicThread>("beer-control", std::chrono::milliseconds(20), [this] {
        try {
            Look();
        } catch (...) { // no memory: what was said last goes on until its lease ends, which is looked at again
        }
    });
}

void ControlWatch::Look() {
    const uint64_t now = platform_.MonotonicNs();
    std::string error;
    if (auto control = file_.Read(now, error)) last_ = std::move(control);
    // A read in the middle of a write is no reason to complain.
    failures_ = error.empty() ? 0 : failures_ + 1;
    if (failures_ == kFailuresToTell) log_("the guard's shaping segment is not usable: " + error);
    const bool valid = last_ && now < last_->lease_until_ns;
    for (auto& one : governed_) {
        const Rates rates = valid ? last_->For(one.major_number, one.minor_number) : Rates{};
        if (rates == one.rates) continue;
        pacer_.Set(*one.limit, rates);
        one.rates = rates;
    }
    if (last_) {
        sequence_.store(last_->sequence, std::memory_order_relaxed);
        lease_until_ns_.store(last_->lease_until_ns, std::memory_order_relaxed);
    }
    auto* const report = report_.load(std::memory_order_acquire);
    if (report && last_) report->store(last_->sequence, std::memory_order_release);
}

} // namespace beer
