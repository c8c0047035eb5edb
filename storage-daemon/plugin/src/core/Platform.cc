// SPDX-License-Identifier: Apache-2.0
#include "core/Platform.hh"

#include <algorithm>
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

namespace beer {
namespace {

uint64_t Now(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

class Linux final : public Platform {
  public:
    uint64_t MonotonicNs() const override { return Now(CLOCK_MONOTONIC); }
    uint64_t RealtimeNs() const override { return Now(CLOCK_REALTIME); }
    uint32_t ProcessId() const override { return static_cast<uint32_t>(getpid()); }
    uint32_t ThreadId() const override { return static_cast<uint32_t>(gettid()); }
    int StartingIoPriority() const noexcept override { return starting_io_priority_; }
    bool SetIoPriority(int priority) const noexcept override {
        return syscall(SYS_ioprio_set, kThisThread, 0, priority) == 0;
    }

  private:
    static constexpr int kThisThread = 1; // IOPRIO_WHO_PROCESS, 0
    const int starting_io_priority_ = std::max(0, static_cast<int>(syscall(SYS_ioprio_get, kThisThread, 0)));
};

} // namespace

const Platform& RealPlatform() {
    static const Linux platform;
    return platform;
}

} // namespace beer
