// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "ControlText.hh"
#include "FakePlatform.hh"
#include "TemporaryFolder.hh"
#include "core/Recorder.hh"
#include "core/shaping/ControlWatch.hh"

namespace beer {
namespace {

constexpr uint64_t kSecond = 1000000000;

} // namespace

class ControlTest : public testing::Test {
  protected:
    std::optional<Control> Parse(const std::string& text) {
        return ParseControl(reinterpret_cast<const unsigned char*>(text.data()), text.size(), platform.now_ns, error);
    }
    Control Example() {
        return {7, platform.now_ns + kSecond, {{8, 16, {1000, 10}}, {kEveryDevice, kEveryDevice, {0, kUnlimited}}}};
    }
    FakePlatform platform;
    TemporaryFolder folder;
    std::string error;
};

TEST_F(ControlTest, IsReadAsWritten) {
    const auto control = Parse(ControlText(Example()) + std::string(3000, 'x'));
    ASSERT_TRUE(control) << error;
    EXPECT_EQ(control->sequence, 7u);
    EXPECT_EQ(control->lease_until_ns, platform.now_ns + kSecond);
    EXPECT_EQ(control->For(8, 16), (Rates{1000, 10}));
    EXPECT_EQ(control->For(8, 32), (Rates{0, kUnlimited}));
    EXPECT_EQ(Control{}.For(8, 16), Rates{});
}

TEST_F(ControlTest, EveryChangedByteIsNoticed) {
    const std::string good = ControlText(Example());
    for (size_t i = 0; i < good.size(); ++i) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ 0x40);
        EXPECT_FALSE(Parse(bad)) << i;
        EXPECT_FALSE(error.empty());
    }
    for (size_t size = 0; size < good.size(); ++size)
        EXPECT_FALSE(Parse(good.substr(0, size))) << size;
}

TEST_F(ControlTest, ALeaseOfAnotherBootIsRefused) {
    Control control = Example();
    control.lease_until_ns = platform.now_ns + 61 * kSecond;
    EXPECT_FALSE(Parse(ControlText(control)));
    control.lease_until_ns = 1; // over: it says nothing, and is no error
    EXPECT_TRUE(Parse(ControlText(control)));
}

TEST_F(ControlTest, OnlyARegularFileOfItsOwnerIsRead) {
    const std::string path = folder / "shaping";
    ControlFile file(path, getuid());
    EXPECT_FALSE(file.Read(platform.now_ns, error));
    EXPECT_EQ(error, "") << "not there yet";

    folder.Write("real", ControlText(Example()));
    std::filesystem::create_symlink(folder / "real", path);
    EXPECT_FALSE(file.Read(platform.now_ns, error));
    EXPECT_NE(error, "");
    std::filesystem::remove(path);

    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_FALSE(file.Read(platform.now_ns, error));
    EXPECT_EQ(error, "not a regular file");
    std::filesystem::remove(path);

    folder.Write("shaping", ControlText(Example()));
    chmod(path.c_str(), 0662);
    EXPECT_FALSE(file.Read(platform.now_ns, error));
    chmod(path.c_str(), 0644);
    EXPECT_TRUE(file.Read(platform.now_ns, error)) << error;
    EXPECT_FALSE(ControlFile(path, getuid() + 1).Read(platform.now_ns, error));
}

TEST_F(ControlTest, AReplacedFileIsNoticedWithinASecond) {
    folder.Write("shaping", ControlText(Example()));
    ControlFile file(folder / "shaping", getuid());
    EXPECT_EQ(file.Read(platform.now_ns, error)->sequence, 7u);
    Control next = Example();
    next.sequence = 8;
    std::filesystem::rename(folder.Write("new", ControlText(next)), folder / "shaping");
    platform.now_ns += kSecond;
    EXPECT_EQ(file.Read(platform.now_ns, error)->sequence, 8u);
}

