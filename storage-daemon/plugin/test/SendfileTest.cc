// SPDX-License-Identifier: Apache-2.0
//
// What is sent by sendfile, and what is read instead.
#include <gtest/gtest.h>

#include <cerrno>

#include "OpenFence.hh"
#include "SfsFixture.hh"
#include "XrdSfs/XrdSfsDio.hh"

namespace beer {

struct FakeSender final : XrdSfsDio {
    int SendFile(int fd) override {
        sent.push_back(fd);
        return result;
    }
    int SendFile(XrdOucSFVec*, int) override { return -1; }
    void SetFD(int fd) override { set.push_back(fd); }
    std::vector<int> sent, set;
    int result = 0;
};

class SendfileTest : public SfsTest {
  protected:
    static constexpr int kMiB = 1 << 20, kDescriptor = 1 << 30; // which is not open
    SendfileTest() {
        file.reset(layer->newFile(nullptr, 0));
        log.moves = true;
        log.descriptor = kDescriptor;
    }
    void Open(const Client& client) { file->open(path.c_str(), SFS_O_RDONLY, 0, &client.entity, nullptr); }
    void ExpectRead(int fetched) {
        EXPECT_TRUE(sender.sent.empty());
        EXPECT_EQ(sender.set, std::vector<int>{-1}) << "read from now on";
        EXPECT_EQ(log.moved.size(), fetched);
    }
    std::unique_ptr<XrdSfsFile> file;
    FakeSender sender;
};

TEST_F(SendfileTest, WhatIsInMemoryIsSentAtOnce) {
    Open(storage);
    EXPECT_EQ(file->fctl(SFS_FCTL_GETFD, nullptr, error), SFS_OK);
    EXPECT_EQ(error.getErrInfo(), static_cast<int>(SFS_SFIO_FDVAL));
    EXPECT_EQ(file->SendData(&sender, 100, 5 * kMiB), SFS_OK);
    EXPECT_EQ(log.moved, (std::vector<std::pair<long long, int>>{{100, 5 * kMiB}}));
    EXPECT_EQ(sender.sent, std::vector<int>{kDescriptor});
    EXPECT_TRUE(sender.set.empty());
}

TEST_F(SendfileTest, XRootDIsNotToldOfAFailure) {
    Open(storage);
    sender.result = -1;
    EXPECT_EQ(file->SendData(&sender, 0, kMiB), SFS_OK) << "it would answer once more";
    EXPECT_EQ(sender.sent.size(), 1u);
    EXPECT_TRUE(sender.set.empty());
}

TEST_F(SendfileTest, WhatIsNotInMemoryIsRead) {
    Open(storage);
    log.moves = false;
    log.result = 0;
    file->SendData(&sender, 0, kMiB);
    ExpectRead(1);
}

TEST_F(SendfileTest, AFileWithoutADescriptorIsRead) {
    Open(storage);
    log.descriptor = -1;
    file->SendData(&sender, 0, kMiB);
    ExpectRead(1);
}

TEST_F(SendfileTest, WhatIsVeryLargeIsRead) {
    Open(storage);
    file->SendData(&sender, 0, 16 * kMiB + 1);
    ExpectRead(0);
}

TEST_F(SendfileTest, WhatThePlugInMustDoItselfIsRead) {
    const std::vector<std::string> wishes[] = {{"iopriority", "be:7"}, {"iotype", "direct"}, {"readahead", "1MiB"}};
    for (const auto& wish : wishes) {
        ShapingConfig config;
        ASSERT_EQ(config.Add({"beer.policy", "space:*", "r", wish[0], wish[1]}), "");
        core->shaping().Use(std::move(config));
        Open(storage);
        sender.set.clear();
        file->SendData(&sender, 0, kMiB);
        ExpectRead(0);
    }
}

TEST_F(SendfileTest, WhatIsInMemoryWaitsForNoDisk) {
    OpenFence everybody;
    TurnQueue& queue = *core->shaping().arbiter().QueueOf(0);
    queue.Use(true);
    Turn higher(IoPriority::Class::real_time), lower(IoPriority::Class::best_effort);
    queue.Enter(higher, everybody, 1);
    queue.Enter(lower, everybody, 1); // the allowance
    Open(storage);
    platform.step_ns = 4 * Turns::kOverdueNs; // a wait would end at the second look at the clock
    file->SendData(&sender, 0, kMiB);
    EXPECT_EQ(sender.sent, std::vector<int>{kDescriptor});
    EXPECT_EQ(core->streams().List(1)[0].stream->Look().waits, 0u);
    queue.Leave(higher);
    queue.Leave(lower);
}

TEST_F(SendfileTest, BatchIsNeverSent) {
    Open(batch);
    EXPECT_EQ(file->fctl(SFS_FCTL_GETFD, nullptr, error), SFS_ERROR);
    EXPECT_EQ(error.getErrInfo(), ENOTSUP);
    file->SendData(&sender, 0, kMiB);
    ExpectRead(0);
}

TEST_F(SendfileTest, IsNotOfferedWhenItIsOff) {
    settings.sendfile = false;
    settings.segment = folder / "other.lat";
    Core without(settings, {}, platform, [](const std::string&) {});
    SfsFilesystem other(next, without);
    EXPECT_TRUE(other.Features() & XrdSfs::hasNOSF);
    EXPECT_FALSE(layer->Features() & XrdSfs::hasNOSF);
    file.reset(other.newFile(nullptr, 0));
    Open(storage);
    EXPECT_EQ(file->fctl(SFS_FCTL_GETFD, nullptr, error), SFS_ERROR);
    file.reset(); // before what it was made from
}

} // namespace beer
