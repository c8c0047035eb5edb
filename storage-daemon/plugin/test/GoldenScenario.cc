// SPDX-License-Identifier: Apache-2.0
#include "GoldenScenario.hh"

#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "FakePlatform.hh"
#include "OtherThread.hh"
#include "core/Recorder.hh"

namespace beer {
namespace {

constexpr uint64_t us = 1000, ms = 1000 * us, s = 1000 * ms;
constexpr Origin kStorage{Traffic::storage, 0};
constexpr Origin kInternal{Traffic::internal, 0};

class Scenario {
  public:
    explicit Scenario(const std::string& path) {
        SegmentOptions options;
        options.path = path;
        options.instance = "beer";
        options.filesystems = {{"/data/01", 8, 16}, {"/data/02", 259, 3}};
        options.slots = 64;
        options.clients = 64;
        std::string error;
        segment = Segment::Create(options, clock, error);
        if (!segment) throw std::runtime_error(error);
        recorder = std::make_unique<Recorder>(*segment, clock);
    }

    void Take(uint32_t filesystem, Event event, const Origin& origin, uint64_t ns, ssize_t result, bool moves = false) {
        OperationTimer timer(recorder.get(), filesystem, event, origin, moves && result > 0 ? result : 0);
        clock.now_ns += ns;
        timer.Done(result, moves);
    }

    Origin Batch(unsigned char last) {
        return {Traffic::batch, recorder->clients().Find({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 127, 0, last})};
    }

    FakePlatform clock;
    std::unique_ptr<Segment> segment;
    std::unique_ptr<Recorder> recorder;
};

void Completed(Scenario& scene) {
    // Both sides of the limits of the histogram and of a bucket.
    for (uint64_t ns :
         {uint64_t{1}, uint64_t{511}, uint64_t{512}, uint64_t{575}, uint64_t{576}, uint64_t{1023}, uint64_t{1024},
          100 * us, 3 * ms, 8 * ms, 8 * ms, (uint64_t{1} << 37) - 1, uint64_t{1} << 37, 200 * s})
        scene.Take(0, Event::read, kStorage, ns, 65536, true);
    scene.Take(0, Event::read, kStorage, 30 * s, -5, true); // an I/O error
    scene.Take(1, Event::read, kStorage, 8 * ms, 2093056, true);
    const Origin first = scene.Batch(2), second = scene.Batch(3);
    for (int i = 0; i < 5; ++i)
        scene.Take(0, Event::read, first, 40 * ms, 1048576, true);
    scene.Take(1, Event::write, second, 12 * ms, 1048576, true);
    scene.Take(1, Event::sync, second, 250 * ms, 0);
    scene.Take(0, Event::open, {Traffic::batch, 0}, 90 * us, 0); // a client that found no record
    scene.Take(1, Event::read, kInternal, 5 * ms, 4194304, true);
    scene.Take(1, Event::open, kStorage, 120 * us, 0);
    scene.Take(0, Event::meta, kStorage, 15 * us, 0);
    scene.Take(0, Event::meta, kStorage, 20 * us, -2);
    scene.recorder->Pacing(0, Traffic::batch, 500 * ms);
    scene.recorder->Stall(1, Traffic::storage, 3 * s);
    scene.recorder->Stall(1, Traffic::batch, 5 * s);
}

} // namespace

std::string GoldenDump(const std::string& path) {
    Scenario scene(path);
    Completed(scene);
    scene.recorder->Streams(0, false, 3);
    scene.recorder->Streams(0, false, -1);
    scene.recorder->Streams(1, true, 1);
    scene.segment->filesystem(1).flags = kFlagOverloaded;
    scene.segment->header().slots_overflow = 7;
    scene.segment->header().shaping_sequence = 4711;
    for (int i = 0; i < 3; ++i)
        scene.recorder->InternalError();
    scene.segment->header().heartbeat_ns = scene.clock.now_ns + 100 * ms;

    // In flight at the end: slot 0 (this thread) is free, 1 and 2 wait for a disk.
    OtherThread one, two;
    std::unique_ptr<OperationTimer> hung, young;
    const Origin batch = scene.Batch(2);
    one.Run([&] { hung = std::make_unique<OperationTimer>(scene.recorder.get(), 1, Event::read, kStorage, 2097152); });
    scene.clock.now_ns += 90 * ms;
    two.Run([&] { young = std::make_unique<OperationTimer>(scene.recorder.get(), 0, Event::write, batch, 1048576); });
    std::string dump = HexDump(scene.segment->bytes(), scene.segment->size());
    one.Run([&] { hung->Done(0); });
    two.Run([&] { young->Done(0); });
    return dump;
}

std::string HexDump(const char* bytes, size_t size) {
    static const char zeros[16] = {};
    std::string text;
    char field[32];
    bool elided = false;
    for (size_t at = 0; at < size; at += 16) {
        const bool zero = std::memcmp(bytes + at, zeros, 16) == 0;
        const bool again = zero && at > 0 && std::memcmp(bytes + at - 16, zeros, 16) == 0;
        if (again) {
            if (!elided) text += "*\n";
            elided = true;
            continue;
        }
        elided = false;
        std::snprintf(field, sizeof field, "%08zx:", at);
        text += field;
        for (size_t i = 0; i < 16; ++i) {
            std::snprintf(field, sizeof field, " %02x", static_cast<unsigned char>(bytes[at + i]));
            text += field;
        }
        text += "\n";
    }
    std::snprintf(field, sizeof field, "%08zx:\n", size);
    return text + field;
}

} // namespace beer
