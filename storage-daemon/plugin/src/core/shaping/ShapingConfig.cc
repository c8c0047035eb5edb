// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/ShapingConfig.hh"

#include <algorithm>
#include <functional>
#include <map>

namespace beer {
namespace {

using Words = std::vector<std::string>;

constexpr std::pair<const char*, uint64_t> kUnits[] = {
    {"B", 1}, {"kB", 1000}, {"MB", 1000000}, {"GB", 1000000000}, {"KiB", 1024}, {"MiB", 1u << 20}, {"GiB", 1u << 30},
};

constexpr uint64_t kMostBytes = uint64_t{1} << 60;
constexpr uint64_t kLeastReadahead = 128 << 10;         // what the kernel does by itself
constexpr uint64_t kMostReadahead = uint64_t{64} << 20; // each reader may have so much in the page cache

struct Number {
    uint64_t value;
    std::string unit;
};

std::optional<Number> SplitNumber(const std::string& text) {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0 || digits > 12) return std::nullopt;
    return Number{std::stoull(text.substr(0, digits)), text.substr(digits)};
}

bool HasEnding(const std::string& text, const std::string& ending) {
    return text.size() >= ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

// False: the unit is unknown, or it is too much.
bool Bytes(uint64_t value, const std::string& unit, uint64_t& bytes) {
    for (const auto& [name, factor] : kUnits) {
        if (unit != name || value > kMostBytes / factor) continue;
        bytes = value * factor;
        return true;
    }
    return false;
}

// Whose rule it is: "user:alice", "app:daq@fast".
std::string ParseScope(const std::string& text, Level& level, std::string& name, std::string& space) {
    static const std::map<std::string, Level> levels = {{"space", Level::space},
                                                        {"group", Level::group},
                                                        {"user", Level::user},
                                                        {"app", Level::app},
                                                        {"class", Level::traffic}};
    const size_t colon = text.find(':'), at = text.find('@');
    const auto known = levels.find(text.substr(0, colon));
    if (colon == std::string::npos || known == levels.end())
        return "'" + text + "' is not space:NAME, group:NAME, user:NAME, app:NAME or class:NAME";
    level = known->second;
    name = text.substr(colon + 1, at == std::string::npos ? at : at - colon - 1);
    space = at == std::string::npos ? "" : text.substr(at + 1);
    if (name.empty() || (at != std::string::npos && space.empty())) return "'" + text + "' names nobody";
    if (level == Level::space && !space.empty()) return "'" + text + "' names two spaces";
    if (level == Level::traffic && name != "batch" && name != "storage")
        return "'" + text + "': the classes are batch and storage";
    return "";
}

// Which directions: bit 0 = reads, bit 1 = writes.
unsigned ParseDirections(const std::string& text) { return text == "r" ? 1 : text == "w" ? 2 : text == "rw" ? 3 : 0; }

std::string AddSpace(ShapingConfig& config, const Words& words) {
    if (words.size() < 3) return "wants a name and at least one path";
    for (size_t i = 2; i < words.size(); ++i) {
        if (words[i][0] != '/') return "'" + words[i] + "' is not an absolute path";
        config.spaces.push_back({words[1], words[i]});
    }
    return "";
}

std::string AddPolicy(ShapingConfig& config, const Words& words) {
    if (words.size() < 5 || words.size() % 2 == 0) return "wants LEVEL:NAME[@SPACE] r|w|rw KEY VALUE [KEY VALUE]...";
    PolicyTable::Rule rule;
    if (std::string wrong = ParseScope(words[1], rule.level, rule.name, rule.space); !wrong.empty()) return wrong;
    const unsigned directions = ParseDirections(words[2]);
    if (!directions) return "'" + words[2] + "' is not r, w or rw";
    Wish wish;
    for (size_t i = 3; i < words.size(); i += 2)
        if (std::string wrong = ParseWish(words[i], words[i + 1], wish); !wrong.empty()) return wrong;
    if (wish.readahead && directions != 1) return "'readahead' is for r alone";
    for (unsigned direction = 0; direction < 2; ++direction)
        if (directions & (1u << direction)) rule.wish[direction] = wish;
    config.policies.Add(std::move(rule));
    return "";
}

std::string AddShare(ShapingConfig& config, const Words& words) {
    if (words.size() < 5 || words.size() % 2 == 0) return "wants LEVEL:NAME[@SPACE] r|w|rw KEY VALUE [KEY VALUE]...";
    ShapingConfig::Share share;
    if (std::string wrong = ParseScope(words[1], share.level, share.name, share.space); !wrong.empty()) return wrong;
    const unsigned directions = ParseDirections(words[2]);
    if (!directions) return "'" + words[2] + "' is not r, w or rw";
    for (unsigned direction = 0; direction < 2; ++direction)
        share.directions[direction] = directions & (1u << direction);
    for (size_t i = 3; i < words.size(); i += 2) {
        if (words[i] != "bandwidth" && words[i] != "iops") return "'" + words[i] + "' is not bandwidth or iops";
        share.bytes = words[i] == "bandwidth";
        if (std::string wrong = ParseRate(words[i + 1], share.bytes, share.rate); !wrong.empty()) return wrong;
        config.shares.push_back(share);
    }
    return "";
}

std::string ParseCount(const std::string& text, uint32_t& count) {
    if (text.empty() || text.size() > 7 || text.find_first_not_of("0123456789") != std::string::npos ||
        std::stoul(text) == 0)
        return "'" + text + "' is not a number from 1 to 9999999";
    count = static_cast<uint32_t>(std::stoul(text));
    return "";
}

std::string AddOverload(ShapingConfig& config, const Words& words) {
    if (words.size() != 4 && words.size() != 6) return "wants PATH|* and readers N, writers N or both";
    if (words[1] != "*" && words[1][0] != '/') return "'" + words[1] + "' is not an absolute path or *";
    ShapingConfig::OpenFiles files{words[1], {}};
    for (size_t i = 2; i < words.size(); i += 2) {
        const bool readers = words[i] == "readers";
        if (!readers && words[i] != "writers") return "'" + words[i] + "' is not readers or writers";
        uint32_t& limit = readers ? files.limits.readers : files.limits.writers;
        if (std::string wrong = ParseCount(words[i + 1], limit); !wrong.empty()) return wrong;
    }
    config.open_files.push_back(std::move(files));
    return "";
}

std::string AddMetaRate(ShapingConfig& config, const Words& words) {
    if (words.size() != 4) return "wants user:NAME or group:NAME, an operation or *, and a rate such as 100/s";
    ShapingConfig::MetaRate rate;
    std::string space;
    if (std::string wrong = ParseScope(words[1], rate.level, rate.name, space); !wrong.empty()) return wrong;
    if ((rate.level != Level::user && rate.level != Level::group) || !space.empty())
        return "'" + words[1] + "' is not user:NAME or group:NAME";
    rate.operation = ParseMetaOperation(words[2]);
    if (!rate.operation && words[2] != "*") {
        std::string all;
        for (const char* name : kMetaOperations)
            all += std::string(all.empty() ? "" : ", ") + name;
        return "'" + words[2] + "' is not *, " + all;
    }
    uint64_t per_second = 0;
    if (std::string wrong = ParseRate(words[3], false, per_second); !wrong.empty()) return wrong;
    if (per_second == 0 || per_second > 1000000) return "'" + words[3] + "' is not from 1/s to 1000000/s";
    rate.per_second = static_cast<uint32_t>(per_second);
    config.meta_rates.push_back(std::move(rate));
    return "";
}

std::string AddThreads(ShapingConfig& config, const Words& words) {
    if (words.size() != 3) return "wants user:NAME, user:* or all, and a number";
    uint32_t count = 0;
    if (std::string wrong = ParseCount(words[2], count); !wrong.empty()) return wrong;
    if (words[1] == "all") {
        config.threads_of_all = count;
    } else if (words[1].compare(0, 5, "user:") == 0 && words[1].size() > 5) {
        config.threads[words[1].substr(5)] = count;
    } else {
        return "'" + words[1] + "' is not user:NAME, user:* or all";
    }
    return "";
}

std::string AddBan(ShapingConfig& config, const Words& words) {
    if (words.size() < 2) return "wants at least one user";
    config.banned.insert(words.begin() + 1, words.end());
    return "";
}

std::string AddTrust(ShapingConfig& config, const Words& words) {
    if (words.size() < 3) return "wants an application and at least one user";
    for (size_t i = 2; i < words.size(); ++i)
        config.policies.Trust(words[1], words[i]);
    return "";
}

std::string AddOperators(ShapingConfig& config, const Words& words) {
    if (words.size() < 2) return "wants at least one user";
    config.operators.insert(words.begin() + 1, words.end());
    return "";
}

std::string AddTurns(ShapingConfig& config, const Words& words) {
    if (words.size() != 2 || (words[1] != "on" && words[1] != "off")) return "wants on or off";
    config.turns = words[1] == "on";
    return "";
}

const std::map<std::string, std::function<std::string(ShapingConfig&, const Words&)>> kLines = {
    {"beer.ban", AddBan},           {"beer.metarate", AddMetaRate}, {"beer.operator", AddOperators},
    {"beer.overload", AddOverload}, {"beer.policy", AddPolicy},     {"beer.share", AddShare},
    {"beer.space", AddSpace},       {"beer.threads", AddThreads},   {"beer.trust", AddTrust},
    {"beer.turns", AddTurns},
};

} // namespace

std::string ParseRate(const std::string& text, bool bytes, uint64_t& rate) {
    if (text == "unlimited") {
        rate = kUnlimited;
        return "";
    }
    if (const auto found = SplitNumber(text); found && HasEnding(found->unit, "/s")) {
        const std::string unit = found->unit.substr(0, found->unit.size() - 2);
        if (!bytes && unit.empty()) {
            rate = found->value;
            return "";
        }
        if (bytes && Bytes(found->value, unit, rate)) return "";
    }
    return "'" + text + "' is not " +
           (bytes ? "a rate such as 50MB/s, 1GiB/s, 0B/s or unlimited" : "a rate such as 100/s");
}

std::string ParseSize(const std::string& text, uint64_t& bytes) {
    const auto found = SplitNumber(text);
    return found && Bytes(found->value, found->unit, bytes) ? "" : "'" + text + "' is not a size such as 4MiB or 0B";
}

std::string ParseWish(const std::string& key, const std::string& value, Wish& wish) {
    uint64_t rate = 0;
    if (key == "iotype") {
        wish.type = ParseIoType(value);
        return wish.type ? "" : "'" + value + "' is not buffered, direct, sync or csync";
    }
    if (key == "iopriority") {
        wish.priority = ParseIoPriority(value);
        return wish.priority ? "" : "'" + value + "' is not rt:0-7, be:0-7 or idle";
    }
    if (key == "bandwidth" || key == "iops") {
        const bool bytes = key == "bandwidth";
        if (std::string wrong = ParseRate(value, bytes, rate); !wrong.empty()) return wrong;
        (bytes ? wish.bytes : wish.operations) = rate;
        return "";
    }
    if (key == "readahead") {
        if (std::string wrong = ParseSize(value, rate); !wrong.empty()) return wrong;
        if (rate && (rate < kLeastReadahead || rate > kMostReadahead))
            return "'" + value + "' is not 0B, or 128KiB to 64MiB";
        wish.readahead = rate;
        return "";
    }
    return "'" + key + "' is not iotype, iopriority, bandwidth, iops or readahead";
}

const std::string& ShapingConfig::SpaceOf(const std::string& path) const {
    static const std::string other = "default";
    const Space* best = nullptr;
    for (const auto& space : spaces) {
        const size_t length = space.path.size();
        const bool below = path.compare(0, length, space.path) == 0 &&
                           (path.size() == length || path[length] == '/' || space.path.back() == '/');
        if (below && (!best || length > best->path.size())) best = &space;
    }
    return best ? best->name : other;
}

const ShapingConfig::Share* ShapingConfig::ShareOf(Level level, const std::string& name, const std::string& space,
                                                   Direction direction, bool bytes) const {
    const Share* found = nullptr;
    int best = -1;
    for (const auto& share : shares) {
        const bool named = share.name == name, here = share.space == space;
        if (share.level != level || share.bytes != bytes || !share.directions[static_cast<size_t>(direction)]) continue;
        if ((!named && share.name != "*") || (!here && !share.space.empty())) continue;
        const int exact = (named ? 2 : 0) + (here ? 1 : 0);
        if (exact < best) continue;
        best = exact;
        found = &share;
    }
    return found;
}

OpenLimits ShapingConfig::OpenLimitsOf(const std::string& filesystem) const {
    OpenLimits limits;
    for (const char* wanted : {"*", filesystem.c_str()}) // the exact one last: it wins
        for (const auto& files : open_files)
            if (files.path == wanted) limits = files.limits;
    return limits;
}

uint32_t ShapingConfig::MetaRateOf(Level level, const std::string& name, MetaOperation operation) const {
    // The most exact one: the name counts more than the operation. Of the same kind the last line wins.
    int best = -1;
    uint32_t found = 0;
    for (const auto& rate : meta_rates) {
        const bool named = rate.name == name, meant = rate.operation == operation;
        if (rate.level != level || (!named && rate.name != "*") || (!meant && rate.operation)) continue;
        const int exact = (named ? 2 : 0) + (meant ? 1 : 0);
        if (exact < best) continue;
        best = exact;
        found = rate.per_second;
    }
    return found;
}

uint32_t ShapingConfig::ThreadsOf(const std::string& user) const {
    auto known = threads.find(user);
    if (known == threads.end()) known = threads.find("*");
    return known == threads.end() ? 0 : known->second;
}

std::string ShapingConfig::Add(const Words& words) {
    const auto line = words.empty() ? kLines.end() : kLines.find(words[0]);
    if (line == kLines.end()) return "is unknown";
    std::string wrong = line->second(*this, words);
    if (!wrong.empty()) return wrong;
    std::string text;
    for (const auto& word : words)
        text += (text.empty() ? "" : " ") + word;
    lines.push_back(std::move(text));
    return "";
}

const std::vector<std::string>& ShapingConfig::Directives() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (const auto& line : kLines)
            all.push_back(line.first);
        return all;
    }();
    return names;
}

} // namespace beer
