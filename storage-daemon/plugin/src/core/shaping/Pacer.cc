// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/Pacer.hh"

#include <algorithm>
#include <chrono>

namespace beer {
namespace {

constexpr uint64_t kSmallestPiece = 64 << 10;
constexpr uint64_t kPiecesPerSecond = 10;
// A wait is looked at again at least that often: another limit may have become the stricter one.
constexpr uint64_t kLongestSleepNs = 1000000000;

bool AnyLimited(const Limits& limits) {
    for (const auto& limit : limits)
        if (limit->limited()) return true;
    return false;
}

} // namespace

void Pacer::Set(Limit& limit, const Rates& rates) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (Rates{limit.bytes_.rate(), limit.operations_.rate()} == rates) return;
    const uint64_t now = platform_.MonotonicNs();
    limit.bytes_.SetRate(rates.bytes, now);
    limit.operations_.SetRate(rates.operations, now);
    limit.limited_.store(rates.limited(), std::memory_order_relaxed);
    limit.holds_.store(rates.bytes == 0 || rates.operations == 0, std::memory_order_relaxed);
    limit.changed_.notify_all();
}

Rates Pacer::Get(const Limit& limit) const {
    std::lock_guard<std::mutex> lock(mutex_);
    return {limit.bytes_.rate(), limit.operations_.rate()};
}

Limit* Pacer::Strictest(const std::vector<Place>& places, uint64_t now_ns, uint64_t& wait_ns) {
    Limit* strictest = nullptr;
    wait_ns = 0;
    for (const Place& place : places) {
        const uint64_t own = std::max(place.limit->bytes_.WaitNs(place.bytes_ticket, now_ns),
                                      place.limit->operations_.WaitNs(place.operations_ticket, now_ns));
        if (own <= wait_ns) continue;
        wait_ns = own;
        strictest = place.limit;
    }
    return strictest;
}

void Pacer::Wait(std::unique_lock<std::mutex>& lock, Limit& limit, uint64_t wait_ns) {
    waited_for_.insert(&limit);
    ++limit.waiters_;
    waiters_.fetch_add(1, std::memory_order_relaxed);
    limit.changed_.wait_for(lock, std::chrono::nanoseconds(std::min(wait_ns, kLongestSleepNs)));
    waiters_.fetch_sub(1, std::memory_order_relaxed);
    if (--limit.waiters_ == 0) waited_for_.erase(&limit);
}

Pacer::Outcome Pacer::Pass(const Limits& limits, uint64_t bytes, uint64_t operations, uint64_t version, Fence& fence,
                           bool goes_on) {
    Outcome outcome;
    if (!AnyLimited(limits)) return outcome;

    std::vector<Place> places;
    places.reserve(limits.size());
    Inside inside(fence); // left after the lock: the fence has one of its own
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t began = platform_.MonotonicNs();
    bytes = std::max<uint64_t>(1, bytes);
    operations = std::max<uint64_t>(1, operations);
    for (const auto& limit : limits) {
        if (!limit->limited()) continue; // what it lets through now is no debt when it is limited later
        places.push_back({limit.get(), bytes, operations, limit->bytes_.Take(bytes, began),
                          limit->operations_.Take(operations, began)});
    }
    uint64_t now = began, wait = 0;
    while (Limit* strictest = Strictest(places, now, wait)) {
        outcome.by = strictest;
        outcome.again = version < version_;
        const bool refused = !outcome.again && !inside.Enter();
        if (refused && goes_on) break;
        if (outcome.again || refused) {
            for (const Place& place : places) {
                place.limit->bytes_.Leave(place.bytes_ticket, place.bytes);
                place.limit->operations_.Leave(place.operations_ticket, place.operations);
            }
            outcome.passed = false;
            break;
        }
        fence.Waits(strictest->rule, began);
        Wait(lock, *strictest, wait);
        now = platform_.MonotonicNs();
    }
    outcome.waited_ns = now - began;
    return outcome;
}

void Pacer::Outdate(uint64_t version) {
    std::lock_guard<std::mutex> lock(mutex_);
    version_ = std::max(version_, version);
    for (Limit* limit : waited_for_)
        limit->changed_.notify_all();
}

void Pacer::GiveBack(const Limits& limits, uint64_t bytes) {
    if (!AnyLimited(limits)) return;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& limit : limits) {
        if (!limit->limited()) continue;
        limit->bytes_.GiveBack(bytes);
        if (limit->waiters_) limit->changed_.notify_all();
    }
}

uint64_t Pacer::PieceBytes(const Limits& limits) const {
    uint64_t piece = UINT64_MAX;
    if (!AnyLimited(limits)) return piece;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& limit : limits)
        if (const uint64_t rate = limit->bytes_.rate(); rate != kUnlimited)
            piece = std::min(piece, std::max(kSmallestPiece, rate / kPiecesPerSecond));
    return piece;
}

} // namespace beer
