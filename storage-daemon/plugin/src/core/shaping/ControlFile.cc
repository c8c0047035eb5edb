// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/ControlFile.hh"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace beer {
namespace {

constexpr char kControlMagic[8] = {'B', 'E', 'E', 'R', 'S', 'H', 'P', '\0'};
constexpr uint32_t kControlVersion = 1;
constexpr size_t kHeaderBytes = 64, kRecordBytes = 32, kChecksumAt = 56;
constexpr uint64_t kLongestLeaseNs = 60000000000;
constexpr uint64_t kOpenAgainNs = 1000000000;

template <typename T>
T At(const unsigned char* bytes, size_t offset) {
    T value;
    std::memcpy(&value, bytes + offset, sizeof value);
    return value;
}

uint64_t Fnv1a(const unsigned char* bytes, size_t size, uint64_t hash = 0xcbf29ce484222325) {
    for (size_t i = 0; i < size; ++i)
        hash = (hash ^ bytes[i]) * 0x100000001b3;
    return hash;
}

} // namespace

Rates Control::For(uint32_t major_number, uint32_t minor_number) const {
    Rates every;
    for (const auto& record : records) {
        if (record.major_number == major_number && record.minor_number == minor_number) return record.rates;
        if (record.major_number == kEveryDevice && record.minor_number == kEveryDevice) every = record.rates;
    }
    return every;
}

std::optional<Control> ParseControl(const unsigned char* bytes, size_t size, uint64_t now_ns, std::string& error) {
    const auto refuse = [&](const char* why) {
        error = why;
        return std::nullopt;
    };
    if (size < kHeaderBytes) return refuse("too short");
    if (std::memcmp(bytes, kControlMagic, sizeof kControlMagic) != 0) return refuse("not a shaping segment");
    if (At<uint32_t>(bytes, 8) != kControlVersion) return refuse("another layout version");
    const uint32_t records = At<uint32_t>(bytes, 12);
    if (records > kMostControlRecords || kHeaderBytes + records * kRecordBytes > size)
        return refuse("too many records");
    const uint64_t checksum = Fnv1a(bytes + kHeaderBytes, records * kRecordBytes, Fnv1a(bytes, kChecksumAt));
    if (checksum != At<uint64_t>(bytes, kChecksumAt)) return refuse("wrong checksum");

    Control control;
    control.sequence = At<uint64_t>(bytes, 16);
    control.lease_until_ns = At<uint64_t>(bytes, 24);
    if (control.lease_until_ns > now_ns && control.lease_until_ns - now_ns > kLongestLeaseNs)
        return refuse("a lease that ends too far ahead");
    for (uint32_t i = 0; i < records; ++i) {
        const unsigned char* record = bytes + kHeaderBytes + i * kRecordBytes;
        control.records.push_back({At<uint32_t>(record, 0), At<uint32_t>(record, 4),
                                   Rates{At<uint64_t>(record, 8), At<uint64_t>(record, 16)}});
    }
    return control;
}

void ControlFile::Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
}

bool ControlFile::Open(uint64_t now_ns, std::string& error) {
    Close();
    opened_ns_ = now_ns;
    fd_ = open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd_ < 0) {
        if (errno != ENOENT) error = std::strerror(errno);
        return false;
    }
    struct stat found{};
    if (fstat(fd_, &found) != 0) {
        error = std::strerror(errno);
    } else if (!S_ISREG(found.st_mode)) {
        error = "not a regular file";
    } else if (found.st_uid != owner_ || (found.st_mode & (S_IWGRP | S_IWOTH))) {
        error = "others than its owner may write it";
    } else {
        return true;
    }
    Close();
    return false;
}

std::optional<Control> ControlFile::Read(uint64_t now_ns, std::string& error) {
    error.clear();
    if ((fd_ < 0 || now_ns >= opened_ns_ + kOpenAgainNs) && !Open(now_ns, error)) return std::nullopt;
    std::array<unsigned char, kControlBytes> bytes;
    const ssize_t size = pread(fd_, bytes.data(), bytes.size(), 0);
    if (size < 0) {
        error = std::strerror(errno);
        return std::nullopt;
    }
    return ParseControl(bytes.data(), static_cast<size_t>(size), now_ns, error);
}

} // namespace beer
