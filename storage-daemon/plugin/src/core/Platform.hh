// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace beer {

// What the core asks of the system it runs on; tests give their own answers.
class Platform {
  public:
    virtual ~Platform() = default;
    virtual uint64_t MonotonicNs() const = 0; // on the I/O path: vDSO only
    virtual uint64_t RealtimeNs() const = 0;
    virtual uint32_t ProcessId() const = 0;
    virtual uint32_t ThreadId() const = 0; // a system call: asked once per thread
    // What the process was started with.
    virtual int StartingIoPriority() const noexcept = 0;
    // Of the calling thread, as ioprio_set(2) takes it. False: the kernel refused.
    virtual bool SetIoPriority(int priority) const noexcept = 0;
};

const Platform& RealPlatform();

} // namespace beer
