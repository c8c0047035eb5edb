// SPDX-License-Identifier: Apache-2.0
#include "core/PageCache.hh"

#include <cerrno>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace beer {
namespace {

// The kernel takes no more per call than the device takes in one request, or than it reads ahead by itself: 128 KiB as
// it comes (mm/readahead.c, force_page_cache_ra()).
constexpr uint64_t kAskedAtOnce = 128 << 10;
constexpr uint64_t kLookedAt = 64 << 10;

// cachestat(2), since Linux 6.5; it reads nothing. Newer kernels tell only the owner, and who may write.
constexpr long kCachestat = 451;
struct Range {
    uint64_t offset, bytes;
};
struct Counts {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

// Are all pages of this part in the cache, or being fetched? Before 6.5 the kernel cannot be asked; there Look() reads
// nothing.
bool AllCached(int fd, const Stretch& part) noexcept {
    const Range range = {part.begin, part.end - part.begin};
    Counts counts{};
    if (syscall(kCachestat, fd, &range, &counts, 0) != 0) return errno == ENOSYS;
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return counts.cached >= (part.end - 1) / page - part.begin / page + 1;
}

// 1: it is there. Where it is not, newer kernels (6.18 does) begin to fetch a few pages.
ssize_t Look(int fd, uint64_t offset) noexcept {
    char byte;
    const iovec place = {&byte, 1};
    return preadv2(fd, &place, 1, static_cast<off_t>(offset), RWF_NOWAIT);
}

bool There(int fd, uint64_t offset) noexcept { return Look(fd, offset) == 1; }

} // namespace

void AskFor(int fd, const Stretch& part) noexcept {
    InPieces(part, kAskedAtOnce, [fd](uint64_t at, uint64_t size) {
        (void)posix_fadvise(fd, static_cast<off_t>(at), static_cast<off_t>(size), POSIX_FADV_WILLNEED);
    });
}

bool TellsWhatIsInMemory(int fd) noexcept {
    constexpr uint64_t kBeyond = uint64_t{1} << 60; // the end of any file: there is nothing to fetch
    return Look(fd, kBeyond) >= 0 || errno != EOPNOTSUPP;
}

bool InMemory(int fd, const Stretch& part) noexcept {
    if (part.empty()) return true;
    bool all = AllCached(fd, part);
    InPieces(part, kLookedAt, [&](uint64_t at, uint64_t) { all = all && There(fd, at); });
    return all && There(fd, part.end - 1);
}

} // namespace beer
