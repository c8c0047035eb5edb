// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "core/shaping/TokenBucket.hh"

namespace beer {
namespace {

constexpr uint64_t kMs = 1000000, kSecond = 1000 * kMs;

} // namespace

TEST(TokenBucketTest, WithoutALimitNothingWaits) {
    TokenBucket bucket(0);
    EXPECT_EQ(bucket.WaitNs(bucket.Take(UINT64_MAX / 4, 0), 0), 0u);
    EXPECT_EQ(bucket.WaitNs(bucket.Take(1, 0), 0), 0u);
}

TEST(TokenBucketTest, WhatIsTakenIsWaitedFor) {
    TokenBucket bucket(0, 1000);
    const auto ticket = bucket.Take(100, 0);
    EXPECT_EQ(bucket.WaitNs(ticket, 0), 100 * kMs);
    EXPECT_EQ(bucket.WaitNs(ticket, 40 * kMs), 60 * kMs);
    EXPECT_EQ(bucket.WaitNs(ticket, 100 * kMs - 1), 1u);
    EXPECT_EQ(bucket.WaitNs(ticket, 100 * kMs), 0u);
}

TEST(TokenBucketTest, LaterTicketsWaitForEarlierOnes) {
    TokenBucket bucket(0, 1000);
    const auto first = bucket.Take(100, 0), second = bucket.Take(1, 0);
    EXPECT_EQ(bucket.WaitNs(first, 0), 100 * kMs);
    EXPECT_EQ(bucket.WaitNs(second, 0), 101 * kMs);
}

TEST(TokenBucketTest, APauseSavesABurstAndNoMore) {
    TokenBucket bucket(0, 1000);
    EXPECT_EQ(bucket.burst(), 50u);
    EXPECT_EQ(bucket.WaitNs(bucket.Take(50, 3600 * kSecond), 3600 * kSecond), 0u);
    EXPECT_EQ(bucket.WaitNs(bucket.Take(1, 3600 * kSecond), 3600 * kSecond), kMs);
}

TEST(TokenBucketTest, ALimitOfZeroHolds) {
    TokenBucket bucket(0, 1000);
    bucket.SetRate(0, 10 * kSecond);
    const auto ticket = bucket.Take(1, 10 * kSecond);
    EXPECT_EQ(bucket.WaitNs(ticket, 10 * kSecond), kNever) << "what was saved before is gone";
    EXPECT_EQ(bucket.WaitNs(ticket, 1000000 * kSecond), kNever);
    bucket.SetRate(1, 1000000 * kSecond);
    EXPECT_EQ(bucket.WaitNs(ticket, 1000000 * kSecond), kSecond);
    EXPECT_EQ(bucket.WaitNs(ticket, 1000001 * kSecond), 0u);
}

TEST(TokenBucketTest, AChangeKeepsTheDebt) {
    TokenBucket bucket(0, 1000);
    const auto ticket = bucket.Take(1000, 0);
    bucket.SetRate(100, 500 * kMs);
    EXPECT_EQ(bucket.WaitNs(ticket, 500 * kMs), 5 * kSecond);
    bucket.SetRate(5000, 500 * kMs);
    EXPECT_EQ(bucket.WaitNs(ticket, 500 * kMs), 100 * kMs);
    bucket.SetRate(kUnlimited, 500 * kMs);
    EXPECT_EQ(bucket.WaitNs(ticket, 500 * kMs), 0u);
}

TEST(TokenBucketTest, WhatIsGivenBackIsThereForTheNext) {
    TokenBucket bucket(0, 1000);
    const auto first = bucket.Take(100, 0);
    EXPECT_EQ(bucket.WaitNs(first, 100 * kMs), 0u);
    bucket.GiveBack(60);
    EXPECT_EQ(bucket.WaitNs(bucket.Take(50, 100 * kMs), 100 * kMs), 0u);
    EXPECT_EQ(bucket.WaitNs(bucket.Take(10, 100 * kMs), 100 * kMs), 10 * kMs) << "not more than a burst";
}

TEST(TokenBucketTest, NothingIsGivenBackToAnybodyAtZero) {
    TokenBucket bucket(0, 1000);
    EXPECT_EQ(bucket.WaitNs(bucket.Take(50, kSecond), kSecond), 0u);
    bucket.SetRate(0, kSecond);
    const auto held = bucket.Take(10, kSecond);
    bucket.GiveBack(50);
    EXPECT_EQ(bucket.WaitNs(held, kSecond), kNever);
}

TEST(TokenBucketTest, WhoLeavesLetsNobodyPassWhoWouldNotHave) {
    TokenBucket bucket(0, 1000);
    bucket.SetRate(0, 0);
    const auto first = bucket.Take(100, 0), second = bucket.Take(200, 0), third = bucket.Take(50, 0);
    bucket.Leave(third, 50);
    bucket.Leave(second, 200);
    EXPECT_EQ(bucket.WaitNs(first, kSecond), kNever);
    const auto fourth = bucket.Take(10, kSecond);
    bucket.SetRate(1000, kSecond);
    EXPECT_EQ(bucket.WaitNs(first, kSecond), 100 * kMs);
    EXPECT_EQ(bucket.WaitNs(fourth, kSecond), 110 * kMs) << "it moved up";
}

TEST(TokenBucketTest, WhoLeavesFromTheMiddleIsSkipped) {
    TokenBucket bucket(0, 1000);
    const auto first = bucket.Take(100, 0), second = bucket.Take(200, 0), third = bucket.Take(50, 0);
    bucket.Leave(second, 200);
    EXPECT_EQ(bucket.WaitNs(first, 0), 100 * kMs);
    EXPECT_EQ(bucket.WaitNs(third, 99 * kMs), 51 * kMs);
    EXPECT_EQ(bucket.WaitNs(third, 100 * kMs), 50 * kMs);
    EXPECT_EQ(bucket.WaitNs(third, 150 * kMs), 0u);
    EXPECT_EQ(bucket.WaitNs(bucket.Take(10, 150 * kMs), 150 * kMs), 10 * kMs);
}

TEST(TokenBucketTest, ARateOfOneIsNotRoundedAway) {
    TokenBucket bucket(0, 1);
    uint64_t now = 0;
    const auto ticket = bucket.Take(5, now);
    for (; bucket.WaitNs(ticket, now); now += 3 * kMs)
        ASSERT_LT(now, 6 * kSecond);
    EXPECT_GE(now, 4 * kSecond) << "one is saved from the beginning at most";
}

TEST(TokenBucketTest, LargeNumbersDoNotOverflow) {
    TokenBucket bucket(0, kUnlimited - 1);
    EXPECT_EQ(bucket.WaitNs(bucket.Take(1 << 20, 1u << 30), 1u << 30), 0u);
    TokenBucket slow(0, 1);
    EXPECT_LT(slow.WaitNs(slow.Take(UINT64_MAX / 2, 0), 0), kNever);
}

// Whatever is asked, whenever, at whatever rates: what was served never exceeds what came in plus one burst, tickets
// are served in order, and everybody is served in the end.
TEST(TokenBucketTest, ConservesTokensInEverySchedule) {
    for (unsigned seed = 0; seed < 200; ++seed) {
        std::mt19937_64 chance(seed);
        const auto upto = [&](uint64_t most) { return chance() % (most + 1); };
        uint64_t now = upto(kSecond), rate = upto(100000);
        TokenBucket bucket(now, rate);
        struct Waiting {
            TokenBucket::Ticket ticket;
            uint64_t tokens;
        };
        std::deque<Waiting> queue;
        long double allowed = 0; // came in since the start, and the largest burst
        uint64_t served = 0, largest_burst = bucket.burst();
        const auto serve = [&] {
            while (!queue.empty() && bucket.WaitNs(queue.front().ticket, now) == 0) {
                served += queue.front().tokens;
                queue.pop_front();
            }
            for (const auto& waiting : queue)
                ASSERT_GT(bucket.WaitNs(waiting.ticket, now), 0u) << "served before its turn, seed " << seed;
            ASSERT_LE(served, allowed + largest_burst + 1) << "seed " << seed;
        };
        for (int step = 0; step < 300; ++step) {
            if (!queue.empty() && upto(9) == 0) { // one of them, wherever he stands, gives up
                const auto who = queue.begin() + static_cast<long>(upto(queue.size() - 1));
                bucket.Leave(who->ticket, who->tokens);
                queue.erase(who);
                serve();
            }
            const uint64_t pause = upto(20 * kMs);
            now += pause;
            allowed += static_cast<long double>(rate) * pause / kSecond;
            switch (upto(3)) {
            case 0:
                rate = upto(5) ? upto(100000) : 0;
                bucket.SetRate(rate, now);
                largest_burst = std::max(largest_burst, bucket.burst());
                break;
            default: {
                const uint64_t tokens = 1 + upto(3000);
                queue.push_back({bucket.Take(tokens, now), tokens});
            }
            }
            serve();
        }
        bucket.SetRate(1000000, now);
        if (!queue.empty()) now += bucket.WaitNs(queue.back().ticket, now);
        for (const auto& waiting : queue)
            ASSERT_EQ(bucket.WaitNs(waiting.ticket, now), 0u) << "seed " << seed;
    }
}

// Streams that ask again as soon as they are served get the same share, whatever their number, to within one request.
TEST(TokenBucketTest, StreamsOfEqualRequestsGetEqualShares) {
    for (size_t streams : {2, 7, 50}) {
        constexpr uint64_t kRequest = 4096;
        TokenBucket bucket(0, 1000000);
        std::vector<uint64_t> got(streams);
        std::vector<TokenBucket::Ticket> ticket(streams);
        for (auto& one : ticket)
            one = bucket.Take(kRequest, 0);
        for (uint64_t now = 0; now < 10 * kSecond; now += kMs)
            for (size_t i = 0; i < streams; ++i)
                if (bucket.WaitNs(ticket[i], now) == 0) {
                    got[i] += kRequest;
                    ticket[i] = bucket.Take(kRequest, now);
                }
        const auto [least, most] = std::minmax_element(got.begin(), got.end());
        EXPECT_LE(*most - *least, kRequest) << streams;
        uint64_t all = 0;
        for (uint64_t one : got)
            all += one;
        EXPECT_NEAR(static_cast<double>(all), 10e6, 0.01 * 10e6);
    }
}

} // namespace beer
