// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace beer {

// Writes the segment of docs/formats/latency-segment.golden to `path` and returns it in hexdump form.
std::string GoldenDump(const std::string& path);

// Lines "offset: 16 bytes"; of a run of all-zero lines the first is kept and the rest is one "*"; last the size.
std::string HexDump(const char* bytes, size_t size);

} // namespace beer
