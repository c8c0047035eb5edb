// SPDX-License-Identifier: Apache-2.0
#include "core/report/Json.hh"
#include "core/report/Report.hh"
#include "core/shaping/Scheduler.hh"

namespace beer {
namespace {

Json Limited(const Rates& rates) {
    return {{"bytes_per_s", RateOf(rates.bytes)}, {"operations_per_s", RateOf(rates.operations)}};
}

Json Guard(Core& core, uint64_t now_ns) {
    const ControlWatch& control = core.shaping().control();
    const ControlWatch::Said said = control.said();
    Json guard = {{"file", core.settings().shaping.control},
                  {"sequence", said.sequence},
                  {"lease_left_ns", said.lease_until_ns > now_ns ? said.lease_until_ns - now_ns : 0}};
    guard["elsewhere"] = Limited(core.shaping().pacer().Get(*control.LimitOf(kNoFilesystem)));
    return guard;
}

std::string Priorities(Core& core, const std::string& scheduler, bool turns) {
    std::string effect = PriorityEffect(scheduler, turns);
    if (core.io_priorities().refused()) effect += "; the kernel refuses some, see the daemon's log";
    return effect;
}

Json Filesystems(Core& core, const ShapingConfig& config) {
    Json all = Json::array();
    const auto& filesystems = core.filesystems().filesystems();
    for (uint32_t i = 0; i < filesystems.size(); ++i) {
        const Filesystem& one = filesystems[i];
        const std::string scheduler = SchedulerOf(one.major_number, one.minor_number);
        const OpenLimits open = config.OpenLimitsOf(one.path);
        all.push_back({{"path", one.path},
                       {"device", std::to_string(one.major_number) + ":" + std::to_string(one.minor_number)},
                       {"scheduler", scheduler.empty() ? Json() : Json(scheduler)},
                       {"priorities", Priorities(core, scheduler, config.turns)},
                       {"most_readers", open.readers},
                       {"most_writers", open.writers},
                       {"overloaded", core.shaping().overload().overloaded(i)},
                       {"guard", Limited(core.shaping().pacer().Get(*core.shaping().control().LimitOf(i)))}});
    }
    return all;
}

} // namespace

std::string Report::Policy() const {
    Json answer = Head(core_, "policy");
    const auto config = core_.shaping().config();
    const std::string& file = core_.settings().policy_file;
    answer["version"] = core_.shaping().version();
    answer["file"] = file.empty() ? Json() : Json(file);
    answer["rules"] = config->lines;
    answer["guard"] = Guard(core_, answer["now_ns"]);
    answer["filesystems"] = Filesystems(core_, *config);
    return Text(answer);
}

} // namespace beer
