// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <cerrno>
#include <functional>
#include <netinet/in.h>
#include <thread>

#include "FakeAio.hh"
#include "FakePlatform.hh"
#include "FakeSfs.hh"
#include "TemporaryFolder.hh"
#include "VirtualTable.hh"
#include "XrdNet/XrdNetAddr.hh"
#include "XrdSec/XrdSecEntity.hh"
#include "XrdSfs/XrdSfsFlags.hh"
#include "xrootd/sfs/SfsDirectory.hh"
#include "xrootd/sfs/SfsFile.hh"
#include "xrootd/sfs/SfsFilesystem.hh"

namespace beer {

class Client {
  public:
    explicit Client(const char* address) {
        EXPECT_EQ(address_.Set(address, 1094), nullptr);
        entity.addrInfo = &address_;
    }
    XrdSecEntity entity{"test"};

  private:
    XrdNetAddr address_;
};

class SfsTest : public testing::Test {
  protected:
    SfsTest() {
        settings.segment = folder / "beer.lat";
        settings.directories = {folder.path};
        settings.batch.Add("127.0.0.2");
        core = std::make_unique<Core>(settings, std::vector<Mount>{}, platform, [](const std::string&) {});
        layer = std::make_unique<SfsFilesystem>(next, *core);
    }
    std::vector<std::string> Calls() {
        std::vector<std::string> calls;
        calls.swap(log.calls);
        return calls;
    }
    // From the file, like the guard.
    uint32_t Readers() { return Record().first; }
    uint32_t Writers() { return Record().second; }
    std::pair<uint32_t, uint32_t> Record() {
        const std::string bytes = ReadFile(settings.segment);
        const auto* record = reinterpret_cast<const FilesystemRecord*>(bytes.data() + sizeof(Header));
        return {record->open_readers, record->open_writers};
    }
    uint64_t Stalls(Traffic traffic) {
        const std::string bytes = ReadFile(settings.segment);
        const auto* header = reinterpret_cast<const Header*>(bytes.data());
        const auto* series = reinterpret_cast<const SeriesRecord*>(bytes.data() + header->series_offset);
        return series[kStallKind + static_cast<uint32_t>(traffic)].sum_ns;
    }

