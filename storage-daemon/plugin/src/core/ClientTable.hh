// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/PrefixList.hh"
#include "core/Segment.hh"

namespace beer {

// The batch clients seen so far, by address. Insertion takes no lock; records are never reused.
class ClientTable {
  public:
    explicit ClientTable(Segment& segment) : segment_(segment) {}

    // Index of the record + 1, made if need be; 0 when the table is full.
    uint32_t Find(const Address& address) noexcept;

    void Count(uint32_t client, Event event, uint64_t bytes, uint64_t now_ns);
    void CountOverflow() { segment_.header().clients_overflow.fetch_add(1, std::memory_order_relaxed); }

  private:
    Segment& segment_;
};

} // namespace beer
