// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <functional>
#include <netinet/in.h>
#include <thread>

#include "FakeAio.hh"
#include "SfsFixture.hh"
#include "VirtualTable.hh"
#include "xrootd/sfs/SfsDirectory.hh"
#include "xrootd/sfs/SfsFile.hh"

namespace beer {

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
    EXPECT_EQ(layer->Features(), 0x40 | XrdSfs::hasNAIO);
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

TEST_F(SfsTest, AListingIsUnderWayUntilItIsClosedOrLost) {
    const auto under_way = [this] {
        uint32_t sum = 0;
        for (const auto& user : core->shaping().metadata().Users())
            sum += user.in_flight;
        return sum;
    };
    std::unique_ptr<XrdSfsDirectory> closed(layer->newDir(error)), lost(layer->newDir(error)),
        failed(layer->newDir(error));
    closed->open(path.c_str(), &storage.entity, nullptr);
    lost->open(path.c_str(), &storage.entity, nullptr);
    EXPECT_EQ(under_way(), 2u);
    closed->nextEntry();
    EXPECT_EQ(under_way(), 2u);
    log.result = SFS_ERROR;
    failed->open(path.c_str(), &storage.entity, nullptr);
    EXPECT_EQ(under_way(), 2u);
    closed->close();
    EXPECT_EQ(under_way(), 1u);
    lost.reset();
    EXPECT_EQ(under_way(), 0u);
    log.result = SFS_OK;
    failed->open(path.c_str(), &storage.entity, "cks.type=md5");
    EXPECT_EQ(under_way(), 0u) << "XRootD may forget it";
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

TEST_F(SfsTest, WithCsyncTheFileIsOnTheDiskBeforeItIsClosedOrTheClientIsTold) {
    ShapingConfig config;
    config.Add({"beer.policy", "space:*", "w", "iotype", "csync"});
    core->shaping().Use(std::move(config));
    int code = 0;
    std::string text;
    const auto close = [&](bool written, int synced) {
        const std::unique_ptr<XrdSfsFile> file(layer->newFile(nullptr, 0));
        log.result = SFS_OK;
        file->open(path.c_str(), SFS_O_RDWR, 0, &storage.entity, nullptr);
        if (written) file->write(0, nullptr, 10);
        Calls();
        log.sync_result = synced;
        const int closed = file->close();
        log.sync_result = SFS_OK;
        code = file->error.getErrInfo();
        text = file->error.getErrText();
        return closed;
    };
    EXPECT_EQ(close(true, SFS_OK), SFS_OK);
    EXPECT_EQ(Calls()[0], "sync for storage");
    EXPECT_EQ(close(true, SFS_ERROR), SFS_ERROR);
    EXPECT_EQ(Calls()[1], "close for storage") << "closed all the same";
    EXPECT_EQ(code, EIO) << "of the sync, whatever the close says";
    EXPECT_EQ(text, "the disk lost it");
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

TEST_F(SfsTest, AClientOfHttpGetsAnErrorWhoeverTellsItToWait) {
    std::strcpy(batch.entity.prot, "https");
    const char* p = path.c_str();
    auto* lower = new FakeSfsFile(log);
    auto* lower_directory = new FakeSfsDirectory(log);
    SfsFile file(*lower, *core);
    SfsDirectory directory(*lower_directory, *core);
    const std::pair<XrdOucErrInfo*, std::function<int(const XrdSecEntity*)>> calls[] = {
        {&error, [&](auto c) { return layer->rem(p, error, c, nullptr); }},
        {&error, [&](auto c) { return layer->chksum(XrdSfsFileSystem::csGet, "adler32", p, error, c, nullptr); }},
        {&lower->error, [&](auto c) { return file.open(p, SFS_O_RDONLY, 0, c, nullptr); }},
        {&lower_directory->error, [&](auto c) { return directory.open(p, c, nullptr); }},
    };
    for (const auto& [told, call] : calls) {
        told->setErrInfo(0, "the file is being staged");
        log.result = 3;
        EXPECT_EQ(call(&batch.entity), SFS_ERROR);
        EXPECT_EQ(told->getErrInfo(), EAGAIN);
        EXPECT_STREQ(told->getErrText(), "the file is being staged");
        EXPECT_EQ(call(&storage.entity), 3) << "who can wait waits";
        log.result = SFS_REDIRECT;
        EXPECT_EQ(call(&batch.entity), SFS_REDIRECT);
    }
    EXPECT_EQ(Stalls(Traffic::batch), 0u);
    // A checksum is internal work.
    EXPECT_EQ(Stalls(Traffic::storage), 9000000000u);
}

} // namespace beer
