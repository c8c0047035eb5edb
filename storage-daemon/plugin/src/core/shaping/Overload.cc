// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/Overload.hh"

namespace beer {
namespace {

// Is one kind over its limit now, after it was so or not?
bool Over(bool before, uint32_t open, uint32_t limit) {
    if (!limit) return false;
    return before ? uint64_t{open} * 10 > uint64_t{limit} * 9 : open >= limit;
}

} // namespace

void Overload::OnChange(Changed changed) {
    std::lock_guard<std::mutex> lock(mutex_);
    changed_ = std::move(changed);
}

void Overload::SetLimits(uint32_t filesystem, const OpenLimits& limits) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (filesystem >= states_.size()) return;
    states_[filesystem].limits = limits;
    Judge(filesystem);
}

bool Overload::Enter(uint32_t filesystem, bool writer) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (filesystem >= states_.size()) return true;
    State& state = states_[filesystem];
    const uint32_t limit = writer ? state.limits.writers : state.limits.readers;
    uint32_t& entering = writer ? state.entering_writers : state.entering_readers;
    const uint32_t open = writer ? state.writers : state.readers;
    if (state.overloaded.load(std::memory_order_relaxed) || (limit && open + entering >= limit)) return false;
    ++entering;
    return true;
}

void Overload::Entered(uint32_t filesystem, bool writer, bool open) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (filesystem >= states_.size()) return;
    State& state = states_[filesystem];
    --(writer ? state.entering_writers : state.entering_readers);
    if (!open) return;
    ++(writer ? state.writers : state.readers);
    Judge(filesystem);
}

void Overload::Count(uint32_t filesystem, bool writer, int change) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (filesystem >= states_.size()) return;
    State& state = states_[filesystem];
    (writer ? state.writers : state.readers) += static_cast<uint32_t>(change);
    Judge(filesystem);
}

void Overload::Judge(uint32_t filesystem) {
    State& state = states_[filesystem];
    state.readers_over = Over(state.readers_over, state.readers, state.limits.readers);
    state.writers_over = Over(state.writers_over, state.writers, state.limits.writers);
    const bool before = state.overloaded.load(std::memory_order_relaxed);
    const bool now = state.readers_over || state.writers_over;
    if (now == before) return;
    state.overloaded.store(now, std::memory_order_relaxed);
    if (changed_) changed_(filesystem, now);
}

} // namespace beer
