// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include "core/PageCache.hh"

namespace beer {

TEST(PageCacheTest, KnowsWhatIsInMemory) {
    const int fd = open("/proc/self/exe", O_RDONLY); // on a disk, where the others are in /tmp
    if (!TellsWhatIsInMemory(fd)) GTEST_SKIP() << "built in memory";
    uint64_t size = 0;
    char bytes[65536];
    for (ssize_t some; (some = read(fd, bytes, sizeof bytes)) > 0;)
        size += static_cast<uint64_t>(some);
    EXPECT_TRUE(InMemory(fd, {0, size}));
    EXPECT_TRUE(InMemory(fd, {5, 5}));
    EXPECT_FALSE(InMemory(fd, {0, size + 1})) << "beyond its end";
    close(fd);
    EXPECT_FALSE(InMemory(-1, {0, 1}));
}

} // namespace beer
