// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "XrdSfs/XrdSfsAio.hh"

namespace beer {

struct FakeAio final : XrdSfsAio {
    void doneRead() override { ++reads; }
    void doneWrite() override { ++writes; }
    void Recycle() override {}
    int reads = 0, writes = 0;
};

} // namespace beer
