// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "FakePlatform.hh"
#include "TemporaryFolder.hh"
#include "core/report/Report.hh"

namespace beer {
namespace {

using Json = nlohmann::ordered_json;

// What differs from machine to machine is written as the golden file has it.
std::string Settled(const std::string& text, const std::string& folder) {
    Json answer = Json::parse(text);
    if (answer.contains("filesystems"))
        for (auto& filesystem : answer["filesystems"])
            if (filesystem.contains("device")) {
                filesystem["device"] = "8:16";
                filesystem["scheduler"] = "bfq";
                filesystem["priorities"] = "I/O priorities have full effect";
            }
    std::string settled = answer.dump(-1, ' ', true);
    for (size_t at; (at = settled.find(folder)) != std::string::npos;)
        settled.replace(at, folder.size(), "/data/01");
    return settled + "\n";
}

} // namespace

// docs/formats/storage-info.golden, which the reader (guard/crates/intf/tests/storage.rs) is tested with, too: one line
// for each answer. After a change of the contract: BEER_WRITE_GOLDEN=1.
TEST(InfoGoldenTest, TheAnswersAreThoseThatTheReaderIsTestedWith) {
    TemporaryFolder folder;
    FakePlatform platform;
    Settings settings;
    settings.instance = "beer";
    settings.segment = folder / "beer.lat";
    settings.directories = {folder.path};
    settings.shaping.control = folder / "shaping";
    settings.policy_file = "/etc/xrootd/beer-policy.cfg";
    settings.policy.Add({"beer.policy", "user:alice", "r", "bandwidth", "50MB/s"});
    settings.policy.Add({"beer.threads", "user:bob", "1"});
    settings.policy.Add({"beer.overload", "*", "readers", "200"});
    Core core(settings, {}, platform, [](const std::string&) {});

    core.recorder()->Operation(0, Event::read, {Traffic::storage, 0}, 1000, 9000, 65536, false);
    core.recorder()->Operation(0, Event::write, {Traffic::batch, 0}, 1000, 5000, 4096, true);
    core.recorder()->Pacing(0, Traffic::batch, 250000000);
    core.recorder()->Stall(0, Traffic::storage, 7000000000);
    core.recorder()->Streams(0, false, +1);
    core.recorder()->InternalError();

    Identity bob;
    bob.user = "bob";
    MetaLimiter& metadata = core.shaping().metadata();
    const auto config = core.shaping().config();
    metadata.Begin(*config, bob, MetaOperation::stat, platform.now_ns);
    metadata.Begin(*config, bob, MetaOperation::stat, platform.now_ns);
    metadata.End(bob, MetaOperation::stat, platform.now_ns, platform.now_ns + 3000);

    OpenStream::Owner owner;
    owner.user = "alice";
    owner.app = "scan";
    owner.link = "alice.1:22@desk";
    owner.host = Address{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7};
    owner.traffic = Traffic::storage;
    owner.filesystem = 0;
    owner.path = "/data/01/\x1b[2J\xff";
    const auto held = std::make_shared<OpenStream>(owner, platform.now_ns - 60000000000);
    owner = {};
    owner.traffic = Traffic::internal;
    owner.path = "/elsewhere";
    owner.writer = true;
    const auto other = std::make_shared<OpenStream>(owner, platform.now_ns - 1000);
    core.streams().Add(other);
    core.streams().Add(held);
    held->Moved(Direction::read, 65536);
    held->Waited(250000000, "user r");
    const Limit limit("user r", 0);
    OpenStream::Wait wait(held.get());
    wait.Begin(limit.rule, platform.now_ns - 2000000000);

    const Report report(core);
    std::string answers;
    for (const char* question : {"stat", "streams", "policy", "nonsense"})
        answers += Settled(report.Answer(question), folder.path);
    if (std::getenv("BEER_WRITE_GOLDEN")) std::ofstream(BEER_INFO_GOLDEN) << answers;
    EXPECT_EQ(answers, ReadFile(BEER_INFO_GOLDEN));
}

} // namespace beer
