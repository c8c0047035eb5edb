// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/shaping/MetaOperation.hh"
#include "core/shaping/Overload.hh"
#include "core/shaping/Policy.hh"

namespace beer {

// What the policy lines of a configuration say; README.md has their form.
struct ShapingConfig {
    struct Space {
        std::string name;
        std::string path; // of the client; everything at or below it
    };
    // A limit that all streams it is for share, beside what each has by itself.
    struct Share {
        Level level = Level::space;
        std::string name, space; // as PolicyTable::Rule has them; name "*" = one limit for each of them
        bool directions[2] = {}; // by Direction; both = reads and writes share it, too
        bool bytes = false;      // else operations
        uint64_t rate = kUnlimited;
    };
    struct OpenFiles {
        std::string path; // of the measured filesystem; "*" = each one that is not named
        OpenLimits limits;
    };
    struct MetaRate {
        Level level = Level::user;              // or group
        std::string name;                       // "*" = each by itself
        std::optional<MetaOperation> operation; // none = each by itself
        uint32_t per_second = 0;
    };
    std::vector<Space> spaces;
    std::vector<OpenFiles> open_files;
    std::vector<Share> shares;
    PolicyTable policies;
    std::vector<MetaRate> meta_rates;
    std::map<std::string, uint32_t> threads; // requests under way at most, by user; "*" = each one that is not named
    uint32_t threads_of_all = 0;             // 0 = as many as like
    std::set<std::string> banned;
    std::set<std::string> operators;
    bool turns = true;
    std::vector<std::string> lines; // all of the above as it was written

    // The space of the longest path that it is below; "default" without one.
    const std::string& SpaceOf(const std::string& path) const;
    // The one that counts; null = none. The most exact one: the name counts more than the space; of the same kind the
    // last line wins.
    const Share* ShareOf(Level level, const std::string& name, const std::string& space, Direction direction,
                         bool bytes) const;
    OpenLimits OpenLimitsOf(const std::string& filesystem) const;
    // The next two: 0 = as many as like.
    uint32_t MetaRateOf(Level level, const std::string& name, MetaOperation operation) const;
    uint32_t ThreadsOf(const std::string& user) const;
    bool IsBanned(const std::string& user) const { return banned.count(user); }
    bool IsOperator(const std::string& user) const { return !user.empty() && operators.count(user); }

    // Adds one line, split into words, the directive first. Empty = done, else what is wrong with it.
    std::string Add(const std::vector<std::string>& words);
    static const std::vector<std::string>& Directives();
};

// "50MB/s", "2GiB/s", "100/s" and "unlimited"; a bare number is refused.
std::string ParseRate(const std::string& text, bool bytes, uint64_t& rate);

// "4MiB", "512KiB", "0B"; a bare number is refused.
std::string ParseSize(const std::string& text, uint64_t& bytes);

// One part of a policy: iotype, iopriority, bandwidth, iops or readahead. Empty = done, else what is wrong.
std::string ParseWish(const std::string& key, const std::string& value, Wish& wish);

} // namespace beer
