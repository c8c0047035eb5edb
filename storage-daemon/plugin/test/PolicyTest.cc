// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "core/shaping/ShapingConfig.hh"

namespace beer {
namespace {

constexpr Direction kRead = Direction::read, kWrite = Direction::write;

Wish Bytes(uint64_t bytes) {
    Wish wish;
    wish.bytes = bytes;
    return wish;
}

Wish Priority(const char* text) {
    Wish wish;
    wish.priority = ParseIoPriority(text);
    return wish;
}

void Add(PolicyTable& table, Level level, const std::string& name, const Wish& read, const Wish& write = {},
         const std::string& space = "") {
    table.Add({level, name, space, {read, write}});
}

} // namespace

TEST(PolicyTest, TypesAndPrioritiesAreReadAndSaid) {
    for (const char* text : {"buffered", "direct", "sync", "csync"})
        EXPECT_EQ(Text(*ParseIoType(text)), text);
    EXPECT_EQ(ParseIoType("dsync"), IoType::sync);
    for (const char* text : {"", "Direct", "async", "direct "})
        EXPECT_FALSE(ParseIoType(text)) << text;
    for (const char* text : {"rt:0", "rt:7", "be:0", "be:7", "idle"})
        EXPECT_EQ(Text(*ParseIoPriority(text)), text);
    EXPECT_EQ(ParseIoPriority("idle:0"), ParseIoPriority("idle"));
    for (const char* text : {"", "rt", "rt:8", "rt:-1", "be:10", "idle:1", "xx:1", "be 1"})
        EXPECT_FALSE(ParseIoPriority(text)) << text;
    unsigned before = 0;
    for (const char* text : {"rt:7", "be:0", "be:4", "be:7", "idle"}) {
        EXPECT_GT(ParseIoPriority(text)->rank(), before) << text;
        before = ParseIoPriority(text)->rank();
    }
}

TEST(PolicyTest, WithoutRulesThereIsTheDefault) {
    const Policy policy = PolicyTable().Resolve({"alice", "app", "default", {"zh"}, false}, kRead);
    EXPECT_EQ(policy.type, IoType::buffered);
    EXPECT_EQ(Text(policy.priority), "be:4");
    EXPECT_FALSE(policy.rates.limited());
    EXPECT_EQ(policy.bytes_from, Level::none);
}

// A key of a policy: what each level says, and what a policy has of it and by which level.
struct Key {
    const char* name;
    std::array<const char*, 6> said;
    std::string (*value)(const Policy&);
    Level Policy::* from; // null: nobody is told
};

const Key kKeys[] = {
    {"bandwidth",
     {"3000B/s", "1000B/s", "6000B/s", "2000B/s", "0B/s", "5000B/s"},
     [](const Policy& policy) { return std::to_string(policy.rates.bytes) + "B/s"; },
     &Policy::bytes_from},
    {"iops",
     {"30/s", "10/s", "60/s", "20/s", "0/s", "50/s"},
     [](const Policy& policy) { return std::to_string(policy.rates.operations) + "/s"; },
     &Policy::operations_from},
    {"iopriority",
     {"be:7", "rt:0", "idle", "be:1", "rt:7", "be:4"},
     [](const Policy& policy) { return Text(policy.priority); },
     &Policy::priority_from},
    {"iotype",
     {"sync", "buffered", "csync", "direct", "sync", "buffered"},
     [](const Policy& policy) { return Text(policy.type); },
     &Policy::type_from},
    {"readahead",
     {"400000B", "200000B", "600000B", "700000B", "300000B", "500000B"},
     [](const Policy& policy) { return std::to_string(policy.readahead) + "B"; },
     nullptr},
};

// All 2^6 combinations of who says something, for each key: the last of them wins, for each direction by itself.
TEST(PolicyTest, EveryCombinationOfLevelsForEveryKey) {
    constexpr Level kLevels[] = {Level::space, Level::group,     Level::user,
                                 Level::app,   Level::directory, Level::operator_wish};
    const char* const names[] = {"data", "zh", "alice", "daq"};
    for (const Key& key : kKeys) {
        for (unsigned said = 0; said < 64; ++said) {
            for (const Direction direction : {kRead, kWrite}) {
                SCOPED_TRACE(key.name + (" " + std::to_string(said)));
                PolicyTable table;
                table.Trust("daq", "alice");
                Identity who{"alice", "daq", "data", {"zh"}, false};
                Level level = Level::none;
                std::string value = key.value(Policy());
                for (unsigned i = 0; i < 6; ++i) {
                    if (!(said & (1u << i))) continue;
                    level = kLevels[i];
                    value = key.said[i];
                    Wish wish, none;
                    ASSERT_EQ(ParseWish(key.name, value, wish), "");
                    if (i == 4) {
                        who.directory[static_cast<size_t>(direction)] = wish;
                    } else if (i == 5) {
                        who.asked = wish;
                    } else if (direction == kRead) {
                        Add(table, kLevels[i], names[i], wish, none);
                    } else {
                        Add(table, kLevels[i], names[i], none, wish);
                    }
                }
                const Policy policy = table.Resolve(who, direction, true);
                EXPECT_EQ(key.value(policy), value);
                if (key.from) {
                    EXPECT_EQ(Text(policy.*key.from), Text(level));
                }
                who.asked = {}; // an operator asks for both directions
                const Policy other = table.Resolve(who, direction == kRead ? kWrite : kRead);
                EXPECT_EQ(key.value(other), key.value(Policy()));
                if (key.from) {
                    EXPECT_EQ(other.*key.from, Level::none);
                }
            }
        }
    }
}

TEST(PolicyTest, EachPartIsDecidedByItself) {
    PolicyTable table;
    Add(table, Level::space, "*", Bytes(5));
    Add(table, Level::user, "alice", Priority("be:1"));
    const Policy policy = table.Resolve({"alice", "", "data", {}, false}, kRead);
    EXPECT_EQ(policy.rates.bytes, 5u);
    EXPECT_EQ(Text(policy.priority), "be:1");
    EXPECT_EQ(policy.bytes_from, Level::space);
    EXPECT_EQ(policy.priority_from, Level::user);
}

TEST(PolicyTest, AnExactNameCountsMoreThanAnyNameAndItsSpaceMoreThanNone) {
    PolicyTable table;
    Add(table, Level::user, "alice", Bytes(1));
    Add(table, Level::user, "*", Bytes(2));
    Add(table, Level::user, "alice", Bytes(3), {}, "fast");
    Add(table, Level::user, "*", Bytes(4), {}, "fast");
    const auto rate = [&](const char* user, const char* space) {
        return table.Resolve({user, "", space, {}, false}, kRead).rates.bytes;
    };
    EXPECT_EQ(rate("alice", "slow"), 1u);
    EXPECT_EQ(rate("bob", "slow"), 2u);
    EXPECT_EQ(rate("alice", "fast"), 3u);
    EXPECT_EQ(rate("bob", "fast"), 4u);
}

TEST(PolicyTest, TheLastLineOfTheSameKindWins) {
    PolicyTable table;
    Add(table, Level::user, "alice", Bytes(1));
    Add(table, Level::user, "alice", Bytes(2));
    EXPECT_EQ(table.Resolve({"alice", "", "", {}, false}, kRead).rates.bytes, 2u);
}

TEST(PolicyTest, OfSeveralGroupsTheFirstThatSaysSomethingCounts) {
    PolicyTable table;
    Add(table, Level::group, "b", Bytes(2));
    Add(table, Level::group, "c", Bytes(3));
    EXPECT_EQ(table.Resolve({"u", "", "", {"a", "b", "c"}, false}, kRead).rates.bytes, 2u);
    Add(table, Level::group, "*", Bytes(9));
    EXPECT_EQ(table.Resolve({"u", "", "", {}, false}, kRead).rates.bytes, 9u);
}

TEST(PolicyTest, AClaimNeverRaisesWithoutAnAllowList) {
    PolicyTable table;
    Add(table, Level::user, "*", Bytes(100));
    Wish raising = Priority("rt:0");
    raising.bytes = 1000;
    Add(table, Level::app, "daq", raising);
    Wish lowering = Priority("idle");
    lowering.bytes = 10;
    Add(table, Level::app, "scan", lowering);
    table.Trust("daq", "shift");
    const auto of = [&](const char* user, const char* app) { return table.Resolve({user, app, "", {}, false}, kRead); };
    EXPECT_EQ(Text(of("mallory", "daq").priority), "be:4");
    EXPECT_EQ(of("mallory", "daq").rates.bytes, 100u);
    EXPECT_EQ(Text(of("shift", "daq").priority), "rt:0");
    EXPECT_EQ(of("shift", "daq").rates.bytes, 1000u);
    EXPECT_EQ(Text(of("mallory", "scan").priority), "idle") << "lowering oneself needs no permission";
    EXPECT_EQ(of("mallory", "scan").rates.bytes, 10u);
    table.Trust("daq", "*");
    EXPECT_EQ(Text(of("mallory", "daq").priority), "rt:0");
}

TEST(PolicyTest, AClaimNeverMakesDataLessSafe) {
    const struct {
        const char* had;
        std::vector<std::string> refused;
    } cases[] = {
        {"buffered", {}},
        {"direct", {"buffered"}},
        {"csync", {"buffered", "direct"}},
        {"sync", {"buffered", "direct", "csync"}},
    };
    for (const auto& [had, refused] : cases) {
        for (const char* claimed : {"buffered", "direct", "csync", "sync"}) {
            PolicyTable table;
            Wish wish;
            wish.type = ParseIoType(had);
            Add(table, Level::user, "*", {}, wish);
            wish.type = ParseIoType(claimed);
            Add(table, Level::app, "daq", {}, wish);
            table.Trust("daq", "shift");
            const auto of = [&](const char* user) {
                return Text(table.Resolve({user, "daq", "", {}, false}, kWrite).type);
            };
            const bool less_safe = std::count(refused.begin(), refused.end(), claimed);
            EXPECT_EQ(of("mallory"), less_safe ? had : claimed);
            EXPECT_EQ(of("shift"), claimed);
        }
    }
}

TEST(PolicyTest, AClaimDoesNotEscapeWhatEverybodyElseHas) {
    PolicyTable table;
    Wish everybody = Priority("idle");
    everybody.bytes = 10;
    Add(table, Level::app, "*", everybody);
    Wish daq = Priority("rt:0");
    daq.bytes = 100;
    Add(table, Level::app, "daq", daq);
    table.Trust("daq", "shift");
    const auto of = [&](const char* user, const char* app) { return table.Resolve({user, app, "", {}, false}, kRead); };
    EXPECT_EQ(of("mallory", "daq").rates.bytes, 10u);
    EXPECT_EQ(Text(of("mallory", "daq").priority), "idle");
    EXPECT_EQ(of("mallory", "default").rates.bytes, 10u);
    EXPECT_EQ(of("shift", "daq").rates.bytes, 100u);
}

TEST(PolicyTest, WhatAClientAsksForCountsForOperatorsAlone) {
    const PolicyTable table;
    Identity who{"u", "", "", {}, false};
    who.asked = Priority("rt:0");
    EXPECT_EQ(Text(table.Resolve(who, kRead).priority), "be:4");
    EXPECT_EQ(Text(table.Resolve(who, kRead, true).priority), "rt:0");
}

TEST(PolicyTest, TheClassOfTrafficOnlyLowers) {
    PolicyTable table;
    Add(table, Level::traffic, "batch", Priority("be:7"));
    Add(table, Level::app, "scan", Priority("idle"));
    Identity job{"u", "", "", {}, true};
    EXPECT_EQ(Text(table.Resolve(job, kRead).priority), "be:7");
    job.asked = Priority("rt:0");
    EXPECT_EQ(Text(table.Resolve(job, kRead, true).priority), "be:7") << "not even an operator's job";
    EXPECT_EQ(Text(PolicyTable().Resolve(job, kRead, true).priority), "be:4") << "nor without a line for batch";
    job.directory[0] = Priority("rt:0");
    EXPECT_EQ(Text(PolicyTable().Resolve(job, kRead).priority), "be:4");
    job.directory = {};
    job.asked = {};
    job.app = "scan";
    EXPECT_EQ(Text(table.Resolve(job, kRead).priority), "idle");
    EXPECT_EQ(Text(table.Resolve({"u", "", "", {}, false}, kRead).priority), "be:4");
}

} // namespace beer
