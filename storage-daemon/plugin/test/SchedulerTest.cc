// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "TemporaryFolder.hh"
#include "core/shaping/Scheduler.hh"

namespace beer {
namespace fs = std::filesystem;

class SchedulerTest : public testing::Test {
  protected:
    SchedulerTest() { fs::create_directories(folder / "dev/block"); }
    // A device as sysfs shows it; `scheduler` empty = it has no queue of its own.
    void Device(const std::string& path, const std::string& number, const std::string& scheduler) {
        fs::create_directories(folder / ("devices/" + path));
        if (!scheduler.empty()) {
            fs::create_directories(folder / ("devices/" + path + "/queue"));
            folder.Write("devices/" + path + "/queue/scheduler", scheduler);
        }
        fs::create_symlink(folder / ("devices/" + path), folder / ("dev/block/" + number));
    }
    std::string Of(uint32_t major_number, uint32_t minor_number) {
        return SchedulerOf(major_number, minor_number, folder.path);
    }
    TemporaryFolder folder;
};

TEST_F(SchedulerTest, OfADiskItsPartitionsAndWhatIsMappedOnThem) {
    Device("vda", "254:0", "none [mq-deadline] bfq\n");
    Device("vda/vda1", "254:1", "");
    folder.Write("devices/vda/vda1/partition", "1\n");
    Device("vdb", "254:16", "none mq-deadline [bfq]\n");
    Device("dm-0", "253:0", "none\n");
    fs::create_directories(folder / "devices/dm-0/slaves");
    fs::create_symlink(folder / "devices/vda/vda1", folder / "devices/dm-0/slaves/vda1");
    EXPECT_EQ(Of(254, 0), "mq-deadline");
    EXPECT_EQ(Of(254, 1), "mq-deadline");
    EXPECT_EQ(Of(254, 16), "bfq");
    EXPECT_EQ(Of(253, 0), "mq-deadline");
}

TEST_F(SchedulerTest, WhatIsNotThereIsNotKnown) {
    Device("nvme0n1", "259:0", "none\n");
    Device("broken", "259:9", "]what[\n");
    EXPECT_EQ(Of(259, 0), "none");
    EXPECT_EQ(Of(259, 9), "");
    EXPECT_EQ(Of(0, 43), "");
}

TEST_F(SchedulerTest, WhatPrioritiesDoIsSaid) {
    const struct {
        const char* scheduler;
        bool turns;
        const char* said;
    } cases[] = {
        {"none", true, "only the class has an effect, by turns"},
        {"mq-deadline", true, "only the class has an effect, by turns"},
        {"bfq", true, "full effect, their classes also by turns"},
        {"", true, "is not known"},
        {"none", false, "have no effect"},
        {"mq-deadline", false, "only the class has an effect, until"},
        {"bfq", false, "I/O priorities have full effect"},
        {"", false, "is not known"},
    };
    for (const auto& one : cases) {
        const std::string said = PriorityEffect(one.scheduler, one.turns);
        EXPECT_NE(said.find(one.said), std::string::npos) << said;
    }
}

} // namespace beer
