// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fcntl.h>
#include <functional>
#include <map>
#include <stdexcept>
#include <sys/stat.h>

#include "FakeOss.hh"
#include "TemporaryFolder.hh"
#include "VirtualTable.hh"
#include "XrdOuc/XrdOucEnv.hh"
#include "XrdOuc/XrdOucIOVec.hh"
#include "core/Context.hh"
#include "xrootd/oss/OssDirectory.hh"
#include "xrootd/oss/OssFile.hh"
#include "xrootd/oss/OssFilesystem.hh"

namespace beer {

class OssTest : public testing::Test {
  protected:
    OssTest() {
        settings.instance = "beer";
        settings.segment = folder / "beer.lat";
        settings.directories = {folder.path};
        core = std::make_unique<Core>(settings, std::vector<Mount>{}, platform,
                                      [this](const std::string& text) { log.push_back(text); });
        core->AttachSfsHalf();
        filesystem = std::make_unique<OssFilesystem>(lower, *core);
        const int fd = open(settings.segment.c_str(), O_RDONLY);
        map.resize(sizeof(Header) + sizeof(FilesystemRecord) + 128 + kSeriesPerFilesystem * sizeof(SeriesRecord));
        descriptor = fd;
    }
    ~OssTest() override { close(descriptor); }

    // Operations of a series, read from the file like the guard does.
    uint64_t Operations(Event event, Traffic traffic) { return Field(event, traffic, 0); }
    uint64_t Field(Event event, Traffic traffic, int field) {
        EXPECT_GT(pread(descriptor, map.data(), map.size(), 0), 0);
        Header* header = reinterpret_cast<Header*>(map.data());
        auto* series = reinterpret_cast<SeriesRecord*>(map.data() + header->series_offset) + KindOf(event, traffic);
        return reinterpret_cast<const Counter64*>(series)[field];
    }
    uint64_t InternalErrors() {
        EXPECT_GT(pread(descriptor, map.data(), map.size(), 0), 0);
        return reinterpret_cast<Header*>(map.data())->internal_errors;
    }
    std::unique_ptr<XrdOssDF> Opened(int flags = O_RDWR) {
        std::unique_ptr<XrdOssDF> file(filesystem->newFile("test"));
        EXPECT_EQ(file->Open(path.c_str(), flags, 0644, env), 0);
        disk.calls.clear();
        return file;
    }

    struct Call {
        const char* name; // that the disk sees
        Event event;
        std::function<ssize_t()> make;
    };
    std::vector<Call> EveryCall(XrdOssDF& file, XrdOssDF& directory) {
        return {
            {"read", Event::read, [&] { return file.Read(buffer, 0, 30); }},
            {"readraw", Event::read, [&] { return file.ReadRaw(buffer, 0, 30); }},
            {"readv", Event::read, [&] { return file.ReadV(pieces, 2); }},
            {"pgread", Event::read, [&] { return file.pgRead(buffer, 0, 30, nullptr, 0); }},
            {"write", Event::write, [&] { return file.Write(buffer, 0, 30); }},
            {"writev", Event::write, [&] { return file.WriteV(pieces, 2); }},
            {"pgwrite", Event::write, [&] { return file.pgWrite(buffer, 0, 30, nullptr, 0); }},
            {"fsync", Event::sync, [&] { return ssize_t{file.Fsync()}; }},
            {"ftruncate", Event::meta, [&] { return ssize_t{file.Ftruncate(1)}; }},
            {"fchmod", Event::meta, [&] { return ssize_t{file.Fchmod(0600)}; }},
            {"readdir", Event::meta, [&] { return ssize_t{directory.Readdir(buffer, 64)}; }},
            {"chmod", Event::meta, [&] { return ssize_t{filesystem->Chmod(path.c_str(), 0600, &env)}; }},
            {"create", Event::open, [&] { return ssize_t{filesystem->Create("t", path.c_str(), 0600, env, 0)}; }},
            {"mkdir", Event::meta, [&] { return ssize_t{filesystem->Mkdir(path.c_str(), 0700, 0, &env)}; }},
            {"remdir", Event::meta, [&] { return ssize_t{filesystem->Remdir(path.c_str(), 0, &env)}; }},
            {"rename", Event::meta, [&] { return ssize_t{filesystem->Rename(path.c_str(), "/x", &env, &env)}; }},
            {"stat", Event::meta, [&] { return ssize_t{filesystem->Stat(path.c_str(), &found, 0, &env)}; }},
            {"truncate", Event::meta, [&] { return ssize_t{filesystem->Truncate(path.c_str(), 1, &env)}; }},
            {"unlink", Event::meta, [&] { return ssize_t{filesystem->Unlink(path.c_str(), XRDOSS_isPFN, &env)}; }},
        };
    }
    // Requests that are under way now.
    uint32_t BusySlots() const {
        const Segment& segment = *core->segment();
        uint32_t busy = 0;
        for (uint32_t i = 0; i < segment.slot_count(); ++i)
            busy += segment.slot(i).start_ns != 0;
        return busy;
    }

