// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/shaping/Arbiter.hh"
#include "core/shaping/ControlWatch.hh"
#include "core/shaping/DirectoryWishes.hh"
#include "core/shaping/LinkBudget.hh"
#include "core/shaping/MetaLimiter.hh"
#include "core/shaping/Pacer.hh"
#include "core/shaping/ShapingConfig.hh"
#include "core/shaping/StretchGate.hh"

namespace beer {

struct ShapingOptions {
    std::string control = "/run/beer/control/shaping"; // what the guard writes
    uid_t control_owner = 0;
    uint32_t workers = 2048; // threads of the server: a quarter of them may be held
};

// Everything that decides how fast a stream goes: the configured policy, the limits that streams share, and what the
// guard says. Any thread may ask.
class Shaping {
  public:
    using Log = std::function<void(const std::string&)>;
    Shaping(const ShapingOptions& options, ShapingConfig config, const std::vector<Filesystem>& filesystems,
            const Platform& platform, const Log& log);

    // What holds for one stream now; by Direction. Immutable.
    struct Rule {
        std::array<Policy, 2> policy;
        std::array<std::shared_ptr<Limit>, 2> own; // of this stream alone, also among the limits; null = none
        std::array<Limits, 2> limits;
        uint64_t version = 0;

        bool limited() const { return !limits[0].empty() || !limits[1].empty(); }
    };
    // `before`: what held for this stream until now; its own limits keep their debts.
    std::shared_ptr<const Rule> RuleOf(const Identity& who, uint32_t filesystem, const Rule* before = nullptr);
    // Changes with every new configuration: streams then ask for their rule again.
    uint64_t version() const { return version_.load(std::memory_order_acquire); }
    void Use(ShapingConfig config);
    std::shared_ptr<const ShapingConfig> config() const { return std::atomic_load(&config_); }

    Pacer& pacer() { return pacer_; }
    LinkBudget& batch_links() { return batch_links_; }
    // For storage users with a limit.
    LinkBudget& storage_links() { return storage_links_; }
    LinkBudget& LinksFor(bool batch) { return batch ? batch_links_ : storage_links_; }
    DirectoryWishes& directories() { return directories_; }
    Overload& overload() { return overload_; }
    StretchGate& stretches() { return stretches_; }
    MetaLimiter& metadata() { return metadata_; }
    ControlWatch& control() { return control_; }
    Arbiter& arbiter() { return arbiter_; }
    // Requests that wait now, for a limit or their turn.
    uint32_t waiting() const { return pacer_.waiters() + arbiter_.waiting(); }

  private:
    std::shared_ptr<Limit> SharedLimit(const std::string& rule, const Rates& rates, uint64_t version);
    void AddShares(const ShapingConfig& config, const Identity& who, Rule& rule);
    std::shared_ptr<const Rule> Kept(const std::string& key);
    void Keep(const std::string& key, std::shared_ptr<const Rule> rule);

    const Platform& platform_;
    Pacer pacer_;
    LinkBudget batch_links_, storage_links_;
    DirectoryWishes directories_;
    const std::vector<std::string> paths_; // of the filesystems
    Overload overload_;
    StretchGate stretches_;
    MetaLimiter metadata_;
    std::shared_ptr<const ShapingConfig> config_; // by std::atomic_load and std::atomic_store alone
    std::atomic<uint64_t> version_{0};
    std::mutex mutex_; // of the next one
    std::map<std::string, std::weak_ptr<Limit>> shared_;
    std::mutex kept_mutex_; // of the next one
    std::map<std::string, std::shared_ptr<const Rule>> kept_;
    Arbiter arbiter_;
    ControlWatch control_; // last: its thread uses the others
};

} // namespace beer
