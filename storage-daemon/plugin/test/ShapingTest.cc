// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <set>
#include <sstream>
#include <thread>

#include "FakePlatform.hh"
#include "TemporaryFolder.hh"
#include "core/Recorder.hh"
#include "core/shaping/Shaping.hh"

namespace beer {
namespace {

constexpr auto kRead = static_cast<size_t>(Direction::read), kWrite = static_cast<size_t>(Direction::write);

ShapingConfig Config(const std::string& text) {
    ShapingConfig config;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream stream(line);
        std::vector<std::string> words;
        for (std::string word; stream >> word;)
            words.push_back(word);
        EXPECT_EQ(config.Add(words), "") << line;
    }
    return config;
}

} // namespace

class ShapingTest : public testing::Test {
  protected:
    Shaping& Make(const std::string& text) {
        ShapingOptions options;
        options.control = folder / "shaping";
        shaping =
            std::make_unique<Shaping>(options, Config(text), filesystems, RealPlatform(), [](const std::string&) {});
        return *shaping;
    }
    static Identity Who(const std::string& user, const std::string& app = "default") {
        return {user, app, "default", {"zh", "it"}, false};
    }
    TemporaryFolder folder;
    const std::vector<Filesystem> filesystems = {{"/data/01", 8, 16}};
    std::unique_ptr<Shaping> shaping;
};

TEST_F(ShapingTest, ARuleWithoutLimitsIsFoundOnce) {
    Make("beer.policy user:slow r bandwidth 1MB/s\nbeer.policy app:scan r iopriority idle\nbeer.space fast /data\n"
         "beer.policy space:fast r iotype direct\nbeer.policy group:zh r readahead 1MiB\n");
    const auto rule = [this](const Identity& who) { return shaping->RuleOf(who, 0); };
    const auto alice = rule(Who("alice"));
    EXPECT_EQ(rule(Who("alice")), alice);
    // Everything that makes another rule, and names that look like it.
    Identity other[] = {Who("alice"), Who("alice"), Who("alice"), Who("alice"), Who("alice"), Who("alice")};
    other[0].space = "fast";
    other[1].groups = {"it"};
    other[2].asked.bytes = 5;
    other[3].directory[kRead].readahead = 5;
    other[4].app = "scan";
    other[5].batch = true;
    for (const auto& who : other)
        EXPECT_NE(rule(who), alice);
    EXPECT_EQ(rule(other[0])->policy[kRead].type, IoType::direct);
    EXPECT_EQ(rule(other[1])->policy[kRead].readahead, 0u);
    EXPECT_EQ(rule(other[4])->policy[kRead].priority.io_class, IoPriority::Class::idle);
    EXPECT_NE(rule({"a", "b", "", {}, false}), rule({"a1:b", "", "", {}, false}));
    EXPECT_NE(rule({"a", "", "", {"b", "c"}, false}), rule({"a", "", "", {"b1:c"}, false}));
    EXPECT_NE(rule(Who("slow")), rule(Who("slow"))) << "the limit is each stream's own";
    // A new policy counts at once.
    shaping->Use(Config("beer.policy user:alice r iotype direct\n"));
    EXPECT_EQ(rule(Who("alice"))->policy[kRead].type, IoType::direct);
    EXPECT_EQ(rule(Who("alice"))->version, shaping->version());
    // However many there are.
    for (int i = 0; i < 3000; ++i)
        EXPECT_FALSE(rule(Who("user" + std::to_string(i)))->limited());
    EXPECT_FALSE(rule(Who(std::string(100000, 'x')))->limited());
}

TEST_F(ShapingTest, WhoIsHeldInAnyWayGetsNoReadaheadThatNobodyCounts) {
    Make("beer.policy space:* r readahead 4MiB\nbeer.policy user:slow r bandwidth 1MB/s\n"
         "beer.policy app:scan r iopriority idle\nbeer.share user:shared r iops 9/s\nbeer.share user:writer w iops "
         "9/s\n");
    const auto readahead = [&](const Identity& who) { return shaping->RuleOf(who, 0)->policy[kRead].readahead; };
    EXPECT_EQ(readahead(Who("alice")), 4u << 20);
    EXPECT_EQ(readahead(Who("writer")), 4u << 20);
    EXPECT_EQ(readahead(Who("slow")), 0u);
    EXPECT_EQ(readahead(Who("shared")), 0u);
    EXPECT_EQ(readahead(Who("alice", "scan")), 0u);
    Identity job = Who("alice");
    job.batch = true;
    EXPECT_EQ(readahead(job), 0u);
}

