// SPDX-License-Identifier: Apache-2.0
//
// What the guard allows batch: docs/formats/shaping-segment.md is the contract.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/shaping/Limit.hh"

namespace beer {

struct Control {
    struct Record {
        uint32_t major_number;
        uint32_t minor_number;
        Rates rates;
    };
    uint64_t sequence = 0;
    uint64_t lease_until_ns = 0;
    std::vector<Record> records;

    // For a filesystem; unlimited when nothing is said of it.
    Rates For(uint32_t major_number, uint32_t minor_number) const;
};

constexpr size_t kControlBytes = 4096;
constexpr uint32_t kMostControlRecords = 97;
constexpr uint32_t kEveryDevice = UINT32_MAX; // as major and minor

// Nothing, with the reason in `error`, when the bytes are no control file that counts now or later.
std::optional<Control> ParseControl(const unsigned char* bytes, size_t size, uint64_t now_ns, std::string& error);

// The file, opened anew when it was replaced. Content and place are treated as hostile input.
class ControlFile {
  public:
    ControlFile(std::string path, uid_t owner) : path_(std::move(path)), owner_(owner) {}
    ~ControlFile() { Close(); }
    ControlFile(const ControlFile&) = delete;
    ControlFile& operator=(const ControlFile&) = delete;

    // What it says now. A file that is not there is no error and says nothing.
    std::optional<Control> Read(uint64_t now_ns, std::string& error);

  private:
    bool Open(uint64_t now_ns, std::string& error);
    void Close();

    const std::string path_;
    const uid_t owner_;
    int fd_ = -1;
    uint64_t opened_ns_ = 0;
};

} // namespace beer
