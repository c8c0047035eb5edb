// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

#include "TemporaryFolder.hh"
#include "XrdSys/XrdSysError.hh"
#include "XrdSys/XrdSysLogger.hh"
#include "xrootd/Config.hh"

namespace beer {

class ConfigTest : public testing::Test {
  protected:
    ConfigTest() : logger_(open((folder_ / "log").c_str(), O_RDWR | O_CREAT | O_APPEND, 0600), 0), log_(&logger_) {
        setenv("XRDNAME", "unit", 1); // as the server does
        setenv("XRDINSTANCE", "xrootd unit@localhost", 1);
    }
    bool Read(const std::string& text) {
        config = Config();
        return ReadConfig(folder_.Write("beer.cfg", text).c_str(), log_, config);
    }
    void Refused(const std::string& text, const std::string& reason) {
        EXPECT_FALSE(Read(text)) << text;
        const std::string said = ReadFile(folder_ / "log");
        EXPECT_NE(said.find(reason), std::string::npos) << "wanted: " << reason << "\nsaid: " << said;
    }
    TemporaryFolder folder_;
    XrdSysLogger logger_;
    XrdSysError log_;
    Config config;
};

TEST_F(ConfigTest, ReadsEveryDirective) {
    ASSERT_TRUE(Read("xrd.port 1094\nbeer.fs /data /srv\nbeer.fs /more\nbeer.instance beer\n"
                     "beer.segment /run/beer/x.lat\nbeer.info /run/beer/x.info\nbeer.batch 10.0.0.0/8 "
                     "fd00::/8\nbeer.sendfile off\nxrootd.fslib ++ libXrdBeer.so\n"));
    EXPECT_FALSE(config.settings.sendfile);
    EXPECT_EQ(config.settings.directories, (std::vector<std::string>{"/data", "/srv", "/more"}));
    EXPECT_EQ(config.settings.instance, "beer");
    EXPECT_EQ(config.settings.segment, "/run/beer/x.lat");
    EXPECT_EQ(config.settings.info, "/run/beer/x.info");
    EXPECT_FALSE(config.settings.batch.empty());
    EXPECT_TRUE(config.sfs_half);
}

TEST_F(ConfigTest, HasDefaults) {
    ASSERT_TRUE(Read("beer.fs /data\nxrootd.fslib ++ libXrdThrottle.so\n"));
    EXPECT_TRUE(config.settings.sendfile);
    EXPECT_EQ(config.settings.instance, "unit");
    EXPECT_EQ(config.settings.segment, "/run/beer/storage/unit.lat");
    EXPECT_EQ(config.settings.info, "/run/beer/storage/unit.info");
    EXPECT_FALSE(config.sfs_half);
}

TEST_F(ConfigTest, KnowsForHowLongXRootDSendsClientsAway) {
    const std::pair<const char*, uint32_t> cases[] = {{"", 33},
                                                      {"xrootd.fsoverload stall 15\n", 15},
                                                      {"xrootd.fsoverload nobypass stall 2m\n", 120},
                                                      {"xrootd.fsoverload redirect elsewhere:1094 stall 9\n", 0}};
    for (const auto& [line, seconds] : cases) {
        ASSERT_TRUE(Read(std::string("beer.fs /data\n") + line));
        EXPECT_EQ(config.settings.overload_stall_s, seconds) << line;
    }
}

TEST_F(ConfigTest, RefusesAMistakeWithFileAndLine) {
    Refused("beer.fs /data\n# beer.batches none\nbeer.batches 10.0.0.0/8\n", "beer.cfg:3: beer.batches is unknown");
    Refused("beer.fs /data\nbeer.batch 10.0.0.0/8\nbeer.batch 10.0.0.1/8\n", "beer.cfg:3: beer.batch '10.0.0.1/8'");
    Refused("beer.fs data\n", "beer.cfg:1: beer.fs 'data' is not an absolute path");
    Refused("beer.fs /data/\n", "needless '/'");
    Refused("beer.fs\n", "at least one directory");
    Refused("beer.fs /data\nbeer.batch\n", "at least one network");
    Refused("beer.fs /data\nbeer.segment a b\n", "wants one path");
    Refused("beer.fs /data\nbeer.instance ../x\n", "is not a name");
    Refused("beer.fs /data\nbeer.info x.info\n", "beer.info 'x.info' is not an absolute path");
    Refused("beer.fs /data\nbeer.info /" + std::string(107, 'x') + "\n", "is longer than 107 bytes");
    Refused("xrd.port 1094\n", "beer.fs is missing");
    EXPECT_FALSE(ReadConfig("/no/such/file.cfg", log_, config));
    EXPECT_FALSE(ReadConfig(nullptr, log_, config));
}

TEST_F(ConfigTest, KnowsTheConditionsOfXrootd) {
    ASSERT_TRUE(Read("beer.fs /data\nif named other\nbeer.nonsense 1\nfi\n"));
}

} // namespace beer
