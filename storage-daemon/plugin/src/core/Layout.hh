// SPDX-License-Identifier: Apache-2.0
//
// The bytes of the latency segment, version 1: docs/formats/latency-segment.md is the contract, this is its C++ form.
// The fields are atomics because the guard reads the file while worker threads count in it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace beer {

constexpr char kMagic[8] = {'B', 'E', 'E', 'R', 'L', 'A', 'T', '\0'};
constexpr uint32_t kVersion = 1;
constexpr uint32_t kSeriesPerFilesystem = 19;
constexpr uint32_t kBuckets = 224;
constexpr uint32_t kMaxFilesystems = 96;
constexpr uint32_t kMinSlots = 64, kMaxSlots = 4096;
constexpr uint32_t kMinClients = 64, kMaxClients = 512;
constexpr size_t kInstanceBytes = 64;
constexpr size_t kPathBytes = 192;

enum class Traffic : uint32_t { storage = 0, batch = 1, internal = 2 };
enum class Event : uint32_t { read = 0, write = 3, sync = 6, open = 9, meta = 12 };
constexpr uint32_t kPacingKind = 15; // + storage or batch
constexpr uint32_t kStallKind = 17;  // + storage or batch

constexpr uint32_t SeriesIndex(uint32_t filesystem, uint32_t kind) { return filesystem * kSeriesPerFilesystem + kind; }
constexpr uint32_t KindOf(Event event, Traffic traffic) {
    return static_cast<uint32_t>(event) + static_cast<uint32_t>(traffic);
}

using Counter64 = std::atomic<uint64_t>;
using Counter32 = std::atomic<uint32_t>;
static_assert(Counter64::is_always_lock_free && sizeof(Counter64) == 8, "a lock in shared memory would be no counter");
static_assert(Counter32::is_always_lock_free && sizeof(Counter32) == 4, "a lock in shared memory would be no counter");

struct Header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint64_t total_bytes;
    uint64_t generation;
    uint32_t pid;
    uint32_t filesystems;
    uint32_t series_per_filesystem;
    uint32_t buckets;
    uint32_t series_stride;
    uint32_t slots;
    uint32_t clients;
    uint32_t unused60;
    uint64_t filesystems_offset;
    uint64_t changes_offset;
    uint64_t series_offset;
    uint64_t slots_offset;
    uint64_t clients_offset;
    char unused104[24];
    Counter64 heartbeat_ns;
    Counter32 slots_high;
    Counter32 clients_high;
    Counter64 slots_overflow;
    Counter64 clients_overflow;
    Counter64 internal_errors;
    Counter64 shaping_sequence; // of the shaping segment that was applied last
    char unused176[16];
    char instance[kInstanceBytes];
    char unused256[4096 - 256];
};

struct FilesystemRecord {
    uint32_t major_number; // not "major": <sys/sysmacros.h> makes that a macro
    uint32_t minor_number;
    Counter32 open_readers;
    Counter32 open_writers;
    Counter32 flags;
    char unused20[44];
    char path[kPathBytes];
};
constexpr uint32_t kFlagOverloaded = 1;

struct SeriesRecord {
    Counter64 operations;
    Counter64 bytes;
    Counter64 sum_ns;
    Counter64 errors;
    Counter64 max_ns;
    Counter32 under;
    Counter32 over;
    char unused48[16];
    Counter32 bucket[kBuckets];
};

struct SlotRecord {
    Counter64 start_ns;
    Counter32 series;
    Counter32 tid;
    Counter64 bytes;
    Counter32 client;
    uint32_t unused28;
};

struct ClientRecord {
    unsigned char address[16];
    Counter64 bytes_read;
    Counter64 bytes_written;
    Counter64 operations;
    Counter64 last_ns;
    Counter32 used;
    char unused52[12];
};

static_assert(offsetof(Header, filesystems_offset) == 64 && offsetof(Header, heartbeat_ns) == 128);
static_assert(offsetof(Header, internal_errors) == 160 && offsetof(Header, instance) == 192 && sizeof(Header) == 4096);
static_assert(offsetof(FilesystemRecord, path) == 64 && sizeof(FilesystemRecord) == 256);
static_assert(offsetof(SeriesRecord, under) == 40 && offsetof(SeriesRecord, bucket) == 64);
static_assert(sizeof(SeriesRecord) == 960 && sizeof(SlotRecord) == 32 && sizeof(ClientRecord) == 64);

} // namespace beer
