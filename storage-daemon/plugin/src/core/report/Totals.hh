// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "core/Segment.hh"

namespace beer {

constexpr std::array<const char*, 3> kClassNames = {"storage", "batch", "internal"}; // by Traffic

// Counters of one series, or of several together.
struct Sum {
    uint64_t operations = 0, bytes = 0, errors = 0, sum_ns = 0, max_ns = 0;

    void Add(const SeriesRecord& series) {
        operations += series.operations.load(std::memory_order_relaxed);
        bytes += series.bytes.load(std::memory_order_relaxed);
        errors += series.errors.load(std::memory_order_relaxed);
        sum_ns += series.sum_ns.load(std::memory_order_relaxed);
        max_ns = std::max(max_ns, series.max_ns.load(std::memory_order_relaxed));
    }
};

constexpr std::array<std::pair<const char*, Event>, 5> kEventNames = {{{"read", Event::read},
                                                                       {"write", Event::write},
                                                                       {"sync", Event::sync},
                                                                       {"open", Event::open},
                                                                       {"meta", Event::meta}}};

// Of one kind of series on every filesystem.
inline Sum SumOf(const Segment& segment, uint32_t kind) {
    Sum sum;
    for (uint32_t i = 0; i < segment.filesystem_count(); ++i)
        sum.Add(segment.series(SeriesIndex(i, kind)));
    return sum;
}

} // namespace beer
