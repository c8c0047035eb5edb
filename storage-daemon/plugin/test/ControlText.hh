// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "core/shaping/ControlFile.hh"

namespace beer {

// The bytes that a guard would write.
inline std::string ControlText(const Control& control) {
    std::string text(64 + 32 * control.records.size(), '\0');
    const auto put = [&](size_t offset, auto value) { std::memcpy(text.data() + offset, &value, sizeof value); };
    std::memcpy(text.data(), "BEERSHP", 8);
    put(8, uint32_t{1});
    put(12, static_cast<uint32_t>(control.records.size()));
    put(16, control.sequence);
    put(24, control.lease_until_ns);
    for (size_t i = 0; i < control.records.size(); ++i) {
        const auto& record = control.records[i];
        put(64 + 32 * i, record.major_number);
        put(68 + 32 * i, record.minor_number);
        put(72 + 32 * i, record.rates.bytes);
        put(80 + 32 * i, record.rates.operations);
    }
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < text.size(); ++i)
        if (i < 56 || i >= 64) hash = (hash ^ static_cast<unsigned char>(text[i])) * 0x100000001b3;
    put(56, hash);
    return text;
}

} // namespace beer
