// SPDX-License-Identifier: Apache-2.0
#include "OtherThread.hh"
#include "TestSegment.hh"

#include <thread>

#include "core/Context.hh"

namespace beer {

TEST_F(TestSegment, ARequestInFlightShowsInItsSlotUntilItEnds) {
    const uint64_t start = platform.now_ns;
    {
        OperationTimer timer(recorder.get(), 1, Event::write, storage, 4096);
        const SlotRecord& slot = segment->slot(0);
        EXPECT_EQ(slot.start_ns, start);
        EXPECT_EQ(slot.series, SeriesIndex(1, KindOf(Event::write, Traffic::storage)));
        EXPECT_EQ(slot.bytes, 4096u);
        EXPECT_EQ(slot.tid, 1001u);
        EXPECT_EQ(Series(1, Event::write, Traffic::storage).operations, 0u);
        platform.now_ns += 1000;
        EXPECT_EQ(timer.Done(ssize_t{4000}, true), 4000);
        EXPECT_EQ(slot.start_ns, 0u);
    }
    const SeriesRecord& series = Series(1, Event::write, Traffic::storage);
    EXPECT_EQ(series.operations, 1u);
    EXPECT_EQ(series.bytes, 4000u);
    EXPECT_EQ(series.sum_ns, 1000u);
    EXPECT_EQ(series.errors, 0u);
    EXPECT_EQ(segment->change(SeriesIndex(1, KindOf(Event::write, Traffic::storage))), 1u);
}

TEST_F(TestSegment, ACallThatThrowsCountsAsAnErrorAndFreesItsSlot) {
    try {
        OperationTimer timer(recorder.get(), 0, Event::read, storage);
        throw std::runtime_error("lower layer");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(Series(0, Event::read, Traffic::storage).errors, 1u);
    EXPECT_EQ(segment->slot(0).start_ns, 0u);
    OperationTimer(recorder.get(), 0, Event::read, storage).Done(0);
    EXPECT_EQ(Series(0, Event::read, Traffic::storage).operations, 2u) << "the thread is stuck in the nested state";
}

TEST_F(TestSegment, NestedCallsCountOnce) {
    OperationTimer outer(recorder.get(), 0, Event::open, storage);
    platform.now_ns += 10;
    OperationTimer(recorder.get(), 0, Event::meta, storage).Done(0);
    EXPECT_NE(segment->slot(0).start_ns, 0u) << "the inner call ended the outer one";
    outer.Done(0);
    EXPECT_EQ(Series(0, Event::open, Traffic::storage).operations, 1u);
    EXPECT_EQ(Series(0, Event::meta, Traffic::storage).operations, 0u);
}

TEST_F(TestSegment, ABrokenClockIsCountedAndDisturbsNothing) {
    platform.broken = true;
    EXPECT_EQ(OperationTimer(recorder.get(), 0, Event::read, storage).Done(7), 7);
    EXPECT_EQ(segment->header().internal_errors, 1u);
    platform.broken = false;
    {
        OperationTimer timer(recorder.get(), 0, Event::read, storage);
        platform.broken = true;
        EXPECT_EQ(timer.Done(8), 8);
        platform.broken = false;
    }
    EXPECT_EQ(segment->header().internal_errors, 2u);
    EXPECT_EQ(segment->slot(0).start_ns, 0u) << "the slot would show a request that hangs for ever";
    EXPECT_EQ(Series(0, Event::read, Traffic::storage).operations, 0u);
    OperationTimer(recorder.get(), 0, Event::read, storage).Done(0);
    EXPECT_EQ(Series(0, Event::read, Traffic::storage).operations, 1u);
}

TEST_F(TestSegment, NothingHappensWithoutRecorderOrFilesystem) {
    EXPECT_EQ(OperationTimer(nullptr, 0, Event::read, storage).Done(1), 1);
    EXPECT_EQ(OperationTimer(recorder.get(), kNoFilesystem, Event::read, storage).Done(1), 1);
    EXPECT_EQ(segment->header().slots_high, 0u);
}

TEST_F(TestSegment, NoCountIsLostWhenManyThreadsCountInOneSeries) {
    constexpr int kThreads = 8, kEach = 20000;
    const Origin batch{Traffic::batch, recorder->clients().Find({1})};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < kEach; ++i)
                OperationTimer(recorder.get(), 0, Event::read, batch, 10).Done(ssize_t{10}, true);
        });
    for (auto& thread : threads)
        thread.join();
    const SeriesRecord& series = Series(0, Event::read, Traffic::batch);
    EXPECT_EQ(series.operations, uint64_t{kThreads} * kEach);
    EXPECT_EQ(series.bytes, uint64_t{kThreads} * kEach * 10);
    EXPECT_EQ(series.under, uint32_t{kThreads} * kEach);
    EXPECT_EQ(segment->change(1), uint32_t{kThreads} * kEach);
    EXPECT_EQ(segment->client(0).operations, uint64_t{kThreads} * kEach);
    EXPECT_EQ(segment->client(0).bytes_read, uint64_t{kThreads} * kEach * 10);
    for (uint32_t i = 0; i < 64; ++i)
        EXPECT_EQ(segment->slot(i).start_ns, 0u);
}

TEST_F(TestSegment, AThreadGivesItsSlotBackWhenItEnds) {
    for (int i = 0; i < 200; ++i)
        std::thread([&] { OperationTimer(recorder.get(), 0, Event::read, storage).Done(0); }).join();
    EXPECT_EQ(segment->header().slots_high, 1u);
    EXPECT_EQ(segment->header().slots_overflow, 0u);
}

TEST_F(TestSegment, RequestsBeyondTheSlotsAreCountedAndMeasured) {
    std::vector<std::unique_ptr<OtherThread>> threads;
    for (int i = 0; i < 65; ++i) {
        threads.push_back(std::make_unique<OtherThread>());
        threads.back()->Run([&] { OperationTimer(recorder.get(), 0, Event::read, storage).Done(0); });
    }
    EXPECT_EQ(segment->header().slots_high, 64u);
    EXPECT_EQ(segment->header().slots_overflow, 1u);
    EXPECT_EQ(Series(0, Event::read, Traffic::storage).operations, 65u);
}

TEST_F(TestSegment, StreamsAndDelaysAreCountedPerFilesystem) {
    recorder->Streams(1, true, +1);
    recorder->Streams(1, false, +1);
    recorder->Streams(1, false, -1);
    recorder->Streams(kNoFilesystem, true, +1);
    EXPECT_EQ(segment->filesystem(1).open_writers, 1u);
    EXPECT_EQ(segment->filesystem(1).open_readers, 0u);
    recorder->Pacing(1, Traffic::batch, 2000);
    recorder->Stall(1, Traffic::storage, 3000);
    recorder->Stall(1, Traffic::internal, 3000);
    recorder->Stall(kNoFilesystem, Traffic::storage, 3000);
    EXPECT_EQ(segment->series(19 + 16).sum_ns, 2000u);
    EXPECT_EQ(segment->series(19 + 17).sum_ns, 3000u);
    EXPECT_EQ(segment->series(19 + 18).operations, 0u);
}

TEST_F(TestSegment, ContextsNest) {
    EXPECT_EQ(Context::Current(), nullptr);
    const Context outer({Traffic::batch, 3});
    {
        const Context inner({Traffic::internal, 0}, true);
        EXPECT_EQ(Context::Current(), &inner);
    }
    EXPECT_EQ(Context::Current(), &outer);
    std::thread([] { EXPECT_EQ(Context::Current(), nullptr); }).join();
}

} // namespace beer
