// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace beer {

// Who may wait: a request that waits holds a worker thread of the server (LinkBudget).
class Fence {
  public:
    virtual ~Fence() = default;
    // False: no more threads may be held for this one. Called once per wait, under a lock: it must not call back.
    virtual bool Enter() noexcept = 0;
    virtual void Leave() noexcept = 0;
    // Inside: it waits by this rule now, and has waited since then. Under the same lock. The text outlives the wait.
    virtual void Waits(const std::string& rule, uint64_t since_ns) noexcept {
        (void)rule;
        (void)since_ns;
    }
};

// Inside a fence until the end of the block.
class Inside {
  public:
    explicit Inside(Fence& fence) : fence_(fence) {}
    ~Inside() {
        if (entered_) fence_.Leave();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    bool Enter() { return entered_ = entered_ || fence_.Enter(); }

  private:
    Fence& fence_;
    bool entered_ = false;
};

} // namespace beer