    TemporaryFolder folder;
    FakePlatform platform;
    FakeDisk disk{platform, {}};
    FakeOss lower{disk};
    Settings settings;
    std::vector<std::string> log;
    XrdOucEnv env;
    std::unique_ptr<Core> core;
    std::unique_ptr<OssFilesystem> filesystem;
    const std::string path = folder / "file";
    std::vector<char> map;
    int descriptor = -1;
    XrdOucIOVec pieces[2] = {{0, 10, 0, nullptr}, {100, 20, 0, nullptr}};
    struct stat found{};
    char buffer[64];
};

TEST_F(OssTest, EveryCallReachesTheDiskOnceAndIsCountedWhereItBelongs) {
    auto file = Opened();
    std::unique_ptr<XrdOssDF> directory(filesystem->newDir("test"));
    EXPECT_EQ(directory->Opendir(folder.path.c_str(), env), 0);
    for (const auto& [name, event, make] : EveryCall(*file, *directory)) {
        for (bool broken : {false, true}) {
            const Context context({Traffic::storage, 0});
            const uint64_t operations = Operations(event, Traffic::storage), trouble = InternalErrors();
            const uint64_t bytes = Field(event, Traffic::storage, 1), errors = Field(event, Traffic::storage, 3);
            disk.calls.clear();
            disk.result = 30;
            FakePlatform::broken_here = broken;
            EXPECT_EQ(make(), 30) << name;
            FakePlatform::broken_here = false;
            EXPECT_EQ(disk.calls, std::vector<std::string>{name}) << (broken ? "with a broken clock" : "");
            EXPECT_EQ(Operations(event, Traffic::storage), operations + !broken) << name;
            EXPECT_EQ(InternalErrors(), trouble + broken) << name;
            const bool moves = event == Event::read || event == Event::write;
            EXPECT_EQ(Field(event, Traffic::storage, 1), bytes + (moves && !broken ? 30 : 0)) << name;
            disk.result = -EIO;
            EXPECT_EQ(make(), -EIO) << name;
            EXPECT_EQ(Field(event, Traffic::storage, 3), errors + 1) << name;
        }
    }
    EXPECT_EQ(Operations(Event::read, Traffic::internal), 0u);
}

TEST_F(OssTest, ADiskThatThrowsIsAnErrorAndNothingStaysBehind) {
    auto file = Opened();
    std::unique_ptr<XrdOssDF> directory(filesystem->newDir("test"));
    EXPECT_EQ(directory->Opendir(folder.path.c_str(), env), 0);
    Policy policy;
    policy.priority = *ParseIoPriority("be:7");
    policy.priority_from = Level::user;
    const Context context({Traffic::storage, 0}, false, &policy);
    const uint64_t trouble = InternalErrors();
    for (const auto& [name, event, make] : EveryCall(*file, *directory)) {
        const uint64_t operations = Operations(event, Traffic::storage), bytes = Field(event, Traffic::storage, 1),
                       errors = Field(event, Traffic::storage, 3);
        disk.calls.clear();
        disk.on_call = [&] {
            EXPECT_EQ(BusySlots(), 1u);
            throw std::runtime_error("the disk is gone");
        };
        platform.io_priorities.clear();
        EXPECT_THROW(make(), std::runtime_error) << name;
        EXPECT_EQ(disk.calls, std::vector<std::string>{name});
        EXPECT_EQ(Operations(event, Traffic::storage), operations + 1) << name;
        EXPECT_EQ(Field(event, Traffic::storage, 1), bytes) << name;
        EXPECT_EQ(Field(event, Traffic::storage, 3), errors + 1) << name;
        EXPECT_EQ(BusySlots(), 0u) << name;
        const bool has_priority = event == Event::read || event == Event::write || event == Event::sync;
        EXPECT_EQ(platform.io_priorities, has_priority ? (std::vector<int>{(2 << 13) | 7, 0}) : std::vector<int>())
            << name;
        disk.on_call = nullptr;
        disk.result = 30;
        EXPECT_EQ(make(), 30) << name;
        EXPECT_EQ(Operations(event, Traffic::storage), operations + 2) << "the next one is timed as ever: " << name;
    }
    EXPECT_EQ(InternalErrors(), trouble);
}

TEST_F(OssTest, AShortReadIsNoErrorAndCountsWhatWasRead) {
    auto file = Opened();
    const Context context({Traffic::storage, 0});
    disk.result = 7;
    EXPECT_EQ(file->Read(buffer, 0, 30), 7);
    EXPECT_EQ(Operations(Event::read, Traffic::storage), 1u);
    EXPECT_EQ(Field(Event::read, Traffic::storage, 1), 7u);
    EXPECT_EQ(Field(Event::read, Traffic::storage, 3), 0u);
}

TEST_F(OssTest, TheSummaryComesBehindThatOfTheLowerLayer) {
    auto file = Opened();
    disk.result = 30;
    {
        const Context context({Traffic::batch, 0});
        file->Read(buffer, 0, 30);
    }
    const int most = filesystem->Stats(nullptr, 0);
    std::string text(static_cast<size_t>(most), '!');
    const int size = filesystem->Stats(text.data(), most);
    ASSERT_GT(size, 0);
    ASSERT_LT(size, most);
    EXPECT_EQ(text[static_cast<size_t>(size)], '\0');
    text.resize(static_cast<size_t>(size));
    EXPECT_EQ(text.rfind("<stats id=\"oss\"/><stats id=\"beer\"><storage>", 0), 0u) << text;
    EXPECT_NE(text.find("<batch><read>1</read><read_bytes>30</read_bytes>"), std::string::npos) << text;
    EXPECT_EQ(text.substr(text.size() - 8), "</stats>");

    // All of it or nothing, and never a byte behind the end.
    for (int room = 0; room <= size; ++room) {
        std::string small(static_cast<size_t>(room) + 8, '!');
        const int written = filesystem->Stats(small.data(), room);
        EXPECT_EQ(written, room <= 17 ? 0 : 17) << room;
        EXPECT_EQ(small.substr(static_cast<size_t>(room)), "!!!!!!!!");
    }
}

TEST_F(OssTest, TheLatencyIsThatOfTheDisk) {
    auto file = Opened();
    const Context context({Traffic::storage, 0});
    disk.takes_ns = 7000000;
    file->Read(buffer, 0, 30);
    EXPECT_EQ(Field(Event::read, Traffic::storage, 2), 7000000u);
}

TEST_F(OssTest, OneFileServesClientsOfEveryClass) {
    auto file = Opened();
    for (const Traffic traffic : {Traffic::storage, Traffic::batch, Traffic::batch}) {
        const Context context({traffic, 0});
        file->Read(buffer, 0, 30);
    }
    file->Read(buffer, 0, 30);
    EXPECT_EQ(Operations(Event::read, Traffic::storage), 1u);
    EXPECT_EQ(Operations(Event::read, Traffic::batch), 2u);
    EXPECT_EQ(Operations(Event::read, Traffic::internal), 1u);
}

TEST_F(OssTest, ClosingAFileOpenForWritingIsSync) {
    const Context context({Traffic::storage, 0});
    Opened(O_RDONLY)->Close();
    EXPECT_EQ(Operations(Event::meta, Traffic::storage), 1u);
    EXPECT_EQ(Operations(Event::sync, Traffic::storage), 0u);
    Opened(O_WRONLY)->Close();
    EXPECT_EQ(Operations(Event::sync, Traffic::storage), 1u);
}

TEST_F(OssTest, TheWaysAroundItAreClosed) {
    auto file = Opened();
    disk.fd = 0;
    EXPECT_EQ(file->getFD(), -1);
    void* address = this;
    EXPECT_EQ(file->getMmap(&address), 0);
    EXPECT_EQ(address, nullptr);
    EXPECT_EQ(filesystem->Features(), XRDOSS_HASPGRW | XRDOSS_HASNAIO);
    disk.fd = -1;
}

TEST_F(OssTest, AsynchronousRequestsAreExecutedAndMeasuredAtOnce) {
    auto file = Opened();
    const Context context({Traffic::storage, 0});
    FakeAio request;
    request.sfsAio.aio_buf = buffer;
    request.sfsAio.aio_nbytes = 30;
    disk.result = 30;
    EXPECT_EQ(file->Read(&request), 0);
    EXPECT_EQ(file->pgRead(&request, 0), 0);
    EXPECT_EQ(request.reads, 2);
    EXPECT_EQ(request.Result, 30);
    EXPECT_EQ(file->Write(&request), 0);
    EXPECT_EQ(file->pgWrite(&request, 0), 0);
    disk.result = -EIO;
    EXPECT_EQ(file->Fsync(&request), 0);
    EXPECT_EQ(request.writes, 3);
    EXPECT_EQ(request.Result, -EIO);
    EXPECT_EQ(disk.calls, (std::vector<std::string>{"read", "pgread", "write", "pgwrite", "fsync"}));
    EXPECT_EQ(Operations(Event::read, Traffic::storage), 2u);
    EXPECT_EQ(Operations(Event::write, Traffic::storage), 2u);
}

TEST_F(OssTest, FilesOutsideTheMeasuredDirectoriesAreServedUnmeasured) {
    std::unique_ptr<XrdOssDF> file(filesystem->newFile("test"));
    EXPECT_EQ(file->Open("/elsewhere", O_RDONLY, 0, env), 0);
    disk.result = 5;
    EXPECT_EQ(file->Read(buffer, 0, 30), 5);
    EXPECT_EQ(Operations(Event::read, Traffic::internal), 0u);
    EXPECT_EQ(InternalErrors(), 0u);
}

TEST_F(OssTest, OwnsWhatItWraps) {
    Opened().reset();
    EXPECT_EQ(disk.calls, std::vector<std::string>{"delete"});
}

TEST_F(OssTest, NoVirtualFunctionFallsBackToTheBaseClass) {
    const std::unique_ptr<XrdOssDF> file(filesystem->newFile("test")), directory(filesystem->newDir("test"));
    const std::vector<std::vector<std::string>> tables = {VirtualFunctions(*filesystem), VirtualFunctions(*file),
                                                          VirtualFunctions(*directory)};
    for (const auto& table : tables) {
        EXPECT_GT(table.size(), 25u);
        for (const auto& name : table) {
            EXPECT_NE(name.rfind("XrdOss::", 0), 0u) << name;
            EXPECT_NE(name.rfind("XrdOssDF::", 0), 0u) << name;
        }
    }
}

class IoPolicyTest : public OssTest {
  protected:
    IoPolicyTest() { disk.fd = disk.direct_fd = descriptor; }
    // One call in the name of a stream with this policy; what reached the disk.
    std::vector<std::string> Calls(const std::function<void(XrdOssDF&)>& call, int flags = O_RDWR) {
        auto file = Opened(flags);
        {
            const Context context({Traffic::storage, 0}, false, &policy);
            call(*file);
        }
        return disk.calls;
    }
    // Of the folder of this test; without it there is nothing to show.
    bool DirectIo() {
        struct statx found{};
        return statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &found) != 0 ||
               !(found.stx_mask & STATX_DIOALIGN) || found.stx_dio_mem_align;
    }
    using Strings = std::vector<std::string>;
    Policy policy;
    alignas(4096) char page[8192];
};

