// SPDX-License-Identifier: Apache-2.0
//
// What limits, turns, budgets and people's tables see of streams.
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "OpenFence.hh"
#include "SfsFixture.hh"
#include "xrootd/sfs/SfsFile.hh"

namespace beer {

// Batch is paced, storage is not: the same limit for all of the node, set by the guard.
class PacedTest : public SfsTest {
  protected:
    PacedTest() {
        platform.step_ns = 1000000000; // nobody waits for long
        file.reset(layer->newFile(nullptr, 0));
        log.moves = true;
    }
    const std::shared_ptr<Limit>& Batch() { return core->shaping().control().LimitOf(0); }
    void Open(const Client& client) { file->open(path.c_str(), SFS_O_RDWR, 0, &client.entity, nullptr); }
    uint64_t Paced(Traffic traffic) {
        const std::string bytes = ReadFile(settings.segment);
        const auto* header = reinterpret_cast<const Header*>(bytes.data());
        const auto* series = reinterpret_cast<const SeriesRecord*>(bytes.data() + header->series_offset);
        return series[kPacingKind + static_cast<uint32_t>(traffic)].operations;
    }
    std::unique_ptr<XrdSfsFile> file;
    char* const buffer = nullptr; // nobody looks into it
};

TEST_F(PacedTest, AnUnlimitedRequestIsOnePiece) {
    Open(batch);
    EXPECT_EQ(file->read(5, buffer, 2000000), 2000000);
    EXPECT_EQ(log.moved, (std::vector<std::pair<long long, int>>{{5, 2000000}}));
}

TEST_F(PacedTest, ALimitedRequestComesInPiecesThatEndAtPages) {
    core->shaping().pacer().Set(*Batch(), {1u << 30, kUnlimited}); // pieces of a tenth: 107 MB
    Open(batch);
    const int size = 250000000;
    uint32_t checksums[100000] = {};
    EXPECT_EQ(file->pgRead(100, buffer, size, checksums, 0), size);
    ASSERT_EQ(log.moved.size(), 3u);
    long long at = 100;
    for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(log.moved[i].first, at);
        EXPECT_EQ(log.checksums[i], checksums + (i ? at / 4096 : 0));
        at += log.moved[i].second;
        EXPECT_TRUE(i == 2 || at % 4096 == 0);
    }
    EXPECT_EQ(at, 100 + size);
}

TEST_F(PacedTest, VectorsOfBatchAreMovedOneEntryAtATimeSoThatALimitIsNotTooLate) {
    Open(batch);
    std::vector<XrdOucIOVec> entries = {{0, 10, 0, nullptr}, {4096, 20, 0, nullptr}, {100, 30, 0, nullptr}};
    EXPECT_EQ(file->readv(entries.data(), 3), 60);
    EXPECT_EQ(file->writev(entries.data(), 3), 60);
    const std::vector<std::pair<long long, int>> each = {{0, 10}, {4096, 20}, {100, 30}};
    EXPECT_EQ(std::vector(log.moved.begin(), log.moved.begin() + 3), each);
    EXPECT_EQ(std::vector(log.moved.begin() + 3, log.moved.end()), each);
}

TEST_F(PacedTest, VectorsOfStorageAreOneRequest) {
    Open(storage);
    std::vector<XrdOucIOVec> entries = {{0, 10, 0, nullptr}, {4096, 20, 0, nullptr}};
    EXPECT_EQ(file->readv(entries.data(), 2), 30);
    EXPECT_EQ(log.moved.size(), 1u);
}

TEST_F(PacedTest, AShortReadEndsTheRequest) {
    core->shaping().pacer().Set(*Batch(), {1u << 30, kUnlimited});
    Open(batch);
    log.moves = false;
    log.result = 7;
    EXPECT_EQ(file->read(0, buffer, 250000000), 7);
    EXPECT_EQ(log.moved.size(), 1u);
    log.result = SFS_ERROR;
    EXPECT_EQ(file->read(0, buffer, 250000000), SFS_ERROR);
}

