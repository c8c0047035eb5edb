// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "core/Core.hh"
#include "core/report/Totals.hh"

namespace beer {

using Json = nlohmann::ordered_json;

// Bytes that are no UTF-8 become U+FFFD instead of an exception, and everything that is not plain ASCII an escape.
inline std::string Text(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

// What every document begins with.
inline Json Head(const Core& core, const char* kind) {
    return {{"format", 1},
            {"kind", kind},
            {"instance", core.settings().instance},
            {"pid", core.platform().ProcessId()},
            {"now_ns", core.platform().MonotonicNs()}};
}

// Path of a filesystem by its number; null = on none that is measured.
inline Json PathOf(const Core& core, uint32_t filesystem) {
    const auto& all = core.filesystems().filesystems();
    return filesystem < all.size() ? Json(all[filesystem].path) : Json(nullptr);
}

// No limit is null.
inline Json RateOf(uint64_t rate) { return rate == kUnlimited ? Json(nullptr) : Json(rate); }

} // namespace beer
