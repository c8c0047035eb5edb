// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include "TemporaryFolder.hh"
#include "core/PageCache.hh"

namespace beer {

// What it does to a disk is shown by the live tests.
TEST(PageCacheTest, KnowsWhatIsInMemory) {
    const int fd = open("/proc/self/exe", O_RDONLY); // on a disk, where the others are in /tmp
    if (!TellsWhatIsInMemory(fd)) GTEST_SKIP() << "built in memory";
    const auto size = static_cast<uint64_t>(lseek(fd, 0, SEEK_END));
    EXPECT_TRUE(FetchIntoMemory(fd, {0, size}));
    EXPECT_TRUE(InMemory(fd, {0, size}));
    EXPECT_TRUE(InMemory(fd, {5, 5}));
    EXPECT_FALSE(InMemory(fd, {0, size + 1})) << "beyond its end";
    close(fd);
    EXPECT_FALSE(InMemory(-1, {0, 1}));
}

TEST(PageCacheTest, WhatIsThereIsThereAndWhatIsNotIsNot) {
    TemporaryFolder folder;
    const int fd = open(folder.Write("file", std::string(300000, 'x')).c_str(), O_RDONLY);
    ASSERT_GE(fd, 0);
    EXPECT_TRUE(FetchIntoMemory(fd, {0, 300000}));
    EXPECT_TRUE(FetchIntoMemory(fd, {299999, 300000}));
    EXPECT_TRUE(FetchIntoMemory(fd, {5, 5}));
    EXPECT_FALSE(FetchIntoMemory(fd, {0, 300001})) << "beyond its end";
    EXPECT_FALSE(FetchIntoMemory(fd, {400000, 400001}));
    close(fd);
    EXPECT_FALSE(FetchIntoMemory(fd, {0, 1}));
    const int directory = open(folder.path.c_str(), O_RDONLY);
    EXPECT_FALSE(FetchIntoMemory(directory, {0, 1}));
    close(directory);
}

} // namespace beer
