// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "ControlText.hh"
#include "FakePlatform.hh"
#include "TemporaryFolder.hh"
#include "core/report/Report.hh"
#include "core/report/Summary.hh"

namespace beer {

class ReportTest : public testing::Test {
  protected:
    ReportTest() {
        settings.instance = "beer";
        settings.segment = folder / "beer.lat";
        settings.directories = {folder.path};
        settings.shaping.control = folder / "shaping";
        settings.shaping.control_owner = geteuid();
        settings.policy_file = "/etc/xrootd/beer-policy.cfg";
    }
    Core& Make() {
        core = std::make_unique<Core>(settings, std::vector<Mount>{}, platform, [](const std::string&) {});
        return *core;
    }
    nlohmann::json Ask(const std::string& what) {
        const std::string text = Report(*core).Answer(what);
        for (const char c : text)
            EXPECT_TRUE(c >= ' ' && c < 0x7f) << "byte " << static_cast<int>(c);
        auto answer = nlohmann::json::parse(text);
        EXPECT_EQ(answer["format"], 1);
        EXPECT_EQ(answer["instance"], "beer");
        EXPECT_EQ(answer["pid"], 4242);
        return answer;
    }
    std::shared_ptr<OpenStream> Open(const std::string& path, uint64_t opened_ns) {
        OpenStream::Owner owner;
        owner.user = "alice";
        owner.app = "scan";
        owner.link = "alice.1:22@host";
        owner.traffic = Traffic::batch;
        owner.filesystem = 0;
        owner.path = path;
        auto stream = std::make_shared<OpenStream>(std::move(owner), opened_ns);
        core->streams().Add(stream);
        return stream;
    }

    TemporaryFolder folder;
    FakePlatform platform;
    Settings settings;
    std::unique_ptr<Core> core;
};

TEST_F(ReportTest, SaysOfEachStreamWhoWhatHowMuchAndWhatItWaitsFor) {
    Make();
    auto stream = Open("/data/01/file", platform.now_ns - 5000);
    stream->Moved(Direction::read, 100);
    stream->Moved(Direction::write, 7);
    stream->Waited(30, "user:alice r");
    nlohmann::json answer = Ask("streams");
    EXPECT_EQ(answer["kind"], "streams");
    EXPECT_EQ(answer["open"], 1);
    EXPECT_EQ(answer["left_out"], 0);
    const std::string wanted = R"({"id": 1, "user": "alice", "app": "scan", "host": null, "link": "alice.1:22@host",
        "class": "batch", "filesystem": "FOLDER", "path": "/data/01/file", "writer": false, "age_ns": 5000,
        "read": {"bytes": 100, "operations": 1}, "written": {"bytes": 7, "operations": 1}, "waits": 1,
        "waited_ns": 30, "requests_waiting": 0, "waits_for_ns": null, "by": "user:alice r"})";
    const size_t place = wanted.find("FOLDER");
    const std::string here = wanted.substr(0, place) + folder.path + wanted.substr(place + 6);
    EXPECT_EQ(answer["streams"][0], nlohmann::json::parse(here));
    const Limit limit("guard", 0);
    OpenStream::Wait wait(stream.get());
    wait.Begin(limit.rule, platform.now_ns - 2000);
    answer = Ask("streams");
    EXPECT_EQ(answer["streams"][0]["waits_for_ns"], 2000);
    EXPECT_EQ(answer["streams"][0]["by"], "guard");
    EXPECT_EQ(answer["streams"][0]["requests_waiting"], 1);
}

TEST_F(ReportTest, AddressesAreWrittenAsPeopleKnowThem) {
    Make();
    const std::pair<const char*, Address> hosts[] = {
        {"192.0.2.7", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7}}, {"2001:db8::1", {0x20, 1, 0xd, 0xb8}}};
    for (const auto& [text, address] : hosts) {
        OpenStream::Owner owner;
        owner.host = address;
        if (text[1] == '0') (*owner.host)[15] = 1;
        auto stream = std::make_shared<OpenStream>(std::move(owner), 0);
        core->streams().Add(stream);
        const nlohmann::json listed = Ask("streams")["streams"][0];
        EXPECT_EQ(listed["host"], text);
        EXPECT_EQ(listed["filesystem"], nullptr);
        core->streams().Remove(stream);
    }
}

