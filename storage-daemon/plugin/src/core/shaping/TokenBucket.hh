// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

namespace beer {

constexpr uint64_t kUnlimited = UINT64_MAX; // as a rate, per second
constexpr uint64_t kNever = UINT64_MAX;     // as a time to wait, ns

// Tokens (bytes or operations) that come in at a rate and are taken in the order of asking. Who takes more than there
// is makes a debt and waits until it is paid; a change of the rate keeps the debt. Whole numbers only, so that what was
// given out is exactly what came in. Not thread-safe, and told the time: see Pacer.
class TokenBucket {
  public:
    // A place in the queue: it is served once that many tokens have come in.
    using Ticket = uint64_t;

    explicit TokenBucket(uint64_t now_ns, uint64_t rate = kUnlimited) : last_ns_(now_ns) { SetRate(rate, now_ns); }

    uint64_t rate() const { return rate_; }
    // What may pass at once after a pause.
    uint64_t burst() const { return burst_; }

    void SetRate(uint64_t per_second, uint64_t now_ns);

    // At least one token.
    Ticket Take(uint64_t tokens, uint64_t now_ns);
    // 0 = served; kNever = not before the rate changes.
    uint64_t WaitNs(Ticket ticket, uint64_t now_ns);
    // Gives up a place that was not served; those behind it move up, those before it notice nothing.
    void Leave(Ticket ticket, uint64_t tokens);
    // Of a place that was served, so many tokens were not needed. A rate of zero lets nobody have them.
    void GiveBack(uint64_t tokens);

  private:
    void ComeIn(uint64_t now_ns);

    uint64_t rate_ = kUnlimited;
    uint64_t burst_ = 0;
    uint64_t taken_ = 0;
    uint64_t came_in_ = 0;
    uint64_t rest_ = 0; // of a token that is coming in, in units of 1e-9 tokens
    uint64_t last_ns_;
    std::map<Ticket, uint64_t> left_; // places given up that are not reached yet, with their tokens
};

} // namespace beer
