// SPDX-License-Identifier: Apache-2.0
//
// Waiting is done for real here: the bounds are what must never happen, not what the machine can do.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "core/shaping/LinkBudget.hh"
#include "core/shaping/Pacer.hh"

namespace beer {

class PacerTest : public testing::Test {
  protected:
    std::shared_ptr<Limit> Make(const Rates& rates) {
        auto limit = std::make_shared<Limit>("a rule", RealPlatform().MonotonicNs());
        pacer.Set(*limit, rates);
        return limit;
    }
    Pacer::Outcome Pass(const Limits& limits, uint64_t bytes, uint64_t operations, uint64_t version = 1) {
        return pacer.Pass(limits, bytes, operations, version, fence);
    }
    std::future<Pacer::Outcome> Begin(const Limits& limits, uint64_t bytes) {
        const uint32_t before = pacer.waiters();
        auto future = std::async(std::launch::async, [this, limits, bytes] { return Pass(limits, bytes, 1); });
        while (pacer.waiters() == before)
            std::this_thread::yield();
        return future;
    }
    static bool Ready(const std::future<Pacer::Outcome>& future, int ms = 0) {
        return future.wait_for(std::chrono::milliseconds(ms)) == std::future_status::ready;
    }
    struct ThreeAtATime final : Fence {
        bool Enter() noexcept override {
            if (inside.fetch_add(1) < 3) return true;
            inside.fetch_sub(1);
            return false;
        }
        void Leave() noexcept override { inside.fetch_sub(1); }
        std::atomic<int> inside{0};
    } fence;
    Pacer pacer{RealPlatform()};
};

TEST_F(PacerTest, WithoutALimitNobodyWaits) {
    const Limits limits = {Make({}), Make({})};
    const auto outcome = Pass(limits, 1u << 30, 1000);
    EXPECT_TRUE(outcome.passed);
    EXPECT_EQ(outcome.waited_ns, 0u);
    EXPECT_EQ(outcome.by, nullptr);
    EXPECT_EQ(pacer.PieceBytes(limits), UINT64_MAX);
    EXPECT_TRUE(Pass({}, 1, 1).passed);
}

TEST_F(PacerTest, TheStrictestLimitDecides) {
    const Limits limits = {Make({1u << 30, kUnlimited}), Make({1000000, kUnlimited}), Make({kUnlimited, 1000000})};
    const auto outcome = Pass(limits, 100000, 1);
    EXPECT_GE(outcome.waited_ns, 49000000u) << "100 ms less the burst of 50 ms";
    EXPECT_EQ(outcome.by, limits[1].get());
}

TEST_F(PacerTest, OperationsAreALimitToo) {
    const Limits limits = {Make({kUnlimited, 20})};
    const uint64_t began = RealPlatform().MonotonicNs();
    for (int i = 0; i < 5; ++i)
        EXPECT_TRUE(Pass(limits, 1, 1).passed);
    EXPECT_GE(RealPlatform().MonotonicNs() - began, 195000000u) << "four or five times 50 ms";
}

TEST_F(PacerTest, ZeroHoldsUntilTheLimitIsLifted) {
    const Limits limits = {Make({0, kUnlimited})};
    auto held = Begin(limits, 1);
    EXPECT_FALSE(Ready(held, 200));
    pacer.Set(*limits[0], {});
    EXPECT_TRUE(held.get().passed);
    EXPECT_EQ(pacer.waiters(), 0u);
}

TEST_F(PacerTest, AChangeReachesThoseWhoWait) {
    const Limits limits = {Make({1, kUnlimited})};
    auto slow = Begin(limits, 1000000); // for eleven days
    pacer.Set(*limits[0], {1u << 30, kUnlimited});
    EXPECT_TRUE(slow.get().passed);
}

TEST_F(PacerTest, NoMoreThanTheFenceAdmitsWaitAndWhoIsRefusedLetsNobodyPass) {
    const Limits limits = {Make({0, kUnlimited})};
    auto one = Begin(limits, 1), two = Begin(limits, 1), three = Begin(limits, 1);
    for (int i = 0; i < 10; ++i)
        EXPECT_FALSE(Pass(limits, 1000, 1).passed) << "and it says so at once";
    EXPECT_FALSE(Ready(one, 1300) || Ready(two) || Ready(three)) << "looked at again after a second, and still held";
    EXPECT_EQ(pacer.waiters(), 3u);
    EXPECT_TRUE(Pass({Make({})}, 1, 1).passed) << "who has no limit is not concerned";
    pacer.Set(*limits[0], {});
    EXPECT_TRUE(one.get().passed && two.get().passed && three.get().passed);
}

TEST_F(PacerTest, WhoGoesOnWithoutWaitingOwes) {
    struct Closed final : Fence {
        bool Enter() noexcept override { return false; }
        void Leave() noexcept override {}
    } closed;
    const Limits limits = {Make({100000000, kUnlimited})};
    const auto first = pacer.Pass(limits, 20000000, 1, 1, closed, true);
    EXPECT_TRUE(first.passed);
    EXPECT_LT(first.waited_ns, 100000000u);
    EXPECT_GT(Pass(limits, 1, 1).waited_ns, 50000000u) << "for some of the 150 ms that are owed";
}

TEST_F(PacerTest, OldLimitsAreNotWaitedFor) {
    const Limits limits = {Make({0, kUnlimited})}, kept = {Make({0, kUnlimited})};
    auto one = Begin(limits, 10), two = Begin(limits, 1000);
    pacer.Outdate(2);
    for (auto* held : {&one, &two}) {
        const auto outcome = held->get();
        EXPECT_TRUE(outcome.again);
        EXPECT_FALSE(outcome.passed);
    }
    EXPECT_TRUE(Pass(limits, 1, 1, 1).again) << "also who comes late";
    auto new_one = std::async(std::launch::async, [&] { return Pass(kept, 1, 1, 2); });
    EXPECT_FALSE(Ready(new_one, 100));
    pacer.Set(*kept[0], {});
    EXPECT_TRUE(new_one.get().passed);
}

TEST_F(PacerTest, ThereIsNoNumberOfLimitsThatHidesOne) {
    Limits limits;
    for (int i = 0; i < 40; ++i)
        limits.push_back(Make({1u << 30, kUnlimited}));
    limits.push_back(Make({0, kUnlimited}));
    auto held = Begin(limits, 1);
    EXPECT_FALSE(Ready(held, 100));
    pacer.Set(*limits.back(), {});
    EXPECT_TRUE(held.get().passed);
}

TEST_F(PacerTest, PiecesFollowTheSmallestLimit) {
    EXPECT_EQ(pacer.PieceBytes({Make({100000000, kUnlimited}), Make({10000000, 50})}), 1000000u);
    EXPECT_EQ(pacer.PieceBytes({Make({0, 0})}), 65536u);
    EXPECT_EQ(pacer.PieceBytes({Make({kUnlimited, 50})}), UINT64_MAX);
}

TEST_F(PacerTest, WhatWasNotMovedIsGivenBack) {
    const Limits limits = {Make({100000, kUnlimited})};
    EXPECT_TRUE(Pass(limits, 5000, 1).passed); // the burst
    auto held = Begin(limits, 105000);         // for a second
    const uint64_t began = RealPlatform().MonotonicNs();
    pacer.GiveBack(limits, 5000);
    EXPECT_TRUE(held.get().passed);
    EXPECT_GE(RealPlatform().MonotonicNs() - began, 900000000u) << "not more than that";
}

TEST(LinkBudgetTest, ALinkCountsOnceHoweverManyFilesItHas) {
    LinkBudget links(2, 0);
    EXPECT_TRUE(links.Admit("a", "x") && links.Admit("a", "x") && links.Admit("b", "y"));
    EXPECT_FALSE(links.Admit("c", "z"));
    EXPECT_TRUE(links.Admit("b", "y")) << "who is in may open more";
    links.Release("a");
    EXPECT_FALSE(links.Admit("c", "z"));
    links.Release("a");
    EXPECT_TRUE(links.Admit("c", "z"));
    EXPECT_EQ(links.links(), 2u);
    links.Release("never seen");
    EXPECT_EQ(links.links(), 2u);
}

TEST(LinkBudgetTest, NoClientHasMoreThanHalf) {
    LinkBudget links(4, 0);
    EXPECT_TRUE(links.Admit("a", "x") && links.Admit("b", "x"));
    EXPECT_FALSE(links.Admit("c", "x"));
    EXPECT_TRUE(links.Admit("d", "y") && links.Admit("e", "y"));
    links.Release("a");
    EXPECT_TRUE(links.Admit("c", "x"));
}

TEST(LinkBudgetTest, ALinkMayAlwaysHaveOneRequestHeld) {
    using Place = LinkBudget::Place;
    LinkBudget links(10, 1);
    links.Admit("a", "x");
    links.Admit("b", "y");
    EXPECT_EQ(links.Enter("a"), Place::own);
    EXPECT_EQ(links.Enter("a"), Place::reserve);
    EXPECT_EQ(links.Enter("a"), Place::none);
    EXPECT_EQ(links.Enter("b"), Place::own) << "whatever others hold";
    links.Leave("a", Place::own);
    EXPECT_EQ(links.Enter("b"), Place::none) << "the reserve is still used";
    links.Leave("a", Place::reserve);
    EXPECT_EQ(links.Enter("b"), Place::reserve);
    links.Leave("b", Place::reserve);
    links.Release("a");
    links.Release("b");
    EXPECT_EQ(links.links(), 1u) << "a request is still held";
    links.Leave("b", Place::own);
    EXPECT_EQ(links.links(), 0u);
}

TEST(LinkBudgetTest, WhoWasNotAdmittedHasTheReserveAlone) {
    LinkBudget links(10, 1);
    EXPECT_EQ(links.Enter("late"), LinkBudget::Place::reserve);
    EXPECT_EQ(links.Enter("later"), LinkBudget::Place::none);
    EXPECT_EQ(links.links(), 0u);
}

} // namespace beer
