// SPDX-License-Identifier: Apache-2.0
#include "TestSegment.hh"

#include <csignal>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace beer {

size_t EntriesOf(const std::string& folder) {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder))
        ++count;
    return count;
}

TEST_F(TestSegment, IsAPrivateFileOfTheSizeOfTheContract) {
    struct stat found{};
    ASSERT_EQ(stat(options.path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777, 0640u);
    EXPECT_EQ(static_cast<size_t>(found.st_size), segment->size());
    EXPECT_GE(static_cast<size_t>(found.st_blocks) * 512, segment->size()) << "the space is not reserved";
    EXPECT_EQ(EntriesOf(folder.path), 1u);

    options.filesystems.clear();
    for (int i = 0; i < 96; ++i)
        options.filesystems.push_back({"/data/" + std::to_string(i), 8, 0});
    options.slots = kMaxSlots;
    options.clients = kMaxClients;
    std::string error;
    const auto largest = Segment::Create(options, platform, error);
    ASSERT_TRUE(largest) << error;
    EXPECT_EQ(largest->size(), 1950848u);
}

TEST_F(TestSegment, ReplacesTheOneOfTheProcessBefore) {
    struct stat before{}, after{};
    ASSERT_EQ(stat(options.path.c_str(), &before), 0);
    segment->header().internal_errors = 5;
    // What a kill between creation and rename leaves behind.
    folder.Write(".beer.lat.4242", "half");
    std::string error;
    const auto next = Segment::Create(options, platform, error);
    ASSERT_TRUE(next) << error;
    EXPECT_EQ(next->header().internal_errors, 0u);
    ASSERT_EQ(stat(options.path.c_str(), &after), 0);
    EXPECT_NE(before.st_ino, after.st_ino);
    EXPECT_EQ(EntriesOf(folder.path), 1u);
}

TEST_F(TestSegment, RefusesWhatTheContractDoesNotAllow) {
    const auto refused = [&](auto change, const std::string& reason) {
        SegmentOptions bad = options;
        change(bad);
        std::string error;
        EXPECT_FALSE(Segment::Create(bad, platform, error));
        EXPECT_NE(error.find(reason), std::string::npos) << error;
    };
    refused([](auto& o) { o.filesystems.clear(); }, "no filesystem");
    refused([](auto& o) { o.filesystems.resize(97); }, "more than 96");
    refused([](auto& o) { o.slots = 65; }, "slots");
    refused([](auto& o) { o.clients = 1024; }, "clients");
    refused([](auto& o) { o.instance = std::string(64, 'x'); }, "instance");
    refused([](auto& o) { o.filesystems[0].path = std::string(192, 'x'); }, "too long");
    refused([](auto& o) { o.path = "/nowhere/at/all/beer.lat"; }, "No such file");
}

TEST_F(TestSegment, WithoutSpaceThereIsAnErrorAndNoSignal) {
    // fallocate over the limit is the error of a full filesystem without the need to mount one; the live tests do.
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    rlimit small = before;
    small.rlim_cur = 16384;
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    std::string error;
    options.path = folder / "full.lat";
    const auto none = Segment::Create(options, platform, error);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, handler);
    EXPECT_FALSE(none);
    EXPECT_NE(error.find("reserve the space"), std::string::npos) << error;
    EXPECT_EQ(EntriesOf(folder.path), 1u) << "the unfinished file was left behind";
}

} // namespace beer
