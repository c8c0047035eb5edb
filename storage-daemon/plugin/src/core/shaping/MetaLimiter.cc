// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/MetaLimiter.hh"

#include <algorithm>
#include <cmath>

namespace beer {
namespace {

constexpr unsigned kWindow = 5;      // seconds over which a rate is judged
constexpr unsigned kShortest = 5;    // stall: shorter ones bring the client back into the same storm
constexpr unsigned kSpread = 5;      // and not all at the same moment (xrootd #2529)
constexpr size_t kMostPeople = 4096; // remembered; those not seen for longest go first
constexpr size_t kMostReasons = 1024;

} // namespace

MetaLimiter::MetaLimiter() : chance_(std::random_device()()) {}

MetaLimiter::Person& MetaLimiter::Known(std::map<std::string, Person>& all, const std::string& name, uint64_t now_ns) {
    if (all.size() >= kMostPeople && !all.count(name)) {
        auto oldest = all.end();
        for (auto one = all.begin(); one != all.end(); ++one)
            if (!one->second.in_flight && (oldest == all.end() || one->second.seen_ns < oldest->second.seen_ns))
                oldest = one;
        if (oldest != all.end()) all.erase(oldest);
    }
    Person& person = all[name];
    person.seen_ns = now_ns;
    return person;
}

MetaLimiter::Verdict MetaLimiter::Stall(Person& person, const std::string& counter, std::string reason, unsigned from_s,
                                        uint64_t now_ns) {
    ++person.stalls;
    person.stalled_ns = now_ns;
    if (stalls_.size() < kMostReasons || stalls_.count(counter)) stalls_[counter].Add(now_ns);
    Verdict verdict;
    verdict.stall_s = from_s + static_cast<unsigned>(chance_() % (kSpread + 1));
    verdict.reason = std::move(reason);
    return verdict;
}

MetaLimiter::Verdict MetaLimiter::Judge(const ShapingConfig& config, const Identity& who, MetaOperation operation,
                                        Person& user, uint64_t now_ns) {
    const std::string name = Name(operation);
    // Checksums are only looked up here (they are computed as jobs of the server), and a listing asks for those of its
    // entries while it is under way itself.
    const bool takes_a_thread = operation != MetaOperation::checksum;
    const uint32_t own = takes_a_thread ? config.ThreadsOf(who.user) : 0;
    if (own && user.in_flight >= own)
        return Stall(user, "Stall::threads::" + who.user,
                     "you have " + std::to_string(user.in_flight) + " requests under way, " + std::to_string(own) +
                         " are allowed",
                     kShortest, now_ns);
    if (takes_a_thread && config.threads_of_all && in_flight_ >= config.threads_of_all)
        return Stall(user, "Stall::threads", "the server has as many requests under way as are allowed", kShortest,
                     now_ns);
    const auto over = [&](Person& person, uint32_t limit) {
        return limit && person.operations[operation].Seconds(now_ns, kWindow) >= uint64_t{limit} * kWindow;
    };
    if (const uint32_t limit = config.MetaRateOf(Level::user, who.user, operation); over(user, limit))
        return Stall(user, "Stall::" + name, "you are above " + std::to_string(limit) + " " + name + " per second",
                     kShortest, now_ns);
    for (const auto& group : who.groups) {
        const uint32_t limit = config.MetaRateOf(Level::group, group, operation);
        if (limit && over(Known(groups_, group, now_ns), limit))
            return Stall(user, "Stall::" + name,
                         "group " + group + " is above " + std::to_string(limit) + " " + name + " per second",
                         kShortest, now_ns);
    }
    return {};
}

MetaLimiter::Verdict MetaLimiter::Begin(const ShapingConfig& config, const Identity& who, MetaOperation operation,
                                        uint64_t now_ns) {
    std::lock_guard<std::mutex> lock(mutex_);
    Person& user = Known(users_, who.user, now_ns);
    if (config.IsBanned(who.user)) {
        Verdict verdict = Stall(user, "Ban::" + who.user, "you are banned from this server", 0, now_ns);
        verdict.banned = true;
        return verdict;
    }
    Verdict verdict = Judge(config, who, operation, user, now_ns);
    if (verdict.stall_s) return verdict; // and it does not count: who is stalled would else never come in again
    user.operations[operation].Add(now_ns);
    for (const auto& group : who.groups)
        if (config.MetaRateOf(Level::group, group, operation))
            Known(groups_, group, now_ns).operations[operation].Add(now_ns);
    ++user.in_flight;
    ++in_flight_;
    return verdict;
}

MetaLimiter::Verdict MetaLimiter::Hold(const Identity& who, uint64_t now_ns) {
    std::lock_guard<std::mutex> lock(mutex_);
    return Stall(Known(users_, who.user, now_ns), "Stall::guard", "the guard of this node holds batch at the moment",
                 kShortest, now_ns);
}

void MetaLimiter::End(const Identity& who, MetaOperation operation, uint64_t begun_ns, uint64_t now_ns) {
    std::lock_guard<std::mutex> lock(mutex_);
    Done& done = operations_[static_cast<size_t>(operation)];
    done.counter.Add(now_ns);
    done.last_ns[done.count++ % done.last_ns.size()] = static_cast<float>(now_ns - std::min(begun_ns, now_ns));
    if (const auto user = users_.find(who.user); user != users_.end() && user->second.in_flight)
        --user->second.in_flight;
    if (in_flight_) --in_flight_;
}

Execution MetaLimiter::ExecutionOf(const Done& done) {
    const size_t count = std::min<size_t>(done.count, done.last_ns.size());
    if (!count) return {};
    std::array<float, 100> sorted = done.last_ns;
    std::sort(sorted.begin(), sorted.begin() + static_cast<long>(count));
    Execution execution;
    double squares = 0;
    for (size_t i = 0; i < count; ++i)
        execution.mean_ns += sorted[i] / static_cast<double>(count);
    for (size_t i = 0; i < count; ++i)
        squares += (sorted[i] - execution.mean_ns) * (sorted[i] - execution.mean_ns);
    execution.sigma_ns = std::sqrt(squares / static_cast<double>(count));
    execution.p99_ns = sorted[(count * 99 + 99) / 100 - 1];
    execution.max_ns = sorted[count - 1];
    return execution;
}

std::vector<MetaLimiter::Line> MetaLimiter::Lines(uint64_t now_ns) {
    std::vector<Line> lines;
    lines.reserve(operations_.size() + kMostReasons); // not under the mutex, for which requests wait
    std::lock_guard<std::mutex> lock(mutex_);
    const auto add = [&](const std::string& name, RateCounter& counter, const Execution& execution) {
        lines.push_back({name.substr(0, kMostName), counter.total(), counter.Seconds(now_ns, 5),
                         counter.Seconds(now_ns, 60), counter.Minutes(now_ns, 5), counter.Minutes(now_ns, 60),
                         execution});
    };
    for (size_t i = 0; i < operations_.size(); ++i)
        add(kMetaOperations[i], operations_[i].counter, ExecutionOf(operations_[i]));
    for (auto& [name, counter] : stalls_)
        add(name, counter, {});
    return lines;
}

std::vector<MetaLimiter::User> MetaLimiter::Users() {
    std::vector<User> users;
    users.reserve(kMostPeople);
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [name, person] : users_)
        users.push_back({name.substr(0, kMostName), person.in_flight, person.stalls, person.stalled_ns});
    return users;
}

} // namespace beer
