// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/shaping/Stretch.hh"

namespace beer {

// Asks the kernel to fetch this part of a file, and does not wait. A hint.
void AskFor(int fd, const Stretch& part) noexcept;

// Can it be told what of this file is in the page cache? Not on tmpfs and ZFS.
bool TellsWhatIsInMemory(int fd) noexcept;

// Is this part of a file in the page cache? Looks at a byte of every 64 KiB, which costs a hundredth of sending it; a
// smaller part that is just being fetched in between is overlooked.
bool InMemory(int fd, const Stretch& part) noexcept;

} // namespace beer
