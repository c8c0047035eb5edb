// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/shaping/Stretch.hh"

namespace beer {

// Asks the kernel to fetch this part of a file, and does not wait. A hint.
void AskFor(int fd, const Stretch& part) noexcept;

// Waits until this part of a file is in the page cache, so that whoever sends it by sendfile waits for no disk. Looks
// at both ends of every 128 KiB: what the kernel fetches with one request is there at once. False: it is not all there
// (an error, or the end of the file).
bool FetchIntoMemory(int fd, const Stretch& part) noexcept;

} // namespace beer
