// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

#include "core/Segment.hh"

namespace beer {

// Which thread owns which request slot. A thread takes a slot at its first request and gives it back when it ends, so
// that a request itself only stores into memory that no other thread writes.
class SlotTable {
  public:
    SlotTable(Segment& segment, const Platform& platform);

    static constexpr uint32_t kNone = UINT32_MAX;
    // Slot of the calling thread; kNone (and an overflow counted) when all are taken.
    uint32_t Mine();

    void Begin(uint32_t slot, uint32_t series, uint64_t bytes, uint32_t client, uint64_t start_ns);
    void End(uint32_t slot) { segment_.slot(slot).start_ns.store(0, std::memory_order_release); }

    // Outlives the table: a thread may end after it.
    struct Owners {
        explicit Owners(uint32_t count) : count(count), taken(new std::atomic<bool>[count]()) {}
        const uint32_t count;
        const std::unique_ptr<std::atomic<bool>[]> taken;
    };

  private:
    Segment& segment_;
    const Platform& platform_;
    const std::shared_ptr<Owners> owners_;
};

} // namespace beer
