// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/shaping/Overload.hh"

namespace beer {

class OverloadTest : public testing::Test {
  protected:
    OverloadTest() {
        overload.OnChange([this](uint32_t filesystem, bool now) { changes.push_back({filesystem, now}); });
    }
    void Open(uint32_t filesystem, bool writer, int files) {
        for (int i = 0; i < std::abs(files); ++i)
            overload.Count(filesystem, writer, files > 0 ? 1 : -1);
    }
    Overload overload{2};
    std::vector<std::pair<uint32_t, bool>> changes;
};

TEST_F(OverloadTest, WithoutALimitNothingIsTooMuch) {
    Open(0, false, 10000);
    EXPECT_FALSE(overload.overloaded(0));
}

TEST_F(OverloadTest, WhoAsksIsCountedOrRefused) {
    overload.SetLimits(0, {2, 0});
    EXPECT_TRUE(overload.Enter(0, false));
    EXPECT_TRUE(overload.Enter(0, false));
    EXPECT_FALSE(overload.Enter(0, false)) << "two are being opened";
    EXPECT_TRUE(overload.Enter(0, true));
    EXPECT_TRUE(overload.Enter(1, false));
    EXPECT_TRUE(overload.Enter(UINT32_MAX, false));
    overload.Entered(UINT32_MAX, false, true);
    overload.Entered(0, false, true);
    overload.Entered(0, false, false);
    EXPECT_FALSE(overload.overloaded(0)) << "one could not be opened";
    EXPECT_TRUE(overload.Enter(0, false));
    overload.Entered(0, false, true);
    EXPECT_TRUE(overload.overloaded(0));
    EXPECT_FALSE(overload.Enter(0, true)) << "the disk as a whole";
}

TEST_F(OverloadTest, FilesThatCannotBeOpenedMakeNothingOverloaded) {
    overload.SetLimits(0, {20, 0});
    Open(0, false, 19); // more than nine tenths: once over, they would keep it so
    for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(overload.Enter(0, false));
        EXPECT_FALSE(overload.Enter(0, false));
        overload.Entered(0, false, false);
    }
    EXPECT_FALSE(overload.overloaded(0));
    EXPECT_TRUE(changes.empty());
}

TEST_F(OverloadTest, FromTheLimitOnUntilNineTenths) {
    overload.SetLimits(0, {20, 0});
    Open(0, false, 19);
    EXPECT_FALSE(overload.overloaded(0));
    Open(0, false, 1);
    EXPECT_TRUE(overload.overloaded(0));
    EXPECT_FALSE(overload.overloaded(1)) << "the other disk";
    Open(0, false, -1);
    EXPECT_TRUE(overload.overloaded(0)) << "19 are still too many to come back";
    Open(0, false, -1);
    EXPECT_FALSE(overload.overloaded(0));
    EXPECT_EQ(changes, (std::vector<std::pair<uint32_t, bool>>{{0, true}, {0, false}}));
}

TEST_F(OverloadTest, ReadersAndWritersAreCountedApart) {
    overload.SetLimits(0, {10, 2});
    Open(0, false, 9);
    Open(0, true, 2);
    EXPECT_TRUE(overload.overloaded(0));
    Open(0, true, -1);
    EXPECT_FALSE(overload.overloaded(0));
    Open(0, false, 1);
    EXPECT_TRUE(overload.overloaded(0));
}

TEST_F(OverloadTest, OneKindDoesNotKeepTheOtherOut) {
    overload.SetLimits(0, {100, 2});
    Open(0, false, 95); // never over
    Open(0, true, 2);
    EXPECT_TRUE(overload.overloaded(0));
    Open(0, true, -2);
    EXPECT_FALSE(overload.overloaded(0));
}

TEST_F(OverloadTest, ALimitOfOneClearsWithTheLastFile) {
    overload.SetLimits(0, {1, 0});
    Open(0, false, 1);
    EXPECT_TRUE(overload.overloaded(0));
    Open(0, false, -1);
    EXPECT_FALSE(overload.overloaded(0));
}

TEST_F(OverloadTest, ANewLimitCountsAtOnce) {
    Open(0, false, 50);
    overload.SetLimits(0, {40, 0});
    EXPECT_TRUE(overload.overloaded(0));
    overload.SetLimits(0, {});
    EXPECT_FALSE(overload.overloaded(0));
}

TEST_F(OverloadTest, AFilesystemThatIsNotKnownIsNotJudged) {
    overload.SetLimits(7, {1, 1});
    Open(UINT32_MAX, false, 3);
    EXPECT_FALSE(overload.overloaded(7) || overload.overloaded(UINT32_MAX));
}

} // namespace beer
