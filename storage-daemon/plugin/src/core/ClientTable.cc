// SPDX-License-Identifier: Apache-2.0
#include "core/ClientTable.hh"

#include <cstring>
#include <thread>

namespace beer {
namespace {

// A record is being filled from its claim to `used`: a few instructions, but the filling thread can lose its CPU there.
// Waiting without bound would be a lock; so we give up and leave this one operation without a client.
bool WaitUntilUsed(const ClientRecord& record) {
    for (int i = 0; i < 1000; ++i) {
        if (record.used.load(std::memory_order_acquire)) return true;
        std::this_thread::yield();
    }
    return false;
}

} // namespace

uint32_t ClientTable::Find(const Address& address) noexcept {
    Counter32& high = segment_.header().clients_high;
    uint32_t seen = 0;
    for (;;) {
        uint32_t end = high.load(std::memory_order_acquire);
        if (end > segment_.client_count()) end = segment_.client_count();
        for (; seen < end; ++seen) {
            const ClientRecord& record = segment_.client(seen);
            if (!WaitUntilUsed(record)) return 0;
            if (std::memcmp(record.address, address.data(), address.size()) == 0) return seen + 1;
        }
        if (end == segment_.client_count()) return 0;
        // Claimed only if no other thread added a record since we looked; else look at the new ones first.
        if (!high.compare_exchange_strong(end, end + 1, std::memory_order_acq_rel)) continue;
        ClientRecord& record = segment_.client(end);
        std::memcpy(record.address, address.data(), address.size());
        record.used.store(1, std::memory_order_release);
        return end + 1;
    }
}

void ClientTable::Count(uint32_t client, Event event, uint64_t bytes, uint64_t now_ns) {
    constexpr auto relaxed = std::memory_order_relaxed;
    ClientRecord& record = segment_.client(client - 1);
    if (event == Event::read) record.bytes_read.fetch_add(bytes, relaxed);
    if (event == Event::write) record.bytes_written.fetch_add(bytes, relaxed);
    record.last_ns.store(now_ns, relaxed);
    record.operations.fetch_add(1, relaxed);
}

} // namespace beer
