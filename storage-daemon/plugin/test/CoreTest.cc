// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <thread>

#include "FakePlatform.hh"
#include "TemporaryFolder.hh"
#include "core/Context.hh"
#include "core/Core.hh"

namespace beer {

class CoreTest : public testing::Test {
  protected:
    CoreTest() {
        settings.instance = "beer";
        settings.segment = folder / "beer.lat";
        settings.directories = {folder.path};
        settings.batch.Add("10.127.0.0/16");
    }
    std::unique_ptr<Core> Make() {
        return std::make_unique<Core>(settings, std::vector<Mount>{}, platform,
                                      [this](const std::string& line) { log.push_back(line); });
    }
    static Origin From(const Core& core, const char* text) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        EXPECT_EQ(inet_pton(AF_INET, text, &address.sin_addr), 1);
        return core.OriginOf(reinterpret_cast<const sockaddr*>(&address));
    }
    TemporaryFolder folder;
    FakePlatform platform;
    Settings settings;
    std::vector<std::string> log;
};

TEST_F(CoreTest, TellsBatchFromStorageByAddress) {
    const auto core = Make();
    EXPECT_EQ(From(*core, "10.127.0.7").traffic, Traffic::batch);
    EXPECT_EQ(From(*core, "10.127.0.7").client, 1u);
    EXPECT_EQ(From(*core, "10.127.0.8").client, 2u);
    EXPECT_EQ(From(*core, "192.0.2.1").traffic, Traffic::storage);
    EXPECT_EQ(From(*core, "192.0.2.1").client, 0u);
    EXPECT_EQ(core->OriginOf(nullptr).traffic, Traffic::storage);
    EXPECT_TRUE(log.empty());
}

TEST_F(CoreTest, WithoutAnSfsHalfEverythingIsStorage) {
    const auto core = Make();
    EXPECT_EQ(core->CurrentOrigin().traffic, Traffic::storage);
    core->AttachSfsHalf();
    EXPECT_EQ(core->CurrentOrigin().traffic, Traffic::internal);
    const Context context({Traffic::batch, 9});
    EXPECT_EQ(core->CurrentOrigin().client, 9u);
}

TEST_F(CoreTest, ServesWithoutMeasuringWhenThereIsNoSegment) {
    settings.segment = "/no/such/folder/beer.lat";
    const auto core = Make();
    EXPECT_EQ(core->recorder(), nullptr);
    EXPECT_EQ(core->FilesystemOf(folder.path.c_str()), 0u) << "limits still know it";
    EXPECT_EQ(From(*core, "10.127.0.7").traffic, Traffic::batch);
    ASSERT_EQ(log.size(), 1u);
    EXPECT_NE(log[0].find("WITHOUT MEASURING"), std::string::npos);
}

TEST_F(CoreTest, TranslatesPathsAndSurvivesATranslationThatThrows) {
    const auto core = Make();
    core->SetTranslation([this](const char* path, char* buffer, int size) -> const char* {
        if (std::string(path) == "/bad") throw std::runtime_error("translation");
        if (std::string(path) == "/none") return nullptr;
        snprintf(buffer, static_cast<size_t>(size), "%s%s", folder.path.c_str(), path);
        return buffer;
    });
    EXPECT_EQ(core->FilesystemOf("/file"), 0u);
    EXPECT_EQ(core->FilesystemOf("/none"), kNoFilesystem);
    EXPECT_EQ(core->FilesystemOf("/bad"), kNoFilesystem);
    EXPECT_EQ(core->FilesystemOf(nullptr), kNoFilesystem);
}

TEST_F(CoreTest, TheHeartbeatGoesOnAndEndsWithItsOwner) {
    SegmentOptions options;
    options.path = settings.segment;
    options.filesystems = {{folder.path, 0, 0}};
    std::string error;
    const auto segment = Segment::Create(options, platform, error);
    ASSERT_TRUE(segment) << error;
    const auto reached = [&](uint64_t beat) {
        for (int i = 0; i < 2000 && segment->header().heartbeat_ns != beat; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return segment->header().heartbeat_ns == beat;
    };
    {
        const Heartbeat heartbeat(*segment, platform, std::chrono::milliseconds(1));
        platform.now_ns = 5000;
        EXPECT_TRUE(reached(5000));
        platform.broken = true;
        for (int i = 0; i < 2000 && segment->header().internal_errors == 0; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        platform.broken = false;
        platform.now_ns = 6000;
        EXPECT_TRUE(reached(6000)) << "one bad beat ended it";
    }
    EXPECT_GE(segment->header().internal_errors, 1u);
    platform.now_ns = 7000;
    EXPECT_EQ(segment->header().heartbeat_ns, 6000u);
}

} // namespace beer
