// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>

namespace beer {

// Starts a thread that gets no signals: those are for the threads of the server, which expect them. `name`: at most 15
// characters, as the kernel has it. The work must not throw.
std::thread QuietThread(const char* name, std::function<void()> work);

} // namespace beer