TEST_F(ReportTest, WhateverBytesAClientSendsTheAnswerIsPlainAscii) {
    Make();
    std::string path = "/\x1b[2J\x7f\xc2\x9b\xff\xfe\xc3";
    path += '\0';
    for (int c = 1; c < 256; ++c)
        path += static_cast<char>(c);
    const auto stream = Open(path, 0);
    const nlohmann::json listed = Ask("streams")["streams"][0];
    EXPECT_EQ(listed["path"].get<std::string>().rfind("/\x1b[2J\x7f\xc2\x9b\xef\xbf\xbd", 0), 0u);
}

TEST_F(ReportTest, AnAnswerIsBoundedAndSaysHowManyAreMissing) {
    Make();
    std::vector<std::shared_ptr<OpenStream>> streams;
    for (int i = 0; i < 50; ++i)
        streams.push_back(Open(std::string(1024, '\x01'), 0)); // each becomes six characters
    const auto few = nlohmann::json::parse(Report(*core).Streams(10));
    EXPECT_EQ(few["streams"].size(), 10u);
    EXPECT_EQ(few["open"], 50);
    EXPECT_EQ(few["left_out"], 40);
    const std::string text = Report(*core).Streams(Report::kMostStreams, 100000);
    EXPECT_LT(text.size(), 101000u);
    const auto small = nlohmann::json::parse(text);
    EXPECT_GT(small["streams"].size(), 5u);
    EXPECT_EQ(small["left_out"].get<size_t>() + small["streams"].size(), 50u);
}

TEST_F(ReportTest, CountsByFilesystemClassAndEvent) {
    Make();
    Recorder& recorder = *core->recorder();
    recorder.Operation(0, Event::read, {Traffic::batch, 0}, 100, 350, 4096, false);
    recorder.Operation(0, Event::write, {Traffic::storage, 0}, 100, 200, 10, true);
    recorder.Pacing(0, Traffic::batch, 77);
    recorder.Stall(0, Traffic::storage, 5000000000);
    recorder.Streams(0, true, +1);
    recorder.Overloaded(0, true);
    recorder.InternalError();
    const nlohmann::json answer = Ask("stat"), filesystem = answer["filesystems"][0];
    EXPECT_EQ(answer["measures"], true);
    EXPECT_EQ(answer["internal_errors"], 1);
    EXPECT_EQ(answer["started_realtime_ns"], 1767225600000000000);
    EXPECT_EQ(filesystem["path"], folder.path);
    EXPECT_EQ(filesystem["open_writers"], 1);
    EXPECT_EQ(filesystem["overloaded"], true);
    const auto wanted = R"({"operations": 1, "bytes": 4096, "errors": 0, "sum_ns": 250, "max_ns": 250})";
    EXPECT_EQ(filesystem["operations"]["batch"]["read"], nlohmann::json::parse(wanted));
    EXPECT_EQ(filesystem["operations"]["storage"]["write"]["errors"], 1);
    EXPECT_EQ(filesystem["operations"]["internal"]["meta"]["operations"], 0);
    EXPECT_EQ(filesystem["pacing"]["batch"]["sum_ns"], 77);
    EXPECT_EQ(filesystem["stalls"]["storage"]["sum_ns"], 5000000000);
}

TEST_F(ReportTest, ShowsMetadataAndWhoWasStalledLast) {
    settings.policy.Add({"beer.threads", "user:bob", "1"});
    Make();
    MetaLimiter& limiter = core->shaping().metadata();
    const auto config = core->shaping().config();
    const auto begin = [&](const char* user) {
        Identity who;
        who.user = user;
        return limiter.Begin(*config, who, MetaOperation::stat, platform.now_ns).stall_s;
    };
    EXPECT_EQ(begin("alice"), 0u);
    EXPECT_EQ(begin("bob"), 0u);
    EXPECT_GT(begin("bob"), 0u);
    Identity alice;
    alice.user = "alice";
    limiter.End(alice, MetaOperation::stat, platform.now_ns, platform.now_ns + 3000);
    platform.now_ns += 2000000000;
    const nlohmann::json answer = Ask("stat");
    std::map<std::string, nlohmann::json> lines;
    for (const auto& line : answer["metadata"])
        lines[line["name"]] = line;
    EXPECT_EQ(lines["Stat"]["total"], 1);
    EXPECT_EQ(lines["Stat"]["seconds5"], 1);
    EXPECT_EQ(lines["Stat"]["hour"], 1);
    EXPECT_EQ(lines["Stat"]["mean_ns"], 3000.0);
    EXPECT_EQ(lines["Stall::threads::bob"]["minute"], 1);
    EXPECT_EQ(answer["users"][0]["name"], "bob");
    EXPECT_EQ(answer["users"][0]["in_flight"], 1);
    EXPECT_EQ(answer["users"][0]["stalled_ago_ns"], 2000000000);
    EXPECT_EQ(answer["users"][1]["stalled_ago_ns"], nullptr);
    EXPECT_EQ(answer["users_left_out"], 0);
}