    TemporaryFolder folder;
    FakePlatform platform;
    Settings settings;
    FakeSfsLog log;
    FakeSfs next{log};
    std::unique_ptr<Core> core;
    std::unique_ptr<SfsFilesystem> layer;
    Client storage{"127.0.0.1"}, batch{"127.0.0.2"};
    XrdOucErrInfo error{"test"};
    const std::string path = folder / "file";
};

TEST_F(SfsTest, EveryVirtualFunctionIsPassedOn) {
    const std::unique_ptr<XrdSfsFile> file(layer->newFile(nullptr, 0));
    const std::unique_ptr<XrdSfsDirectory> directory(layer->newDir(nullptr, 0));
    const auto own = [](const auto& object, const std::string& name, size_t least) {
        const auto functions = VirtualFunctions(object);
        EXPECT_GE(functions.size(), least);
        for (const auto& function : functions)
            EXPECT_EQ(function.rfind("beer::" + name + "::", 0), 0u) << function;
    };
    own(*layer, "SfsFilesystem", 26);
    own(*file, "SfsFile", 27);
    own(*directory, "SfsDirectory", 7);
}

TEST_F(SfsTest, MetadataCallsCarryTheirClient) {
    struct stat found{};
    mode_t mode = 0;
    XrdSfsFileExistence exists{};
    XrdSfsFSctl arguments{};
    XrdSfsFileSystem::gpfFunc action{};
    alignas(XrdSfsGPFile) char unused[sizeof(XrdSfsGPFile)]; // it has no constructor for us; nobody looks inside
    auto& transfer = reinterpret_cast<XrdSfsGPFile&>(unused);
    XrdSfsPrep prepare{};
    const char* p = path.c_str();
    const std::pair<const char*, std::function<int(const XrdSecEntity*)>> calls[] = {
        {"chmod", [&](auto c) { return layer->chmod(p, 0, error, c, nullptr); }},
        {"exists", [&](auto c) { return layer->exists(p, exists, error, c, nullptr); }},
        {"FAttr", [&](auto c) { return layer->FAttr(nullptr, error, c); }},
        {"FSctl", [&](auto c) { return layer->FSctl(1, arguments, error, c); }},
        {"fsctl", [&](auto c) { return layer->fsctl(1, nullptr, error, c); }},
        {"gpFile", [&](auto c) { return layer->gpFile(action, transfer, error, c); }},
        {"mkdir", [&](auto c) { return layer->mkdir(p, 0, error, c, nullptr); }},
        {"prepare", [&](auto c) { return layer->prepare(prepare, error, c); }},
        {"rem", [&](auto c) { return layer->rem(p, error, c, nullptr); }},
        {"remdir", [&](auto c) { return layer->remdir(p, error, c, nullptr); }},
        {"rename", [&](auto c) { return layer->rename(p, p, error, c, nullptr, nullptr); }},
        {"stat", [&](auto c) { return layer->stat(p, &found, error, c, nullptr); }},
        {"stat", [&](auto c) { return layer->stat(p, mode, error, c, nullptr); }},
        {"truncate", [&](auto c) { return layer->truncate(p, 0, error, c, nullptr); }},
    };
    for (const auto& [name, call] : calls) {
        for (int result : {SFS_OK, SFS_ERROR, SFS_REDIRECT, SFS_STARTED, SFS_DATA}) {
            log.result = result;
            EXPECT_EQ(call(&storage.entity), result) << name;
            EXPECT_EQ(Calls(), std::vector<std::string>{std::string(name) + " for storage"});
        }
        log.result = SFS_OK;
        call(&batch.entity);
        call(nullptr);
        EXPECT_EQ(Calls(),
                  (std::vector<std::string>{std::string(name) + " for batch", std::string(name) + " for internal"}));
    }
    EXPECT_EQ(Context::Current(), nullptr);
}

TEST_F(SfsTest, AChecksumIsInternalUnlessABatchJobWantsIt) {
    using Sfs = XrdSfsFileSystem;
    layer->chksum(Sfs::csCalc, "adler32", path.c_str(), error, &storage.entity, nullptr);
    layer->chksum(Sfs::csCalc, "adler32", path.c_str(), error, &batch.entity, nullptr);
    EXPECT_EQ(Calls(), (std::vector<std::string>{"chksum for internal", "chksum for batch"}));
}

TEST_F(SfsTest, ServerWideCallsArePassedOn) {
    EXPECT_STREQ(layer->getVersion(), "version");
    EXPECT_EQ(layer->Features(), 0x40 | XrdSfs::hasNOSF | XrdSfs::hasNAIO);
    layer->Connect(&storage.entity);
    layer->Disc(&storage.entity);
    layer->EnvInfo(nullptr);
    layer->getChkPSize();
    layer->getStats(nullptr, 0);
    EXPECT_EQ(Calls().size(), 5u);
}

TEST_F(SfsTest, DataCallsCarryTheClientThatOpenedTheStream) {
    std::unique_ptr<XrdSfsFile> file(layer->newFile(nullptr, 0));
    char buffer[8], type[4];
    int size = 0;
    XrdOucIOVec entries[1] = {{0, 8, 0, buffer}};
    EXPECT_EQ(file->open(path.c_str(), SFS_O_SEQIO, 0, &batch.entity, nullptr), SFS_OK);
    EXPECT_EQ(Calls(), std::vector<std::string>{"open sequential for batch"});
    log.result = 8;
    const std::pair<const char*, std::function<int()>> calls[] = {
        {"checkpoint", [&] { return file->checkpoint(XrdSfsFile::cpQuery, nullptr, 0); }},
        {"fctl", [&] { return file->fctl(SFS_FCTL_STATV, nullptr, error); }},
        {"fctl", [&] { return file->fctl(SFS_FCTL_SPEC1, 0, nullptr, nullptr); }},
        {"pgRead", [&] { return file->pgRead(0, buffer, 8, nullptr, 0); }},
        {"pgWrite", [&] { return file->pgWrite(0, buffer, 8, nullptr, 0); }},
        {"read", [&] { return file->read(0, buffer, 8); }},
        {"readv", [&] { return file->readv(entries, 1); }},
        {"write", [&] { return file->write(0, buffer, 8); }},
        {"writev", [&] { return file->writev(entries, 1); }},
        {"stat", [&] { return file->stat(nullptr); }},
        {"sync", [&] { return file->sync(); }},
        {"truncate", [&] { return file->truncate(0); }},
        {"close", [&] { return file->close(); }},
    };
    for (const auto& [name, call] : calls) {
        EXPECT_EQ(call(), 8) << name;
        EXPECT_EQ(Calls(), std::vector<std::string>{std::string(name) + " for batch"});
    }
    EXPECT_EQ(file->getCXinfo(type, size), 8);
    file->setXio(nullptr);
    EXPECT_STREQ(file->FName(), "name");
    Calls();
    file.reset();
    EXPECT_EQ(Calls(), std::vector<std::string>{"delete for batch"}) << "closing a lost client's file is its work";
}

TEST_F(SfsTest, AsynchronousRequestsAreExecutedAtOnce) {
    const std::unique_ptr<XrdSfsFile> file(layer->newFile(nullptr, 0));
    file->open(path.c_str(), SFS_O_RDWR, 0, &batch.entity, nullptr);
    Calls();
    char buffer[8];
    FakeAio request;
    request.sfsAio.aio_buf = buffer;
    request.sfsAio.aio_offset = 4096;
    request.sfsAio.aio_nbytes = 8;
    log.moves = true;
    EXPECT_EQ(file->read(&request), SFS_OK);
    EXPECT_EQ(request.Result, 8);
    EXPECT_EQ(file->pgRead(&request, 0), SFS_OK);
    EXPECT_EQ(file->write(&request), SFS_OK);
    EXPECT_EQ(file->pgWrite(&request, 0), SFS_OK);
    EXPECT_EQ(file->sync(&request), SFS_OK);
    EXPECT_EQ(request.reads, 2);
    EXPECT_EQ(request.writes, 3);
    EXPECT_EQ(Calls(), (std::vector<std::string>{"read for batch", "pgRead for batch", "write for batch",
                                                 "pgWrite for batch", "sync for batch"}));
    EXPECT_EQ(log.moved, (std::vector<std::pair<long long, int>>(4, {4096, 8})));
}

TEST_F(SfsTest, AHintToReadAheadIsForStorageOnly) {
    const std::unique_ptr<XrdSfsFile> one(layer->newFile(nullptr, 0)), other(layer->newFile(nullptr, 0));
    one->open(path.c_str(), SFS_O_RDONLY, 0, &storage.entity, nullptr);
    other->open(path.c_str(), SFS_O_RDONLY, 0, &batch.entity, nullptr);
    Calls();
    EXPECT_EQ(one->read(0, 8), SFS_OK);
    EXPECT_EQ(other->read(0, 8), SFS_OK);
    EXPECT_EQ(Calls(), std::vector<std::string>{"read for storage"});
}

TEST_F(SfsTest, OffersNoWayAroundTheOssHalf) {
    const std::unique_ptr<XrdSfsFile> file(layer->newFile(nullptr, 0));
    EXPECT_EQ(file->fctl(SFS_FCTL_GETFD, nullptr, error), SFS_ERROR);
    EXPECT_EQ(error.getErrInfo(), ENOTSUP);
    void* address = this;
    off_t size = 1;
    EXPECT_EQ(file->SendData(nullptr, 0, 8), SFS_ERROR);
    EXPECT_EQ(file->getMmap(&address, size), SFS_OK);
    EXPECT_EQ(address, nullptr);
    EXPECT_EQ(size, 0);
    EXPECT_TRUE(Calls().empty());
}

TEST_F(SfsTest, TheErrorObjectIsThatOfTheNextLayer) {
    auto* file = new FakeSfsFile(log);
    auto* directory = new FakeSfsDirectory(log);
    XrdOucErrInfo *of_file = &file->error, *of_directory = &directory->error;
    const SfsFile outer_file(*file, *core);
    const SfsDirectory outer_directory(*directory, *core);
    EXPECT_EQ(&outer_file.error, of_file);
    EXPECT_EQ(&outer_directory.error, of_directory);
}

TEST_F(SfsTest, DirectoriesCarryTheirClient) {
    std::unique_ptr<XrdSfsDirectory> directory(layer->newDir(error));
    EXPECT_EQ(directory->open(path.c_str(), &batch.entity, nullptr), SFS_OK);
    EXPECT_STREQ(directory->nextEntry(), "entry");
    EXPECT_EQ(directory->autoStat(nullptr), SFS_OK);
    EXPECT_EQ(directory->close(), SFS_OK);
    EXPECT_STREQ(directory->FName(), "name");
    directory.reset();
    EXPECT_EQ(Calls(), (std::vector<std::string>{"open for batch", "nextEntry for batch", "autoStat for batch",
                                                 "close for batch", "delete for batch"}));
}

TEST_F(SfsTest, OpenStreamsAreCountedUntilClosedOrLost) {
    std::unique_ptr<XrdSfsFile> reader(layer->newFile(error)), writer(layer->newFile(error)),
        failed(layer->newFile(error));
    reader->open(path.c_str(), SFS_O_RDONLY, 0, &storage.entity, nullptr);
    writer->open(path.c_str(), SFS_O_WRONLY, 0, &storage.entity, nullptr);
    log.result = SFS_ERROR;
    failed->open(path.c_str(), SFS_O_RDONLY, 0, &storage.entity, nullptr);
    EXPECT_EQ(Readers(), 1u);
    EXPECT_EQ(Writers(), 1u);
    reader->close();
    reader.reset();
    EXPECT_EQ(Readers(), 0u);
    writer.reset();
    EXPECT_EQ(Writers(), 0u);
}

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
    struct Everybody final : Fence {
        bool Enter() noexcept override { return true; }
        void Leave() noexcept override {}
    } everybody;
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
    EXPECT_TRUE(await([&] { return core->shaping().pacer().waiters() == 1; }))
        << "the guard has stopped batch meanwhile";
    EXPECT_EQ(queue.waiting(), 0u);
    EXPECT_EQ(log.moved.size(), 1u);
    EXPECT_EQ(Paced(Traffic::batch), 1u) << "the turn";
    core->shaping().pacer().Set(*Batch(), {});
    reader.join();
    EXPECT_EQ(log.moved.size(), 2u);
    queue.Leave(slow);
}

