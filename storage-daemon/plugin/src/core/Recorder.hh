// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ClientTable.hh"
#include "core/Segment.hh"
#include "core/SlotTable.hh"

namespace beer {

constexpr uint32_t kNoFilesystem = UINT32_MAX;

// Who a request is for. The SFS half says so for the calls below it on the same thread, see Context.hh.
struct Origin {
    Traffic traffic = Traffic::internal;
    uint32_t client = 0; // index of the client record + 1, 0 = none
};

// Counts into a segment. Every method may be called from any thread; none blocks.
class Recorder {
  public:
    Recorder(Segment& segment, const Platform& platform)
        : segment_(segment), platform_(platform), slots_(segment, platform), clients_(segment) {}

    const Platform& platform() const { return platform_; }
    SlotTable& slots() { return slots_; }
    ClientTable& clients() { return clients_; }

    void Operation(uint32_t filesystem, Event event, const Origin& origin, uint64_t start_ns, uint64_t end_ns,
                   uint64_t bytes, bool error);
    void Pacing(uint32_t filesystem, Traffic traffic, uint64_t delay_ns) {
        Delay(filesystem, kPacingKind, traffic, delay_ns);
    }
    void Stall(uint32_t filesystem, Traffic traffic, uint64_t delay_ns) {
        Delay(filesystem, kStallKind, traffic, delay_ns);
    }
    void InternalError() noexcept { segment_.header().internal_errors.fetch_add(1, std::memory_order_relaxed); }

    // A stream opened (+1) or closed (-1).
    void Streams(uint32_t filesystem, bool writer, int change);
    void Overloaded(uint32_t filesystem, bool now);

  private:
    void Delay(uint32_t filesystem, uint32_t kind, Traffic traffic, uint64_t delay_ns);

    Segment& segment_;
    const Platform& platform_;
    SlotTable slots_;
    ClientTable clients_;
};

// Times one call into the lower storage layer: from its construction to Done(), or to its end when the call threw. It
// never throws: on any trouble the request goes on unmeasured and is counted as an internal error.
class OperationTimer {
  public:
    // Without recorder or filesystem it does nothing. `bytes` = asked for.
    OperationTimer(Recorder* recorder, uint32_t filesystem, Event event, const Origin& origin,
                   uint64_t bytes = 0) noexcept;
    ~OperationTimer() {
        if (recorder_) Finish(0, true);
    }
    OperationTimer(const OperationTimer&) = delete;
    OperationTimer& operator=(const OperationTimer&) = delete;

    // Takes the result of the call and hands it on: below zero it is an error. `moves` = it is a number of bytes.
    template <typename T>
    T Done(T result, bool moves = false) noexcept {
        if (recorder_) Finish(moves && result > 0 ? static_cast<uint64_t>(result) : 0, result < 0);
        return result;
    }

  private:
    void Finish(uint64_t bytes, bool error) noexcept;

    Recorder* recorder_ = nullptr; // set while the clock runs
    uint32_t filesystem_;
    Event event_;
    Origin origin_;
    uint32_t slot_ = SlotTable::kNone;
    uint64_t start_ns_ = 0;
};

} // namespace beer