TEST_F(ReportTest, ShowsTheRulesInForceAndWhatTheGuardSays) {
    settings.policy.Add({"beer.policy", "user:alice", "r", "bandwidth", "50MB/s"});
    EXPECT_NE(settings.policy.Add({"beer.policy", "user:alice", "r", "bandwidth", "50"}), "");
    settings.policy.Add({"beer.overload", "*", "readers", "200"});
    Make();
    nlohmann::json answer = Ask("policy");
    EXPECT_EQ(answer["file"], "/etc/xrootd/beer-policy.cfg");
    EXPECT_EQ(answer["version"], 1);
    EXPECT_EQ(answer["rules"],
              (std::vector<std::string>{"beer.policy user:alice r bandwidth 50MB/s", "beer.overload * readers 200"}));
    EXPECT_EQ(answer["guard"]["lease_left_ns"], 0);
    EXPECT_EQ(answer["filesystems"][0]["guard"]["bytes_per_s"], nullptr);
    EXPECT_EQ(answer["filesystems"][0]["most_readers"], 200);

    Control control;
    control.sequence = 7;
    control.lease_until_ns = platform.now_ns + 3000000000;
    control.records = {{kEveryDevice, kEveryDevice, {1000000, kUnlimited}}};
    folder.Write("shaping", ControlText(control) + std::string(4096 - ControlText(control).size(), '\0'));
    for (int i = 0; i < 2000 && core->shaping().control().said().sequence != 7; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1)), platform.now_ns += 1000000;
    answer = Ask("policy");
    EXPECT_EQ(answer["guard"]["sequence"], 7);
    EXPECT_GT(answer["guard"]["lease_left_ns"], 0);
    EXPECT_EQ(answer["filesystems"][0]["guard"]["bytes_per_s"], 1000000);
    EXPECT_EQ(answer["filesystems"][0]["guard"]["operations_per_s"], nullptr);
    EXPECT_EQ(answer["guard"]["elsewhere"]["bytes_per_s"], 1000000);
}

TEST_F(ReportTest, SaysThatTheKernelRefusesPriorities) {
    Make();
    const auto told = [&] { return Ask("policy")["filesystems"][0]["priorities"].get<std::string>(); };
    const std::string before = told();
    platform.refuses_priority = true;
    core->io_priorities().Give({IoPriority::Class::real_time, 0});
    EXPECT_EQ(told(), before + "; the kernel refuses some, see the daemon's log");
}

TEST_F(ReportTest, AnswersEvenWhenNothingIsMeasured) {
    settings.segment = "/no/such/folder/beer.lat";
    Make();
    EXPECT_EQ(Ask("stat")["measures"], false);
    EXPECT_EQ(Ask("stat")["filesystems"].size(), 0u);
    EXPECT_EQ(Ask("policy")["filesystems"].size(), 1u);
    EXPECT_EQ(Ask("nonsense")["kind"], "error");
    EXPECT_NE(SummaryXml(*core).find("<internal_errors>0</internal_errors>"), std::string::npos);
}

TEST_F(ReportTest, TheSummarySumsOverFilesystems) {
    settings.directories.push_back(folder / "other");
    ASSERT_EQ(mkdir((folder / "other").c_str(), 0700), 0);
    Make();
    for (const uint32_t filesystem : {0u, 1u})
        core->recorder()->Operation(filesystem, Event::read, {Traffic::storage, 0}, 0, 10, 1000, false);
    core->recorder()->Pacing(1, Traffic::batch, 99);
    const auto stream = Open("/file", 0);
    const std::string xml = SummaryXml(*core);
    EXPECT_EQ(xml.rfind("<stats id=\"beer\"><storage><read>2</read><read_bytes>2000</read_bytes>", 0), 0u) << xml;
    EXPECT_NE(xml.find("<waits>1</waits><waits_ns>99</waits_ns>"), std::string::npos) << xml;
    EXPECT_NE(xml.find("<open>1</open><waiting>0</waiting>"), std::string::npos) << xml;
    EXPECT_GT(LongestSummary(*core), xml.size());
}

} // namespace beer
