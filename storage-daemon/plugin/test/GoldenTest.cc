// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "GoldenScenario.hh"
#include "TemporaryFolder.hh"

namespace beer {

TEST(Golden, TheWriterMakesTheGoldenFileByteForByte) {
    const std::string expected = ReadFile(BEER_GOLDEN);
    ASSERT_FALSE(expected.empty()) << BEER_GOLDEN;
    TemporaryFolder folder;
    EXPECT_EQ(GoldenDump(folder / "beer.lat"), expected) << "a change of the layout is a change of the contract";
}

} // namespace beer
