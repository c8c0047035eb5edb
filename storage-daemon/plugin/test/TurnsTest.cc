// SPDX-License-Identifier: Apache-2.0
//
// Most of it against a simulated disk, which serves requests in the order of their coming, as `none` lets a disk do.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <tuple>

#include "core/shaping/Turns.hh"

namespace beer {
namespace {

using Class = IoPriority::Class;
constexpr uint64_t kUs = 1000, kMs = 1000 * kUs, kSecond = 1000 * kMs;

// Clients that send one request after the other, each a pause after the answer; one in so many pauses is a long one.
struct Flow {
    Class io_class;
    uint64_t pause_ns = 0;
    unsigned long_one_of = 0;
    uint64_t long_pause_ns = 0;
    uint64_t done = 0, longest_ns = 0; // of a request, the wait included
};

class Simulation {
  public:
    // So many requests are served at the same time, each for so long.
    Simulation(unsigned at_once, uint64_t service_ns, bool with_turns = true)
        : free_at_(at_once, 0), service_ns_(service_ns), with_turns_(with_turns) {}

    Flow& Add(Class io_class, uint64_t pause_ns = 0) {
        flows_.push_back({io_class, pause_ns});
        At(kStart + flows_.size() * kUs, [this, flow = &flows_.back()] { Come(*flow); });
        return flows_.back();
    }
    void Add(unsigned count, Class io_class, uint64_t pause_ns = 0) {
        while (count--)
            Add(io_class, pause_ns);
    }
    void Run(uint64_t for_ns) {
        while (!events_.empty() && std::get<0>(events_.top()) < kStart + for_ns) {
            now_ = std::get<0>(events_.top());
            const auto what = *std::get<2>(events_.top());
            events_.pop();
            what();
            turns_.Admit(now_, [this](Turn& turn) { Serve(turn); });
            if (const uint64_t next = turns_.NextNs(now_); next != UINT64_MAX) At(next, [] {});
        }
    }
    uint64_t Done(Class io_class) const {
        uint64_t sum = 0;
        for (const Flow& flow : flows_)
            if (flow.io_class == io_class) sum += flow.done;
        return sum;
    }
    uint64_t Longest() const {
        uint64_t longest = 0;
        for (const Flow& flow : flows_)
            longest = std::max(longest, flow.longest_ns);
        return longest;
    }

  private:
    static constexpr uint64_t kStart = 1000 * kSecond;
    using Event = std::tuple<uint64_t, uint64_t, std::shared_ptr<std::function<void()>>>;

    void At(uint64_t when, std::function<void()> what) {
        events_.emplace(when, ++sequence_, std::make_shared<std::function<void()>>(std::move(what)));
    }
    void Come(Flow& flow) {
        auto& [turn, whose] = *requests_.insert(requests_.end(), {std::make_unique<Turn>(flow.io_class), &flow});
        turn->waits = whose;
        turn->came_ns = now_;
        if (with_turns_ && turns_.Blocked(flow.io_class, now_)) return turns_.Wait(*turn, now_);
        turns_.Begin(*turn, now_);
        Serve(*turn);
    }
    void Serve(Turn& turn) {
        auto& earliest = *std::min_element(free_at_.begin(), free_at_.end());
        earliest = std::max(earliest, now_) + service_ns_;
        At(earliest, [this, &turn] {
            Flow& flow = *static_cast<Flow*>(turn.waits);
            turns_.End(turn, now_);
            ++flow.done;
            flow.longest_ns = std::max(flow.longest_ns, now_ - turn.came_ns);
            const bool long_one = flow.long_one_of && flow.done % flow.long_one_of == 0;
            At(now_ + (long_one ? flow.long_pause_ns : flow.pause_ns), [this, &flow] { Come(flow); });
        });
    }