TEST_F(IoPolicyTest, SyncWritesThroughEachTime) {
    policy.type = IoType::sync;
    disk.result = 0;
    EXPECT_EQ(Calls([&](XrdOssDF& file) {
                  disk.result = 10;
                  EXPECT_EQ(file.Write(buffer, 0, 10), 10);
                  EXPECT_EQ(file.Read(buffer, 0, 10), 10);
              }),
              (Strings{"write", "fsync", "read"}));
}

TEST_F(IoPolicyTest, AFailedSyncIsAFailedWrite) {
    policy.type = IoType::sync;
    Calls([&](XrdOssDF& file) {
        disk.result = 10;
        disk.fsync_result = -EIO;
        EXPECT_EQ(file.pgWrite(buffer, 0, 10, nullptr, 0), -EIO);
    });
    EXPECT_EQ(Field(Event::write, Traffic::storage, 3), 1u) << "and counted as an error";
}

TEST_F(IoPolicyTest, DirectIsASecondDescriptorForWhatIsAligned) {
    if (!DirectIo()) GTEST_SKIP() << "no direct I/O in " << folder.path;
    policy.type = IoType::direct;
    const auto calls = Calls([&](XrdOssDF& file) {
        EXPECT_EQ(file.Read(page, 4096, 4096), 0);
        EXPECT_EQ(file.Write(page, 0, 8192), 0);
    });
    EXPECT_EQ(calls, (Strings{"open", "read", "write"})) << "no fsync: it did not go through the page cache";
    EXPECT_EQ(disk.flags, (std::vector<int>{O_RDWR, O_RDWR | O_DIRECT}));
}

