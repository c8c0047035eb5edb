// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "TemporaryFolder.hh"
#include "core/shaping/DirectoryWishes.hh"

namespace beer {
namespace {

constexpr size_t kRead = static_cast<size_t>(Direction::read), kWrite = static_cast<size_t>(Direction::write);
constexpr uint64_t kSecond = 1000000000;

} // namespace

class DirectoryWishesTest : public testing::Test {
  protected:
    DirectoryWishes::Both Of(const std::string& file, const std::string& top, uint64_t now_ns = 0) {
        return wishes.Of(file, top, now_ns, [this](const std::string& directory) {
            read.push_back(directory);
            return broken ? std::nullopt : std::make_optional(disk[directory]);
        });
    }
    std::map<std::string, DirectoryWishes::Attributes> disk;
    bool broken = false;
    std::vector<std::string> read, said;
    DirectoryWishes wishes{[this](const std::string& text) { said.push_back(text); }};
};

TEST_F(DirectoryWishesTest, TheNearestDirectoryCountsForEachKeyByItself) {
    disk["/data/01"] = {{"bandwidth.r", "1MB/s"}, {"iops.r", "7/s"}, {"iotype.w", "csync"}};
    disk["/data/01/a/b"] = {{"bandwidth.r", "2MB/s"}};
    disk["/data"] = {{"iopriority.r", "idle"}};
    const auto found = Of("/data/01/a/b/file", "/data/01");
    EXPECT_EQ(found[kRead].bytes, 2000000u);
    EXPECT_EQ(found[kRead].operations, 7u);
    EXPECT_FALSE(found[kRead].priority) << "above the top";
    EXPECT_EQ(found[kWrite].type, IoType::csync);
    EXPECT_FALSE(found[kWrite].bytes);
    EXPECT_EQ(read, (std::vector<std::string>{"/data/01/a/b", "/data/01/a", "/data/01"}));
}

TEST_F(DirectoryWishesTest, WhatIsNotBelowTheTopIsNotAsked) {
    for (const char* file : {"/data/011/file", "/data/01", "/data/file", "/file", "file", ""})
        Of(file, "/data/01");
    EXPECT_TRUE(read.empty());
    Of("/x/file", "/");
    EXPECT_EQ(read, (std::vector<std::string>{"/x", "/"}));
}

// XRootD lets clients name paths of megabytes.
TEST_F(DirectoryWishesTest, APathWithoutEndCostsNoMoreThanAnyOther) {
    std::string deep = "/data";
    for (int i = 0; i < 1000; ++i)
        deep += "/a";
    disk["/data"] = {{"bandwidth.r", "1MB/s"}};
    EXPECT_EQ(Of(deep + "/file", "/data")[kRead].bytes, 1000000u) << "what is set above counts";
    EXPECT_EQ(read.size(), 64u);
    read.clear();
    for (int i = 0; i < 100000; ++i)
        deep += "/a";
    Of(deep, "/data", 10 * kSecond);
    EXPECT_TRUE(read.empty()) << "no file has such a name";
}

TEST_F(DirectoryWishesTest, WhatWasReadIsKeptForAMoment) {
    Of("/data/01/file", "/data/01");
    disk["/data/01"] = {{"bandwidth.r", "1MB/s"}};
    EXPECT_FALSE(Of("/data/01/other", "/data/01", 4 * kSecond)[kRead].bytes);
    EXPECT_EQ(read.size(), 1u);
    EXPECT_EQ(Of("/data/01/other", "/data/01", 5 * kSecond)[kRead].bytes, 1000000u);
    broken = true;
    EXPECT_EQ(Of("/data/01/other", "/data/01", 15 * kSecond)[kRead].bytes, 1000000u)
        << "a limit does not end with that";
}

TEST_F(DirectoryWishesTest, AMistakeIsSaidOnceAndDoesNotCount) {
    disk["/d"] = {
        {"bandwidth.r", "fast"}, {"iotype", "direct"}, {"colour.w", "red"}, {"iops.w", "3/s"}, {"readahead.w", "4MiB"}};
    for (uint64_t second : {0, 10, 20}) {
        const auto found = Of("/d/file", "/d", second * kSecond);
        EXPECT_FALSE(found[kRead].bytes || found[kRead].type);
        EXPECT_EQ(found[kWrite].operations, 3u);
        EXPECT_FALSE(found[kWrite].readahead);
    }
    ASSERT_EQ(said.size(), 4u);
    EXPECT_EQ(said[0].rfind("/d: attribute user.beer.forced.bandwidth.r does not count: 'fast' is not", 0), 0u)
        << said[0];
}

TEST_F(DirectoryWishesTest, RealAttributesAreReadWhereNobodyElseCanSetThem) {
    TemporaryFolder folder;
    const std::string directory = folder / "directory";
    ASSERT_EQ(mkdir(directory.c_str(), 0755), 0);
    const auto set = [&](const char* name, const std::string& value) {
        return setxattr(directory.c_str(), name, value.data(), value.size(), 0) == 0;
    };
    if (!set("user.beer.forced.bandwidth.r", "5MB/s")) GTEST_SKIP() << "no user attributes on this filesystem";
    ASSERT_TRUE(set("user.U.beer.forced.iops.r", "1/s") && set("user.beer.forced.iotype.w", std::string(100, 'x')));
    const DirectoryWishes::Attributes expected = {{"bandwidth.r", "5MB/s"}, {"iotype.w", ""}};
    EXPECT_EQ(DirectoryWishes::FromDisk(directory), expected);
    ASSERT_EQ(symlink(directory.c_str(), (folder / "link").c_str()), 0);
    EXPECT_TRUE(DirectoryWishes::FromDisk(folder / "link")->empty());
    EXPECT_TRUE(DirectoryWishes::FromDisk(folder / "none")->empty());
    ASSERT_EQ(chmod(directory.c_str(), 0777), 0);
    EXPECT_TRUE(DirectoryWishes::FromDisk(directory)->empty()) << "others may write it";
}

} // namespace beer
