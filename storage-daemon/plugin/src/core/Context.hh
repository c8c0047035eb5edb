// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/Recorder.hh"
#include "core/shaping/Policy.hh"

namespace beer {

// What the SFS half tells the OSS half about the request that this thread is working on. XRootD shares one OSS object
// among all clients of a path, so the OSS half cannot know; but it is called on the same thread, below the SFS half.
class Context {
  public:
    // Without one, the work is the server's own (checksums, clean-up).
    static const Context* Current() { return current_; }

    // `policy` must outlive it; null = the default. `descriptor`: see below.
    explicit Context(const Origin& origin, bool sequential = false, const Policy* policy = nullptr,
                     int* descriptor = nullptr)
        : origin(origin), sequential(sequential), policy(policy), descriptor(descriptor), outer_(current_) {
        current_ = this;
    }
    ~Context() { current_ = outer_; }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    const Origin origin;
    const bool sequential;      // the client said that it reads from the beginning to the end
    const Policy* const policy; // of this stream and direction
    int* const descriptor;      // a prefetch puts here where to send from what is in memory; null = it is a hint

  private:
    const Context* const outer_;
    static thread_local const Context* current_;
};

} // namespace beer
