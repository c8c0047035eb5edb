// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/Core.hh"

namespace beer {

// `<stats id="beer">...</stats>` for the summary stream of XRootD (xrd.report, `xrdfs query stats p`).
std::string SummaryXml(Core& core);

// More than it will ever have.
size_t LongestSummary(Core& core);

} // namespace beer
