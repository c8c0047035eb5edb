// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <thread>

#include "FakePlatform.hh"
#include "OpenFence.hh"
#include "TemporaryFolder.hh"
#include "xrootd/sfs/Stream.hh"

namespace beer {

// Requests that wait hold threads of the server: of all of them a quarter at most, whatever they wait for. Here
// everything that can be waited for is never over: the guard holds batch, the limit of a storage user is zero, and
// another class is at work on the disk of a clock that stands still.
class HeldThreadsTest : public testing::Test {
  protected:
    static constexpr uint32_t kThreads = 64;

    HeldThreadsTest() {
        settings.segment = folder / "beer.lat";
        settings.directories = {folder.path};
        settings.shaping.control = folder / "shaping";
        settings.shaping.workers = kThreads;
        settings.policy.Add({"beer.policy", "user:slow", "rw", "bandwidth", "0B/s"});
        core = std::make_unique<Core>(settings, std::vector<Mount>{}, platform, [](const std::string&) {});
        Queue().Use(true);
        Queue().Enter(higher, everybody, 1);
        Queue().Enter(lower, everybody, 1); // the allowance
        shaping().pacer().Set(*Guard(), {0, 0});
    }
    ~HeldThreadsTest() override {
        shaping().Use({});
        shaping().pacer().Set(*Guard(), {});
        Queue().Leave(higher);
        Queue().Leave(lower);
        for (auto& thread : threads)
            thread.join();
        EXPECT_EQ(shaping().waiting(), 0u);
    }
    Shaping& shaping() { return core->shaping(); }
    TurnQueue& Queue() { return *shaping().arbiter().QueueOf(0); }
    const std::shared_ptr<Limit>& Guard() { return shaping().control().LimitOf(0); }

    // One more connection with an open file; null = refused.
    Stream* Open(const char* user, unsigned host) {
        Identity who{user, "default", "default", {}, user == std::string("job")};
        const std::string link = user + ("." + std::to_string(streams.size()) + ":5@host");
        streams.emplace_back(*core);
        return streams.back().Open(std::move(who), link.c_str(), std::to_string(host), 0) ? &streams.back() : nullptr;
    }
    // One more thread of the server, with a request.
    void Read(Stream* stream) {
        ASSERT_TRUE(stream);
        threads.emplace_back([this, stream] {
            const auto move = [](XrdSfsXferSize, XrdSfsXferSize piece, const Policy*) { return piece; };
            refused += stream->Move(Direction::read, 0, 1, move) == Stream::kRefused;
            ++done;
        });
    }
    // Until so many requests are over and so many wait.
    bool Await(uint32_t over, uint32_t for_limits, uint32_t for_turns) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (std::chrono::steady_clock::now() < deadline) {
            const uint32_t limits = shaping().pacer().waiters(), turns = shaping().arbiter().waiting();
            most = std::max(most, limits + turns);
            if (done == over && limits == for_limits && turns == for_turns) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return false;
    }

    TemporaryFolder folder;
    FakePlatform platform;
    Settings settings;
    OpenFence everybody;
    Turn higher{IoPriority::Class::real_time}, lower{IoPriority::Class::best_effort};
    std::unique_ptr<Core> core;
    std::deque<Stream> streams;
    std::vector<std::thread> threads;
    std::atomic<uint32_t> done{0}, refused{0};
    uint32_t most = 0;
};

TEST_F(HeldThreadsTest, NeverMoreThanAQuarterWhateverTheyWaitFor) {
    // Storage without a limit has the reserve of storage alone, for its turns.
    Stream* const free = Open("free", 0);
    for (int i = 0; i < 2; ++i)
        Read(free);
    EXPECT_TRUE(Await(0, 0, 2));
    // Storage with a limit: a sixteenth of the threads, for links of two clients at least.
    std::vector<Stream*> slow;
    for (unsigned i = 0; i < 4; ++i)
        Read(slow.emplace_back(Open("slow", i / 2)));
    EXPECT_TRUE(Await(0, 4, 2));
    // Batch: an eighth, and a reserve for second requests.
    std::vector<Stream*> batch;
    for (unsigned i = 0; i < 8; ++i)
        Read(batch.emplace_back(Open("job", i / 4)));
    EXPECT_TRUE(Await(0, 12, 2));
    for (unsigned i = 0; i < 2; ++i)
        Read(batch[i]);
    EXPECT_TRUE(Await(0, 14, 2));
    EXPECT_EQ(most, kThreads / 4) << "all of it is used";

    // All other threads come back at once: storage without having waited, batch with an error.
    EXPECT_FALSE(Open("job", 9)) << "there are as many links of batch as may be";
    for (unsigned i = 0; i < 16; ++i) {
        Read(i % 2 ? free : Open("free", i));
        Read(i % 2 ? slow[i % 4] : Open("slow", i));
        Read(batch[i % 8]);
    }
    EXPECT_EQ(threads.size(), kThreads);
    EXPECT_TRUE(Await(kThreads - kThreads / 4, 14, 2)) << done << " are done";
    EXPECT_EQ(refused, 16u) << "batch alone";
    EXPECT_EQ(most, kThreads / 4);
}

} // namespace beer
