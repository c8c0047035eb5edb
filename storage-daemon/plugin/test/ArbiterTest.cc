// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "FakePlatform.hh"
#include "TemporaryFolder.hh"
#include "core/shaping/Arbiter.hh"

namespace beer {

TEST(ArbiterTest, KeepsTurnsWhereTheSchedulerIsKnown) {
    TemporaryFolder sys;
    const auto use = [&](const std::string& scheduler) {
        std::filesystem::create_directories(sys / "dev/block/8:1/queue");
        sys.Write("dev/block/8:1/queue/scheduler", scheduler);
    };
    use("[none] mq-deadline bfq\n");
    FakePlatform platform;
    std::vector<std::string> said;
    Arbiter arbiter(
        {{"/data/01", 8, 1}, {"/data/02", 8, 2}}, platform, [&](const std::string& text) { said.push_back(text); },
        sys.path);
    ASSERT_NE(arbiter.QueueOf(0), nullptr);
    EXPECT_TRUE(arbiter.QueueOf(0)->on());
    EXPECT_FALSE(arbiter.QueueOf(1)->on()) << "its scheduler is not known";
    EXPECT_EQ(arbiter.QueueOf(2), nullptr);
    EXPECT_TRUE(said.empty()) << "the plug-in says it at the start";

    use("none [mq-deadline] bfq\n");
    arbiter.Look();
    EXPECT_TRUE(arbiter.QueueOf(0)->on());
    use("none mq-deadline [bfq]\n");
    arbiter.Look();
    arbiter.Look();
    EXPECT_TRUE(arbiter.QueueOf(0)->on());
    ASSERT_EQ(said.size(), 2u);
    EXPECT_NE(said[1].find("/data/01 was mq-deadline, is bfq"), std::string::npos) << said[1];

    arbiter.Use(false);
    EXPECT_FALSE(arbiter.QueueOf(0)->on());
    arbiter.Use(true);
    EXPECT_TRUE(arbiter.QueueOf(0)->on());
    EXPECT_FALSE(arbiter.QueueOf(1)->on());
    ASSERT_EQ(said.size(), 4u);
    EXPECT_EQ(said[2], "scheduler of /data/01 is bfq: I/O priorities have full effect");
    EXPECT_EQ(said[3], "scheduler of /data/01 is bfq: I/O priorities have full effect, their classes also by turns "
                       "that are kept here");
}

} // namespace beer
