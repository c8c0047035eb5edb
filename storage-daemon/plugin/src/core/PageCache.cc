// SPDX-License-Identifier: Apache-2.0
#include "core/PageCache.hh"

#include <cerrno>
#include <fcntl.h>
#include <sys/uio.h>

namespace beer {
namespace {

// The kernel takes no more per call than the device takes in one request, or than it reads ahead by itself: 128 KiB as
// it comes (mm/readahead.c, force_page_cache_ra()).
constexpr uint64_t kAskedAtOnce = 128 << 10;
constexpr uint64_t kLookedAt = 64 << 10;

// Where it is not, the kernel begins to fetch a few pages.
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
    bool all = true;
    InPieces(part, kLookedAt, [&](uint64_t at, uint64_t) { all = all && There(fd, at); });
    return all && (part.empty() || There(fd, part.end - 1));
}

} // namespace beer
