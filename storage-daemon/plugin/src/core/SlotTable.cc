// SPDX-License-Identifier: Apache-2.0
#include "core/SlotTable.hh"

namespace beer {
namespace {

struct Lease {
    std::shared_ptr<SlotTable::Owners> owners;
    uint32_t slot = SlotTable::kNone;

    void GiveBack() {
        if (owners) owners->taken[slot].store(false, std::memory_order_release);
        owners.reset();
        slot = SlotTable::kNone;
    }
    ~Lease() { GiveBack(); }
};

thread_local Lease lease;

void Raise(Counter32& high, uint32_t to) {
    uint32_t now = high.load(std::memory_order_relaxed);
    while (now < to && !high.compare_exchange_weak(now, to, std::memory_order_release)) {
    }
}

} // namespace

SlotTable::SlotTable(Segment& segment, const Platform& platform)
    : segment_(segment), platform_(platform), owners_(std::make_shared<Owners>(segment.slot_count())) {}

uint32_t SlotTable::Mine() {
    if (lease.owners == owners_) return lease.slot;
    lease.GiveBack(); // of another table: only tests have two
    for (uint32_t i = 0; i < owners_->count; ++i) {
        if (owners_->taken[i].exchange(true, std::memory_order_acquire)) continue;
        lease.owners = owners_;
        lease.slot = i;
        segment_.slot(i).tid.store(platform_.ThreadId(), std::memory_order_relaxed);
        Raise(segment_.header().slots_high, i + 1);
        return i;
    }
    segment_.header().slots_overflow.fetch_add(1, std::memory_order_relaxed);
    return kNone;
}

void SlotTable::Begin(uint32_t slot, uint32_t series, uint64_t bytes, uint32_t client, uint64_t start_ns) {
    constexpr auto relaxed = std::memory_order_relaxed;
    SlotRecord& record = segment_.slot(slot);
    record.series.store(series, relaxed);
    record.bytes.store(bytes, relaxed);
    record.client.store(client, relaxed);
    record.start_ns.store(start_ns, std::memory_order_release);
}

} // namespace beer
