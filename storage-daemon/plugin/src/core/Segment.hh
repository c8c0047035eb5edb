// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/Layout.hh"
#include "core/Platform.hh"

namespace beer {

struct Filesystem {
    std::string path; // of the mount point
    uint32_t major_number = 0;
    uint32_t minor_number = 0;
};

struct SegmentOptions {
    std::string path;
    std::string instance;
    std::vector<Filesystem> filesystems;
    uint32_t slots = kMaxSlots;
    uint32_t clients = kMaxClients;
};

// The mapped file. Nothing here is on the I/O path but the accessors.
class Segment {
  public:
    // Null when anything failed, with the reason in `error`: the caller then serves without measuring.
    static std::unique_ptr<Segment> Create(const SegmentOptions& options, const Platform& platform, std::string& error);
    ~Segment();
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;

    Header& header() const { return *at<Header>(0); }
    FilesystemRecord& filesystem(uint32_t i) const { return at<FilesystemRecord>(filesystems_)[i]; }
    Counter32& change(uint32_t series) const { return at<Counter32>(changes_)[series]; }
    SeriesRecord& series(uint32_t i) const { return at<SeriesRecord>(series_)[i]; }
    SlotRecord& slot(uint32_t i) const { return at<SlotRecord>(slots_)[i]; }
    ClientRecord& client(uint32_t i) const { return at<ClientRecord>(clients_)[i]; }

    uint32_t filesystem_count() const { return filesystem_count_; }
    uint32_t slot_count() const { return slot_count_; }
    uint32_t client_count() const { return client_count_; }
    size_t size() const { return size_; }
    const char* bytes() const { return base_; }

  private:
    Segment() = default;
    void Place(const SegmentOptions& options);
    void Fill(const SegmentOptions& options, const Platform& platform);
    bool Map(const std::string& temporary, std::string& error);

    template <typename T>
    T* at(size_t offset) const {
        return reinterpret_cast<T*>(base_ + offset);
    }

    char* base_ = nullptr;
    size_t size_ = 0;
    size_t filesystems_ = 0, changes_ = 0, series_ = 0, slots_ = 0, clients_ = 0;
    // Copies: what the plug-in computes addresses from must not be in memory that another process could change.
    uint32_t filesystem_count_ = 0, slot_count_ = 0, client_count_ = 0;
};

} // namespace beer