TEST_F(SfsTest, WithCsyncTheFileIsOnTheDiskBeforeItIsClosedOrTheClientIsTold) {
    ShapingConfig config;
    config.Add({"beer.policy", "space:*", "w", "iotype", "csync"});
    core->shaping().Use(std::move(config));
    const auto close = [&](bool written, int synced) {
        const std::unique_ptr<XrdSfsFile> file(layer->newFile(nullptr, 0));
        log.result = SFS_OK;
        file->open(path.c_str(), SFS_O_RDWR, 0, &storage.entity, nullptr);
        if (written) file->write(0, nullptr, 10);
        Calls();
        log.sync_result = synced;
        const int closed = file->close();
        log.sync_result = SFS_OK;
        return closed;
    };
    EXPECT_EQ(close(true, SFS_OK), SFS_OK);
    EXPECT_EQ(Calls()[0], "sync for storage");
    EXPECT_EQ(close(true, SFS_ERROR), SFS_ERROR);
    EXPECT_EQ(Calls()[1], "close for storage") << "closed all the same";
    EXPECT_EQ(close(false, SFS_ERROR), SFS_OK) << "nothing was written";
}

TEST_F(SfsTest, WhatAClientIsToldToWaitIsCounted) {
    log.result = 3;
    EXPECT_EQ(layer->rem(path.c_str(), error, &storage.entity, nullptr), 3);
    const std::unique_ptr<XrdSfsFile> file(layer->newFile(nullptr, 0));
    log.result = 5;
    EXPECT_EQ(file->open(path.c_str(), SFS_O_RDONLY, 0, &batch.entity, nullptr), 5);
    EXPECT_EQ(Stalls(Traffic::storage), 3000000000u);
    EXPECT_EQ(Stalls(Traffic::batch), 5000000000u);
    log.result = 8; // of a data call it is a number of bytes
    EXPECT_EQ(file->read(0, 8), 8);
    EXPECT_EQ(Stalls(Traffic::batch), 5000000000u);
}

} // namespace beer
