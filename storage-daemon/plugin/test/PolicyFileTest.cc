// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include "TemporaryFolder.hh"
#include "XrdSys/XrdSysError.hh"
#include "XrdSys/XrdSysLogger.hh"
#include "xrootd/PolicyFile.hh"

namespace beer {

class PolicyFileTest : public testing::Test {
  protected:
    PolicyFileTest() {
        EXPECT_EQ(base.Add({"beer.policy", "space:*", "rw", "iops", "100/s"}), "");
        Write("beer.policy user:* r bandwidth 5MB/s\n");
        ShapingOptions options;
        options.control = folder / "shaping";
        shaping = std::make_unique<Shaping>(options, base, std::vector<Filesystem>{}, RealPlatform(),
                                            [](const std::string&) {});
        file = std::make_unique<PolicyFile>(folder / "policy", base, *shaping, error);
    }
    void Write(const std::string& text) {
        folder.Write("new", text);
        std::filesystem::rename(folder / "new", folder / "policy");
    }
    Rates Now() {
        const Identity who{"alice", "default", "default", {}, false};
        return shaping->RuleOf(who, 0)->policy[0].rates;
    }
    TemporaryFolder folder;
    XrdSysLogger logger{open("/dev/null", O_WRONLY | O_CLOEXEC), 0};
    XrdSysError error{&logger, "test"};
    ShapingConfig base;
    std::unique_ptr<Shaping> shaping;
    std::unique_ptr<PolicyFile> file;
};

TEST_F(PolicyFileTest, AddsToTheConfiguration) {
    EXPECT_EQ(Now(), (Rates{kUnlimited, 100}));
    ASSERT_TRUE(file->Load());
    EXPECT_EQ(Now(), (Rates{5000000, 100}));
}

TEST_F(PolicyFileTest, IsReadAgainWhenItChanges) {
    ASSERT_TRUE(file->Load());
    const uint64_t version = shaping->version();
    file->Look();
    EXPECT_EQ(shaping->version(), version) << "nothing changed";
    Write("beer.policy user:* r bandwidth 7MB/s\n");
    file->Look();
    EXPECT_EQ(Now(), (Rates{7000000, 100}));
}

TEST_F(PolicyFileTest, ABadOneChangesNothing) {
    ASSERT_TRUE(file->Load());
    for (const char* bad : {"beer.policy user:* r bandwidth 7\n", "beer.fs /data\n", "beer.policies\n"}) {
        Write(bad);
        file->Look();
        EXPECT_EQ(Now(), (Rates{5000000, 100})) << bad;
    }
    std::filesystem::remove(folder / "policy");
    file->Look();
    EXPECT_EQ(Now(), (Rates{5000000, 100}));
    Write("beer.policy user:* r bandwidth 8MB/s\n");
    file->Look();
    EXPECT_EQ(Now(), (Rates{8000000, 100}));
}

TEST_F(PolicyFileTest, AtTheStartItMustBeGood) {
    Write("beer.policy user:* r speed 7MB/s\n");
    EXPECT_FALSE(file->Load());
    std::filesystem::remove(folder / "policy");
    EXPECT_FALSE(file->Load());
}

} // namespace beer
