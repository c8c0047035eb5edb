// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "FakePlatform.hh"
#include "TemporaryFolder.hh"
#include "core/Recorder.hh"

namespace beer {

// A segment of two filesystems with a recorder, in a folder of its own.
class TestSegment : public testing::Test {
  protected:
    TestSegment() {
        options.path = folder / "beer.lat";
        options.instance = "beer";
        options.filesystems = {{"/data/01", 8, 16}, {"/data/02", 8, 32}};
        options.slots = 64;
        options.clients = 64;
        std::string error;
        segment = Segment::Create(options, platform, error);
        if (segment) recorder = std::make_unique<Recorder>(*segment, platform);
    }
    SeriesRecord& Series(uint32_t filesystem, Event event, Traffic traffic) {
        return segment->series(SeriesIndex(filesystem, KindOf(event, traffic)));
    }

    FakePlatform platform;
    TemporaryFolder folder;
    SegmentOptions options;
    std::unique_ptr<Segment> segment;
    std::unique_ptr<Recorder> recorder;
    const Origin storage{Traffic::storage, 0};
};

} // namespace beer
