// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "core/StreamTable.hh"

namespace beer {
namespace {

std::shared_ptr<OpenStream> Stream(const std::string& path) {
    OpenStream::Owner owner;
    owner.path = path;
    return std::make_shared<OpenStream>(std::move(owner), 1000);
}

std::vector<std::string> Paths(const StreamTable& table, size_t most = 100) {
    std::vector<std::string> paths;
    for (const auto& listed : table.List(most))
        paths.push_back(listed.stream->owner.path);
    return paths;
}

using Names = std::vector<std::string>;

} // namespace

TEST(StreamTableTest, ListsWhatIsOpenInTheOrderOfOpening) {
    StreamTable table;
    std::vector<std::shared_ptr<OpenStream>> streams;
    for (int i = 0; i < 40; ++i) {
        streams.push_back(Stream(std::to_string(i)));
        table.Add(streams.back());
    }
    EXPECT_EQ(table.size(), 40u);
    for (int i = 0; i < 40; ++i)
        if (i % 10) table.Remove(streams[static_cast<size_t>(i)]);
    EXPECT_EQ(Paths(table), (Names{"0", "10", "20", "30"}));
    table.Remove(streams[1]); // for the second time
    table.Remove(nullptr);
    table.Remove(Stream("never listed"));
    EXPECT_EQ(table.size(), 4u);
    EXPECT_EQ(Paths(table, 2), (Names{"0", "10"}));
}

TEST(StreamTableTest, ThoseThatWaitComeFirstAndSayForWhatAndSinceWhen) {
    StreamTable table;
    const auto runs = Stream("runs"), waits = Stream("waits");
    table.Add(runs);
    table.Add(waits);
    const Limit guard("guard on /data/01", 0), user("user:alice r", 0);
    {
        OpenStream::Wait first(waits.get()), second(waits.get());
        first.Begin(user.rule, 7000);
        second.Begin(user.rule, 5000);
        second.Begin(guard.rule, 6000); // another limit holds it now; it has waited for as long
        EXPECT_EQ(Paths(table), (Names{"waits", "runs"}));
        const OpenStream::Now now = waits->Look();
        EXPECT_EQ(now.waiting, 2u);
        EXPECT_EQ(now.waits_since, 5000u);
        EXPECT_EQ(now.by, "guard on /data/01");
        second.End();
        EXPECT_EQ(waits->Look().waits_since, 7000u);
        EXPECT_EQ(waits->Look().by, "user:alice r");
        second.End(); // for the second time
        EXPECT_EQ(waits->Look().waiting, 1u);
    }
    EXPECT_FALSE(waits->waiting());
    EXPECT_EQ(waits->Look().by, "") << "nobody said that it is over";
    waits->Waited(300, user.rule);
    waits->Waited(400, guard.rule);
    const OpenStream::Now now = waits->Look();
    EXPECT_EQ(now.waits, 2u);
    EXPECT_EQ(now.waited_ns, 700u);
    EXPECT_EQ(now.waits_since, 0u);
    EXPECT_EQ(now.by, guard.rule);
    EXPECT_EQ(Paths(table), (Names{"runs", "waits"}));
    OpenStream::Wait nobody(nullptr);
    nobody.Begin(user.rule, 1);
}

TEST(StreamTableTest, CountsByDirection) {
    const auto stream = Stream("file");
    stream->Moved(Direction::read, 100);
    stream->Moved(Direction::read, 0);
    stream->Moved(Direction::write, 30);
    const OpenStream::Now now = stream->Look();
    EXPECT_EQ(now.bytes[0], 100u);
    EXPECT_EQ(now.operations[0], 2u);
    EXPECT_EQ(now.bytes[1], 30u);
    EXPECT_EQ(now.operations[1], 1u);
}

TEST(StreamTableTest, KeepsNoMoreOfWhatClientsSayThanItMust) {
    OpenStream::Owner owner;
    owner.path = std::string(5 << 20, 'p');
    owner.user = owner.app = owner.link = std::string(100000, 'n');
    const OpenStream stream(std::move(owner), 0);
    EXPECT_EQ(stream.owner.path.size(), OpenStream::kMostPath);
    EXPECT_LE(stream.owner.path.capacity(), 2 * OpenStream::kMostPath);
    for (const auto* name : {&stream.owner.user, &stream.owner.app, &stream.owner.link})
        EXPECT_EQ(name->size(), OpenStream::kMostName);
}

TEST(StreamTableTest, ARuleIsBoundedAndFitsIntoMemoryThatIsThereBefore) {
    const auto stream = Stream("file");
    EXPECT_GE(stream->Look().by.capacity(), OpenStream::kMostName);
    const std::string rule = "user:" + std::string(100000, 'n');
    stream->Waited(1, rule);
    EXPECT_EQ(stream->Look().by, rule.substr(0, OpenStream::kMostName));
    stream->Waited(1, "app:scan r");
    EXPECT_EQ(stream->Look().by, "app:scan r");
    OpenStream::Wait wait(stream.get());
    wait.Begin(rule, 5);
    EXPECT_EQ(stream->Look().by, rule.substr(0, OpenStream::kMostName));
}

TEST(StreamTableTest, ManyThreadsOpenAndCloseWhileOneLooks) {
    StreamTable table;
    const Limit limit("limit", 0);
    std::vector<std::thread> threads;
    std::atomic<int> left{4};
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 2000; ++i) {
                const auto stream = Stream("file");
                table.Add(stream);
                stream->Moved(Direction::read, 1);
                OpenStream::Wait wait(stream.get());
                wait.Begin(limit.rule, 5);
                wait.End();
                stream->Waited(1, limit.rule);
                table.Remove(stream);
            }
            --left;
        });
    while (left)
        for (const auto& listed : table.List(3))
            EXPECT_LE(listed.stream->Look().bytes[0], 1u);
    for (auto& thread : threads)
        thread.join();
    EXPECT_EQ(table.size(), 0u);
    EXPECT_TRUE(table.List(10).empty());
}

} // namespace beer
