// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <sstream>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "TemporaryFolder.hh"
#include "core/FilesystemTable.hh"

namespace beer {

// Captured in the mount namespace of xrootd@beer and shortened; ReadWritePaths=/data has bound /data onto itself.
// Added: a disk mounted over another one, a disk bound onto itself, a blank in a path.
const char kMountinfo[] = R"(22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
23 22 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
39 22 254:0 /data /data rw,relatime shared:28 - ext4 /dev/vda1 rw
40 39 8:16 / /data/01 rw,noatime shared:29 - ext4 /dev/sdb rw
47 40 8:16 / /data/01 rw,noatime shared:29 - ext4 /dev/sdb rw
41 39 8:32 / /data/02 rw,noatime shared:30 - ext4 /dev/sdc rw
42 41 8:48 / /data/02 rw,noatime shared:31 - ext4 /dev/sdd rw
43 39 259:1 / /data/with\040blank rw,noatime shared:32 - xfs /dev/nvme0n1p1 rw
44 22 8:64 / /data-old rw,noatime shared:33 - ext4 /dev/sde rw
a broken line
)";

std::vector<Mount> Mounts() {
    std::istringstream text(kMountinfo);
    return ReadMounts(text);
}

TEST(FilesystemTable, TakesTheMountsBelowADirectory) {
    const FilesystemTable table({"/data"}, Mounts());
    ASSERT_EQ(table.filesystems().size(), 3u);
    EXPECT_EQ(table.filesystems()[0].path, "/data/01");
    EXPECT_EQ(table.filesystems()[1].minor_number, 48u) << "the mount on top is the one in use";
    EXPECT_EQ(table.filesystems()[2].path, "/data/with blank");
    EXPECT_EQ(table.filesystems()[2].major_number, 259u);
    EXPECT_EQ(table.FindPath("/data/01/store/file"), 0u);
    EXPECT_EQ(table.FindPath("/data/01"), 0u);
    EXPECT_EQ(table.FindPath("/data/with blank/x"), 2u);
    for (const char* elsewhere : {"/data", "/data/011", "/data-old/x", "/etc/passwd", ""})
        EXPECT_EQ(table.FindPath(elsewhere), kNoFilesystem) << elsewhere;
}

TEST(FilesystemTable, TheLongestMountPointWins) {
    std::istringstream text(
        "1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /data rw - ext4 b rw\n3 2 8:3 / /data/01 rw - ext4 c rw\n");
    const FilesystemTable table({"/"}, ReadMounts(text));
    EXPECT_EQ(table.FindPath("/data/01/x"), 2u);
    EXPECT_EQ(table.FindPath("/data/02/x"), 1u);
    EXPECT_EQ(table.FindPath("/srv"), 0u);
}

TEST(FilesystemTable, ADirectoryWithoutMountsStandsForItself) {
    TemporaryFolder folder;
    struct stat found{};
    ASSERT_EQ(stat(folder.path.c_str(), &found), 0);
    const FilesystemTable table({folder.path, folder.path, "/no/such/place"}, Mounts());
    ASSERT_EQ(table.filesystems().size(), 1u);
    EXPECT_EQ(table.filesystems()[0].major_number, major(found.st_dev));
    ASSERT_EQ(table.missing().size(), 1u);
    EXPECT_NE(table.missing()[0].find("/no/such/place"), std::string::npos);
}

TEST(FilesystemTable, TheDeviceOfAnOpenFileDecides) {
    const FilesystemTable table({"/data"}, Mounts());
    EXPECT_EQ(table.FindOpen("/data/01/link", makedev(8, 48)), 1u);
    EXPECT_EQ(table.FindOpen("/data/01/file", makedev(8, 16)), 0u);
    EXPECT_EQ(table.FindOpen("/data/01/file", makedev(1, 1)), 0u);
    EXPECT_EQ(table.FindOpen("/elsewhere/file", makedev(1, 1)), kNoFilesystem);
}

} // namespace beer
