// SPDX-License-Identifier: Apache-2.0
#include "core/report/Report.hh"

#include "core/report/Json.hh"

namespace beer {

std::string Report::Answer(const std::string& request) const {
    if (request == "stat") return Stat();
    if (request == "streams") return Streams();
    if (request == "policy") return Policy();
    Json answer = Head(core_, "error");
    answer["error"] = "unknown request; there are stat, streams, policy";
    return Text(answer);
}

} // namespace beer
