// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "FakePlatform.hh"
#include "TemporaryFolder.hh"
#include "XrdNet/XrdNetAddr.hh"
#include "xrootd/sfs/Client.hh"

namespace beer {

TEST(ClientNameTest, OnlyPlainNamesAreApplications) {
    for (const char* name : {"daq", "eos/fuse"}) {
        const bool plain = std::string(name).find('/') == std::string::npos;
        EXPECT_EQ(CleanApplication(name), plain ? name : "default");
    }
    EXPECT_EQ(CleanApplication("a-Z_0.9:x"), "a-Z_0.9:x");
    EXPECT_EQ(CleanApplication(std::string(64, 'a').c_str()), std::string(64, 'a'));
    for (const std::string& bad : {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a\n"),
                                   std::string("\xc3\xa4"), std::string("*"), std::string("a@b")})
        EXPECT_EQ(CleanApplication(bad.c_str()), "default") << bad;
    EXPECT_EQ(CleanApplication(nullptr), "default");
}

class ClientTest : public testing::Test {
  protected:
    ClientTest() {
        settings.segment = folder / "beer.lat";
        settings.shaping.control = folder / "shaping";
        settings.directories = {folder.path};
    }
    TemporaryFolder folder;
    FakePlatform platform;
    Settings settings;
};

TEST_F(ClientTest, AnIdentityIsWhatTheServerKnowsAndTheClientClaims) {
    settings.policy.Add({"beer.operator", "alice"});
    settings.policy.Add({"beer.space", "fast", "/data/fast"});
    Core core(settings, {}, platform, [](const std::string&) {});
    XrdSecEntity client("test");
    char name[] = "alice", groups[] = "zh it";
    client.name = name;
    client.grps = groups;
    std::string wrong;
    const Identity who = IdentityOf(core, &client, {Traffic::batch, 1}, "/data/fast/file",
                                    "eos.app=daq&x=1&eos.iobw=3&eos.iotype=direct", kNoFilesystem, wrong);
    EXPECT_EQ(wrong, "");
    EXPECT_EQ(who.asked.bytes, 3000000u);
    EXPECT_EQ(who.asked.type, IoType::direct);
    EXPECT_EQ(who.user, "alice");
    EXPECT_EQ(who.app, "daq");
    EXPECT_EQ(who.space, "fast");
    EXPECT_EQ(who.groups, (std::vector<std::string>{"zh", "it"}));
    EXPECT_TRUE(who.batch);
    IdentityOf(core, &client, {}, "/data/x", "eos.iobw=fast", kNoFilesystem, wrong);
    EXPECT_EQ(wrong.rfind("eos.iobw: 'fast' is not", 0), 0u) << wrong;
    client.name = client.grps = nullptr;
    wrong.clear();
    const Identity nobody =
        IdentityOf(core, &client, {Traffic::storage, 0}, "/data/x", "eos.iobw=fast", kNoFilesystem, wrong);
    EXPECT_EQ(wrong, "") << "it counts for operators alone";
    EXPECT_EQ(nobody.user, "");
    EXPECT_EQ(nobody.app, "default");
    EXPECT_EQ(nobody.space, "default");
    EXPECT_FALSE(nobody.batch);
    EXPECT_TRUE(nobody.groups.empty());
}

TEST_F(ClientTest, WhoCameByHttpIsKnownByHisNameOrByHisLink) {
    Core without(settings, {}, platform, [](const std::string&) {});
    settings.serves_http = true;
    settings.segment = folder / "http.lat";
    Core with(settings, {}, platform, [](const std::string&) {});
    XrdNetAddr address;
    const auto is_http = [&](const Core& core, const char* authentication, const char* dialect) {
        XrdSecEntity client(authentication);
        address.SetDialect(dialect);
        client.addrInfo = &address;
        return IsHttp(core, &client);
    };
    for (const Core* core : {&with, &without}) {
        EXPECT_TRUE(is_http(*core, "https", "XrdHttp"));
        EXPECT_TRUE(is_http(*core, "http", nullptr));
        EXPECT_FALSE(is_http(*core, "ztn", "xroot"));
        EXPECT_FALSE(is_http(*core, "gsi", "xroot"));
        EXPECT_FALSE(is_http(*core, "gsi", "xroots"));
        EXPECT_FALSE(IsHttp(*core, nullptr));
    }
    for (const char* dialect : {static_cast<const char*>(nullptr), "https", "XrdHttp", "anything"}) {
        EXPECT_TRUE(is_http(with, "gsi", dialect))
            << "a certificate with VOMS attributes; the site chose the name of its protocol";
        EXPECT_FALSE(is_http(without, "gsi", dialect));
    }
    XrdSecEntity unknown("gsi");
    EXPECT_TRUE(IsHttp(with, &unknown));
}

} // namespace beer