    std::vector<uint64_t> free_at_;
    const uint64_t service_ns_;
    const bool with_turns_;
    uint64_t now_ = kStart, sequence_ = 0;
    Turns turns_;
    std::deque<Flow> flows_;
    std::deque<std::pair<std::unique_ptr<Turn>, Flow*>> requests_;
    std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
};

double Share(const Simulation& simulation, Class io_class) {
    double all = 0;
    for (const auto one : {Class::real_time, Class::best_effort, Class::idle})
        all += static_cast<double>(simulation.Done(one));
    return static_cast<double>(simulation.Done(io_class)) / all;
}

// One real-time stream against ten others on a hard disk: the table of the EOS talk.
double RealTimeAgainstTen(uint64_t pause_ns, bool with_turns) {
    Simulation disk(1, 8 * kMs, with_turns);
    disk.Add(Class::real_time, pause_ns);
    disk.Add(10, Class::best_effort, pause_ns);
    disk.Run(60 * kSecond);
    return Share(disk, Class::real_time);
}

TEST(TurnsTest, AHigherClassHasTheDiskAndTheOthersTheirAllowance) {
    EXPECT_LT(RealTimeAgainstTen(0, false), 0.1);
    EXPECT_GT(RealTimeAgainstTen(0, true), 0.85);
    EXPECT_LT(RealTimeAgainstTen(0, true), 0.95);
}

TEST(TurnsTest, TheDiskIsKeptFreeBetweenTwoRequestsThatFollowEachOther) {
    EXPECT_LT(RealTimeAgainstTen(2 * kMs, false), 0.1);
    EXPECT_GT(RealTimeAgainstTen(2 * kMs, true), 0.85);
}

TEST(TurnsTest, APauseThatIsLongerThanUsualDoesNotLetAllOthersIn) {
    Simulation disk(1, 8 * kMs);
    Flow& first = disk.Add(Class::real_time, 2 * kMs);
    first.long_one_of = 10;
    first.long_pause_ns = 30 * kMs;
    disk.Add(30, Class::best_effort);
    disk.Run(60 * kSecond);
    EXPECT_GT(Share(disk, Class::real_time), 0.7);
    EXPECT_LT(first.longest_ns, 8 * 8 * kMs) << "it does not find all of them before it";
}

TEST(TurnsTest, AFastDiskIsFullAgainAtOnce) {
    const auto done = [](uint64_t pause_ns) {
        Simulation disk(64, 100 * kUs);
        disk.Add(Class::real_time, pause_ns);
        disk.Add(100, Class::best_effort, 50 * kUs);
        disk.Run(kSecond);
        return static_cast<double>(disk.Done(Class::best_effort));
    };
    // Nobody begins while the other's request is there, a tenth of the time.
    EXPECT_GT(done(kMs), 0.8 * done(10 * kSecond));
}

TEST(TurnsTest, BurstsOfAHigherClassLeaveTheRestOfAFastDisk) {
    const auto done = [](unsigned others, uint64_t pause_ns) {
        Simulation disk(64, 100 * kUs);
        disk.Add(others, Class::best_effort, pause_ns);
        disk.Add(64, Class::idle);
        disk.Run(kSecond);
        return static_cast<double>(disk.Done(Class::idle));
    };
    EXPECT_GT(done(8, 5 * kMs), 0.75 * done(0, 0)) << "eight requests at once, every 5 ms";
}

TEST(TurnsTest, ARequestThatHangsDoesNotHoldItsOwnClass) {
    Turns turns;
    Turn stuck(Class::best_effort), first(Class::real_time), other(Class::best_effort), idle(Class::idle);
    turns.Begin(stuck, kSecond);
    turns.Begin(first, 3 * kSecond);
    turns.End(first, 3 * kSecond + kMs);
    EXPECT_FALSE(turns.Blocked(Class::best_effort, 3 * kSecond + 2 * kMs)) << "in the pause of the higher class";
    turns.Begin(other, 3 * kSecond + 2 * kMs);
    turns.End(other, 3 * kSecond + 3 * kMs);
}

TEST(TurnsTest, AClientThatComesNowAndThenBrakesNobody) {
    const auto done = [](bool with_turns, uint64_t pause_ns) {
        Simulation disk(1, 8 * kMs, with_turns);
        disk.Add(Class::real_time, pause_ns);
        disk.Add(10, Class::best_effort, 1 * kMs);
        disk.Run(60 * kSecond);
        return static_cast<double>(disk.Done(Class::best_effort));
    };
    for (const uint64_t pause : {15 * kMs, 50 * kMs, 200 * kMs})
        EXPECT_GT(done(true, pause), 0.65 * done(false, 10 * kSecond)) << "a pause of " << pause / kMs << " ms";
    EXPECT_GT(done(true, 200 * kMs), 0.9 * done(false, 10 * kSecond));
}

TEST(TurnsTest, NobodyWaitsForALowerClass) {
    // A fast disk with many channels, a hundred clients of the storage, and one that is idle class.
    const auto done = [](unsigned idle, bool with_turns) {
        Simulation disk(64, 100 * kUs, with_turns);
        disk.Add(100, Class::best_effort, 50 * kUs);
        disk.Add(idle, Class::idle);
        disk.Run(kSecond);
        return static_cast<double>(disk.Done(Class::best_effort));
    };
    EXPECT_GT(done(1, true), 0.99 * done(0, true));
    EXPECT_GT(done(64, true), 0.98 * done(0, true)) << "its allowance is one request at a time";
    EXPECT_LT(done(64, false), 0.75 * done(0, false)) << "without turns they would share";
}

TEST(TurnsTest, WithinAClassNothingIsHeldBack) {
    Turns turns;
    std::deque<Turn> many;
    for (int i = 0; i < 100; ++i) {
        many.emplace_back(Class::best_effort);
        EXPECT_FALSE(turns.Blocked(Class::best_effort, kSecond));
        turns.Begin(many.back(), kSecond);
    }
}

TEST(TurnsTest, NobodyIsHeldForEverAndTheOverdueComeOneByOne) {
    Simulation disk(1, 100 * kMs); // a slow one
    disk.Add(4, Class::real_time);
    disk.Add(20, Class::best_effort);
    disk.Add(20, Class::idle);
    disk.Run(300 * kSecond);
    // Each of the 40 that wait may have to let the others go first, and each of them shares the disk with four.
    EXPECT_LE(disk.Longest(), Turns::kOverdueNs + 40 * 5 * 100 * kMs);
    EXPECT_GT(disk.Done(Class::idle), 20u);
    EXPECT_GT(Share(disk, Class::real_time), 0.75) << "of five at the disk four are real time";
}

TEST(TurnsTest, ADiskThatDoesNotAnswerHoldsNobodyBack) {
    Turns turns;
    Turn stuck(Class::real_time), other(Class::best_effort);
    turns.Begin(stuck, kSecond);
    EXPECT_TRUE(turns.Blocked(Class::best_effort, kSecond + kMs));
    turns.Wait(other, kSecond + kMs);
    // Its allowance is used up by another one that is stuck as well.
    unsigned admitted = 0;
    turns.Admit(kSecond + kMs, [&](Turn&) { ++admitted; });
    EXPECT_EQ(admitted, 1u);
    Turn next(Class::best_effort);
    turns.Wait(next, kSecond + 2 * kMs);
    turns.Admit(kSecond + 2 * kMs, [&](Turn&) { ++admitted; });
    EXPECT_EQ(admitted, 1u);
    EXPECT_LE(turns.NextNs(kSecond + 2 * kMs), kSecond + Turns::kHangsNs);
    // That more requests come is no sign of life.
    Turn another(Class::real_time);
    turns.Begin(another, kSecond + 900 * kMs);
    turns.Admit(kSecond + Turns::kHangsNs, [&](Turn&) { ++admitted; });
    EXPECT_EQ(admitted, 2u);
}

TEST(TurnsTest, BestEffortThatWaitsGoesBeforeIdle) {
    Turns turns;
    Turn first(Class::real_time), idle(Class::idle), allowed(Class::best_effort), waits(Class::best_effort);
    turns.Begin(first, kSecond);
    turns.Wait(allowed, kSecond);
    turns.Admit(kSecond, [](Turn&) {}); // the allowance
    turns.Wait(idle, kSecond + 1);
    turns.Wait(waits, kSecond + 2);
    turns.End(allowed, kSecond + kMs); // or else there is no room for another one
    turns.End(first, kSecond + kMs);
    std::vector<const Turn*> order;
    turns.Admit(kSecond + kMs, [&](Turn& turn) { order.push_back(&turn); });
    EXPECT_EQ(order, std::vector<const Turn*>{&waits});
}

TEST(TurnsTest, WhoGivesUpIsForgotten) {
    Turns turns;
    Turn first(Class::real_time), allowed(Class::best_effort), waits(Class::best_effort), idle(Class::idle);
    turns.Begin(first, kSecond);
    turns.Wait(allowed, kSecond);
    turns.Admit(kSecond, [](Turn&) {}); // the allowance
    turns.Wait(waits, kSecond);
    turns.GiveUp(waits);
    turns.GiveUp(waits);
    EXPECT_EQ(turns.first(), nullptr);
    EXPECT_EQ(turns.NextNs(kSecond), UINT64_MAX);
    turns.End(allowed, kSecond + kMs);
    turns.End(first, 2 * kSecond);
    EXPECT_FALSE(turns.Blocked(Class::idle, 4 * kSecond)) << "as if it were still waiting";
}

TEST(TurnsTest, IsEngagedWhileThereIsAnotherClassThanBestEffort) {
    Turns turns;
    Turn plain(Class::best_effort), special(Class::idle);
    turns.Begin(plain, kSecond);
    EXPECT_FALSE(turns.engaged(kSecond));
    turns.Wait(special, kSecond);
    EXPECT_TRUE(turns.engaged(100 * kSecond));
    turns.End(plain, kSecond);
    turns.Admit(kSecond, [](Turn&) {});
    turns.End(special, 2 * kSecond);
    EXPECT_TRUE(turns.engaged(2 * kSecond + 500 * kMs));
    EXPECT_FALSE(turns.engaged(4 * kSecond));
}

} // namespace
} // namespace beer
