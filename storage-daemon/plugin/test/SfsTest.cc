// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <functional>
#include <netinet/in.h>

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
    EXPECT_EQ(file->open(path.c_str(), SFS_O_SEQIO, 0, &batch.entity, nullptr), SFS_OK);
    EXPECT_EQ(Calls(), std::vector<std::string>{"open sequential for batch"});
    log.result = 8;
    const std::pair<const char*, std::function<int()>> calls[] = {
        {"checkpoint", [&] { return file->checkpoint(XrdSfsFile::cpQuery, nullptr, 0); }},
        {"fctl", [&] { return file->fctl(SFS_FCTL_STATV, nullptr, error); }},
        {"fctl", [&] { return file->fctl(SFS_FCTL_SPEC1, 0, nullptr, nullptr); }},
        {"pgRead", [&] { return file->pgRead(0, buffer, 8, nullptr, 0); }},
        {"pgRead", [&] { return file->pgRead(nullptr, 0); }},
        {"pgWrite", [&] { return file->pgWrite(0, buffer, 8, nullptr, 0); }},
        {"pgWrite", [&] { return file->pgWrite(nullptr, 0); }},
        {"read", [&] { return file->read(0, 8); }},
        {"read", [&] { return file->read(0, buffer, 8); }},
        {"read", [&] { return file->read(nullptr); }},
        {"readv", [&] { return file->readv(nullptr, 0); }},
        {"SendData", [&] { return file->SendData(nullptr, 0, 8); }},
        {"write", [&] { return file->write(0, buffer, 8); }},
        {"write", [&] { return file->write(nullptr); }},
        {"writev", [&] { return file->writev(nullptr, 0); }},
        {"stat", [&] { return file->stat(nullptr); }},
        {"sync", [&] { return file->sync(); }},
        {"sync", [&] { return file->sync(nullptr); }},
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

TEST_F(SfsTest, OffersNoWayAroundTheOssHalf) {
    const std::unique_ptr<XrdSfsFile> file(layer->newFile(nullptr, 0));
    EXPECT_EQ(file->fctl(SFS_FCTL_GETFD, nullptr, error), SFS_ERROR);
    EXPECT_EQ(error.getErrInfo(), ENOTSUP);
    void* address = this;
    off_t size = 1;
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
