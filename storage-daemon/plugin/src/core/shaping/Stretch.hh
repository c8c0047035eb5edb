// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace beer {

// A part of a file that is fetched from the disk in one go. Where many clients read big files from one disk, its head
// moves for every 128 KiB that the kernel reads ahead by itself; with stretches of some MiB it moves once for each.
struct Stretch {
    uint64_t begin = 0, end = 0;
    bool empty() const { return begin == end; }
};

// What to fetch when a client reads `size` bytes from `offset` on: the stretches that begin inside them. They lie at
// multiples of their length, so that it does not matter in which order parallel requests come, or for how many clients:
// who reads a file from its start to its end fetches each of them once. Who reads at random places fetches, on average,
// as many bytes more as he asks for; who asks for the first byte of each, all of them.
inline Stretch StretchesOf(uint64_t offset, uint64_t size, uint64_t length) {
    if (!length || !size || offset > INT64_MAX - length || size > INT64_MAX - length - offset) return {};
    const uint64_t first = (offset + length - 1) / length * length, end = offset + size;
    if (first >= end) return {};
    return {first, (end + length - 1) / length * length};
}

// `call(offset, size)` for each piece of it, the last one may be shorter.
template <typename Call>
void InPieces(const Stretch& stretch, uint64_t most, Call&& call) {
    for (uint64_t at = stretch.begin; at < stretch.end;) {
        const uint64_t size = std::min(most, stretch.end - at);
        call(at, size);
        at += size;
    }
}

} // namespace beer
