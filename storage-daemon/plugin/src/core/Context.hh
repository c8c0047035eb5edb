// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <sys/types.h>

#include "core/Recorder.hh"
#include "core/shaping/Policy.hh"

namespace beer {

// Holds back what the server reads by itself because a client asked for it.
class PacedReads {
  public:
    // `read(done, size)` reads a piece from `offset + done` on. Bytes, or a negative error number.
    virtual ssize_t Read(off_t offset, size_t size, const std::function<ssize_t(size_t, size_t)>& read) = 0;

  protected:
    ~PacedReads() = default;
};

// What the SFS half tells the OSS half about the request that this thread is working on. XRootD shares one OSS object
// among all clients of a path, so the OSS half cannot know; but it is called on the same thread, below the SFS half.
class Context {
  public:
    // Without one, the work is the server's own (checksums, clean-up).
    static const Context* Current() { return current_; }

    // What it points to must outlive it.
    explicit Context(const Origin& origin, bool sequential = false, const Policy* policy = nullptr,
                     int* descriptor = nullptr, PacedReads* paced = nullptr)
        : origin(origin), sequential(sequential), policy(policy), descriptor(descriptor), paced(paced),
          outer_(current_) {
        current_ = this;
    }
    ~Context() { current_ = outer_; }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    const Origin origin;
    const bool sequential;      // the client said that it reads from the beginning to the end
    const Policy* const policy; // of this stream and direction; null = the default
    int* const descriptor;      // a prefetch waits, and puts here where to send from; null = it is a hint
    PacedReads* const paced;    // through this each read has to go; null = at once

  private:
    const Context* const outer_;
    static thread_local const Context* current_;
};

} // namespace beer
