// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/Histogram.hh"

namespace beer {

TEST(Histogram, EveryBucketHoldsItsBoundsAndNothingElse) {
    for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
        const uint64_t low = BucketLowNs(bucket);
        const uint64_t next = bucket + 1 < kBuckets ? BucketLowNs(bucket + 1) : kHighestNs;
        EXPECT_EQ(BucketIndex(low), bucket);
        EXPECT_EQ(BucketIndex(next - 1), bucket);
        // The contract: the middle is within 6.25 % of every value of the bucket.
        const double middle = (static_cast<double>(low) + static_cast<double>(next)) / 2;
        EXPECT_LE((middle - static_cast<double>(low)) / static_cast<double>(low), 0.0625);
    }
    EXPECT_EQ(BucketLowNs(0), kLowestNs);
}

TEST(Histogram, CountsBelowAndAboveItsRange) {
    SeriesRecord series{};
    Count(series, 0, 0, false);
    Count(series, kLowestNs - 1, 0, false);
    Count(series, kHighestNs, 0, true);
    EXPECT_EQ(series.under, 2u);
    EXPECT_EQ(series.over, 1u);
    EXPECT_EQ(series.operations, 3u);
    EXPECT_EQ(series.errors, 1u);
    EXPECT_EQ(series.max_ns, kHighestNs);
    for (const auto& bucket : series.bucket)
        EXPECT_EQ(bucket, 0u);
}

} // namespace beer
