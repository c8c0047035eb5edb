// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <sstream>

#include "core/shaping/ShapingConfig.hh"

namespace beer {

class ShapingConfigTest : public testing::Test {
  protected:
    std::string Add(const std::string& line) {
        std::istringstream stream(line);
        std::vector<std::string> words;
        for (std::string word; stream >> word;)
            words.push_back(word);
        return config.Add(words);
    }
    Policy Of(const Identity& who, Direction direction) { return config.policies.Resolve(who, direction); }
    ShapingConfig config;
};

TEST_F(ShapingConfigTest, RatesHaveUnits) {
    const std::pair<const char*, uint64_t> good[] = {
        {"0B/s", 0}, {"50MB/s", 50000000}, {"2GiB/s", uint64_t{2} << 30}, {"7kB/s", 7000}, {"unlimited", kUnlimited}};
    uint64_t rate = 1;
    for (const auto& [text, value] : good) {
        EXPECT_EQ(ParseRate(text, true, rate), "") << text;
        EXPECT_EQ(rate, value) << text;
    }
    EXPECT_EQ(ParseRate("100/s", false, rate), "");
    EXPECT_EQ(rate, 100u);
    for (const char* text : {"", "50", "50MB", "-1MB/s", "1.5MB/s", "MB/s", "50mb/s", "999999999999GiB/s", "100/s"})
        EXPECT_NE(ParseRate(text, true, rate), "") << text;
    for (const char* text : {"", "50", "50B/s", "/s"})
        EXPECT_NE(ParseRate(text, false, rate), "") << text;
}

TEST_F(ShapingConfigTest, TheLongestPathDecidesTheSpace) {
    EXPECT_EQ(Add("beer.space data /data /data/02/fast"), "");
    EXPECT_EQ(Add("beer.space slow /data/01"), "");
    EXPECT_EQ(config.SpaceOf("/data/01/a"), "slow");
    EXPECT_EQ(config.SpaceOf("/data/01"), "slow");
    EXPECT_EQ(config.SpaceOf("/data/011"), "data");
    EXPECT_EQ(config.SpaceOf("/elsewhere"), "default");
}

TEST_F(ShapingConfigTest, PoliciesAreForTheirDirection) {
    EXPECT_EQ(Add("beer.policy user:alice w bandwidth 10MB/s iotype csync"), "");
    EXPECT_EQ(Add("beer.policy app:scan@data rw iopriority be:7 iops 50/s"), "");
    const Identity who{"alice", "scan", "data", {}, false};
    EXPECT_EQ(Of(who, Direction::write).rates, (Rates{10000000, 50}));
    EXPECT_EQ(Of(who, Direction::write).type, IoType::csync);
    EXPECT_EQ(Of(who, Direction::read).rates, (Rates{kUnlimited, 50}));
    EXPECT_EQ(Text(Of(who, Direction::read).priority), "be:7");
    EXPECT_EQ(Of({"alice", "scan", "other", {}, false}, Direction::read).rates, Rates{});
}

TEST_F(ShapingConfigTest, ReadaheadIsRaisedByThoseWhoMay) {
    EXPECT_EQ(Add("beer.policy space:data r readahead 4MiB"), "");
    EXPECT_EQ(Add("beer.policy app:copy r readahead 16MiB"), "");
    EXPECT_EQ(Add("beer.policy app:analysis r readahead 0B"), "");
    EXPECT_EQ(Of({"alice", "", "data", {}, false}, Direction::read).readahead, 4u << 20);
    EXPECT_EQ(Of({"alice", "", "data", {}, false}, Direction::write).readahead, 0u);
    EXPECT_EQ(Of({"alice", "", "other", {}, false}, Direction::read).readahead, 0u);
    EXPECT_EQ(Of({"alice", "analysis", "data", {}, false}, Direction::read).readahead, 0u);
    EXPECT_EQ(Of({"alice", "copy", "data", {}, false}, Direction::read).readahead, 4u << 20) << "anybody's claim";
    EXPECT_EQ(Add("beer.trust copy alice"), "");
    EXPECT_EQ(Of({"alice", "copy", "data", {}, false}, Direction::read).readahead, 16u << 20);
}

TEST_F(ShapingConfigTest, SharesTrustAndOperators) {
    EXPECT_EQ(Add("beer.share user:* r bandwidth 100MB/s"), "");
    EXPECT_EQ(Add("beer.share class:batch rw iops 500/s"), "");
    const auto* share = config.ShareOf(Level::user, "alice", "data", Direction::read, true);
    ASSERT_TRUE(share);
    EXPECT_EQ(share->rate, 100000000u);
    EXPECT_FALSE(config.ShareOf(Level::user, "alice", "data", Direction::write, true));
    EXPECT_FALSE(config.ShareOf(Level::user, "alice", "data", Direction::read, false));
    EXPECT_TRUE(config.ShareOf(Level::traffic, "batch", "data", Direction::write, false));
    EXPECT_EQ(Add("beer.trust daq shift dataquality"), "");
    EXPECT_EQ(Add("beer.operator root admin"), "");
    EXPECT_TRUE(config.IsOperator("admin"));
    EXPECT_TRUE(config.turns);
    EXPECT_EQ(Add("beer.turns off"), "");
    EXPECT_FALSE(config.turns);
    EXPECT_FALSE(config.IsOperator("alice"));
}

TEST_F(ShapingConfigTest, OfSharesTheMostExactOneCounts) {
    for (const char* line : {"beer.share user:* r bandwidth 1B/s", "beer.share user:*@fast r bandwidth 2B/s",
                             "beer.share user:alice r bandwidth 3B/s", "beer.share user:alice@fast r bandwidth 4B/s",
                             "beer.share user:bob r bandwidth 8B/s", "beer.share user:bob r bandwidth 5B/s iops 9/s"})
        EXPECT_EQ(Add(line), "");
    const auto rate = [&](const char* user, const char* space) {
        return config.ShareOf(Level::user, user, space, Direction::read, true)->rate;
    };
    EXPECT_EQ(rate("carol", "slow"), 1u);
    EXPECT_EQ(rate("carol", "fast"), 2u);
    EXPECT_EQ(rate("alice", "slow"), 3u);
    EXPECT_EQ(rate("alice", "fast"), 4u);
    EXPECT_EQ(rate("bob", "slow"), 5u) << "the last line";
    EXPECT_EQ(config.ShareOf(Level::user, "bob", "slow", Direction::read, false)->rate, 9u);
}

TEST_F(ShapingConfigTest, OpenFilesAreLimitedByFilesystem) {
    EXPECT_EQ(Add("beer.overload /data/01 readers 5"), "");
    EXPECT_EQ(Add("beer.overload * readers 10 writers 3"), "");
    EXPECT_EQ(config.OpenLimitsOf("/data/01").readers, 5u);
    EXPECT_EQ(config.OpenLimitsOf("/data/01").writers, 0u) << "a line of its own says all of it";
    EXPECT_EQ(config.OpenLimitsOf("/data/02").readers, 10u);
    EXPECT_EQ(config.OpenLimitsOf("/data/02").writers, 3u);
}

TEST_F(ShapingConfigTest, TheMostExactMetadataRateCounts) {
    EXPECT_EQ(Add("beer.metarate user:* * 100/s"), "");
    EXPECT_EQ(Add("beer.metarate user:* Stat 50/s"), "");
    EXPECT_EQ(Add("beer.metarate user:alice * 20/s"), "");
    EXPECT_EQ(Add("beer.metarate user:alice Stat 10/s"), "");
    EXPECT_EQ(Add("beer.metarate group:zh Rm 5/s"), "");
    const auto rate = [&](const char* user, MetaOperation operation) {
        return config.MetaRateOf(Level::user, user, operation);
    };
    EXPECT_EQ(rate("alice", MetaOperation::stat), 10u);
    EXPECT_EQ(rate("alice", MetaOperation::mkdir), 20u);
    EXPECT_EQ(rate("bob", MetaOperation::stat), 50u);
    EXPECT_EQ(rate("bob", MetaOperation::mkdir), 100u);
    EXPECT_EQ(config.MetaRateOf(Level::group, "zh", MetaOperation::remove), 5u);
    EXPECT_EQ(config.MetaRateOf(Level::group, "zh", MetaOperation::stat), 0u);
}

TEST_F(ShapingConfigTest, ThreadsAndBans) {
    EXPECT_EQ(config.ThreadsOf("alice"), 0u);
    EXPECT_EQ(Add("beer.threads user:* 50"), "");
    EXPECT_EQ(Add("beer.threads user:alice 10"), "");
    EXPECT_EQ(Add("beer.threads all 500"), "");
    EXPECT_EQ(Add("beer.ban mallory"), "");
    EXPECT_EQ(config.ThreadsOf("alice"), 10u);
    EXPECT_EQ(config.ThreadsOf("bob"), 50u);
    EXPECT_EQ(config.threads_of_all, 500u);
    EXPECT_TRUE(config.IsBanned("mallory"));
    EXPECT_FALSE(config.IsBanned("alice"));
}

TEST_F(ShapingConfigTest, WhatIsWrongIsSaid) {
    const std::pair<const char*, const char*> lines[] = {
        {"beer.policy user:alice r", "wants LEVEL:NAME"},
        {"beer.policy user:alice r bandwidth", "wants LEVEL:NAME"},
        {"beer.policy alice r bandwidth 1MB/s", "'alice' is not space:NAME"},
        {"beer.policy role:alice r bandwidth 1MB/s", "is not space:NAME"},
        {"beer.policy user: r bandwidth 1MB/s", "names nobody"},
        {"beer.policy user:a@ r bandwidth 1MB/s", "names nobody"},
        {"beer.policy space:a@b r bandwidth 1MB/s", "two spaces"},
        {"beer.policy class:users r bandwidth 1MB/s", "batch and storage"},
        {"beer.policy user:alice x bandwidth 1MB/s", "'x' is not r, w or rw"},
        {"beer.policy user:alice r speed 1MB/s", "'speed' is not iotype"},
        {"beer.policy user:alice r bandwidth 1", "'1' is not a rate"},
        {"beer.policy user:alice r iotype odirect", "'odirect' is not buffered"},
        {"beer.policy user:alice r iopriority be:9", "'be:9' is not rt:0-7"},
        {"beer.policy user:alice r readahead 4", "'4' is not a size"},
        {"beer.policy user:alice r readahead 65MiB", "'65MiB' is not 0B, or 128KiB to 64MiB"},
        {"beer.policy user:alice r readahead 1B", "'1B' is not 0B, or 128KiB"},
        {"beer.policy user:alice rw readahead 4MiB", "'readahead' is for r alone"},
        {"beer.share user:alice r iotype direct", "'iotype' is not bandwidth or iops"},
        {"beer.space data", "wants a name"},
        {"beer.space data data", "not an absolute path"},
        {"beer.trust daq", "wants an application"},
        {"beer.operator", "wants at least one user"},
        {"beer.turns", "wants on or off"},
        {"beer.turns never", "wants on or off"},
        {"beer.overload /data/01 readers", "wants PATH"},
        {"beer.overload data readers 5", "not an absolute path"},
        {"beer.overload * files 5", "'files' is not readers"},
        {"beer.overload * readers 0", "'0' is not a number from 1"},
        {"beer.overload * readers 1e3", "'1e3' is not a number from 1"},
        {"beer.metarate user:alice Stat", "wants user:NAME"},
        {"beer.metarate app:daq Stat 5/s", "'app:daq' is not user:NAME or group:NAME"},
        {"beer.metarate user:a@b Stat 5/s", "is not user:NAME or group:NAME"},
        {"beer.metarate user:alice stat 5/s", "'stat' is not *, OpenRead, OpenWrite, Stat"},
        {"beer.metarate user:alice Stat 0/s", "'0/s' is not from 1/s"},
        {"beer.metarate user:alice Stat 5", "'5' is not a rate"},
        {"beer.threads user: 5", "'user:' is not user:NAME"},
        {"beer.threads alice 5", "'alice' is not user:NAME"},
        {"beer.threads all many", "'many' is not a number"},
        {"beer.ban", "wants at least one user"},
        {"beer.policies", "is unknown"},
    };
    for (const auto& [line, wrong] : lines)
        EXPECT_NE(Add(line).find(wrong), std::string::npos) << line << ": " << Add(line);
    EXPECT_EQ(ShapingConfig::Directives().size(), 10u);
}

} // namespace beer
