// SPDX-License-Identifier: Apache-2.0
#include "core/PrefixList.hh"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>

namespace beer {
namespace {

constexpr unsigned kMappedBits = 96;

Address Mapped(const in_addr& v4) {
    Address address{};
    address[10] = address[11] = 0xff;
    std::memcpy(&address[12], &v4, sizeof v4);
    return address;
}

bool Matches(const Address& a, const Address& b, unsigned bits) {
    const unsigned whole = bits / 8, rest = bits % 8;
    if (std::memcmp(a.data(), b.data(), whole) != 0) return false;
    return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

bool HostBitsSet(const Address& address, unsigned bits) {
    Address masked = address;
    for (unsigned bit = bits; bit < 128; ++bit)
        masked[bit / 8] = static_cast<unsigned char>(masked[bit / 8] & ~(0x80u >> (bit % 8)));
    return masked != address;
}

} // namespace

bool AddressOf(const sockaddr* from, Address& to) {
    if (!from) return false;
    if (from->sa_family == AF_INET) {
        to = Mapped(reinterpret_cast<const sockaddr_in*>(from)->sin_addr);
        return true;
    }
    if (from->sa_family != AF_INET6) return false;
    std::memcpy(to.data(), &reinterpret_cast<const sockaddr_in6*>(from)->sin6_addr, to.size());
    return true;
}

std::string PrefixList::Add(const std::string& text) {
    const size_t slash = text.find('/');
    const std::string host = text.substr(0, slash);
    Prefix prefix{};
    unsigned most = 128, above = 0;
    in_addr v4{};
    if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
        prefix.address = Mapped(v4);
        most = 32;
        above = kMappedBits;
    } else if (inet_pton(AF_INET6, host.c_str(), prefix.address.data()) != 1) {
        return "'" + text + "' is not an IPv4 or IPv6 prefix";
    }
    unsigned bits = most;
    if (slash != std::string::npos) {
        const std::string length = text.substr(slash + 1);
        const bool digits = std::all_of(length.begin(), length.end(), [](char c) { return c >= '0' && c <= '9'; });
        if (length.empty() || length.size() > 3 || !digits) return "'" + text + "' has no prefix length";
        bits = static_cast<unsigned>(std::stoi(length));
        if (bits > most) return "'" + text + "' has a prefix length above " + std::to_string(most);
    }
    prefix.bits = above + bits;
    if (HostBitsSet(prefix.address, prefix.bits)) return "'" + text + "' has bits set behind its prefix length";
    prefixes_.push_back(prefix);
    return "";
}

bool PrefixList::Contains(const Address& address) const {
    return std::any_of(prefixes_.begin(), prefixes_.end(),
                       [&](const Prefix& prefix) { return Matches(prefix.address, address, prefix.bits); });
}

} // namespace beer
