// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/Shaping.hh"

#include <algorithm>
#include <set>

namespace beer {
namespace {

constexpr size_t kDirections = 2;
constexpr const char* kDirectionNames[] = {"r", "w"};

std::vector<std::string> Paths(const std::vector<Filesystem>& filesystems) {
    std::vector<std::string> paths;
    for (const auto& filesystem : filesystems)
        paths.push_back(filesystem.path);
    return paths;
}

// Everything by which this client may share a limit with others.
std::set<std::pair<Level, std::string>> Memberships(const Identity& who, const PolicyTable& policies) {
    std::set<std::pair<Level, std::string>> all = {
        {Level::space, who.space}, {Level::user, who.user}, {Level::traffic, who.batch ? "batch" : "storage"}};
    for (const auto& group : who.groups)
        all.insert({Level::group, group});
    // A name that anybody may call himself by takes nobody out of the share of those without one, and what is set aside
    // for trusted users is used up by nobody else.
    const bool trusted = policies.Trusted(who);
    if (!trusted) all.insert({Level::app, "default"});
    if (trusted || !policies.Reserved(who.app)) all.insert({Level::app, who.app});
    return all;
}

constexpr size_t kMostKept = 1024, kLongestKey = 512;

// Of who has a rule that depends on nothing else; empty = not one of those. Clients may choose what is in their names.
std::string KeyOf(const Identity& who) {
    std::string key;
    if (who.batch || !who.asked.empty() || !who.directory[0].empty() || !who.directory[1].empty()) return key;
    const auto add = [&](const std::string& part) { key += std::to_string(part.size()) + ":" + part; };
    add(who.user);
    add(who.app);
    add(who.space);
    for (const auto& group : who.groups)
        add(group);
    return key.size() <= kLongestKey ? key : "";
}

} // namespace

Shaping::Shaping(const ShapingOptions& options, ShapingConfig config, const std::vector<Filesystem>& filesystems,
                 const Platform& platform, const Log& log)
    // Together a quarter of the threads: an eighth for batch links, a sixteenth for links of storage users with a
    // limit, and a thirty-second each for what both hold beside their first requests, and for storage that has no limit
    // and waits for a turn.
    : platform_(platform), pacer_(platform),
      batch_links_(std::max<uint32_t>(1, options.workers / 8), options.workers / 32),
      storage_links_(std::max<uint32_t>(1, options.workers / 16), options.workers / 32), directories_(log),
      paths_(Paths(filesystems)), overload_(filesystems.size()), stretches_(filesystems.size()),
      arbiter_(filesystems, platform, log),
      control_(options.control, options.control_owner, filesystems, pacer_, platform, log) {
    Use(std::move(config));
    arbiter_.Start();
    control_.Start();
}

std::shared_ptr<Limit> Shaping::SharedLimit(const std::string& rule, const Rates& rates, uint64_t version) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::weak_ptr<Limit>& slot = shared_[rule];
    std::shared_ptr<Limit> limit = slot.lock();
    const bool made = !limit;
    if (made) {
        slot = limit = std::make_shared<Limit>(rule, platform_.MonotonicNs());
        for (auto other = shared_.begin(); other != shared_.end();) // whoever is gone takes no memory
            other = other->second.expired() ? shared_.erase(other) : std::next(other);
    }
    // Who still reads an older configuration must not undo a newer one.
    if (made || version == this->version()) pacer_.Set(*limit, rates);
    return limit;
}

void Shaping::AddShares(const ShapingConfig& config, const Identity& who, Rule& rule) {
    const bool trusted = config.policies.Trusted(who);
    for (const auto& [level, name] : Memberships(who, config.policies)) {
        for (size_t direction = 0; direction < kDirections; ++direction) {
            for (const bool bytes : {true, false}) {
                const auto* share = config.ShareOf(level, name, who.space, static_cast<Direction>(direction), bytes);
                if (!share || share->rate == kUnlimited) continue;
                // Untrusted names have only shares that are made for them, or each invented one would bring its own.
                if (level == Level::app && share->name == "*" && name != "default" && !trusted) continue;
                const bool both = share->directions[0] && share->directions[1];
                const std::string key = Text(level) + ":" + name + (share->space.empty() ? "" : "@" + share->space) +
                                        " " + (both ? "rw" : kDirectionNames[direction]) +
                                        (bytes ? " bandwidth" : " iops");
                const Rates rates = bytes ? Rates{share->rate, kUnlimited} : Rates{kUnlimited, share->rate};
                rule.limits[direction].push_back(SharedLimit(key, rates, rule.version));
            }
        }
    }
}

std::shared_ptr<const Shaping::Rule> Shaping::Kept(const std::string& key) {
    const std::lock_guard<std::mutex> lock(kept_mutex_);
    const auto found = kept_.find(key);
    return found != kept_.end() && found->second->version == version() ? found->second : nullptr;
}

void Shaping::Keep(const std::string& key, std::shared_ptr<const Rule> rule) {
    const std::lock_guard<std::mutex> lock(kept_mutex_);
    if (kept_.size() >= kMostKept) kept_.clear();
    kept_[key] = std::move(rule);
}

std::shared_ptr<const Shaping::Rule> Shaping::RuleOf(const Identity& who, uint32_t filesystem, const Rule* before) {
    // A rule without limits is nobody's own: it is found once for all files that such a client opens.
    const std::string key = KeyOf(who);
    if (!key.empty())
        if (auto kept = Kept(key)) return kept;
    auto rule = std::make_shared<Rule>();
    rule->version = version(); // before the configuration: a change in between is noticed at the next request
    const auto config = this->config();
    for (size_t direction = 0; direction < kDirections; ++direction) {
        const Policy policy =
            config->policies.Resolve(who, static_cast<Direction>(direction), config->IsOperator(who.user));
        rule->policy[direction] = policy;
        if (who.batch) rule->limits[direction].push_back(control_.LimitOf(filesystem));
        if (!policy.rates.limited()) continue;
        std::shared_ptr<Limit>& own = rule->own[direction];
        if (before) own = before->own[direction];
        if (!own) {
            const Level from = policy.bytes_from == Level::none ? policy.operations_from : policy.bytes_from;
            own = std::make_shared<Limit>(Text(from) + " " + kDirectionNames[direction], platform_.MonotonicNs());
        }
        pacer_.Set(*own, policy.rates);
        rule->limits[direction].push_back(own);
    }
    AddShares(*config, who, *rule);
    // What is fetched beside what is asked for is not counted against a limit, and no turn ends with it.
    for (size_t direction = 0; direction < kDirections; ++direction)
        if (!rule->limits[direction].empty() || rule->policy[direction].priority.io_class == IoPriority::Class::idle)
            rule->policy[direction].readahead = 0;
    if (!key.empty() && !rule->limited()) Keep(key, rule);
    return rule;
}

void Shaping::Use(ShapingConfig config) {
    for (uint32_t i = 0; i < paths_.size(); ++i)
        overload_.SetLimits(i, config.OpenLimitsOf(paths_[i]));
    arbiter_.Use(config.turns);
    std::shared_ptr<const ShapingConfig> next = std::make_shared<ShapingConfig>(std::move(config));
    std::atomic_store(&config_, std::move(next));
    pacer_.Outdate(version_.fetch_add(1, std::memory_order_acq_rel) + 1);
}

} // namespace beer
