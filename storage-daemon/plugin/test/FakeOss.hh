// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <fcntl.h>
#include <functional>
#include <string>
#include <vector>

#include "FakeAio.hh"
#include "FakePlatform.hh"
#include "XrdOss/XrdOss.hh"

namespace beer {

// A lower storage layer that writes down what it was asked and takes its time on the fake clock.
struct FakeDisk {
    FakePlatform& platform;
    std::vector<std::string> calls;
    ssize_t result = 0;
    uint64_t takes_ns = 1000000;
    int fd = -1, direct_fd = -1;
    int open_result = 0, fsync_result = 0;   // instead of `result`
    std::vector<int> flags = {};             // of each open
    std::function<void()> on_call = nullptr; // may throw

    ssize_t Called(const std::string& name) {
        calls.push_back(name);
        platform.now_ns += takes_ns;
        if (on_call) on_call();
        return result;
    }
    int CalledInt(const std::string& name) { return static_cast<int>(Called(name)); }
};

class FakeOssFile final : public XrdOssDF {
  public:
    explicit FakeOssFile(FakeDisk& disk) : XrdOssDF("fake", DF_isFile), disk_(disk) {}
    ~FakeOssFile() override { disk_.calls.push_back("delete"); }
    int Opendir(const char*, XrdOucEnv&) override { return disk_.CalledInt("opendir"); }
    int Readdir(char*, int) override { return disk_.CalledInt("readdir"); }
    int Open(const char*, int flags, mode_t, XrdOucEnv&) override {
        disk_.flags.push_back(flags);
        direct_ = flags & O_DIRECT;
        const int result = disk_.CalledInt("open");
        return disk_.open_result ? disk_.open_result : result;
    }
    int Close(long long*) override { return disk_.CalledInt("close"); }
    ssize_t Read(void*, off_t, size_t) override { return disk_.Called("read"); }
    ssize_t Read(off_t, size_t) override { return disk_.Called("preread"); }
    int Read(XrdSfsAio*) override { return disk_.CalledInt("aio read"); }
    ssize_t ReadRaw(void*, off_t, size_t) override { return disk_.Called("readraw"); }
    ssize_t ReadV(XrdOucIOVec*, int) override { return disk_.Called("readv"); }
    ssize_t pgRead(void*, off_t, size_t, uint32_t*, uint64_t) override { return disk_.Called("pgread"); }
    int pgRead(XrdSfsAio*, uint64_t) override { return disk_.CalledInt("aio pgread"); }
    ssize_t Write(const void*, off_t, size_t) override { return disk_.Called("write"); }
    int Write(XrdSfsAio*) override { return disk_.CalledInt("aio write"); }
    ssize_t WriteV(XrdOucIOVec*, int) override { return disk_.Called("writev"); }
    ssize_t pgWrite(void*, off_t, size_t, uint32_t*, uint64_t) override { return disk_.Called("pgwrite"); }
    int pgWrite(XrdSfsAio*, uint64_t) override { return disk_.CalledInt("aio pgwrite"); }
    int Fsync() override {
        const int result = disk_.CalledInt("fsync");
        return disk_.fsync_result ? disk_.fsync_result : result;
    }
    int Fsync(XrdSfsAio*) override { return disk_.CalledInt("aio fsync"); }
    int Ftruncate(unsigned long long) override { return disk_.CalledInt("ftruncate"); }
    int Fchmod(mode_t) override { return disk_.CalledInt("fchmod"); }
    int getFD() override { return direct_ ? disk_.direct_fd : disk_.fd; }
    off_t getMmap(void** address) override {
        *address = this;
        return 4096;
    }

  private:
    FakeDisk& disk_;
    bool direct_ = false;
};

class FakeOss final : public XrdOss {
  public:
    explicit FakeOss(FakeDisk& disk) : disk_(disk) {}
    XrdOssDF* newDir(const char*) override { return new FakeOssFile(disk_); }
    XrdOssDF* newFile(const char*) override { return new FakeOssFile(disk_); }
    uint64_t Features() override { return XRDOSS_HASPGRW; }
    int Stats(char* buffer, int size) override {
        const std::string text = "<stats id=\"oss\"/>";
        if (!buffer) return static_cast<int>(text.size());
        if (size <= static_cast<int>(text.size())) return 0;
        text.copy(buffer, text.size());
        buffer[text.size()] = '\0';
        return static_cast<int>(text.size());
    }
    int Init(XrdSysLogger*, const char*) override { return 0; }
    int Chmod(const char*, mode_t, XrdOucEnv*) override { return disk_.CalledInt("chmod"); }
    int Create(const char*, const char*, mode_t, XrdOucEnv&, int) override { return disk_.CalledInt("create"); }
    int Mkdir(const char*, mode_t, int, XrdOucEnv*) override { return disk_.CalledInt("mkdir"); }
    int Remdir(const char*, int, XrdOucEnv*) override { return disk_.CalledInt("remdir"); }
    int Rename(const char*, const char*, XrdOucEnv*, XrdOucEnv*) override { return disk_.CalledInt("rename"); }
    int Stat(const char*, struct stat*, int, XrdOucEnv*) override { return disk_.CalledInt("stat"); }
    int Truncate(const char*, unsigned long long, XrdOucEnv*) override { return disk_.CalledInt("truncate"); }
    int Unlink(const char*, int, XrdOucEnv*) override { return disk_.CalledInt("unlink"); }

  private:
    FakeDisk& disk_;
};

} // namespace beer
