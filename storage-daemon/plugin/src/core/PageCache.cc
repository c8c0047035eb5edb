// SPDX-License-Identifier: Apache-2.0
#include "core/PageCache.hh"

#include <fcntl.h>
#include <sys/uio.h>

namespace beer {
namespace {

// The kernel takes no more per call than the device takes in one request, or than it reads ahead by itself: 128 KiB as
// it comes (mm/readahead.c, force_page_cache_ra()).
constexpr uint64_t kAskedAtOnce = 128 << 10;

bool There(int fd, uint64_t offset, int flags) noexcept {
    char byte;
    const iovec place = {&byte, 1};
    return preadv2(fd, &place, 1, static_cast<off_t>(offset), flags) == 1;
}

bool EndsThere(int fd, const Stretch& part, int flags) noexcept {
    bool all = true;
    InPieces(part, kAskedAtOnce,
             [&](uint64_t at, uint64_t size) { all = all && There(fd, at, flags) && There(fd, at + size - 1, flags); });
    return all;
}

} // namespace

void AskFor(int fd, const Stretch& part) noexcept {
    InPieces(part, kAskedAtOnce, [fd](uint64_t at, uint64_t size) {
        (void)posix_fadvise(fd, static_cast<off_t>(at), static_cast<off_t>(size), POSIX_FADV_WILLNEED);
    });
}

bool FetchIntoMemory(int fd, const Stretch& part) noexcept {
    if (EndsThere(fd, part, RWF_NOWAIT)) return true;
    AskFor(fd, part);
    return EndsThere(fd, part, 0);
}

} // namespace beer
