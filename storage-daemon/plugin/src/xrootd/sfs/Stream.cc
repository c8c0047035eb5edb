// SPDX-License-Identifier: Apache-2.0
#include "xrootd/sfs/Stream.hh"

namespace beer {
namespace {

constexpr XrdSfsFileOffset kPage = 4096; // of the checksums of pgRead and pgWrite

// The fence of the link, which also shows people that the stream waits, and for what.
class ShownFence final : public Fence {
  public:
    ShownFence(LinkBudget& budget, const std::string& link, OpenStream* stream) : link_(budget, link), wait_(stream) {}
    bool Enter() noexcept override { return link_.Enter(); }
    void Leave() noexcept override {
        Show([this] { wait_.End(); });
        link_.Leave();
    }
    void Waits(const Limit& limit, uint64_t since_ns) noexcept override {
        if (!since_ns_) since_ns_ = since_ns; // a new policy in between does not make it shorter
        Show([&] { wait_.Begin(limit.rule, since_ns_); });
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

Stream::Current::Current(Stream& stream, Direction direction) noexcept
    : stream_(stream), pacer_(stream.core_.shaping().pacer()), direction_(static_cast<size_t>(direction)),
      rule_(stream.Newest()) {}

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

bool Stream::Current::Wait(uint64_t bytes, uint64_t operations) noexcept {
    Recorder* recorder = stream_.core_.recorder();
    Shaping& shaping = stream_.core_.shaping();
    const bool batch = stream_.who_.batch;
    try {
        OpenStream* const listed = stream_.listed_.get();
        ShownFence fence(shaping.LinksFor(batch), stream_.link_, listed);
        Pacer::Outcome outcome;
        uint64_t waited_ns = 0;
        do {
            rule_ = stream_.Newest();
            if (!rule_) return true; // closed meanwhile
            outcome = pacer_.Pass(limits(), bytes, operations, rule_->version, fence, !batch);
            waited_ns += outcome.waited_ns;
        } while (outcome.again);
        const Traffic traffic = batch ? Traffic::batch : Traffic::storage;
        if (waited_ns && outcome.by && listed) listed->Waited(waited_ns, outcome.by->rule);
        if (waited_ns && recorder) recorder->Pacing(stream_.filesystem_, traffic, waited_ns);
        return outcome.passed || !batch; // a request of a storage user is never refused for a limit
    } catch (...) {
        // No memory for the queue, or no clock. Batch is refused: nothing of it may go on unpaced.
        if (recorder) recorder->InternalError();
        return !batch;
    }
}

} // namespace beer
