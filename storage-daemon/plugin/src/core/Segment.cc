// SPDX-License-Identifier: Apache-2.0
#include "core/Segment.hh"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace beer {
namespace {

size_t Padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

std::string Check(const SegmentOptions& options) {
    if (options.filesystems.empty()) return "no filesystem to measure";
    if (options.filesystems.size() > kMaxFilesystems) return "more than 96 filesystems";
    if (options.slots < kMinSlots || options.slots > kMaxSlots || options.slots % 64) return "bad number of slots";
    if (options.clients < kMinClients || options.clients > kMaxClients || options.clients % 64)
        return "bad number of clients";
    if (options.instance.size() >= kInstanceBytes) return "instance name too long";
    for (const auto& filesystem : options.filesystems)
        if (filesystem.path.size() >= kPathBytes) return "path too long: " + filesystem.path;
    return "";
}

std::string TemporaryName(const std::string& path, uint32_t pid) {
    const size_t name = path.rfind('/') + 1;
    return path.substr(0, name) + "." + path.substr(name) + "." + std::to_string(pid);
}

std::string Failure(const std::string& what, int code) { return what + ": " + std::strerror(code); }

} // namespace

std::unique_ptr<Segment> Segment::Create(const SegmentOptions& options, const Platform& platform, std::string& error) {
    error = Check(options);
    if (!error.empty()) return nullptr;
    std::unique_ptr<Segment> segment(new Segment);
    segment->Place(options);

    const std::string temporary = TemporaryName(options.path, platform.ProcessId());
    // Left by a process that was killed right here and had our pid: it would make O_EXCL fail for ever.
    unlink(temporary.c_str());
    if (!segment->Map(temporary, error)) return nullptr;
    segment->Fill(options, platform);
    if (rename(temporary.c_str(), options.path.c_str()) != 0) {
        error = Failure("rename to " + options.path, errno);
        unlink(temporary.c_str());
        return nullptr;
    }
    return segment;
}

void Segment::Place(const SegmentOptions& options) {
    filesystem_count_ = static_cast<uint32_t>(options.filesystems.size());
    slot_count_ = options.slots;
    client_count_ = options.clients;
    const size_t series = size_t{filesystem_count_} * kSeriesPerFilesystem;
    filesystems_ = sizeof(Header);
    changes_ = filesystems_ + filesystem_count_ * sizeof(FilesystemRecord);
    series_ = changes_ + Padded(series * sizeof(Counter32));
    slots_ = series_ + series * sizeof(SeriesRecord);
    clients_ = slots_ + slot_count_ * sizeof(SlotRecord);
    size_ = clients_ + client_count_ * sizeof(ClientRecord);
}

bool Segment::Map(const std::string& temporary, std::string& error) {
    const int fd = open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
    if (fd < 0) {
        error = Failure("create " + temporary, errno);
        return false;
    }
    const char* step = "set the mode of ";
    int code = fchmod(fd, 0640) == 0 ? 0 : errno; // the umask of the server may be narrower
    if (!code) {
        // Before the mapping: a full /run must be an error here and not a SIGBUS in the server later.
        step = "reserve the space of ";
        code = posix_fallocate(fd, 0, static_cast<off_t>(size_));
    }
    if (!code) {
        step = "map ";
        void* base = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
        if (base == MAP_FAILED) {
            code = errno;
        } else {
            base_ = static_cast<char*>(base);
            // So that no request waits for swap; without the right to lock (RLIMIT_MEMLOCK) it works as well.
            (void)mlock(base_, size_);
        }
    }
    close(fd);
    if (!code) return true;
    error = Failure(step + temporary, code);
    unlink(temporary.c_str());
    return false;
}

void Segment::Fill(const SegmentOptions& options, const Platform& platform) {
    Header& h = header();
    std::memcpy(h.magic, kMagic, sizeof kMagic);
    h.version = kVersion;
    h.header_bytes = sizeof(Header);
    h.total_bytes = size_;
    h.generation = platform.RealtimeNs();
    if (h.generation == 0) h.generation = 1;
    h.pid = platform.ProcessId();
    h.filesystems = filesystem_count_;
    h.series_per_filesystem = kSeriesPerFilesystem;
    h.buckets = kBuckets;
    h.series_stride = sizeof(SeriesRecord);
    h.slots = slot_count_;
    h.clients = client_count_;
    h.filesystems_offset = filesystems_;
    h.changes_offset = changes_;
    h.series_offset = series_;
    h.slots_offset = slots_;
    h.clients_offset = clients_;
    h.heartbeat_ns = platform.MonotonicNs();
    std::memcpy(h.instance, options.instance.data(), options.instance.size());
    for (uint32_t i = 0; i < filesystem_count_; ++i) {
        const Filesystem& from = options.filesystems[i];
        FilesystemRecord& to = filesystem(i);
        to.major_number = from.major_number;
        to.minor_number = from.minor_number;
        std::memcpy(to.path, from.path.data(), from.path.size());
    }
}

Segment::~Segment() {
    if (base_) munmap(base_, size_);
}

} // namespace beer
