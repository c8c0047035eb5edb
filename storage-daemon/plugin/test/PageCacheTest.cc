// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fcntl.h>
#include <string>
#include <unistd.h>

#include "TemporaryFolder.hh"
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

TEST(PageCacheTest, KnowsWhatIsNotAndDoesNotFetchIt) {
    const TemporaryFolder folder(TemporaryFolder::BesideThisProgram());
    const int fd = open((folder / "file").c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_GE(fd, 0);
    constexpr uint64_t kBytes = 1 << 20;
    const std::string bytes(kBytes, 'x');
    ASSERT_EQ(pwrite(fd, bytes.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
    ASSERT_EQ(fsync(fd), 0);
    if (!TellsWhatIsInMemory(fd)) GTEST_SKIP() << "built in memory";
    EXPECT_TRUE(InMemory(fd, {0, kBytes}));
    ASSERT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    EXPECT_FALSE(InMemory(fd, {0, kBytes}));
    EXPECT_FALSE(InMemory(fd, {4096, 8192})) << "it was not fetched because somebody looked";
    char byte;
    ASSERT_EQ(pread(fd, &byte, 1, 0), 1);
    EXPECT_TRUE(InMemory(fd, {0, 1}));
    EXPECT_FALSE(InMemory(fd, {0, kBytes})) << "the first pages alone";
    close(fd);
}

} // namespace beer
