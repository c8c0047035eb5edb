// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/shaping/Stretch.hh"

namespace beer {

// Asks the kernel to fetch this part of a file, and does not wait. A hint.
void AskFor(int fd, const Stretch& part) noexcept;

// Can it be told what of this file is in the page cache? Not on tmpfs and ZFS.
bool TellsWhatIsInMemory(int fd) noexcept;

// Is this part of a file in the page cache? Reads nothing. What is just being fetched is not, unless it lies between
// two bytes 64 KiB apart that are there; before Linux 6.5 the same goes for what is not there at all.
bool InMemory(int fd, const Stretch& part) noexcept;

} // namespace beer
