// SPDX-License-Identifier: Apache-2.0
//
// With real threads and, but for the clock that breaks, the real time: what may never happen, not how fast it is.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "FakePlatform.hh"
#include "OpenFence.hh"
#include "core/shaping/TurnQueue.hh"

namespace beer {

using Class = IoPriority::Class;

class TurnQueueTest : public testing::Test {
  protected:
    static constexpr uint64_t kLong = 60000000000; // what no test waits for

    struct Places final : Fence {
        bool Enter() noexcept override { return free-- > 0 || (++free, false); }
        void Leave() noexcept override { ++free; }
        void Waits(const std::string& rule, uint64_t since_ns) noexcept override {
            said = rule;
            since = since_ns;
        }
        std::atomic<int> free{2};
        std::string said; // under the queue's lock
        uint64_t since = 0;
    };

    TurnQueueTest() {
        queue.Use(true);
        // A clock that stands still: no time passes between two lines of a test, whatever else the machine does.
        EXPECT_EQ(queue.Enter(higher, places, kLong), 0u);
        EXPECT_EQ(queue.Enter(slow, places, kLong), 0u); // the allowance
        EXPECT_TRUE(slow.on_allowance);
    }
    ~TurnQueueTest() override {
        EndSlow();
        EXPECT_EQ(queue.waiting(), 0u);
        EXPECT_EQ(places.free, 2);
    }
    void EndSlow() {
        if (slow.began) queue.Leave(slow);
        slow.began = false;
    }
    std::future<uint64_t> Begin(Class io_class, uint64_t most_ns = kLong) {
        return std::async(std::launch::async, [this, io_class, most_ns] {
            const TurnSentry turn(queue, io_class, places, most_ns);
            return turn.waited_ns();
        });
    }
    void Await(uint32_t waiting) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (queue.waiting() != waiting) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline);
            std::this_thread::yield();
        }
    }
    FakePlatform platform;
    TurnQueue queue{platform};
    Places places;
    Turn higher{Class::real_time}, slow{Class::best_effort};
};

TEST_F(TurnQueueTest, ALowerClassWaitsUntilTheHigherOneIsDone) {
    auto waits = Begin(Class::best_effort);
    Await(1);
    platform.now_ns += 5000;
    queue.Leave(higher);
    platform.now_ns += 5000; // one at a time, as long as the higher class may come back
    EndSlow();
    EXPECT_EQ(waits.get(), 10000u);
    EXPECT_EQ(places.said, TurnQueue::kRule);
    EXPECT_EQ(places.since, platform.now_ns - 10000);
}

TEST_F(TurnQueueTest, WhoMayNotWaitGoesOn) {
    auto first = Begin(Class::best_effort), second = Begin(Class::idle);
    Await(2);
    EXPECT_EQ(Begin(Class::best_effort).get(), 0u) << "there are two places";
    ++places.free;
    EXPECT_EQ(Begin(Class::best_effort, 0).get(), 0u) << "it has waited long enough before";
    --places.free;
    platform.now_ns += 5000;
    queue.Leave(higher);
    platform.now_ns += 5000;
    EndSlow();
    EXPECT_EQ(first.get(), 10000u);
    EXPECT_EQ(second.get(), 10000u);
}

TEST_F(TurnQueueTest, NobodyWaitsLongerThanHeMay) {
    auto waits = Begin(Class::best_effort, 5000);
    Await(1);
    platform.now_ns += 5000;
    EXPECT_EQ(waits.get(), 5000u);
    queue.Leave(higher);
}

TEST_F(TurnQueueTest, WithoutAClockItGoesOn) {
    auto waits = Begin(Class::best_effort);
    Await(1);
    platform.broken = true;
    EXPECT_EQ(Begin(Class::real_time).get(), 0u);
    queue.Leave(higher);
    EXPECT_GT(waits.get(), 0u);
    platform.broken = false;
}

TEST(TurnQueue, BestEffortAloneTakesNoPart) {
    OpenFence fence;
    TurnQueue queue(RealPlatform());
    queue.Use(true);
    Turn one(Class::best_effort), another(Class::real_time);
    EXPECT_EQ(queue.Enter(one, fence, 1), 0u);
    EXPECT_FALSE(one.began);
    queue.Use(false);
    EXPECT_EQ(queue.Enter(another, fence, 1), 0u);
    EXPECT_FALSE(another.began) << "the scheduler does it";
}

TEST(TurnQueue, ManyThreadsOfAllClassesComeToTheirEnd) {
    OpenFence fence;
    TurnQueue queue(RealPlatform());
    queue.Use(true);
    std::vector<std::thread> threads;
    std::atomic<int> done{0};
    std::atomic<uint64_t> waited{0};
    for (const auto io_class : {Class::real_time, Class::best_effort, Class::idle})
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&, io_class] {
                for (int j = 0; j < 50; ++j) {
                    const TurnSentry turn(queue, io_class, fence, 1000000000);
                    EXPECT_TRUE(io_class != Class::real_time || !turn.waited_ns());
                    waited += turn.waited_ns();
                    std::this_thread::sleep_for(std::chrono::microseconds(100));
                    ++done;
                }
            });
    for (auto& thread : threads)
        thread.join();
    EXPECT_EQ(done, 600);
    EXPECT_GT(waited, 0u);
    EXPECT_EQ(queue.waiting(), 0u);
}

} // namespace beer
