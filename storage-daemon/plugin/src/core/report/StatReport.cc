// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/report/Json.hh"
#include "core/report/Report.hh"
#include "core/report/Totals.hh"

namespace beer {
namespace {

Json Delays(const Segment& segment, uint32_t filesystem, uint32_t kind) {
    Json delays;
    for (const Traffic traffic : {Traffic::storage, Traffic::batch}) { // nobody waits for the server's own work
        const auto number = static_cast<uint32_t>(traffic);
        Sum sum;
        sum.Add(segment.series(SeriesIndex(filesystem, kind + number)));
        delays[kClassNames[number]] = {{"operations", sum.operations}, {"sum_ns", sum.sum_ns}, {"max_ns", sum.max_ns}};
    }
    return delays;
}

Json Operations(const Segment& segment, uint32_t filesystem) {
    Json classes;
    for (const Traffic traffic : {Traffic::storage, Traffic::batch, Traffic::internal}) {
        Json& events = classes[kClassNames[static_cast<uint32_t>(traffic)]];
        for (const auto& [name, event] : kEventNames) {
            Sum sum;
            sum.Add(segment.series(SeriesIndex(filesystem, KindOf(event, traffic))));
            events[name] = {{"operations", sum.operations},
                            {"bytes", sum.bytes},
                            {"errors", sum.errors},
                            {"sum_ns", sum.sum_ns},
                            {"max_ns", sum.max_ns}};
        }
    }
    return classes;
}

Json Filesystems(const Core& core) {
    Json all = Json::array();
    const Segment* segment = core.segment();
    for (uint32_t i = 0; segment && i < segment->filesystem_count(); ++i) {
        const FilesystemRecord& record = segment->filesystem(i);
        all.push_back({{"path", PathOf(core, i)},
                       {"open_readers", record.open_readers.load()},
                       {"open_writers", record.open_writers.load()},
                       {"overloaded", record.flags.load() == kFlagOverloaded},
                       {"operations", Operations(*segment, i)},
                       {"pacing", Delays(*segment, i, kPacingKind)},
                       {"stalls", Delays(*segment, i, kStallKind)}});
    }
    return all;
}

Json Metadata(MetaLimiter& limiter, uint64_t now_ns) {
    Json all = Json::array();
    for (const auto& line : limiter.Lines(now_ns))
        all.push_back({{"name", line.name},
                       {"total", line.total},
                       {"seconds5", line.seconds5},
                       {"minute", line.minute},
                       {"minutes5", line.minutes5},
                       {"hour", line.hour},
                       {"mean_ns", line.execution.mean_ns},
                       {"sigma_ns", line.execution.sigma_ns},
                       {"p99_ns", line.execution.p99_ns},
                       {"max_ns", line.execution.max_ns}});
    return all;
}

// Those who were stalled last come first.
void AddUsers(MetaLimiter& limiter, uint64_t now_ns, Json& to) {
    std::vector<MetaLimiter::User> users = limiter.Users();
    std::sort(users.begin(), users.end(), [](const MetaLimiter::User& a, const MetaLimiter::User& b) {
        return a.stalled_ns != b.stalled_ns ? a.stalled_ns > b.stalled_ns : a.in_flight > b.in_flight;
    });
    const size_t count = std::min(users.size(), Report::kMostUsers);
    Json& all = to["users"] = Json::array();
    for (size_t i = 0; i < count; ++i) {
        const auto& user = users[i];
        all.push_back(
            {{"name", user.name},
             {"in_flight", user.in_flight},
             {"stalls", user.stalls},
             {"stalled_ago_ns", user.stalled_ns ? Json(now_ns - std::min(now_ns, user.stalled_ns)) : Json()}});
    }
    to["users_left_out"] = users.size() - count;
}

Json Links(const LinkBudget& budget) { return {{"used", budget.links()}, {"most", budget.most()}}; }

} // namespace

std::string Report::Stat() const {
    Json answer = Head(core_, "stat");
    const uint64_t now = answer["now_ns"];
    const Segment* segment = core_.segment();
    answer["measures"] = segment != nullptr;
    answer["started_realtime_ns"] = segment ? Json(segment->header().generation) : Json();
    answer["internal_errors"] = segment ? segment->header().internal_errors.load() : 0;
    answer["streams"] = {{"open", core_.streams().size()}, {"requests_waiting", core_.shaping().waiting()}};
    answer["connections_that_may_be_held"] = {{"batch", Links(core_.shaping().batch_links())},
                                              {"storage", Links(core_.shaping().storage_links())}};
    answer["filesystems"] = Filesystems(core_);
    answer["metadata"] = Metadata(core_.shaping().metadata(), now);
    AddUsers(core_.shaping().metadata(), now, answer);
    return Text(answer);
}

} // namespace beer
