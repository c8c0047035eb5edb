// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

struct sockaddr;

namespace beer {

// IPv6, or IPv4 as mapped address (::ffff:a.b.c.d): one form for what clients, prefixes and the segment hold.
using Address = std::array<unsigned char, 16>;

// False when it is neither IPv4 nor IPv6.
bool AddressOf(const sockaddr* from, Address& to);

// The networks whose clients are batch.
class PrefixList {
  public:
    // "10.127.0.0/16", "2001:db8::/32" or one address. Empty text = added, else what is wrong with it.
    std::string Add(const std::string& text);
    bool Contains(const Address& address) const;
    bool empty() const { return prefixes_.empty(); }

  private:
    struct Prefix {
        Address address;
        unsigned bits;
    };
    std::vector<Prefix> prefixes_;
};

} // namespace beer