TEST_F(IoPolicyTest, WhatIsNotAlignedGoesThroughThePageCacheAndToTheDisk) {
    if (!DirectIo()) GTEST_SKIP() << "no direct I/O in " << folder.path;
    policy.type = IoType::direct;
    const auto calls = Calls([&](XrdOssDF& file) {
        disk.result = 0;
        file.Read(page, 0, 4096);
        disk.result = 10;
        file.Read(page + 1, 0, 4096);
        file.Read(page, 1, 4096);
        file.Read(page, 0, 100);
        file.ReadV(pieces, 2);
        EXPECT_EQ(file.Write(page, 0, 100), 10);
        EXPECT_EQ(file.WriteV(pieces, 2), 10);
    });
    EXPECT_EQ(calls, (Strings{"open", "read", "read", "read", "read", "readv", "write", "fsync", "writev", "fsync"}));
}

TEST_F(IoPolicyTest, WithoutDirectIoInTheFilesystemItIsBuffered) {
    policy.type = IoType::direct;
    const auto calls = Calls([&](XrdOssDF& file) {
        disk.open_result = -EINVAL;
        file.Read(page, 0, 4096);
        file.Read(page, 0, 4096);
    });
    EXPECT_EQ(calls, (Strings{"open", "delete", "read", "read"})) << "tried once";
}