TEST_F(ShapingTest, WithoutRulesAStorageStreamHasNoLimitAndABatchStreamThatOfTheGuard) {
    Make("");
    const auto storage = shaping->RuleOf(Who("alice"), 0);
    EXPECT_TRUE(storage->limits[kRead].empty() && storage->limits[kWrite].empty());
    Identity job = Who("job");
    job.batch = true;
    const auto batch = shaping->RuleOf(job, 0);
    ASSERT_EQ(batch->limits[kRead].size(), 1u);
    EXPECT_EQ(batch->limits[kRead], batch->limits[kWrite]);
    EXPECT_EQ(batch->limits[kRead][0]->rule, "guard on /data/01");
    EXPECT_EQ(shaping->RuleOf(job, kNoFilesystem)->limits[kRead][0]->rule, "guard");
}

TEST_F(ShapingTest, EachStreamHasALimitOfItsOwn) {
    Make("beer.policy user:alice r bandwidth 5MB/s");
    const auto one = shaping->RuleOf(Who("alice"), 0), two = shaping->RuleOf(Who("alice"), 0);
    ASSERT_EQ(one->limits[kRead].size(), 1u);
    EXPECT_NE(one->limits[kRead][0], two->limits[kRead][0]);
    EXPECT_TRUE(one->limits[kWrite].empty());
    EXPECT_EQ(one->limits[kRead][0]->rule, "user r");
    EXPECT_EQ(shaping->pacer().Get(*one->limits[kRead][0]).bytes, 5000000u);
}

std::set<std::string> RulesOf(const Limits& limits) {
    std::set<std::string> rules;
    for (const auto& limit : limits)
        rules.insert(limit->rule);
    EXPECT_EQ(rules.size(), limits.size()) << "each of them once";
    return rules;
}

TEST_F(ShapingTest, AShareIsOneLimitForEachOfThoseItNames) {
    Make("beer.share user:* r bandwidth 5MB/s\nbeer.share group:it rw iops 9/s\nbeer.share app:scan@fast w iops 1/s");
    const auto alice = shaping->RuleOf(Who("alice"), 0), again = shaping->RuleOf(Who("alice", "scan"), 0),
               bob = shaping->RuleOf(Who("bob"), 0);
    EXPECT_EQ(RulesOf(alice->limits[kRead]), (std::set<std::string>{"user:alice r bandwidth", "group:it rw iops"}));
    EXPECT_EQ(RulesOf(alice->limits[kWrite]), (std::set<std::string>{"group:it rw iops"}));
    EXPECT_EQ(alice->limits[kRead], again->limits[kRead]);
    const auto find = [](const Limits& limits, const std::string& rule) {
        return *std::find_if(limits.begin(), limits.end(), [&](const auto& limit) { return limit->rule == rule; });
    };
    const std::string group = "group:it rw iops";
    EXPECT_EQ(find(alice->limits[kRead], group), find(bob->limits[kRead], group)) << "of one group";
    EXPECT_EQ(find(alice->limits[kRead], group), find(alice->limits[kWrite], group)) << "reads and writes together";
    EXPECT_FALSE(RulesOf(bob->limits[kRead]).count("user:alice r bandwidth"));
    Identity fast = Who("carol", "scan");
    fast.space = "fast";
    EXPECT_TRUE(RulesOf(shaping->RuleOf(fast, 0)->limits[kWrite]).count("app:scan@fast w iops"));
}

TEST_F(ShapingTest, OverlappingSharesAreOneLimitChargedOnce) {
    Make("beer.share user:* r bandwidth 50MB/s\nbeer.share user:alice r bandwidth 200MB/s\n"
         "beer.share group:it r bandwidth 1MB/s");
    Identity alice = Who("alice");
    alice.groups = {"it", "it"};
    const auto rule = shaping->RuleOf(alice, 0);
    ASSERT_EQ(RulesOf(rule->limits[kRead]), (std::set<std::string>{"user:alice r bandwidth", "group:it r bandwidth"}));
    for (const auto& limit : rule->limits[kRead])
        EXPECT_EQ(shaping->pacer().Get(*limit).bytes, limit->rule[0] == 'u' ? 200000000u : 1000000u);
}