#ifdef BEER_SHAPING_GOLDEN
// The guard writes this file byte for byte (guard/crates/intf/tests/shaping.rs).
TEST_F(ControlTest, TheGoldenFileIsReadAsTheGuardMeansIt) {
    std::ifstream rows(BEER_SHAPING_GOLDEN);
    std::string bytes, offset, byte;
    for (std::string row; std::getline(rows, row);) {
        std::istringstream words(row);
        words >> offset;
        while (words >> byte)
            bytes += static_cast<char>(std::stoi(byte, nullptr, 16));
    }
    platform.now_ns = 1000 * kSecond;
    const auto control = Parse(bytes);
    ASSERT_TRUE(control) << error;
    EXPECT_EQ(control->sequence, 42u);
    EXPECT_EQ(control->lease_until_ns, 1010 * kSecond);
    ASSERT_EQ(control->records.size(), 3u);
    EXPECT_EQ(control->For(8, 16), (Rates{50000000, 100}));
    EXPECT_EQ(control->For(259, 3), (Rates{kUnlimited, 0}));
    EXPECT_EQ(control->For(8, 0), (Rates{0, 0}));
}
#endif

class ControlWatchTest : public ControlTest {
  protected:
    std::vector<std::string> log;
    Pacer pacer{platform};
    ControlWatch watch{folder / "shaping",
                       getuid(),
                       {{"/data/01", 8, 16}, {"/data/02", 8, 32}},
                       pacer,
                       platform,
                       [this](const std::string& line) { log.push_back(line); }};
    Rates Of(uint32_t filesystem) { return pacer.Get(*watch.LimitOf(filesystem)); }
};

TEST_F(ControlWatchTest, SetsTheLimitOfEachFilesystem) {
    watch.Look();
    EXPECT_FALSE(watch.LimitOf(0)->limited());
    folder.Write("shaping", ControlText(Example()));
    watch.Look();
    EXPECT_EQ(Of(0), (Rates{1000, 10}));
    EXPECT_EQ(Of(1), (Rates{0, kUnlimited}));
    EXPECT_EQ(Of(kNoFilesystem), (Rates{0, kUnlimited}));
    EXPECT_TRUE(log.empty());
}

TEST_F(ControlWatchTest, SaysWhatItHasApplied) {
    std::atomic<uint64_t> applied{0};
    watch.ReportTo(applied);
    watch.Look();
    EXPECT_EQ(applied, 0u);
    folder.Write("shaping", ControlText(Example()));
    watch.Look();
    EXPECT_EQ(applied, Example().sequence);
}

TEST_F(ControlWatchTest, TwoDirectoriesOfOneDiskHaveOneLimit) {
    const ControlWatch two{
        folder / "none", getuid(), {{"/data/01/a", 8, 16}, {"/data/01/b", 8, 16}, {"/data/02", 8, 32}},
        pacer,           platform, [](const std::string&) {}};
    EXPECT_EQ(two.LimitOf(0), two.LimitOf(1));
    EXPECT_NE(two.LimitOf(0), two.LimitOf(2));
    EXPECT_EQ(two.LimitOf(3)->rule, "guard");
}

TEST_F(ControlWatchTest, WithoutARenewalItAllEndsWithTheLease) {
    folder.Write("shaping", ControlText(Example()));
    watch.Look();
    platform.now_ns += kSecond - 1;
    watch.Look();
    EXPECT_TRUE(watch.LimitOf(0)->limited());
    platform.now_ns += 1;
    watch.Look();
    EXPECT_FALSE(watch.LimitOf(0)->limited());
    EXPECT_FALSE(watch.LimitOf(1)->limited());
}

TEST_F(ControlWatchTest, ABadFileChangesNothingBeforeTheLeaseEnds) {
    folder.Write("shaping", ControlText(Example()));
    watch.Look();
    folder.Write("shaping", "rubbish");
    for (int i = 0; i < 30; ++i)
        watch.Look();
    EXPECT_EQ(Of(0), (Rates{1000, 10}));
    ASSERT_EQ(log.size(), 1u) << "told once";
    std::filesystem::remove(folder / "shaping");
    platform.now_ns += kSecond;
    watch.Look();
    EXPECT_FALSE(watch.LimitOf(0)->limited());
}

TEST_F(ControlWatchTest, LooksByItself) {
    watch.Start();
    folder.Write("shaping", ControlText(Example()));
    for (int i = 0; i < 10000 && !watch.LimitOf(0)->limited(); ++i)
        usleep(1000);
    EXPECT_TRUE(watch.LimitOf(0)->limited());
}

} // namespace beer
