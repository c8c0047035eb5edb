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
};

const Platform& RealPlatform();

} // namespace beer
