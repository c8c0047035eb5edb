// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "core/PrefixList.hh"

namespace beer {

Address Parsed(const char* text) {
    Address address{};
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    v4.sin_family = AF_INET;
    v6.sin6_family = AF_INET6;
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        EXPECT_TRUE(AddressOf(reinterpret_cast<sockaddr*>(&v4), address));
    } else {
        EXPECT_EQ(inet_pton(AF_INET6, text, &v6.sin6_addr), 1) << text;
        EXPECT_TRUE(AddressOf(reinterpret_cast<sockaddr*>(&v6), address));
    }
    return address;
}

TEST(PrefixList, HoldsNetworksOfBothFamilies) {
    PrefixList list;
    for (const char* text : {"10.127.0.0/16", "192.0.2.128/25", "127.0.0.2", "2001:db8:8000::/33", "fd00::5"})
        EXPECT_EQ(list.Add(text), "");
    for (const char* in : {"10.127.0.1", "10.127.255.255", "::ffff:10.127.3.4", "192.0.2.128", "127.0.0.2",
                           "2001:db8:8000::1", "2001:db8:ffff::1", "fd00::5"})
        EXPECT_TRUE(list.Contains(Parsed(in))) << in;
    for (const char* out : {"10.126.255.255", "10.128.0.0", "192.0.2.127", "127.0.0.1", "127.0.0.3", "2001:db8:7fff::1",
                            "fd00::4", "::a7f:1", "::1"})
        EXPECT_FALSE(list.Contains(Parsed(out))) << out;
}

TEST(PrefixList, TheWholeOfAFamily) {
    PrefixList v4, all;
    EXPECT_EQ(v4.Add("0.0.0.0/0"), "");
    EXPECT_EQ(all.Add("::/0"), "");
    EXPECT_TRUE(v4.Contains(Parsed("1.2.3.4")));
    EXPECT_FALSE(v4.Contains(Parsed("2001:db8::1")));
    EXPECT_TRUE(all.Contains(Parsed("1.2.3.4")));
}

TEST(PrefixList, RefusesWhatIsNoPrefix) {
    for (const char* text : {"", "10.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "10.0.0.0/9999",
                             "::/129", "10.0.0.1/24", "fd00::1/64", "localhost", "all", "10.0.0.0/ 8"}) {
        PrefixList list;
        EXPECT_NE(list.Add(text), "") << text;
        EXPECT_TRUE(list.empty());
    }
}

TEST(PrefixList, OtherFamiliesHaveNoAddress) {
    Address address;
    sockaddr local{};
    local.sa_family = AF_UNIX;
    EXPECT_FALSE(AddressOf(&local, address));
    EXPECT_FALSE(AddressOf(nullptr, address));
}

} // namespace beer