TEST_F(PacedTest, AShortWriteIsAskedAgain) {
    core->shaping().pacer().Set(*Batch(), {1u << 30, kUnlimited});
    Open(batch);
    log.moves = false;
    log.result = 100; // of the first piece of many
    EXPECT_EQ(file->write(0, buffer, 300), 300);
    EXPECT_EQ(log.moved, (std::vector<std::pair<long long, int>>{{0, 300}, {100, 200}, {200, 100}}));
    log.result = 0;
    EXPECT_EQ(file->write(0, buffer, 300), 0);
    log.result = SFS_ERROR;
    EXPECT_EQ(file->write(0, buffer, 300), SFS_ERROR);
}

TEST_F(PacedTest, MetadataOfHeldBatchIsToldToComeBack) {
    core->shaping().pacer().Set(*Batch(), {0, 0});
    Calls();
    EXPECT_GE(layer->rem(path.c_str(), error, &batch.entity, nullptr), 5);
    EXPECT_STREQ(error.getErrText(), "the guard of this node holds batch at the moment");
    EXPECT_TRUE(Calls().empty());
    EXPECT_EQ(layer->rem(path.c_str(), error, &storage.entity, nullptr), SFS_OK);
}

TEST_F(PacedTest, HeldBatchDoesNotHoldStorage) {
    core->shaping().pacer().Set(*Batch(), {0, 0});
    Open(storage);
    EXPECT_EQ(file->read(0, buffer, 100), 100);
    EXPECT_EQ(Paced(Traffic::storage), 0u);
}

TEST_F(PacedTest, MoreLinksThanMayBeHeldAreRefused) {
    settings.shaping.workers = 32; // an eighth of them, and half of that for one client
    core.reset();                  // the segment is that of one process
    core = std::make_unique<Core>(settings, std::vector<Mount>{}, platform, [](const std::string&) {});
    layer = std::make_unique<SfsFilesystem>(next, *core);
    const auto open = [&](XrdSfsFile& one, Client& client, const char* link) {
        client.entity.tident = link;
        return one.open(path.c_str(), SFS_O_RDONLY, 0, &client.entity, nullptr);
    };
    std::unique_ptr<XrdSfsFile> files[5];
    for (auto& one : files)
        one.reset(layer->newFile(nullptr, 0));
    EXPECT_EQ(open(*files[0], batch, "job.1:5@node"), SFS_OK);
    EXPECT_EQ(open(*files[1], batch, "job.1:5@node"), SFS_OK) << "the same link";
    EXPECT_EQ(open(*files[2], batch, "job.2:6@[::127.0.0.2]"), SFS_OK);
    Calls();
    EXPECT_EQ(open(*files[3], batch, "job.3:7@[::ffff:127.0.0.2]"), SFS_ERROR) << "half of an eighth of 32 is two";
    EXPECT_EQ(files[3]->error.getErrInfo(), EUSERS);
    EXPECT_TRUE(Calls().empty()) << "nobody was asked to open it";
    EXPECT_EQ(open(*files[4], storage, "user.4:8@desk"), SFS_OK) << "storage is not concerned";
    files[2]->close();
    EXPECT_EQ(open(*files[3], batch, "job.3:7@[::ffff:127.0.0.2]"), SFS_OK);
}

TEST_F(PacedTest, AFileThatIsBeingOpenedCountsAlready) {
    core->shaping().overload().SetLimits(0, {1, 0});
    const std::unique_ptr<XrdSfsFile> second(layer->newFile(nullptr, 0));
    const auto open = [&](XrdSfsFile& one) {
        return one.open(path.c_str(), SFS_O_RDONLY, 0, &storage.entity, nullptr);
    };
    log.on_open = [&] { // on a slow disk it takes long, and others come meanwhile
        EXPECT_EQ(open(*second), SFS_ERROR);
        EXPECT_EQ(second->error.getErrInfo(), EUSERS);
        EXPECT_EQ(Stalls(Traffic::storage), 33 * uint64_t{1000000000}) << "as long as XRootD tells it to stay away";
    };
    log.result = SFS_ERROR; // and it fails
    EXPECT_EQ(open(*file), SFS_ERROR);
    EXPECT_EQ(Readers(), 0u);
    log.result = SFS_OK;
    EXPECT_EQ(open(*second), SFS_OK);
    EXPECT_EQ(open(*file), SFS_ERROR);
    second->close();
    EXPECT_EQ(open(*file), SFS_OK);
    EXPECT_EQ(Readers(), 1u);
}

