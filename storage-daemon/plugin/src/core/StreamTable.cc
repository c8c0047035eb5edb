// SPDX-License-Identifier: Apache-2.0
#include "core/StreamTable.hh"

#include <algorithm>

namespace beer {
namespace {

OpenStream::Owner Bounded(OpenStream::Owner owner) {
    for (std::string* name : {&owner.user, &owner.app, &owner.link})
        if (name->size() > OpenStream::kMostName) name->resize(OpenStream::kMostName);
    if (owner.path.size() > OpenStream::kMostPath) {
        owner.path.resize(OpenStream::kMostPath);
        owner.path.shrink_to_fit();
    }
    return owner;
}

} // namespace

OpenStream::OpenStream(Owner owner, uint64_t now_ns) : owner(Bounded(std::move(owner))), opened_ns(now_ns) {
    last_rule_.reserve(kMostName);
}

void OpenStream::Wait::Begin(const std::string& rule, uint64_t since_ns) {
    if (!stream_) return;
    std::lock_guard<std::mutex> lock(stream_->mutex_);
    const bool anew = !rule_;
    rule_ = &rule;
    if (!anew) return;
    since_ns_ = since_ns;
    next_ = stream_->waits_now_;
    stream_->waits_now_ = this;
    stream_->waiting_.fetch_add(1, std::memory_order_relaxed);
}

void OpenStream::Wait::End() {
    if (!rule_) return; // only this thread sets it
    std::lock_guard<std::mutex> lock(stream_->mutex_);
    Wait** link = &stream_->waits_now_;
    while (*link != this)
        link = &(*link)->next_;
    *link = next_;
    rule_ = nullptr;
    stream_->waiting_.fetch_sub(1, std::memory_order_relaxed);
}

void OpenStream::Waited(uint64_t ns, const std::string& rule) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++waits_;
    waited_ns_ += ns;
    last_rule_.assign(rule, 0, kMostName);
}

OpenStream::Now OpenStream::Look() const {
    Now now{};
    for (size_t i = 0; i < counters_.size(); ++i) {
        now.bytes[i] = counters_[i].bytes.load(std::memory_order_relaxed);
        now.operations[i] = counters_[i].operations.load(std::memory_order_relaxed);
    }
    now.by.reserve(kMostName); // not under the mutex, for which requests wait
    std::lock_guard<std::mutex> lock(mutex_);
    now.waits = waits_;
    now.waited_ns = waited_ns_;
    now.by = last_rule_;
    for (const Wait* wait = waits_now_; wait; wait = wait->next_) {
        ++now.waiting;
        if (now.waits_since && now.waits_since <= wait->since_ns_) continue;
        now.waits_since = wait->since_ns_;
        now.by.assign(*wait->rule_, 0, kMostName);
    }
    return now;
}

void StreamTable::Add(std::shared_ptr<OpenStream> stream) {
    if (!stream) return;
    stream->id_ = last_id_.fetch_add(1, std::memory_order_relaxed) + 1;
    Shard& shard = ShardOf(stream->id_);
    std::lock_guard<std::mutex> lock(shard.mutex);
    stream->place_ = shard.streams.size();
    shard.streams.push_back(std::move(stream));
    size_.fetch_add(1, std::memory_order_relaxed);
}

void StreamTable::Remove(const std::shared_ptr<OpenStream>& stream) {
    if (!stream || !stream->id_) return;
    Shard& shard = ShardOf(stream->id_);
    std::lock_guard<std::mutex> lock(shard.mutex);
    const size_t place = stream->place_;
    if (place >= shard.streams.size() || shard.streams[place] != stream) return;
    shard.streams[place] = std::move(shard.streams.back());
    shard.streams[place]->place_ = place;
    shard.streams.pop_back();
    size_.fetch_sub(1, std::memory_order_relaxed);
}

std::vector<StreamTable::Listed> StreamTable::List(size_t most) const {
    struct Candidate {
        bool runs;
        Listed listed;
    };
    std::vector<Candidate> all;
    all.reserve(size() + 64);
    for (const Shard& shard : shards_) {
        std::lock_guard<std::mutex> lock(shard.mutex);
        for (const auto& stream : shard.streams)
            all.push_back({!stream->waiting(), {stream->id_, stream}});
    }
    const size_t count = std::min(most, all.size());
    std::partial_sort(
        all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
        [](const Candidate& a, const Candidate& b) { return a.runs != b.runs ? b.runs : a.listed.id < b.listed.id; });
    std::vector<Listed> listed;
    listed.reserve(count);
    for (size_t i = 0; i < count; ++i)
        listed.push_back(std::move(all[i].listed));
    return listed;
}

} // namespace beer
