// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "core/shaping/MetaOperation.hh"
#include "core/shaping/RateCounter.hh"
#include "core/shaping/ShapingConfig.hh"

namespace beer {

// Times of the last hundred operations of a kind.
struct Execution {
    double mean_ns = 0, sigma_ns = 0, p99_ns = 0, max_ns = 0;
};

// Keeps one user's storm of small requests from taking the server away from everybody: so many per second, so many at a
// time, and some users not at all. Who is over is told to come back in some seconds, and why.
class MetaLimiter {
  public:
    MetaLimiter();

    struct Verdict {
        unsigned stall_s = 0; // 0 = go on, and call End() afterwards
        bool banned = false;  // for good: an error instead of a stall
        std::string reason;   // for the client
    };
    Verdict Begin(const ShapingConfig& config, const Identity& who, MetaOperation operation, uint64_t now_ns);
    // For who has to come back in any case.
    Verdict Hold(const Identity& who, uint64_t now_ns);
    void End(const Identity& who, MetaOperation operation, uint64_t begun_ns, uint64_t now_ns);

    // Of names that clients say only so much is shown.
    static constexpr size_t kMostName = 256;
    // One line of the statistics: an operation, or a reason why clients were stalled ("Stall::Stat",
    // "Stall::threads::alice").
    struct Line {
        std::string name;
        uint64_t total, seconds5, minute, minutes5, hour;
        Execution execution;
    };
    std::vector<Line> Lines(uint64_t now_ns);

    // Who has requests under way, and who was stalled when last.
    struct User {
        std::string name;
        uint32_t in_flight;
        uint64_t stalls;
        uint64_t stalled_ns; // when last; 0 = never
    };
    std::vector<User> Users();

  private:
    struct Done {
        RateCounter counter;
        std::array<float, 100> last_ns{};
        uint32_t count = 0;
    };
    struct Person {
        uint32_t in_flight = 0;
        uint64_t stalls = 0, stalled_ns = 0, seen_ns = 0;
        std::map<MetaOperation, RateCounter> operations;
    };
    static Execution ExecutionOf(const Done& done);
    Verdict Stall(Person& person, const std::string& counter, std::string reason, unsigned from_s, uint64_t now_ns);
    Person& Known(std::map<std::string, Person>& all, const std::string& name, uint64_t now_ns);
    Verdict Judge(const ShapingConfig& config, const Identity& who, MetaOperation operation, Person& user,
                  uint64_t now_ns);

    std::mutex mutex_;
    std::array<Done, kMetaOperations.size()> operations_;
    std::map<std::string, RateCounter> stalls_;
    std::map<std::string, Person> users_, groups_;
    uint32_t in_flight_ = 0;
    std::minstd_rand chance_;
};

} // namespace beer
