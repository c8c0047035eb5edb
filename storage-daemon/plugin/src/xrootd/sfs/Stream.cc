// SPDX-License-Identifier: Apache-2.0
#include "xrootd/sfs/Stream.hh"

#include <algorithm>

namespace beer {
namespace {

constexpr XrdSfsFileOffset kPage = 4096; // of the checksums of pgRead and pgWrite
// So long one call waits for turns at most, however many places it reads; XRootD makes several of a large read.
constexpr uint64_t kMostTurnsNs = 3 * Turns::kOverdueNs;

// The fence of the link, which also shows people that the stream waits, and for what.
class ShownFence final : public Fence {
  public:
    ShownFence(LinkBudget& budget, const std::string& link, OpenStream* stream) : link_(budget, link), wait_(stream) {}
    bool Enter() noexcept override { return link_.Enter(); }
    void Leave() noexcept override {
        Show([this] { wait_.End(); });
        link_.Leave();
    }
    void Waits(const std::string& rule, uint64_t since_ns) noexcept override {
        if (!since_ns_) since_ns_ = since_ns; // a new policy in between does not make it shorter
        Show([&] { wait_.Begin(rule, since_ns_); });
    }

  private:
    template <typename Call>
    static void Show(Call&& call) noexcept {
        try {
            call();
        } catch (...) { // the lock failed: it is not shown
        }
    }
    LinkFence link_;
    OpenStream::Wait wait_;
    uint64_t since_ns_ = 0;
};

} // namespace

bool Stream::Open(Identity who, const char* link, const std::string& host, uint32_t filesystem) noexcept {
    Close();
    const bool batch = who.batch;
    try {
        auto rule = core_.shaping().RuleOf(who, filesystem);
        link_ = link ? link : "";
        if (batch || rule->limited()) {
            LinkBudget& links = core_.shaping().LinksFor(batch);
            if (links.Admit(link_, host)) {
                admitted_ = &links;
            } else if (batch) {
                return false;
            }
        }
        who_ = std::move(who);
        filesystem_ = filesystem;
        std::atomic_store(&rule_, std::move(rule));
        return true;
    } catch (...) { // no memory: what cannot be held is not let in
        if (core_.recorder()) core_.recorder()->InternalError();
        return !batch;
    }
}

void Stream::Rename(const Identity& who) noexcept {
    auto rule = std::atomic_load(&rule_);
    if (!rule || who.user == who_.user) return;
    try {
        rule = core_.shaping().RuleOf(who, filesystem_, rule.get());
        who_ = who;
        std::atomic_store(&rule_, rule);
    } catch (...) { // no memory: as it was
        if (core_.recorder()) core_.recorder()->InternalError();
    }
}

void Stream::Close() noexcept {
    std::atomic_store(&rule_, std::shared_ptr<const Shaping::Rule>());
    core_.streams().Remove(listed_);
    if (admitted_) admitted_->Release(link_);
    admitted_ = nullptr;
}

void Stream::List(OpenStream::Owner owner) noexcept {
    try {
        core_.streams().Remove(listed_);
        owner.user = who_.user;
        owner.app = who_.app;
        auto stream = std::make_shared<OpenStream>(std::move(owner), core_.platform().MonotonicNs());
        core_.streams().Add(stream);
        listed_ = std::move(stream);
    } catch (...) { // no memory, no clock: it is served, and not shown
        if (core_.recorder()) core_.recorder()->InternalError();
    }
}

std::shared_ptr<const Shaping::Rule> Stream::Newest() noexcept {
    auto rule = std::atomic_load(&rule_);
    if (!rule || rule->version == core_.shaping().version()) return rule;
    try {
        rule = core_.shaping().RuleOf(who_, filesystem_, rule.get());
        std::atomic_store(&rule_, rule);
    } catch (...) { // no memory: as it was
        if (core_.recorder()) core_.recorder()->InternalError();
    }
    return rule;
}

Stream::Current::Current(Stream& stream, Direction direction, bool moves) noexcept
    : stream_(stream), pacer_(stream.core_.shaping().pacer()), direction_(static_cast<size_t>(direction)),
      moves_(moves), rule_(stream.Newest()) {}

const Limits& Stream::Current::limits() const {
    static const Limits none;
    return rule_ ? rule_->limits[direction_] : none;
}

XrdSfsXferSize Stream::Current::PieceOf(XrdSfsFileOffset offset, XrdSfsXferSize left) const {
    const uint64_t most = pacer_.PieceBytes(limits());
    if (left <= 0 || static_cast<uint64_t>(left) <= most) return left;
    const XrdSfsFileOffset end = (offset + static_cast<XrdSfsFileOffset>(most)) / kPage * kPage;
    return static_cast<XrdSfsXferSize>(end - offset);
}

bool Stream::Current::Ready(uint64_t bytes, uint64_t operations) noexcept {
    for (;;) {
        turn_.reset();
        if (!limits().empty() && !Wait(bytes, operations)) return false;
        if (!TakeTurn() || !stream_.who_.batch) return true;
        if (!stream_.core_.shaping().control().Holds(stream_.filesystem_)) return true;
        GiveBack(bytes); // the guard has stopped batch meanwhile
    }
}

bool Stream::Current::TakeTurn() noexcept {
    if (!rule_) return false;
    Shaping& shaping = stream_.core_.shaping();
    TurnQueue* queue = shaping.arbiter().QueueOf(stream_.filesystem_);
    if (!queue || !queue->on()) return false;
    const Policy& policy = rule_->policy[direction_];
    // Such writes wait for no disk: the kernel writes them later, in its own name.
    const bool cached = policy.type == IoType::buffered || policy.type == IoType::csync;
    if (moves_ && cached && direction_ == static_cast<size_t>(Direction::write)) return false;
    const bool said = policy.priority_from != Level::none;
    ShownFence fence(shaping.LinksFor(stream_.who_.batch), stream_.link_, stream_.listed_.get());
    turn_.emplace(*queue, said ? policy.priority.io_class : IoPriority::Class::best_effort, fence,
                  kMostTurnsNs - std::min(kMostTurnsNs, turns_waited_ns_));
    const uint64_t waited_ns = turn_->waited_ns();
    turns_waited_ns_ += waited_ns;
    Waited(waited_ns, TurnQueue::kRule);
    return waited_ns;
}

void Stream::Current::Waited(uint64_t ns, const std::string& rule) noexcept {
    if (!ns) return;
    Recorder* recorder = stream_.core_.recorder();
    const Traffic traffic = stream_.who_.batch ? Traffic::batch : Traffic::storage;
    try {
        if (recorder) recorder->Pacing(stream_.filesystem_, traffic, ns);
        if (stream_.listed_) stream_.listed_->Waited(ns, rule);
    } catch (...) { // no memory: it is not shown
        if (recorder) recorder->InternalError();
    }
}

bool Stream::Current::Wait(uint64_t bytes, uint64_t operations) noexcept {
    Shaping& shaping = stream_.core_.shaping();
    const bool batch = stream_.who_.batch;
    try {
        ShownFence fence(shaping.LinksFor(batch), stream_.link_, stream_.listed_.get());
        Pacer::Outcome outcome;
        uint64_t waited_ns = 0;
        std::string by; // of a policy that may be gone
        do {
            rule_ = stream_.Newest();
            if (!rule_) return true; // closed meanwhile
            outcome = pacer_.Pass(limits(), bytes, operations, rule_->version, fence, !batch);
            waited_ns += outcome.waited_ns;
            if (outcome.by) by = outcome.by->rule;
        } while (outcome.again);
        Waited(waited_ns, by);
        return outcome.passed || !batch; // a request of a storage user is never refused for a limit
    } catch (...) {
        // No memory for the queue, or no clock. Batch is refused: nothing of it may go on unpaced.
        if (stream_.core_.recorder()) stream_.core_.recorder()->InternalError();
        return !batch;
    }
}

} // namespace beer
