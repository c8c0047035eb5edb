// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/shaping/Limit.hh"

namespace beer {

// How a request reaches the disk: through the page cache, past it where it is aligned, written through with each
// request, or written through when the file is closed.
enum class IoType : uint8_t { buffered, direct, sync, csync };

// As ioprio_set(2) has it.
struct IoPriority {
    enum class Class : uint8_t { real_time = 1, best_effort = 2, idle = 3 };
    Class io_class = Class::best_effort;
    uint8_t level = 4; // 0 to 7, 0 = most urgent; idle has none

    // 0 = the most urgent.
    unsigned rank() const { return (static_cast<unsigned>(io_class) - 1) * 8 + level; }
    friend bool operator==(const IoPriority& a, const IoPriority& b) { return a.rank() == b.rank(); }
};

// "direct", "sync" (also "dsync"), "csync", "buffered".
std::optional<IoType> ParseIoType(const std::string& text);
// "rt:0" to "rt:7", "be:0" to "be:7", "idle" (also "idle:0").
std::optional<IoPriority> ParseIoPriority(const std::string& text);
std::string Text(IoType type);
std::string Text(IoPriority priority);

enum class Direction : uint8_t { read = 0, write = 1 };

// What one rule says of one direction; what it leaves out is left to the rules before it.
struct Wish {
    std::optional<IoType> type;
    std::optional<IoPriority> priority;
    std::optional<uint64_t> bytes, operations; // per second, for each stream
    std::optional<uint64_t> readahead;         // bytes; of reads through the page cache

    // What is not said yet is taken from a less exact rule.
    void FillUp(const Wish& from);
    bool empty() const { return !type && !priority && !bytes && !operations && !readahead; }
};

// Later ones win: the order of the EOS documentation. The class of traffic comes last and only ever lowers.
enum class Level : uint8_t { none, space, group, user, app, directory, operator_wish, traffic };
std::string Text(Level level);

// The result for one stream and direction, and which level each part is from.
struct Policy {
    IoType type = IoType::buffered;
    IoPriority priority;
    Rates rates;
    uint64_t readahead = 0; // 0 = what the kernel does by itself
    Level type_from = Level::none, priority_from = Level::none, bytes_from = Level::none, operations_from = Level::none;
};

// Of whom a stream is. `app` is what the client says, `space` and `batch` are what the server found.
struct Identity {
    std::string user, app, space;
    std::vector<std::string> groups;
    bool batch = false;
    std::array<Wish, 2> directory = {}; // by Direction: from attributes that only the operator can set
    Wish asked = {};                    // what the client asks for; it counts for operators alone
};

// All rules of one configuration; immutable once it is in use.
class PolicyTable {
  public:
    struct Rule {
        Level level = Level::space; // space, group, user, app or traffic ("batch", "storage")
        std::string name;           // "*" = every
        std::string space;          // only in this one; empty = in all
        Wish wish[2];               // by Direction
    };
    void Add(Rule rule) { rules_.push_back(std::move(rule)); }
    // Who may raise priority or limits by calling himself this application; "*" = everybody.
    void Trust(const std::string& app, const std::string& user) { trusted_[app].insert(user); }

    // `is_operator`: what he asks for counts. What is set on a directory or asked for only lowers what batch has.
    Policy Resolve(const Identity& who, Direction direction, bool is_operator = false) const;

    bool Trusted(const Identity& who) const;
    // Are there users who are trusted with this name, and so others who are not?
    bool Reserved(const std::string& app) const { return trusted_.count(app); }

  private:
    Wish Find(Level level, const std::string& name, const std::string& space, Direction direction) const;
    std::vector<Rule> rules_;
    std::map<std::string, std::set<std::string>> trusted_;
};

} // namespace beer
