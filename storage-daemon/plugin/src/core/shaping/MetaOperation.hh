// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace beer {

// What clients do that moves no data; each is counted and may be limited by itself.
enum class MetaOperation : uint8_t {
    open_read,
    open_write,
    stat,
    exists,
    open_dir,
    mkdir,
    remove,
    rmdir,
    rename,
    chmod,
    truncate,
    checksum,
    xattr,
    query,
    prepare,
};

constexpr std::array<const char*, 15> kMetaOperations = {
    "OpenRead", "OpenWrite", "Stat",     "Exists",   "OpenDir", "Mkdir", "Rm",      "Rmdir",
    "Rename",   "Chmod",     "Truncate", "Checksum", "Xattr",   "Query", "Prepare",
};

inline const char* Name(MetaOperation operation) { return kMetaOperations[static_cast<size_t>(operation)]; }

inline std::optional<MetaOperation> ParseMetaOperation(const std::string& text) {
    for (size_t i = 0; i < kMetaOperations.size(); ++i)
        if (text == kMetaOperations[i]) return static_cast<MetaOperation>(i);
    return std::nullopt;
}

} // namespace beer
