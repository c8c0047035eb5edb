// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "core/shaping/Stretch.hh"
#include "core/shaping/StretchGate.hh"

namespace beer {

constexpr uint64_t kMiB = 1 << 20;

TEST(StretchTest, IsWhatBeginsInsideARequest) {
    const struct {
        uint64_t offset, size, length, begin, end;
    } cases[] = {
        {0, 1, 4 * kMiB, 0, 4 * kMiB},
        {1, 100, 4 * kMiB, 0, 0}, // begun by another
        {4 * kMiB - 1, 1, 4 * kMiB, 0, 0},
        {4 * kMiB - 1, 2, 4 * kMiB, 4 * kMiB, 8 * kMiB},
        {kMiB, 8 * kMiB, 4 * kMiB, 4 * kMiB, 12 * kMiB},
        {4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB, 8 * kMiB},
        {0, 0, 4 * kMiB, 0, 0},
        {0, 100, 0, 0, 0}, // none is wanted
        {INT64_MAX - 10, 20, 4 * kMiB, 0, 0},
        {UINT64_MAX, 20, 4 * kMiB, 0, 0}, // an offset below zero
        {0, UINT64_MAX, 4 * kMiB, 0, 0},
    };
    for (const auto& one : cases) {
        const Stretch found = StretchesOf(one.offset, one.size, one.length);
        EXPECT_EQ(found.empty(), one.begin == one.end) << one.offset << " " << one.size;
        if (found.empty()) continue;
        EXPECT_EQ(found.begin, one.begin) << one.offset << " " << one.size;
        EXPECT_EQ(found.end, one.end) << one.offset << " " << one.size;
    }
}

TEST(StretchTest, WhoReadsAllInAnyPiecesFetchesEachOnce) {
    std::mt19937_64 random(7);
    for (int round = 0; round < 100; ++round) {
        const uint64_t length = 1 + random() % 100, whole = 1000;
        uint64_t fetched = 0;
        for (uint64_t at = 0; at < whole;) {
            const uint64_t size = 1 + random() % 150;
            const Stretch found = StretchesOf(at, size, length);
            if (!found.empty()) {
                ASSERT_EQ(found.begin, fetched);
                fetched = found.end;
            }
            at += size;
            ASSERT_GE(fetched, at) << "before it is read";
        }
    }
}

TEST(StretchTest, PiecesCoverItAndNoMore) {
    for (const Stretch& stretch :
         {Stretch{0, 4 * kMiB}, Stretch{3, 3}, Stretch{kMiB, kMiB + 5}, Stretch{INT64_MAX - 300000, INT64_MAX}}) {
        uint64_t at = stretch.begin;
        InPieces(stretch, 128 << 10, [&](uint64_t from, uint64_t size) {
            EXPECT_EQ(from, at);
            EXPECT_LE(size, 128u << 10);
            at += size;
        });
        EXPECT_EQ(at, stretch.end);
    }
}

TEST(StretchTest, OfOneFilesystemAreAskedForOneAfterTheOther) {
    StretchGate gate(2);
    std::atomic<int> inside{0}, most{0}, asked{0};
    std::vector<std::thread> threads;
    for (int number = 0; number < 8; ++number)
        threads.emplace_back([&] {
            for (int round = 0; round < 200; ++round) {
                const auto turn = gate.Pass(0);
                most = std::max(most.load(), ++inside);
                std::this_thread::yield();
                --inside;
                ++asked;
            }
        });
    for (auto& thread : threads)
        thread.join();
    EXPECT_EQ(asked, 1600);
    EXPECT_EQ(most, 1);
    // Who is at work on one filesystem keeps nobody from another, or from one that is not known.
    bool other = false, unknown = false;
    const auto turn = gate.Pass(0);
    std::thread([&] { other = gate.Pass(1).owns_lock(); }).join();
    unknown = !gate.Pass(UINT32_MAX).owns_lock();
    EXPECT_TRUE(other && unknown);
}

} // namespace beer
