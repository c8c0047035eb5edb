// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "XrdSfs/XrdSfsInterface.hh"
#include "core/Core.hh"
#include "xrootd/sfs/Stream.hh"

namespace beer {

// One stream of one client: the place where the client of a data request is known.
class SfsFile final : public XrdSfsFile {
  public:
    SfsFile(XrdSfsFile& next, Core& core) : XrdSfsFile(next), next_(next), core_(core), stream_(core) {}
    ~SfsFile() override;

    int open(const char* path, XrdSfsFileOpenMode mode, mode_t create_mode, const XrdSecEntity* client,
             const char* opaque) override;
    int checkpoint(cpAct action, struct iov* range, int count) override;
    int close() override;
    int fctl(int command, const char* arguments, XrdOucErrInfo& error) override;
    int fctl(int command, int size, const char* arguments, const XrdSecEntity* client) override;
    const char* FName() override;
    int getMmap(void** address, off_t& size) override;
    XrdSfsXferSize pgRead(XrdSfsFileOffset offset, char* buffer, XrdSfsXferSize size, uint32_t* checksums,
                          uint64_t options) override;
    int pgRead(XrdSfsAio* request, uint64_t options) override;
    XrdSfsXferSize pgWrite(XrdSfsFileOffset offset, char* buffer, XrdSfsXferSize size, uint32_t* checksums,
                           uint64_t options) override;
    int pgWrite(XrdSfsAio* request, uint64_t options) override;
    XrdSfsXferSize read(XrdSfsFileOffset offset, XrdSfsXferSize size) override;
    XrdSfsXferSize read(XrdSfsFileOffset offset, char* buffer, XrdSfsXferSize size) override;
    int read(XrdSfsAio* request) override;
    XrdSfsXferSize readv(XrdOucIOVec* pieces, int count) override;
    int SendData(XrdSfsDio* sender, XrdSfsFileOffset offset, XrdSfsXferSize size) override;
    XrdSfsXferSize write(XrdSfsFileOffset offset, const char* buffer, XrdSfsXferSize size) override;
    int write(XrdSfsAio* request) override;
    XrdSfsXferSize writev(XrdOucIOVec* pieces, int count) override;
    int stat(struct stat* to) override;
    int sync() override;
    int sync(XrdSfsAio* request) override;
    int truncate(XrdSfsFileOffset size) override;
    int getCXinfo(char type[4], int& size) override;
    void setXio(XrdSfsXio* exchange) override;

  private:
    // The result of a paced request; one that had to be refused is an error of the file.
    XrdSfsXferSize Told(XrdSfsXferSize result);
    // The same as the result of an asynchronous request, where errors are negative numbers.
    ssize_t Number(XrdSfsXferSize result) { return result < 0 ? -error.getErrInfo() : result; }
    // SFS_OK, or why this file is not opened now.
    int Admit(const char* path, const XrdSecEntity* client, const char* opaque, uint32_t filesystem) noexcept;
    // May this file be sent by sendfile?
    bool MaySend(XrdOucErrInfo& result);
    void LearnName(const XrdSecEntity* client) noexcept;
    void List(const char* path, XrdSfsFileOpenMode mode, const XrdSecEntity* client, uint32_t filesystem) noexcept;
    void NoteWrite(const Policy* policy) {
        if (policy && policy->type == IoType::csync) wrote_for_csync_.store(true, std::memory_order_relaxed);
    }
    int OpenNext(const char* path, XrdSfsFileOpenMode mode, mode_t create_mode, const XrdSecEntity* client,
                 const char* opaque, uint32_t filesystem);
    // `judge`: the overload limits do not know of it yet.
    void CountOpen(uint32_t filesystem, bool writer, bool judge);
    void CountClosed();

    XrdSfsFile& next_;
    Core& core_;
    Origin origin_;
    Stream stream_;
    std::atomic<bool> wrote_for_csync_{false};
    uint32_t counted_on_ = kNoFilesystem; // while it is one of the open streams of this filesystem
    bool writer_ = false;
};

} // namespace beer
