// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/Layout.hh"

namespace beer {

constexpr uint64_t kLowestNs = uint64_t{1} << 9;
constexpr uint64_t kHighestNs = uint64_t{1} << 37;

// Index of the bucket of a latency; only for kLowestNs <= ns < kHighestNs.
inline uint32_t BucketIndex(uint64_t ns) {
    const uint32_t octave = 63 - static_cast<uint32_t>(__builtin_clzll(ns)) - 9;
    return 8 * octave + static_cast<uint32_t>((ns >> (octave + 6)) & 7);
}

constexpr uint64_t BucketLowNs(uint32_t bucket) { return ((uint64_t{8} + bucket % 8) << (bucket / 8 + 9)) / 8; }

inline void Count(SeriesRecord& series, uint64_t ns, uint64_t bytes, bool error) {
    constexpr auto relaxed = std::memory_order_relaxed;
    series.operations.fetch_add(1, relaxed);
    if (bytes) series.bytes.fetch_add(bytes, relaxed);
    series.sum_ns.fetch_add(ns, relaxed);
    if (error) series.errors.fetch_add(1, relaxed);
    uint64_t highest = series.max_ns.load(relaxed);
    while (ns > highest && !series.max_ns.compare_exchange_weak(highest, ns, relaxed)) {
    }
    if (ns < kLowestNs) {
        series.under.fetch_add(1, relaxed);
    } else if (ns >= kHighestNs) {
        series.over.fetch_add(1, relaxed);
    } else {
        series.bucket[BucketIndex(ns)].fetch_add(1, relaxed);
    }
}

} // namespace beer
