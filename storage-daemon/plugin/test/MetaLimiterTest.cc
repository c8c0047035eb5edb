// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/shaping/MetaLimiter.hh"

namespace beer {
namespace {

constexpr uint64_t kSecond = 1000000000;
constexpr auto kStat = MetaOperation::stat;

Identity Who(const std::string& user, std::vector<std::string> groups = {}) {
    Identity who;
    who.user = user;
    who.groups = std::move(groups);
    return who;
}

} // namespace

class MetaLimiterTest : public testing::Test {
  protected:
    MetaLimiterTest() {
        config.meta_rates = {{Level::user, "*", kStat, 10}, {Level::group, "zh", std::nullopt, 4}};
        config.threads = {{"*", 3}};
        config.banned = {"mallory"};
    }
    // An operation that is over at once; false = it was told to come back.
    bool Does(const Identity& who, MetaOperation operation = kStat) {
        const auto verdict = limiter.Begin(config, who, operation, now);
        if (!verdict.stall_s) limiter.End(who, operation, now, now + 1000000);
        return !verdict.stall_s;
    }
    int Does(int times, const Identity& who, MetaOperation operation = kStat) {
        int done = 0;
        for (int i = 0; i < times; ++i)
            done += Does(who, operation);
        return done;
    }
    MetaLimiter::Line Line(const std::string& name) {
        for (const auto& line : limiter.Lines(now))
            if (line.name == name) return line;
        return {"none", 0, 0, 0, 0, 0, {}};
    }
    ShapingConfig config;
    MetaLimiter limiter;
    uint64_t now = 1000 * kSecond;
};

TEST_F(MetaLimiterTest, ARateIsThatOfFiveSeconds) {
    EXPECT_EQ(Does(60, Who("alice")), 50);
    EXPECT_EQ(Does(1, Who("bob")), 1) << "another user";
    EXPECT_EQ(Does(1, Who("alice"), MetaOperation::mkdir), 1) << "another operation";
    now += 4 * kSecond;
    EXPECT_FALSE(Does(Who("alice")));
    now += kSecond;
    EXPECT_EQ(Does(60, Who("alice")), 50) << "what was refused does not count";
}

TEST_F(MetaLimiterTest, OverALongTimeNobodyGetsMoreThanTheRate) {
    int done = 0;
    for (int second = 0; second < 100; ++second, now += kSecond)
        done += Does(40, Who("alice"));
    EXPECT_LE(done, 100 * 10 + 50);
    EXPECT_GE(done, 100 * 10 - 50);
}

TEST_F(MetaLimiterTest, AGroupSharesItsRate) {
    EXPECT_EQ(Does(15, Who("alice", {"it", "zh"}), MetaOperation::mkdir), 15);
    EXPECT_EQ(Does(15, Who("bob", {"zh"}), MetaOperation::mkdir), 5);
    EXPECT_EQ(Does(15, Who("carol", {"it"}), MetaOperation::mkdir), 15);
}

TEST_F(MetaLimiterTest, SoManyRequestsAtATime) {
    const auto alice = Who("alice");
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(limiter.Begin(config, alice, kStat, now).stall_s, 0u);
    const auto verdict = limiter.Begin(config, alice, kStat, now);
    EXPECT_GE(verdict.stall_s, 5u);
    EXPECT_LE(verdict.stall_s, 10u);
    EXPECT_EQ(verdict.reason, "you have 3 requests under way, 3 are allowed");
    EXPECT_TRUE(Does(Who("bob")));
    limiter.End(alice, kStat, now, now);
    EXPECT_TRUE(Does(alice));
    config.threads_of_all = 2;
    EXPECT_FALSE(Does(Who("bob")));
    EXPECT_EQ(Line("Stall::threads::alice").total, 1u);
    EXPECT_EQ(Line("Stall::threads").total, 1u);
    EXPECT_EQ(Does(3, alice, MetaOperation::checksum), 3) << "as a listing asks for while it is under way";
}

TEST_F(MetaLimiterTest, WhoHasToComeBackIsToldWhy) {
    Does(50, Who("alice"));
    EXPECT_EQ(limiter.Begin(config, Who("alice"), kStat, now).reason, "you are above 10 Stat per second");
    Does(20, Who("bob", {"it", "zh"}), MetaOperation::mkdir);
    EXPECT_EQ(limiter.Begin(config, Who("carol", {"zh"}), MetaOperation::mkdir, now).reason,
              "group zh is above 4 Mkdir per second");
    config.threads_of_all = 1;
    EXPECT_EQ(limiter.Begin(config, Who("bob"), kStat, now).reason, "");
    EXPECT_EQ(limiter.Begin(config, Who("carol"), kStat, now).reason,
              "the server has as many requests under way as are allowed");
    EXPECT_EQ(limiter.Hold(Who("bob"), now).reason, "the guard of this node holds batch at the moment");
}

TEST_F(MetaLimiterTest, WhoIsBannedIsToldSo) {
    const auto verdict = limiter.Begin(config, Who("mallory"), kStat, now);
    EXPECT_TRUE(verdict.banned);
    EXPECT_EQ(verdict.reason, "you are banned from this server");
}

TEST_F(MetaLimiterTest, StatisticsAreOfSeveralTimes) {
    config.meta_rates.clear();
    Does(7, Who("alice"));
    now += 30 * kSecond;
    Does(5, Who("alice"));
    auto line = Line("Stat");
    EXPECT_EQ(line.total, 12u);
    EXPECT_EQ(line.seconds5, 5u);
    EXPECT_EQ(line.minute, 12u);
    now += 120 * kSecond;
    line = Line("Stat");
    EXPECT_EQ(line.seconds5, 0u);
    EXPECT_EQ(line.minute, 0u);
    EXPECT_EQ(line.minutes5, 12u);
    EXPECT_EQ(line.hour, 12u);
    now += 7200 * kSecond;
    EXPECT_EQ(Line("Stat").hour, 0u);
    EXPECT_EQ(Line("Stat").total, 12u);
    EXPECT_NEAR(Line("Stat").execution.mean_ns, 1e6, 1);
    EXPECT_NEAR(Line("Stat").execution.p99_ns, 1e6, 1);
}

// 1, 2, ... 100 ms, after some that are forgotten by then.
TEST_F(MetaLimiterTest, TimesAreThoseOfTheLastHundred) {
    config.meta_rates.clear();
    const auto take = [&](uint64_t ms) {
        EXPECT_EQ(limiter.Begin(config, Who("alice"), kStat, now).stall_s, 0u);
        limiter.End(Who("alice"), kStat, now, now + ms * 1000000);
    };
    for (int i = 0; i < 50; ++i)
        take(1000);
    for (uint64_t i = 0; i < 100; ++i)
        take(i * 37 % 100 + 1); // in no order
    const Execution execution = Line("Stat").execution;
    EXPECT_NEAR(execution.mean_ns, 50.5e6, 10); // kept as float: to a few ns
    EXPECT_NEAR(execution.sigma_ns, 28866070.0, 10) << "of these hundred, not of what they are a sample of";
    EXPECT_NEAR(execution.p99_ns, 99e6, 10);
    EXPECT_NEAR(execution.max_ns, 100e6, 10);
    EXPECT_EQ(Line("Stat").total, 150u);
}

TEST_F(MetaLimiterTest, ManyUsersTakeNoEndlessMemory) {
    for (int i = 0; i < 10000; ++i, now += 1000000)
        Does(Who("user" + std::to_string(i)));
    EXPECT_LE(limiter.Users().size(), 4096u);
}

TEST_F(MetaLimiterTest, ALongNameIsShownInPart) {
    const auto who = Who(std::string(100000, 'n'));
    EXPECT_EQ(Does(51, who), 50);
    config.banned = {who.user};
    EXPECT_TRUE(limiter.Begin(config, who, kStat, now).banned);
    const auto users = limiter.Users();
    ASSERT_EQ(users.size(), 1u);
    EXPECT_EQ(users[0].name.size(), MetaLimiter::kMostName);
    EXPECT_GE(users.capacity(), 4096u);
    const auto lines = limiter.Lines(now);
    EXPECT_GE(lines.capacity(), 1024u);
    for (const auto& line : lines)
        EXPECT_LE(line.name.size(), MetaLimiter::kMostName);
}

TEST_F(MetaLimiterTest, WhoIsStalledIsShown) {
    Does(51, Who("alice"));
    for (const auto& user : limiter.Users())
        if (user.name == "alice") {
            EXPECT_EQ(user.stalls, 1u);
            EXPECT_EQ(user.stalled_ns, now);
            EXPECT_EQ(user.in_flight, 0u);
        }
    EXPECT_EQ(Line("Stall::Stat").total, 1u);
}

} // namespace beer
