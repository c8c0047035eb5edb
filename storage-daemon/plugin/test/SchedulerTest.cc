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

TEST_F(SchedulerTest, TurnsAreKeptAsWantedAndWhatThatDoesIsSaid) {
    const struct {
        const char* scheduler;
        KeepTurns wanted;
        bool kept;
        const char* said;
    } cases[] = {
        {"none", KeepTurns::automatic, true, "only the class has an effect, by turns"},
        {"mq-deadline", KeepTurns::automatic, true, "only the class has an effect, by turns"},
        {"bfq", KeepTurns::automatic, false, "I/O priorities have full effect"},
        {"", KeepTurns::automatic, false, "is not known"},
        {"bfq", KeepTurns::everywhere, true, "full effect, their classes also by turns"},
        {"none", KeepTurns::everywhere, true, "only the class has an effect, by turns"},
        {"", KeepTurns::everywhere, false, "is not known"},
        {"none", KeepTurns::nowhere, false, "have no effect"},
        {"mq-deadline", KeepTurns::nowhere, false, "only the class has an effect, until"},
        {"bfq", KeepTurns::nowhere, false, "I/O priorities have full effect"},
    };
    for (const auto& one : cases) {
        const bool kept = TurnsKept(one.scheduler, one.wanted);
        EXPECT_EQ(kept, one.kept) << one.scheduler;
        const std::string said = PriorityEffect(one.scheduler, kept);
        EXPECT_NE(said.find(one.said), std::string::npos) << said;
    }
}

} // namespace beer
