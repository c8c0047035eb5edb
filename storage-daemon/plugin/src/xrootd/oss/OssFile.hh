// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>

#include "XrdOss/XrdOssWrapper.hh"
#include "core/Context.hh"
#include "core/Core.hh"
#include "core/shaping/IoPrioritySentry.hh"
#include "core/shaping/Stretch.hh"
#include "xrootd/oss/DirectFile.hh"

namespace beer {

// Measures one open file. XRootD shares it among all clients that have the path open, so it knows nothing of them:
// Core::CurrentOrigin() says for whom each call is.
class OssFile final : public XrdOssWrapDF {
  public:
    // `storage`: what `lower` came from, for a second descriptor of the same file.
    OssFile(XrdOssDF& lower, Core& core, XrdOss& storage) : XrdOssWrapDF(lower), core_(core), storage_(storage) {
        dfType = lower.DFType();
    }
    ~OssFile() override { delete &wrapDF; } // XrdOssWrapDF does not own what it wraps

    int Open(const char* path, int flags, mode_t mode, XrdOucEnv& env) override;
    int Close(long long* size) override;

    ssize_t Read(void* buffer, off_t offset, size_t size) override;
    ssize_t ReadRaw(void* buffer, off_t offset, size_t size) override;
    ssize_t ReadV(XrdOucIOVec* pieces, int count) override;
    ssize_t pgRead(void* buffer, off_t offset, size_t size, uint32_t* checksums, uint64_t options) override;
    ssize_t Write(const void* buffer, off_t offset, size_t size) override;
    ssize_t WriteV(XrdOucIOVec* pieces, int count) override;
    ssize_t pgWrite(void* buffer, off_t offset, size_t size, uint32_t* checksums, uint64_t options) override;
    int Fsync() override;
    int Ftruncate(unsigned long long size) override;
    int Fchmod(mode_t mode) override;

    // Asynchronous requests are executed on the spot: a call that returns before the disk has answered has no latency.
    int Read(XrdSfsAio* request) override;
    int pgRead(XrdSfsAio* request, uint64_t options) override;
    int Write(XrdSfsAio* request) override;
    int pgWrite(XrdSfsAio* request, uint64_t options) override;
    int Fsync(XrdSfsAio* request) override;

    // A prefetch: a hint; or, for Context::descriptor, a request that is sent if it is in memory. 0 = it is not.
    ssize_t Read(off_t offset, size_t size) override;

    // With a descriptor XRootD would use sendfile by itself, with an address it would read the mapping: both unseen by
    // us.
    int getFD() override { // our SFS half may ask
        const Context* context = Context::Current();
        return context && context->descriptor ? wrapDF.getFD() : -1;
    }
    off_t getMmap(void** address) override {
        *address = nullptr;
        return 0;
    }

  private:
    OperationTimer Timer(Event event, size_t bytes = 0) {
        return OperationTimer(core_.recorder(), filesystem_, event, core_.CurrentOrigin(), bytes);
    }
    void AfterOpen(const char* path, int flags) noexcept;
    // Of the stream that this thread works for; null = as by default.
    const Policy* PolicyNow() const;
    std::optional<IoPriority> Priority() const;
    // What else the kernel shall fetch, now that the client reads these bytes, and one's turn to ask for it.
    struct Ahead {
        int fd = -1; // nothing
        Stretch stretch;
        std::unique_lock<std::mutex> turn;
    };
    // Waits for the turn; the wait is counted as pacing.
    Ahead AheadOf(off_t offset, size_t size, uint64_t length) noexcept;
    // One request as the policy of its stream wants it: `call(file)` moves the bytes.
    template <typename Call>
    ssize_t Do(Event event, const void* buffer, off_t offset, size_t size, Call&& call);

    Core& core_;
    XrdOss& storage_;
    std::unique_ptr<DirectFile> direct_;
    uint32_t filesystem_ = kNoFilesystem;
    bool writable_ = false;
};

} // namespace beer