TEST_F(ShapingTest, InventedApplicationsHaveNoShareOfTheirOwn) {
    Make("beer.share app:* r bandwidth 5MB/s\nbeer.trust daq alice");
    const auto one = shaping->RuleOf(Who("mallory", "x1"), 0), two = shaping->RuleOf(Who("mallory", "x2"), 0),
               daq = shaping->RuleOf(Who("alice", "daq"), 0);
    EXPECT_EQ(one->limits[kRead], two->limits[kRead]);
    EXPECT_NE(one->limits[kRead], daq->limits[kRead]);
}

TEST_F(ShapingTest, AClaimedApplicationFreesNobodyFromAShareAndUsesUpNoneThatIsSetAside) {
    Make("beer.share app:* r bandwidth 5MB/s\nbeer.share app:daq r bandwidth 100MB/s\n"
         "beer.share app:scan r bandwidth 1MB/s\nbeer.trust daq shift\nbeer.trust other shift");
    const auto shares = [&](const char* user, const char* app) {
        return RulesOf(shaping->RuleOf(Who(user, app), 0)->limits[kRead]);
    };
    using Rules = std::set<std::string>;
    EXPECT_EQ(shares("shift", "daq"), (Rules{"app:daq r bandwidth"}));
    EXPECT_EQ(shares("shift", "other"), (Rules{"app:other r bandwidth"}));
    for (const char* claimed : {"default", "invented", "daq", "other"})
        EXPECT_EQ(shares("mallory", claimed), (Rules{"app:default r bandwidth"})) << claimed;
    for (const char* user : {"mallory", "shift"})
        EXPECT_EQ(shares(user, "scan"), (Rules{"app:default r bandwidth", "app:scan r bandwidth"}))
            << "the latter is for whoever calls himself so";
}

TEST_F(ShapingTest, TheShareOfThoseWithoutAnApplicationIsNotEscapedByAName) {
    Make("beer.share app:default r bandwidth 5MB/s\nbeer.share app:* r bandwidth 50MB/s\nbeer.trust daq shift");
    const auto without = shaping->RuleOf(Who("mallory"), 0), invented = shaping->RuleOf(Who("mallory", "x1"), 0),
               claimed = shaping->RuleOf(Who("mallory", "daq"), 0), daq = shaping->RuleOf(Who("shift", "daq"), 0);
    ASSERT_EQ(without->limits[kRead].size(), 1u);
    EXPECT_EQ(invented->limits[kRead], without->limits[kRead]);
    EXPECT_EQ(claimed->limits[kRead], without->limits[kRead]);
    EXPECT_EQ(shaping->pacer().Get(*without->limits[kRead][0]).bytes, 5000000u);
    ASSERT_EQ(daq->limits[kRead].size(), 1u);
    EXPECT_EQ(shaping->pacer().Get(*daq->limits[kRead][0]).bytes, 50000000u);
}

TEST_F(ShapingTest, ANewConfigurationKeepsLimitsAndDebtsOfStreams) {
    Make("beer.policy user:alice r bandwidth 5MB/s\nbeer.share group:it r bandwidth 7MB/s");
    const auto before = shaping->RuleOf(Who("alice"), 0);
    shaping->Use(Config("beer.policy user:alice r bandwidth 6MB/s\nbeer.share group:it r bandwidth 8MB/s"));
    EXPECT_NE(before->version, shaping->version());
    const auto after = shaping->RuleOf(Who("alice"), 0, before.get());
    EXPECT_EQ(after->version, shaping->version());
    EXPECT_EQ(after->limits[kRead], before->limits[kRead]);
    EXPECT_EQ(shaping->pacer().Get(*after->own[kRead]).bytes, 6000000u);
    EXPECT_EQ(shaping->pacer().Get(*after->limits[kRead].back()).bytes, 8000000u);
    shaping->Use(Config(""));
    EXPECT_TRUE(shaping->RuleOf(Who("alice"), 0, after.get())->limits[kRead].empty());
}

TEST_F(ShapingTest, WhoWaitsForALimitThatIsGoneAsksAgain) {
    Make("beer.share user:alice r bandwidth 0B/s");
    const auto rule = shaping->RuleOf(Who("alice"), 0);
    const std::string link = "alice.1:5@desk";
    auto held = std::async(std::launch::async, [&] {
        LinkFence fence(shaping->storage_links(), link);
        return shaping->pacer().Pass(rule->limits[kRead], 1, 1, rule->version, fence);
    });
    while (!shaping->pacer().waiters())
        std::this_thread::yield();
    shaping->Use(Config(""));
    const auto outcome = held.get();
    EXPECT_TRUE(outcome.again);
    EXPECT_FALSE(outcome.passed);
}

} // namespace beer
