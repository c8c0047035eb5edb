// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "XrdSfs/XrdSfsInterface.hh"
#include "core/Core.hh"

namespace beer {

// What shaping does to one open file of one client: it may refuse the file, and it paces its requests. Several threads
// may be inside it at once (a client may have several connections). Never called under a lock of XRootD.
class Stream {
  public:
    explicit Stream(Core& core) : core_(core) {}
    ~Stream() { Close(); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    // False when no more batch links may have files open. A storage user is never refused for a limit: beyond the links
    // that may be held he goes on, and owes.
    // `link` names the connection, `host` where it comes from.
    bool Open(Identity who, const char* link, const std::string& host, uint32_t filesystem) noexcept;
    // The name was learned only now (OFS asks for it while it opens the file). A limit that comes with it, or with a
    // later policy, holds as far as the reserve of threads goes.
    void Rename(const Identity& who) noexcept;
    const Identity& who() const { return who_; }
    // It is open, and shown to people from now on (Core::streams()). User and application are those of who().
    void List(OpenStream::Owner owner) noexcept;
    void Close() noexcept;

    // Moves `size` bytes in pieces as the limits allow. `move(done, piece, policy)` is the call that moves; it ends
    // with the first error, and a read with the first short piece (the end of the file). A piece but the last ends at a
    // page of the file, as checksums per page need it. Before each piece it waits for its turn at the disk, too.
    // kRefused: too many requests of this client wait already.
    static constexpr XrdSfsXferSize kRefused = INT32_MIN;
    template <typename Call>
    XrdSfsXferSize Move(Direction direction, XrdSfsFileOffset offset, XrdSfsXferSize size, Call&& move) {
        Current now(*this, direction);
        if (now.limits().empty()) {
            now.TakeTurn();
            return Counted(direction, move(0, size, now.policy()));
        }
        XrdSfsXferSize done = 0;
        do {
            const XrdSfsXferSize piece = now.PieceOf(offset + done, size - done);
            const bool may = now.Ready(static_cast<uint64_t>(piece), 1);
            const XrdSfsXferSize moved = may ? move(done, piece, now.policy()) : kRefused;
            if (moved < 0) return moved;
            done += Counted(direction, moved, 0);
            if (moved == piece) continue;
            now.GiveBack(static_cast<uint64_t>(piece - moved));
            // XRootD takes every result of a write that is no error for all of it: so it is asked again, and the disk
            // says what is wrong.
            if (direction == Direction::read || moved == 0) break;
        } while (done < size);
        Counted(direction, 0);
        return done;
    }

    // The same for a list of places, one at a time: each may cost a disk a seek, and a limit must not come too late for
    // a thousand of them. `move(first, count, policy)`.
    template <typename Call>
    XrdSfsXferSize MoveVector(Direction direction, const XrdOucIOVec* entries, int count, Call&& move) {
        Current now(*this, direction);
        if (now.limits().empty()) {
            now.TakeTurn();
            return Counted(direction, move(0, count, now.policy()));
        }
        XrdSfsXferSize done = 0;
        for (int i = 0; i < count; ++i) {
            const bool may = now.Ready(static_cast<uint64_t>(std::max(0, entries[i].size)), 1);
            const XrdSfsXferSize moved = may ? move(i, 1, now.policy()) : kRefused;
            if (moved < 0) return moved;
            done += Counted(direction, moved, 0);
        }
        Counted(direction, 0);
        return done;
    }

    // A read of what is in memory, which waits for no disk: it needs no turn. Who may be held is refused with
    // SFS_ERROR. `call(policy)`.
    template <typename Call>
    XrdSfsXferSize FromMemory(Call&& call) {
        const Current now(*this, Direction::read);
        return now.limits().empty() ? Counted(Direction::read, call(now.policy())) : SFS_ERROR;
    }

    // One request that moves no bytes but makes the disk work; `call(policy)`.
    template <typename Call>
    int Do(Direction direction, Call&& call) {
        Current now(*this, direction, false);
        if (!now.Ready(0, 1)) return kRefused;
        return call(now.policy());
    }

    // Is there anything that may hold it back?
    bool limited(Direction direction) { return !Current(*this, direction).limits().empty(); }

  private:
    // The rule as one request sees it: of the newest configuration, kept alive meanwhile.
    class Current {
      public:
        // `moves`: it moves bytes.
        Current(Stream& stream, Direction direction, bool moves = true) noexcept;
        const Limits& limits() const;
        const Policy* policy() const { return rule_ ? &rule_->policy[direction_] : nullptr; }
        XrdSfsXferSize PieceOf(XrdSfsFileOffset offset, XrdSfsXferSize left) const;
        // Waits for the limits, then for its turn, which it has until the next call. False: it is refused.
        bool Ready(uint64_t bytes, uint64_t operations) noexcept;
        // True if it had to wait.
        bool TakeTurn() noexcept;
        void GiveBack(uint64_t bytes) { pacer_.GiveBack(limits(), bytes); }

      private:
        bool Wait(uint64_t bytes, uint64_t operations) noexcept;
        void Waited(uint64_t ns, const std::string& rule) noexcept;

        Stream& stream_;
        Pacer& pacer_;
        const size_t direction_;
        const bool moves_;
        std::shared_ptr<const Shaping::Rule> rule_; // null while the file is not open
        uint64_t turns_waited_ns_ = 0;
        std::optional<TurnSentry> turn_; // last: it is left first
    };
    std::shared_ptr<const Shaping::Rule> Newest() noexcept;
    // Hands on the result of a request after it was counted; an error is none. 0 operations: a piece of a request.
    XrdSfsXferSize Counted(Direction direction, XrdSfsXferSize result, uint64_t operations = 1) {
        if (result >= 0 && listed_) listed_->Moved(direction, static_cast<uint64_t>(result), operations);
        return result;
    }

    Core& core_;
    Identity who_;
    std::string link_;
    LinkBudget* admitted_ = nullptr; // where this file is counted
    // Kept after Close(): a request may still be inside.
    std::shared_ptr<OpenStream> listed_;
    uint32_t filesystem_ = kNoFilesystem;
    std::shared_ptr<const Shaping::Rule> rule_; // by std::atomic_load and std::atomic_store alone
};

} // namespace beer
