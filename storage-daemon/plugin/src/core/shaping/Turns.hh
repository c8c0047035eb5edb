// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/shaping/Policy.hh"

namespace beer {

// One request to a disk, from its coming to its end; whoever makes it keeps it in place meanwhile.
struct Turn {
    explicit Turn(IoPriority::Class io_class) : io_class(io_class) {}

    const IoPriority::Class io_class;
    uint64_t came_ns = 0, began_ns = 0;
    bool began = false;
    bool on_allowance = false; // it began while a higher class was at work
    void* waits = nullptr;     // of the one who waits with it
};

// Whose turn it is at one disk, whatever its scheduler does with I/O priorities: a class waits while a higher one is at
// work. Nobody ever waits for a lower class, and within a class nothing is held back, so that many requests may be with
// the disk at once. Not thread-safe, and told the time: see TurnQueue.
//
// A higher class is at work while a request of it is with the disk, and for a moment after that when its requests
// usually follow each other quickly ("deceptive idleness": Iyer and Druschel, SOSP 2001; the slice_idle of CFQ and
// BFQ). When it has paused for longer than usual the others do not come back all at once, or else its next request
// finds all of theirs before it: they have a window, as senders have in TCP (Jacobson 1988), which the higher class
// halves whenever it comes back, and each of theirs that ends widens while it is full. Lower classes have an allowance
// of the disk's time meanwhile, one request at a time, the oldest first: nothing is held for ever. A disk that does
// not answer holds nobody back either.
class Turns {
  public:
    static constexpr uint64_t kAllowance = 12;            // one in so many parts of the disk's time
    static constexpr uint64_t kOverdueNs = 10000000000;   // from then on it goes next, whatever the allowance says
    static constexpr uint64_t kShortestPauseNs = 1000000; // that a disk is kept free, if at all
    static constexpr uint64_t kLongestPauseNs = 20000000;
    static constexpr uint64_t kHangsNs = 1000000000; // without news the higher class holds nobody back any more

    // Must this class wait if it comes now?
    bool Blocked(IoPriority::Class io_class, uint64_t now_ns) const;
    // It comes and goes to the disk.
    void Begin(Turn& turn, uint64_t now_ns);
    // It comes and waits for Admit().
    void Wait(Turn& turn, uint64_t now_ns);
    // It waits no longer, and goes without a turn.
    void GiveUp(const Turn& turn);
    // It is done.
    void End(Turn& turn, uint64_t now_ns);

    // Lets those begin who may now, and tells `admitted` of each.
    template <typename Admitted>
    void Admit(uint64_t now_ns, Admitted&& admitted) {
        for (auto one = waiting_.begin(); one != waiting_.end();) {
            Turn& turn = **one;
            if (Blocked(turn.io_class, now_ns)) {
                const bool overdue = now_ns - turn.came_ns >= kOverdueNs;
                if (allowance_used_ || (!overdue && now_ns < allowance_from_ns_)) {
                    ++one;
                    continue;
                }
                turn.on_allowance = allowance_used_ = true;
            }
            one = waiting_.erase(one);
            --Of(turn.io_class).waiting;
            Start(turn, now_ns);
            admitted(turn);
        }
    }
    // When Admit() may let somebody begin although nobody came or went; UINT64_MAX = nobody waits.
    uint64_t NextNs(uint64_t now_ns) const;

    const Turn* first() const { return waiting_.empty() ? nullptr : waiting_.front(); }
    // Was there work of another class than best effort in the last second?
    bool engaged(uint64_t now_ns) const;

  private:
    struct Work {
        uint32_t with_the_disk = 0, waiting = 0;
        uint64_t last_ns = 0;           // the first one of these began, or one ended
        uint64_t left_ns = 0;           // the last one ended
        uint64_t pause_ns = UINT64_MAX; // from the end of the last one to the coming of the next, on average
        uint64_t pause_deviation_ns = 0;
        uint32_t window = 1; // so many may be with the disk while a higher class may come back
        bool used = false;
    };
    void Come(Turn& turn, uint64_t now_ns);
    void Start(Turn& turn, uint64_t now_ns);
    uint64_t KeptFreeNs(const Work& work) const;
    bool AtWork(const Work& work, uint64_t now_ns) const;
    bool MayComeBack(const Work& work, uint64_t now_ns) const;
    Work& Of(IoPriority::Class io_class) { return work_[static_cast<size_t>(io_class) - 1]; }
    const Work& Of(IoPriority::Class io_class) const { return work_[static_cast<size_t>(io_class) - 1]; }

    std::array<Work, 3> work_; // by class, the most urgent first
    std::vector<Turn*> waiting_;
    uint64_t service_ns_ = 0; // from the end of one request to the end of the next, while there are some: on average
    uint64_t ended_ns_ = 0;   // the last one of all classes
    bool allowance_used_ = false;
    uint64_t allowance_from_ns_ = 0;
};

} // namespace beer
