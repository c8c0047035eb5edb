// SPDX-License-Identifier: Apache-2.0
//
// With real threads and the real clock: what may never happen, not how fast it is.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "FakePlatform.hh"
#include "core/shaping/TurnQueue.hh"

namespace beer {

using Class = IoPriority::Class;

class TurnQueueTest : public testing::Test {
  protected:
    TurnQueueTest() { queue.Use(true); }
    std::future<uint64_t> Begin(Class io_class, OpenStream* stream = nullptr) {
        const uint32_t before = queue.waiting();
        auto future = std::async(std::launch::async, [this, io_class, stream] {
            const TurnSentry turn(&queue, io_class, stream);
            return turn.waited_ns();
        });
        while (queue.waiting() == before && future.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
            std::this_thread::yield();
        return future;
    }
    static bool Ready(const std::future<uint64_t>& future) {
        return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }
    OpenStream::Wait nobody{nullptr};
    WaitingPlaces places{2};
    TurnQueue queue{RealPlatform(), places};
};

TEST_F(TurnQueueTest, ALowerClassWaitsUntilTheHigherOneIsDone) {
    Turn higher(Class::real_time), allowed(Class::best_effort);
    EXPECT_EQ(queue.Enter(higher, nobody), 0u);
    EXPECT_LT(Begin(Class::best_effort).get(), 1000000000u) << "the allowance";
    queue.Leave(higher);

    Turn next(Class::real_time);
    Turn slow(Class::best_effort);
    EXPECT_EQ(queue.Enter(next, nobody), 0u);
    (void)queue.Enter(slow, nobody); // uses the allowance
    OpenStream stream({}, 1);
    auto waits = Begin(Class::best_effort, &stream);
    ASSERT_EQ(queue.waiting(), 1u);
    EXPECT_EQ(stream.Look().waiting, 1u);
    queue.Leave(next);
    EXPECT_GT(waits.get(), 0u);
    EXPECT_EQ(stream.Look().waiting, 0u);
    EXPECT_EQ(stream.Look().waits, 1u);
    EXPECT_EQ(stream.Look().by.substr(0, 5), "turn:");
    EXPECT_EQ(queue.waiting(), 0u);
    queue.Leave(slow);
}

TEST_F(TurnQueueTest, WhoFindsNoPlaceToWaitGoesOn) {
    Turn higher(Class::real_time), slow(Class::best_effort);
    EXPECT_EQ(queue.Enter(higher, nobody), 0u);
    EXPECT_LT(queue.Enter(slow, nobody), 1000000000u); // uses the allowance
    auto first = Begin(Class::best_effort), second = Begin(Class::idle);
    EXPECT_EQ(queue.waiting(), 2u);
    EXPECT_EQ(Begin(Class::best_effort).get(), 0u);
    queue.Leave(higher);
    EXPECT_GT(first.get(), 0u);
    queue.Leave(slow);
    EXPECT_GT(second.get(), 0u);
}

TEST_F(TurnQueueTest, BestEffortAloneTakesNoPart) {
    Turn one(Class::best_effort), another(Class::real_time);
    EXPECT_EQ(queue.Enter(one, nobody), 0u);
    EXPECT_FALSE(one.began);
    queue.Use(false);
    EXPECT_EQ(queue.Enter(another, nobody), 0u);
    EXPECT_FALSE(another.began) << "the scheduler does it";
    const TurnSentry none(nullptr, Class::real_time);
    EXPECT_EQ(none.waited_ns(), 0u);
}

TEST_F(TurnQueueTest, WithoutAClockItGoesOn) {
    FakePlatform platform;
    TurnQueue other(platform, places);
    other.Use(true);
    platform.broken = true;
    {
        const TurnSentry turn(&other, Class::real_time);
        EXPECT_EQ(turn.waited_ns(), 0u);
    }
    platform.broken = false;
    Turn higher(Class::real_time), slow(Class::best_effort);
    EXPECT_EQ(other.Enter(higher, nobody), 0u);
    EXPECT_EQ(other.Enter(slow, nobody), 0u);
    auto waits = std::async(std::launch::async, [&] {
        const TurnSentry turn(&other, Class::best_effort);
        return turn.waited_ns();
    });
    while (!other.waiting())
        std::this_thread::yield();
    platform.broken = true; // while it waits
    other.Leave(higher);
    EXPECT_GT(waits.get(), 0u);
    other.Leave(slow);
}

TEST_F(TurnQueueTest, ManyThreadsOfAllClassesComeToTheirEnd) {
    std::vector<std::thread> threads;
    std::atomic<int> done{0}, with_the_disk{0};
    for (const auto io_class : {Class::real_time, Class::best_effort, Class::idle})
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&, io_class] {
                for (int j = 0; j < 50; ++j) {
                    const TurnSentry turn(&queue, io_class);
                    ++with_the_disk;
                    std::this_thread::sleep_for(std::chrono::microseconds(100));
                    --with_the_disk;
                    ++done;
                }
            });
    for (auto& thread : threads)
        thread.join();
    EXPECT_EQ(done, 600);
    EXPECT_EQ(with_the_disk, 0);
    EXPECT_EQ(queue.waiting(), 0u);
}

} // namespace beer
