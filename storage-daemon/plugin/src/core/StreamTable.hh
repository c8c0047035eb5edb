// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/PrefixList.hh"
#include "core/Recorder.hh"
#include "core/shaping/Limit.hh"
#include "core/shaping/Policy.hh"

namespace beer {

// One open file of one client, for people to look at. Whose it is never changes; the counters are counted in by the
// threads that serve it, without lock, clock or system call.
class OpenStream {
  public:
    struct Owner {
        std::string user, app, link; // `link` names the connection as XRootD's log does
        std::optional<Address> host;
        Traffic traffic = Traffic::internal;
        uint32_t filesystem = kNoFilesystem;
        std::string path; // as the client says it
        bool writer = false;
    };
    // What clients say can be megabytes: of a path, of names and of rules only so much is kept.
    static constexpr size_t kMostPath = 1024, kMostName = 256;

    OpenStream(Owner owner, uint64_t now_ns);
    OpenStream(const OpenStream&) = delete;
    OpenStream& operator=(const OpenStream&) = delete;

    const Owner owner;
    const uint64_t opened_ns;

    // One request of the client was served; or, with 0, a piece of one that goes on: what is paced can take long.
    void Moved(Direction direction, uint64_t bytes, uint64_t operations = 1) {
        Counters& counters = counters_[static_cast<size_t>(direction)];
        if (operations) counters.operations.fetch_add(operations, std::memory_order_relaxed);
        counters.bytes.fetch_add(bytes, std::memory_order_relaxed);
    }

    // A request that waits says so while it does: from Begin(), which may come again with another rule, to End() or its
    // own end. The text must live as long.
    class Wait {
      public:
        explicit Wait(OpenStream* stream) : stream_(stream) {} // null = nobody is told
        ~Wait() { End(); }
        Wait(const Wait&) = delete;
        Wait& operator=(const Wait&) = delete;
        void Begin(const std::string& rule, uint64_t since_ns);
        void End();

      private:
        friend class OpenStream;
        OpenStream* const stream_;
        const std::string* rule_ = nullptr; // null = it does not wait
        uint64_t since_ns_ = 0;
        Wait* next_ = nullptr;
    };
    // A request has waited so long, in all, and last for this rule.
    void Waited(uint64_t ns, const std::string& rule);

    // As it is now. Counters of one stream are not taken at one instant.
    struct Now {
        uint64_t bytes[2], operations[2]; // by Direction
        uint64_t waits, waited_ns;
        uint32_t waiting;     // requests that wait now
        uint64_t waits_since; // the one that has waited for longest; 0 = none waits
        std::string by;       // the rule that it waits for, or else waited for last; empty = it never waited
    };
    Now Look() const;
    bool waiting() const { return waiting_.load(std::memory_order_relaxed); }

  private:
    friend class StreamTable;
    struct Counters {
        std::atomic<uint64_t> bytes{0}, operations{0};
    };
    std::array<Counters, 2> counters_;
    std::atomic<uint32_t> waiting_{0};
    mutable std::mutex mutex_; // of what follows
    Wait* waits_now_ = nullptr;
    uint64_t waits_ = 0, waited_ns_ = 0;
    std::string last_rule_; // has its memory from the beginning
    uint64_t id_ = 0;       // of the table
    size_t place_ = 0;      // in its shard, under the shard's lock
};

// All that are open. Opening and closing take the lock of one of several parts, for some instructions.
class StreamTable {
  public:
    // From now on it is listed, until it is removed. Null stands for nothing.
    void Add(std::shared_ptr<OpenStream> stream);
    void Remove(const std::shared_ptr<OpenStream>& stream);

    size_t size() const { return size_.load(std::memory_order_relaxed); }

    struct Listed {
        uint64_t id; // grows with every stream that is opened
        std::shared_ptr<const OpenStream> stream;
    };
    // At most so many, those that wait first, then in the order of opening.
    std::vector<Listed> List(size_t most) const;

  private:
    struct alignas(64) Shard {
        mutable std::mutex mutex;
        std::vector<std::shared_ptr<OpenStream>> streams;
    };
    Shard& ShardOf(uint64_t id) { return shards_[id % shards_.size()]; }

    std::array<Shard, 16> shards_;
    std::atomic<uint64_t> last_id_{0};
    std::atomic<size_t> size_{0};
};

} // namespace beer
