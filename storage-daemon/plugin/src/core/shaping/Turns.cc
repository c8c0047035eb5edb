// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/Turns.hh"

#include <algorithm>

namespace beer {
namespace {

constexpr uint64_t kRemembersNs = 1000000000;

// A mean that forgets: an eighth of it is news.
uint64_t Mean(uint64_t mean, uint64_t news) { return mean - mean / 8 + news / 8; }

} // namespace

// Bounded like the retransmission timer of TCP (Jacobson 1988): one that is missed lets in all that wait. But to keep a
// disk free for longer than a request takes costs more than it is worth.
uint64_t Turns::KeptFreeNs(const Work& work) const {
    if (work.pause_ns > service_ns_) return 0;
    return std::clamp(work.pause_ns + 4 * work.pause_deviation_ns, kShortestPauseNs, kLongestPauseNs);
}

bool Turns::AtWork(const Work& work, uint64_t now_ns) const {
    if (work.with_the_disk) return now_ns < work.last_ns + kHangsNs;
    if (work.waiting) return true; // for a class above: it goes first
    return work.used && now_ns < work.left_ns + KeptFreeNs(work);
}

bool Turns::MayComeBack(const Work& work, uint64_t now_ns) const {
    return work.used && now_ns < work.left_ns + kRemembersNs;
}

bool Turns::Blocked(IoPriority::Class io_class, uint64_t now_ns) const {
    const Work& own = Of(io_class);
    const bool full = own.with_the_disk >= own.window && now_ns < own.last_ns + kHangsNs;
    for (const Work* work = work_.data(); work != &own; ++work)
        if (AtWork(*work, now_ns) || (full && MayComeBack(*work, now_ns))) return true;
    return false;
}

void Turns::Come(Turn& turn, uint64_t now_ns) {
    Work& work = Of(turn.io_class);
    turn.came_ns = now_ns;
    if (work.with_the_disk || work.waiting) return;
    for (Work* lower = &work + 1; lower != work_.data() + work_.size(); ++lower)
        lower->window = std::max(1u, lower->window / 2);
    if (!work.used) return;
    // A long break is no pause between two requests; it says that none follows.
    const uint64_t pause = std::min(now_ns - work.left_ns, 2 * kLongestPauseNs);
    if (work.pause_ns == UINT64_MAX) {
        work.pause_ns = pause;
        return;
    }
    const uint64_t off = pause > work.pause_ns ? pause - work.pause_ns : work.pause_ns - pause;
    work.pause_deviation_ns = Mean(work.pause_deviation_ns, off);
    work.pause_ns = Mean(work.pause_ns, pause);
}

void Turns::Start(Turn& turn, uint64_t now_ns) {
    Work& work = Of(turn.io_class);
    work.used = true;
    if (!work.with_the_disk++) work.last_ns = now_ns; // that more come is no sign that the disk answers
    turn.began = true;
    turn.began_ns = now_ns;
}

void Turns::Begin(Turn& turn, uint64_t now_ns) {
    Come(turn, now_ns);
    Start(turn, now_ns);
}

void Turns::Wait(Turn& turn, uint64_t now_ns) {
    waiting_.push_back(&turn);
    Come(turn, now_ns);
    ++Of(turn.io_class).waiting;
}

void Turns::GiveUp(const Turn& turn) {
    const auto place = std::find(waiting_.begin(), waiting_.end(), &turn);
    if (place == waiting_.end()) return;
    waiting_.erase(place);
    --Of(turn.io_class).waiting;
}

void Turns::End(Turn& turn, uint64_t now_ns) {
    Work& work = Of(turn.io_class);
    const uint64_t took = now_ns - turn.began_ns;
    const uint64_t served = now_ns - std::max(turn.began_ns, ended_ns_);
    service_ns_ = service_ns_ ? Mean(service_ns_, served) : served;
    ended_ns_ = now_ns;
    if (!turn.on_allowance && work.with_the_disk >= work.window) ++work.window;
    --work.with_the_disk;
    work.last_ns = work.left_ns = now_ns;
    if (!turn.on_allowance) return;
    allowance_used_ = false;
    allowance_from_ns_ = now_ns + std::min((kAllowance - 1) * took, kOverdueNs);
}

uint64_t Turns::NextNs(uint64_t now_ns) const {
    uint64_t next = UINT64_MAX;
    if (waiting_.empty()) return next;
    const auto at = [&](uint64_t when_ns) {
        if (when_ns > now_ns) next = std::min(next, when_ns);
    };
    if (!allowance_used_) {
        at(waiting_.front()->came_ns + kOverdueNs);
        at(allowance_from_ns_);
    }
    for (const Work& work : work_) {
        if (!work.used) continue;
        at(work.with_the_disk ? work.last_ns + kHangsNs : work.left_ns + KeptFreeNs(work));
        at(work.left_ns + kRemembersNs);
    }
    return next;
}

bool Turns::engaged(uint64_t now_ns) const {
    if (!waiting_.empty()) return true;
    for (const auto io_class : {IoPriority::Class::real_time, IoPriority::Class::idle}) {
        const Work& work = Of(io_class);
        if (work.used && (work.with_the_disk || now_ns < work.last_ns + kRemembersNs)) return true;
    }
    return false;
}

} // namespace beer
