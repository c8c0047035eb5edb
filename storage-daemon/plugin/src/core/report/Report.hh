// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/Core.hh"

namespace beer {

// What the server does now, as JSON for people and their tools: docs/formats/storage-info.md is the contract. What
// clients sent (paths, names) comes out as plain ASCII, whatever bytes it was.
class Report {
  public:
    explicit Report(Core& core) : core_(core) {}

    // To "stat", "streams" or "policy"; to anything else a document that says what was wrong.
    std::string Answer(const std::string& request) const;

    // Counters: of the disks, of the metadata, and who is stalled.
    std::string Stat() const;
    // Open files, those that wait first; not more than so many, and not many more bytes.
    std::string Streams(size_t most = kMostStreams, size_t most_bytes = kMostBytes) const;
    // The rules in force, and what the guard says.
    std::string Policy() const;

    static constexpr size_t kMostStreams = 10000, kMostBytes = size_t{8} << 20, kMostUsers = 1000;

  private:
    Core& core_;
};

} // namespace beer
