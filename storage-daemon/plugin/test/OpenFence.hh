// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/shaping/Fence.hh"

namespace beer {

// Everybody may wait.
struct OpenFence final : Fence {
    bool Enter() noexcept override { return true; }
    void Leave() noexcept override {}
};

} // namespace beer
