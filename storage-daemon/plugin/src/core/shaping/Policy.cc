// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/Policy.hh"

#include <algorithm>
#include <array>

namespace beer {
namespace {

constexpr std::array<const char*, 4> kTypes = {"buffered", "direct", "sync", "csync"};
constexpr std::array<const char*, 8> kLevels = {"default", "space",     "group",    "user",
                                                "app",     "directory", "operator", "class"};

template <typename T>
void Keep(std::optional<T>& old, const std::optional<T>& more) {
    if (!old) old = more;
}

// How sure it is that data are on the disk when the client is told so.
unsigned Safety(IoType type) {
    constexpr std::array<IoType, 4> kBySafety = {IoType::buffered, IoType::direct, IoType::csync, IoType::sync};
    return static_cast<unsigned>(std::find(kBySafety.begin(), kBySafety.end(), type) - kBySafety.begin());
}

// `lower`: a wish that would raise anything is not fulfilled. Data that are less safe are written faster.
void Apply(Policy& policy, const Wish& wish, Level level, bool lower) {
    if (wish.type && (!lower || Safety(*wish.type) >= Safety(policy.type)))
        policy.type = *wish.type, policy.type_from = level;
    if (wish.priority && (!lower || wish.priority->rank() > policy.priority.rank()))
        policy.priority = *wish.priority, policy.priority_from = level;
    if (wish.bytes && (!lower || *wish.bytes < policy.rates.bytes))
        policy.rates.bytes = *wish.bytes, policy.bytes_from = level;
    if (wish.operations && (!lower || *wish.operations < policy.rates.operations))
        policy.rates.operations = *wish.operations, policy.operations_from = level;
    if (wish.readahead && (!lower || *wish.readahead < policy.readahead)) policy.readahead = *wish.readahead;
}

} // namespace

void Wish::FillUp(const Wish& from) {
    Keep(type, from.type);
    Keep(priority, from.priority);
    Keep(bytes, from.bytes);
    Keep(operations, from.operations);
    Keep(readahead, from.readahead);
}

std::optional<IoType> ParseIoType(const std::string& text) {
    if (text == "dsync") return IoType::sync;
    const auto found = std::find(kTypes.begin(), kTypes.end(), text);
    if (found == kTypes.end()) return std::nullopt;
    return static_cast<IoType>(found - kTypes.begin());
}

std::optional<IoPriority> ParseIoPriority(const std::string& text) {
    using Class = IoPriority::Class;
    if (text == "idle" || text == "idle:0") return IoPriority{Class::idle, 0};
    if (text.size() != 4 || text[2] != ':' || text[3] < '0' || text[3] > '7') return std::nullopt;
    const auto level = static_cast<uint8_t>(text[3] - '0');
    if (text.compare(0, 2, "rt") == 0) return IoPriority{Class::real_time, level};
    if (text.compare(0, 2, "be") == 0) return IoPriority{Class::best_effort, level};
    return std::nullopt;
}

std::string Text(IoType type) { return kTypes[static_cast<size_t>(type)]; }

std::string Text(IoPriority priority) {
    if (priority.io_class == IoPriority::Class::idle) return "idle";
    const char* name = priority.io_class == IoPriority::Class::real_time ? "rt:" : "be:";
    return name + std::to_string(priority.level);
}

std::string Text(Level level) { return kLevels[static_cast<size_t>(level)]; }

Wish PolicyTable::Find(Level level, const std::string& name, const std::string& space, Direction direction) const {
    Wish wish;
    // The most exact first; within one kind the last line of the configuration wins, as everywhere in XRootD.
    for (const std::string& wanted : {name, std::string("*")})
        for (const std::string& in : {space, std::string()})
            for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule)
                if (rule->level == level && rule->name == wanted && rule->space == in)
                    wish.FillUp(rule->wish[static_cast<size_t>(direction)]);
    return wish;
}

bool PolicyTable::Trusted(const Identity& who) const {
    const auto app = trusted_.find(who.app);
    return app != trusted_.end() && (app->second.count(who.user) || app->second.count("*"));
}

Policy PolicyTable::Resolve(const Identity& who, Direction direction, bool is_operator) const {
    Policy policy;
    Apply(policy, Find(Level::space, who.space, who.space, direction), Level::space, false);
    Wish groups; // of several groups the first that says something
    for (const auto& group : who.groups)
        groups.FillUp(Find(Level::group, group, who.space, direction));
    if (who.groups.empty()) groups = Find(Level::group, "*", who.space, direction);
    Apply(policy, groups, Level::group, false);
    Apply(policy, Find(Level::user, who.user, who.space, direction), Level::user, false);
    // A name that anybody may call himself by only lowers what he would have without it.
    const bool trusted = Trusted(who);
    if (!trusted) Apply(policy, Find(Level::app, "default", who.space, direction), Level::app, false);
    Apply(policy, Find(Level::app, who.app, who.space, direction), Level::app, !trusted);
    Apply(policy, who.directory[static_cast<size_t>(direction)], Level::directory, who.batch);
    if (is_operator) Apply(policy, who.asked, Level::operator_wish, who.batch);
    Apply(policy, Find(Level::traffic, who.batch ? "batch" : "storage", who.space, direction), Level::traffic, true);
    return policy;
}

} // namespace beer