TEST_F(IoPolicyTest, AnotherFileInItsPlaceIsNotTouched) {
    policy.type = IoType::direct;
    const int other = open(folder.Write("other", "x").c_str(), O_RDONLY | O_CLOEXEC);
    disk.direct_fd = other;
    EXPECT_EQ(Calls([&](XrdOssDF& file) { file.Write(page, 0, 4096); }), (Strings{"open", "delete", "write"}));
    close(other);
}

TEST_F(IoPolicyTest, APriorityIsForOneRequest) {
    policy.priority_from = Level::user;
    const auto set = [&](XrdOssDF& file, const char* priority) {
        policy.priority = *ParseIoPriority(priority);
        platform.io_priorities.clear();
        file.Read(buffer, 0, 10);
        return platform.io_priorities;
    };
    Calls([&](XrdOssDF& file) {
        EXPECT_EQ(set(file, "be:7"), (std::vector<int>{(2 << 13) | 7, 0}));
        EXPECT_EQ(set(file, "be:4"), (std::vector<int>{(2 << 13) | 4, 0}));
        platform.io_priorities.clear();
        file.Fsync();
        EXPECT_EQ(platform.io_priorities.size(), 2u);
        platform.refuses_priority = true;
        EXPECT_EQ(set(file, "rt:0"), (std::vector<int>{1 << 13})) << "nothing to take back";
        EXPECT_EQ(set(file, "rt:1"), (std::vector<int>{(1 << 13) | 1})) << "tried again: it is for each thread";
        ASSERT_EQ(log.size(), 1u) << "and told once";
        EXPECT_EQ(log[0].rfind("the kernel refuses I/O priority rt:0: ", 0), 0u) << log[0];
        policy.priority_from = Level::none;
        EXPECT_TRUE(set(file, "be:4").empty()) << "nobody said anything: no system call";
    });
}

TEST_F(IoPolicyTest, TheServersOwnWorkComesLast) {
    auto file = Opened();
    platform.io_priorities.clear();
    file->Read(buffer, 0, 10);
    EXPECT_EQ(platform.io_priorities, (std::vector<int>{(2 << 13) | 7, 0}));
}

} // namespace beer
