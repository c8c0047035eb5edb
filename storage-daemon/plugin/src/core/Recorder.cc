// SPDX-License-Identifier: Apache-2.0
#include "core/Recorder.hh"

#include "core/Histogram.hh"

namespace beer {
namespace {

// Lower layers may call back into the top of the stack: the outermost call is the one the client waits for.
thread_local bool timing = false;

} // namespace

void Recorder::Operation(uint32_t filesystem, Event event, const Origin& origin, uint64_t start_ns, uint64_t end_ns,
                         uint64_t bytes, bool error) {
    const uint32_t series = SeriesIndex(filesystem, KindOf(event, origin.traffic));
    Count(segment_.series(series), end_ns - start_ns, bytes, error);
    segment_.change(series).fetch_add(1, std::memory_order_release);
    if (origin.client) {
        clients_.Count(origin.client, event, bytes, end_ns);
    } else if (origin.traffic == Traffic::batch) {
        clients_.CountOverflow();
    }
}

void Recorder::Delay(uint32_t filesystem, uint32_t kind, Traffic traffic, uint64_t delay_ns) {
    if (filesystem == kNoFilesystem || traffic == Traffic::internal) return; // nobody waits for the latter
    const uint32_t series = SeriesIndex(filesystem, kind + static_cast<uint32_t>(traffic));
    Count(segment_.series(series), delay_ns, 0, false);
    segment_.change(series).fetch_add(1, std::memory_order_release);
}

void Recorder::Streams(uint32_t filesystem, bool writer, int change) {
    if (filesystem == kNoFilesystem) return;
    FilesystemRecord& record = segment_.filesystem(filesystem);
    Counter32& counter = writer ? record.open_writers : record.open_readers;
    counter.fetch_add(static_cast<uint32_t>(change), std::memory_order_relaxed);
}

void Recorder::Overloaded(uint32_t filesystem, bool now) {
    if (filesystem == kNoFilesystem) return;
    segment_.filesystem(filesystem).flags.store(now ? 1 : 0, std::memory_order_relaxed);
}

OperationTimer::OperationTimer(Recorder* recorder, uint32_t filesystem, Event event, const Origin& origin,
                               uint64_t bytes) noexcept
    : filesystem_(filesystem), event_(event), origin_(origin) {
    if (!recorder || filesystem == kNoFilesystem || timing) return;
    try {
        slot_ = recorder->slots().Mine();
        start_ns_ = recorder->platform().MonotonicNs();
        if (slot_ != SlotTable::kNone)
            recorder->slots().Begin(slot_, SeriesIndex(filesystem, KindOf(event, origin.traffic)), bytes, origin.client,
                                    start_ns_);
        recorder_ = recorder;
        timing = true;
    } catch (...) {
        recorder->InternalError();
    }
}

void OperationTimer::Finish(uint64_t bytes, bool error) noexcept {
    Recorder* recorder = recorder_;
    recorder_ = nullptr;
    timing = false;
    uint64_t end_ns = 0;
    try {
        end_ns = recorder->platform().MonotonicNs();
    } catch (...) {
        recorder->InternalError();
    }
    if (slot_ != SlotTable::kNone) recorder->slots().End(slot_);
    if (end_ns) recorder->Operation(filesystem_, event_, origin_, start_ns_, end_ns, bytes, error);
}

} // namespace beer
