// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/Core.hh"

namespace beer {

// The core that the OSS half made, null before. It lives as long as the process: XRootD never unloads a plug-in, and
// its worker threads may be inside it while the process exits.
Core* TheCore();
void SetTheCore(Core* core);

} // namespace beer
