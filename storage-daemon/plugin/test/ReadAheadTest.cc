// SPDX-License-Identifier: Apache-2.0
//
// Stretches as a file asks for them. What the kernel fetched is seen in the page cache of a real disk.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include "FakeOss.hh"
#include "TemporaryFolder.hh"
#include "XrdOuc/XrdOucEnv.hh"
#include "core/Context.hh"
#include "core/PageCache.hh"
#include "xrootd/oss/OssFilesystem.hh"

namespace beer {

class ReadAheadTest : public testing::Test {
  protected:
    static constexpr uint64_t kMs = 1000000;
    static constexpr uint64_t kStretch = 1 << 20, kBytes = 2 * kStretch + kStretch / 2;

    ReadAheadTest() {
        settings.segment = folder / "beer.lat";
        settings.directories = {folder.path};
        core = std::make_unique<Core>(settings, std::vector<Mount>{}, platform, [](const std::string&) {});
        core->AttachSfsHalf();
        filesystem = std::make_unique<OssFilesystem>(lower, *core);
        disk.fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
        const std::string bytes(kBytes, 'x');
        EXPECT_EQ(pwrite(disk.fd, bytes.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
        EXPECT_EQ(fsync(disk.fd), 0);
        EXPECT_EQ(posix_fadvise(disk.fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        file.reset(filesystem->newFile("test"));
        EXPECT_EQ(file->Open(path.c_str(), O_RDONLY, 0, env), 0);
        policy.readahead = kStretch;
    }
    ~ReadAheadTest() override {
        file.reset();
        close(disk.fd);
    }
    // The lower layer is a fake: it reads nothing itself.
    void Read(off_t offset) {
        const Context context({Traffic::storage, 0}, false, &policy);
        file->Read(buffer, offset, sizeof buffer);
    }
    // Is it read while somebody else asks for a stretch of this filesystem? It is in any case when this returns.
    bool PassesWhileAnotherAsks(off_t offset, int tries = 20000) {
        std::atomic<bool> done{false};
        bool passes = false;
        std::thread reader;
        auto turn = core->shaping().stretches().Pass(0);
        reader = std::thread([&] {
            Read(offset);
            done = true;
        });
        passes = Eventually(
            [&] {
                platform.now_ns += kMs;
                return done.load();
            },
            tries);
        turn.unlock();
        reader.join();
        return passes;
    }
    // In the segment, as the guard sees it.
    uint64_t SumNs(uint32_t kind) {
        const std::string bytes = ReadFile(settings.segment);
        const auto* header = reinterpret_cast<const Header*>(bytes.data());
        return reinterpret_cast<const SeriesRecord*>(bytes.data() + header->series_offset)[kind].sum_ns;
    }
    bool There(uint64_t begin, uint64_t end) { return InMemory(disk.fd, {begin, end}); }
    template <typename Call>
    static bool Eventually(Call&& done, int tries = 20000) {
        for (int i = 0; i < tries && !done(); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return done();
    }

    const TemporaryFolder folder{TemporaryFolder::BesideThisProgram()};
    FakePlatform platform;
    FakeDisk disk{platform, {}};
    FakeOss lower{disk};
    Settings settings;
    XrdOucEnv env;
    std::unique_ptr<Core> core;
    std::unique_ptr<OssFilesystem> filesystem;
    const std::string path = folder / "file";
    std::unique_ptr<XrdOssDF> file;
    Policy policy;
    char buffer[4096];
};

TEST_F(ReadAheadTest, FetchesTheStretchThatBeginsInTheRequest) {
    if (!TellsWhatIsInMemory(disk.fd)) GTEST_SKIP() << "built in memory";
    Read(4096);
    EXPECT_FALSE(There(4096, 8192)) << "inside a stretch";
    Read(kStretch);
    EXPECT_TRUE(Eventually([&] { return There(kStretch, 2 * kStretch); }));
    EXPECT_FALSE(There(0, 1)) << "nor the one before";
    EXPECT_FALSE(There(2 * kStretch, 2 * kStretch + 1)) << "nor the one behind";
}

TEST_F(ReadAheadTest, TheLastStretchEndsWithTheFile) {
    if (!TellsWhatIsInMemory(disk.fd)) GTEST_SKIP() << "built in memory";
    Read(2 * kStretch);
    ASSERT_TRUE(Eventually([&] { return There(2 * kStretch, kBytes); }));
    // All of it is in memory now, which it could not be beyond its end.
    EXPECT_TRUE(PassesWhileAnotherAsks(2 * kStretch));
}

TEST_F(ReadAheadTest, OneStretchOfAFilesystemAtATime) {
    if (!TellsWhatIsInMemory(disk.fd)) GTEST_SKIP() << "built in memory";
    EXPECT_FALSE(PassesWhileAnotherAsks(0, 200));
    EXPECT_TRUE(Eventually([&] { return There(0, kStretch); }));
}

TEST_F(ReadAheadTest, TheWaitForOthersIsPacingAndNoLatencyOfTheDisk) {
    if (!TellsWhatIsInMemory(disk.fd)) GTEST_SKIP() << "built in memory";
    ASSERT_FALSE(PassesWhileAnotherAsks(0, 200));
    EXPECT_EQ(SumNs(KindOf(Event::read, Traffic::storage)), disk.takes_ns);
    const uint64_t waited_ns = SumNs(kPacingKind + static_cast<uint32_t>(Traffic::storage));
    EXPECT_GT(waited_ns, 0u);
    EXPECT_LE(waited_ns, 250 * kMs);
}

TEST_F(ReadAheadTest, ABeginningBeyondTheEndIsNotAskedFor) { EXPECT_TRUE(PassesWhileAnotherAsks(4 * kStretch)); }

} // namespace beer
