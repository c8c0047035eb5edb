// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "XrdSfs/XrdSfsInterface.hh"
#include "core/Context.hh"

namespace beer {

// A next layer that writes down each call and for whom it was.
struct FakeSfsLog {
    std::vector<std::string> calls;
    std::vector<std::pair<long long, int>> moved; // place and size of each data request
    int result = SFS_OK;
    std::vector<uint32_t*> checksums;
    int sync_result = SFS_OK; // instead of `result`
    std::function<void()> on_move = nullptr, on_open = nullptr;
    int descriptor = -1; // of the file, for sendfile
    bool moves = false;  // data requests answer with their size instead of `result`

    int Called(const std::string& name) {
        static const char* const classes[] = {"storage", "batch", "internal"};
        const Context* context = Context::Current();
        const char* whom = context ? classes[static_cast<int>(context->origin.traffic)] : "nobody";
        calls.push_back(name + (context && context->sequential ? " sequential" : "") + " for " + whom);
        return result;
    }
    int Moved(const std::string& name, long long offset, int size) {
        moved.push_back({offset, size});
        if (on_move) on_move();
        const int told = Called(name);
        return moves ? size : told;
    }
    int Moved(const std::string& name, const XrdOucIOVec* entries, int count) {
        int bytes = 0;
        for (int i = 0; i < count; ++i)
            bytes += entries[i].size;
        return Moved(name, count ? entries[0].offset : 0, bytes);
    }
};

#define BEER_FAKE(name, ...)                                                                                           \
    int name(__VA_ARGS__) override { return log_.Called(#name); }

class FakeSfsFile final : public XrdSfsFile {
  public:
    explicit FakeSfsFile(FakeSfsLog& log) : XrdSfsFile("fake"), log_(log) {}
    ~FakeSfsFile() override { log_.Called("delete"); }
    int open(const char*, XrdSfsFileOpenMode, mode_t, const XrdSecEntity*, const char*) override {
        if (const auto meanwhile = std::exchange(log_.on_open, nullptr)) meanwhile(); // once
        return log_.Called("open");
    }
    BEER_FAKE(checkpoint, cpAct, struct iov*, int)
    int close() override {
        error.setErrInfo(0, "");
        return log_.Called("close");
    }
    int fctl(int command, const char*, XrdOucErrInfo& error) override {
        if (command == SFS_FCTL_GETFD) error.setErrCode(log_.descriptor);
        return log_.Called("fctl");
    }
    BEER_FAKE(fctl, int, int, const char*, const XrdSecEntity*)
    const char* FName() override { return "name"; }
    int getMmap(void** address, off_t& size) override {
        *address = this;
        size = 4096;
        return SFS_OK;
    }
    int pgRead(XrdSfsFileOffset offset, char*, XrdSfsXferSize size, uint32_t* checksums, uint64_t) override {
        log_.checksums.push_back(checksums);
        return log_.Moved("pgRead", offset, size);
    }
    BEER_FAKE(pgRead, XrdSfsAio*, uint64_t)
    int pgWrite(XrdSfsFileOffset offset, char*, XrdSfsXferSize size, uint32_t*, uint64_t) override {
        return log_.Moved("pgWrite", offset, size);
    }
    BEER_FAKE(pgWrite, XrdSfsAio*, uint64_t)
    int read(XrdSfsFileOffset offset, XrdSfsXferSize size) override {
        const Context* context = Context::Current();
        if (!context || !context->descriptor) return log_.Called("read");
        *context->descriptor = log_.descriptor;
        return log_.Moved("look", offset, size);
    }
    int read(XrdSfsFileOffset offset, char*, XrdSfsXferSize size) override { return log_.Moved("read", offset, size); }
    BEER_FAKE(read, XrdSfsAio*)
    int readv(XrdOucIOVec* entries, int count) override { return log_.Moved("readv", entries, count); }
    BEER_FAKE(SendData, XrdSfsDio*, XrdSfsFileOffset, XrdSfsXferSize)
    int write(XrdSfsFileOffset offset, const char*, XrdSfsXferSize size) override {
        return log_.Moved("write", offset, size);
    }
    BEER_FAKE(write, XrdSfsAio*)
    int writev(XrdOucIOVec* entries, int count) override { return log_.Moved("writev", entries, count); }
    BEER_FAKE(stat, struct stat*)
    int sync() override {
        const int result = log_.Called("sync");
        if (log_.sync_result) error.setErrInfo(EIO, "the disk lost it");
        return log_.sync_result ? log_.sync_result : result;
    }
    BEER_FAKE(sync, XrdSfsAio*)
    BEER_FAKE(truncate, XrdSfsFileOffset)
    int getCXinfo(char*, int&) override { return log_.Called("getCXinfo"); }
    void setXio(XrdSfsXio*) override { log_.Called("setXio"); }

  private:
    FakeSfsLog& log_;
};

class FakeSfsDirectory final : public XrdSfsDirectory {
  public:
    explicit FakeSfsDirectory(FakeSfsLog& log) : XrdSfsDirectory("fake"), log_(log) {}
    ~FakeSfsDirectory() override { log_.Called("delete"); }
    BEER_FAKE(open, const char*, const XrdSecEntity*, const char*)
    const char* nextEntry() override { return log_.Called("nextEntry") == SFS_OK ? "entry" : nullptr; }
    int close() override { return log_.Called("close"); }
    const char* FName() override { return "name"; }
    BEER_FAKE(autoStat, struct stat*)

  private:
    FakeSfsLog& log_;
};

class FakeSfs final : public XrdSfsFileSystem {
  public:
    explicit FakeSfs(FakeSfsLog& log) : log_(log) { FeatureSet = 0x40; }
    XrdSfsDirectory* newDir(char*, int) override { return new FakeSfsDirectory(log_); }
    XrdSfsDirectory* newDir(XrdOucErrInfo&) override { return new FakeSfsDirectory(log_); }
    XrdSfsFile* newFile(char*, int) override { return new FakeSfsFile(log_); }
    XrdSfsFile* newFile(XrdOucErrInfo&) override { return new FakeSfsFile(log_); }
    BEER_FAKE(chksum, csFunc, const char*, const char*, XrdOucErrInfo&, const XrdSecEntity*, const char*)
    BEER_FAKE(chmod, const char*, XrdSfsMode, XrdOucErrInfo&, const XrdSecEntity*, const char*)
    void Connect(const XrdSecEntity*) override { log_.Called("Connect"); }
    void Disc(const XrdSecEntity*) override { log_.Called("Disc"); }
    void EnvInfo(XrdOucEnv*) override { log_.Called("EnvInfo"); }
    BEER_FAKE(exists, const char*, XrdSfsFileExistence&, XrdOucErrInfo&, const XrdSecEntity*, const char*)
    BEER_FAKE(FAttr, XrdSfsFACtl*, XrdOucErrInfo&, const XrdSecEntity*)
    BEER_FAKE(FSctl, int, XrdSfsFSctl&, XrdOucErrInfo&, const XrdSecEntity*)
    BEER_FAKE(fsctl, int, const char*, XrdOucErrInfo&, const XrdSecEntity*)
    int getChkPSize() override { return log_.Called("getChkPSize"); }
    BEER_FAKE(getStats, char*, int)
    const char* getVersion() override { return "version"; }
    BEER_FAKE(gpFile, gpfFunc&, XrdSfsGPFile&, XrdOucErrInfo&, const XrdSecEntity*)
    BEER_FAKE(mkdir, const char*, XrdSfsMode, XrdOucErrInfo&, const XrdSecEntity*, const char*)
    BEER_FAKE(prepare, XrdSfsPrep&, XrdOucErrInfo&, const XrdSecEntity*)
    BEER_FAKE(rem, const char*, XrdOucErrInfo&, const XrdSecEntity*, const char*)
    BEER_FAKE(remdir, const char*, XrdOucErrInfo&, const XrdSecEntity*, const char*)
    BEER_FAKE(rename, const char*, const char*, XrdOucErrInfo&, const XrdSecEntity*, const char*, const char*)
    BEER_FAKE(stat, const char*, struct stat*, XrdOucErrInfo&, const XrdSecEntity*, const char*)
    BEER_FAKE(stat, const char*, mode_t&, XrdOucErrInfo&, const XrdSecEntity*, const char*)
    BEER_FAKE(truncate, const char*, XrdSfsFileOffset, XrdOucErrInfo&, const XrdSecEntity*, const char*)

  private:
    FakeSfsLog& log_;
};

#undef BEER_FAKE

} // namespace beer
