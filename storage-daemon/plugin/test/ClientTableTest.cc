// SPDX-License-Identifier: Apache-2.0
#include "TestSegment.hh"

#include <set>
#include <thread>

namespace beer {

Address Numbered(unsigned char n) { return {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n}; }

TEST_F(TestSegment, AClientKeepsItsRecord) {
    EXPECT_EQ(recorder->clients().Find(Numbered(1)), 1u);
    EXPECT_EQ(recorder->clients().Find(Numbered(2)), 2u);
    EXPECT_EQ(recorder->clients().Find(Numbered(1)), 1u);
    EXPECT_EQ(segment->header().clients_high, 2u);
    EXPECT_EQ(segment->client(1).used, 1u);
    EXPECT_EQ(segment->client(1).address[15], 2);
}

TEST_F(TestSegment, AFullTableCountsWhatItCannotHold) {
    for (unsigned char n = 0; n < 64; ++n)
        EXPECT_EQ(recorder->clients().Find(Numbered(n)), n + 1u);
    EXPECT_EQ(recorder->clients().Find(Numbered(64)), 0u);
    EXPECT_EQ(recorder->clients().Find(Numbered(63)), 64u);
    OperationTimer(recorder.get(), 0, Event::read, {Traffic::batch, 0}).Done(0);
    EXPECT_EQ(segment->header().clients_overflow, 1u);
    OperationTimer(recorder.get(), 0, Event::read, storage).Done(0);
    EXPECT_EQ(segment->header().clients_overflow, 1u) << "only batch clients have records";
}

TEST_F(TestSegment, ThreadsThatInsertAtOnceMakeOneRecordPerAddress) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&] {
            for (int round = 0; round < 50; ++round)
                for (unsigned char n = 0; n < 64; ++n)
                    recorder->clients().Find(Numbered(n));
        });
    for (auto& thread : threads)
        thread.join();
    EXPECT_EQ(segment->header().clients_high, 64u);
    std::set<int> seen;
    for (uint32_t i = 0; i < 64; ++i)
        seen.insert(segment->client(i).address[15]);
    EXPECT_EQ(seen.size(), 64u);
}

} // namespace beer