TEST_F(PacedTest, StorageUsersWithALimitAreNeverRefused) {
    settings.shaping.workers = 32;
    settings.policy.Add({"beer.policy", "user:alice", "r", "bandwidth", "1GB/s"});
    core.reset();
    core = std::make_unique<Core>(settings, std::vector<Mount>{}, platform, [](const std::string&) {});
    layer = std::make_unique<SfsFilesystem>(next, *core);
    char alice[] = "alice";
    storage.entity.name = alice;
    std::unique_ptr<XrdSfsFile> files[6];
    for (size_t i = 0; i < 6; ++i) {
        const std::string link = "alice." + std::to_string(i) + ":5@desk";
        storage.entity.tident = link.c_str();
        files[i].reset(layer->newFile(nullptr, 0));
        EXPECT_EQ(files[i]->open(path.c_str(), SFS_O_RDONLY, 0, &storage.entity, nullptr), SFS_OK) << i;
        EXPECT_EQ(files[i]->read(0, buffer, 1000), 1000) << i;
    }
    EXPECT_EQ(core->shaping().storage_links().links(), 1u) << "half of a sixteenth of 32 is one";
    storage.entity.name = nullptr;
}

// What people see of open files (Core::streams()).
TEST_F(PacedTest, AnOpenFileIsListedWithItsClientAndCounted) {
    char alice[] = "alice";
    storage.entity.name = alice;
    storage.entity.tident = "alice.1:5@desk";
    EXPECT_EQ(file->open(path.c_str(), SFS_O_RDWR, 0, &storage.entity, "eos.app=scan"), SFS_OK);
    const auto listed = core->streams().List(10);
    ASSERT_EQ(listed.size(), 1u);
    const OpenStream::Owner& owner = listed[0].stream->owner;
    EXPECT_EQ(owner.user, "alice");
    EXPECT_EQ(owner.app, "scan");
    EXPECT_EQ(owner.link, "alice.1:5@desk");
    EXPECT_EQ(owner.path, path);
    EXPECT_EQ(owner.traffic, Traffic::storage);
    EXPECT_EQ(owner.filesystem, 0u);
    EXPECT_TRUE(owner.writer);
    ASSERT_TRUE(owner.host);
    EXPECT_EQ((*owner.host)[12], 127);
    std::vector<XrdOucIOVec> entries = {{0, 10, 0, nullptr}, {4096, 20, 0, nullptr}};
    file->read(0, buffer, 100);
    file->pgRead(0, buffer, 1000, nullptr, 0);
    file->readv(entries.data(), 2);
    file->write(0, buffer, 7);
    log.moves = false;
    log.result = SFS_ERROR;
    file->read(0, buffer, 100); // an error is no request that was served
    const OpenStream::Now now = listed[0].stream->Look();
    EXPECT_EQ(now.bytes[0], 1130u);
    EXPECT_EQ(now.operations[0], 3u);
    EXPECT_EQ(now.bytes[1], 7u);
    EXPECT_EQ(now.operations[1], 1u);
    EXPECT_EQ(now.waits, 0u);
    file->close();
    EXPECT_EQ(core->streams().size(), 0u);
    storage.entity.name = nullptr;
}

TEST_F(PacedTest, AFileThatIsNotOpenedOrAbandonedIsNotListed) {
    log.result = SFS_ERROR;
    Open(storage);
    EXPECT_EQ(core->streams().size(), 0u);
    log.result = SFS_OK;
    Open(storage);
    EXPECT_EQ(core->streams().size(), 1u);
    file.reset();
    EXPECT_EQ(core->streams().size(), 0u);
}

TEST_F(PacedTest, AStreamSaysHowLongItWaitedAndForWhat) {
    core->shaping().pacer().Set(*Batch(), {1u << 30, kUnlimited});
    Open(batch);
    const auto listed = core->streams().List(10);
    ASSERT_EQ(listed.size(), 1u);
    EXPECT_EQ(file->read(0, buffer, 250000000), 250000000);
    const OpenStream::Now now = listed[0].stream->Look();
    EXPECT_EQ(now.waits, Paced(Traffic::batch));
    EXPECT_GT(now.waits, 0u);
    EXPECT_GT(now.waited_ns, 0u);
    EXPECT_EQ(now.by, "guard on " + folder.path);
    EXPECT_EQ(now.operations[0], 1u) << "of the client; the pieces are ours";
    EXPECT_EQ(now.bytes[0], 250000000u);
    EXPECT_EQ(now.waiting, 0u);

    // Piece by piece, or rates would jump; a request that fails is none.
    std::vector<uint64_t> seen;
    log.on_move = [&] { seen.push_back(listed[0].stream->Look().bytes[1]); };
    file->write(0, buffer, 250000000);
    ASSERT_EQ(seen.size(), 3u);
    EXPECT_TRUE(0 == seen[0] && seen[0] < seen[1] && seen[1] < seen[2] && seen[2] < 250000000);
    EXPECT_EQ(listed[0].stream->Look().operations[1], 1u);
    log.on_move = nullptr;
    log.moves = false;
    log.result = SFS_ERROR;
    file->write(0, buffer, 250000000);
    EXPECT_EQ(listed[0].stream->Look().operations[1], 1u);
    EXPECT_EQ(listed[0].stream->Look().bytes[1], 250000000u);
}

TEST_F(PacedTest, AHeldStreamIsShownWhileItWaits) {
    platform.step_ns = 0;
    Open(batch);
    ASSERT_EQ(core->streams().size(), 1u);
    core->shaping().pacer().Set(*Batch(), {0, 0});
    const uint64_t began = platform.now_ns;
    std::thread reader([&] { file->read(0, buffer, 100); });
    for (int i = 0; i < 20000 && core->streams().List(1)[0].stream->Look().waiting == 0; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const OpenStream::Now held = core->streams().List(1)[0].stream->Look();
    EXPECT_EQ(held.waiting, 1u);
    EXPECT_EQ(held.waits_since, began);
    EXPECT_EQ(held.by, "guard on " + folder.path);
    core->shaping().pacer().Set(*Batch(), {});
    reader.join();
    const OpenStream::Now free = core->streams().List(1)[0].stream->Look();
    EXPECT_EQ(free.waiting, 0u);
    EXPECT_EQ(free.bytes[0], 100u);
}

TEST_F(PacedTest, ARequestWaitsForItsTurnAndThenForTheGuard) {
    OpenFence everybody;
    platform.step_ns = 0;
    TurnQueue& queue = *core->shaping().arbiter().QueueOf(0);
    queue.Use(true);
    Turn higher(IoPriority::Class::real_time), slow(IoPriority::Class::best_effort);
    queue.Enter(higher, everybody, 1);
    queue.Enter(slow, everybody, 1); // the allowance
    Open(batch);
    std::thread reader([&] { EXPECT_EQ(file->read(0, buffer, 100), 100); });
    const auto await = [](auto&& done) {
        for (int i = 0; i < 20000 && !done(); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return done();
    };
    EXPECT_TRUE(await([&] { return queue.waiting() == 1; }));
    const OpenStream::Now held = core->streams().List(1)[0].stream->Look();
    EXPECT_EQ(held.by, TurnQueue::kRule);
    EXPECT_EQ(file->write(0, buffer, 10), 10) << "into the page cache: it waits for no disk";
    EXPECT_EQ(log.moved.size(), 1u);
    core->shaping().pacer().Set(*Batch(), {0, 0});
    platform.now_ns += 5000;
    queue.Leave(higher);
    queue.Leave(slow); // until then there is no room for another one
    EXPECT_TRUE(await([&] { return core->shaping().pacer().waiters() == 1; }))
        << "the guard has stopped batch meanwhile";
    EXPECT_EQ(queue.waiting(), 0u);
    EXPECT_EQ(log.moved.size(), 1u);
    EXPECT_EQ(Paced(Traffic::batch), 1u) << "the turn";
    core->shaping().pacer().Set(*Batch(), {});
    reader.join();
    EXPECT_EQ(log.moved.size(), 2u);
}

} // namespace beer
