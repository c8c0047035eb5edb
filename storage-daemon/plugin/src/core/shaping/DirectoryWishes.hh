// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "core/shaping/Policy.hh"

namespace beer {

// What the operator has set on directories of the disks: extended attributes `user.beer.forced.KEY.r` and `.w`, with
// the keys and values of `beer.policy`. Clients cannot set them: XRootD keeps theirs below `user.U.`
// (XrdXrootdXeqFAttr.cc). Paths come from clients that nobody has authorised yet.
class DirectoryWishes {
  public:
    using Attributes = std::map<std::string, std::string>; // "iotype.r" -> "direct"
    // Those of a directory; nothing if it cannot be read now.
    using Read = std::function<std::optional<Attributes>(const std::string& directory)>;
    using Log = std::function<void(const std::string&)>;
    using Both = std::array<Wish, 2>; // by Direction
    explicit DirectoryWishes(Log log) : log_(std::move(log)) {}

    // For a file of the node: of `top` and the directories below it (64 of them) on the way to the file; the nearest
    // one counts, for each key by itself. What is read is kept for a few seconds, and longer while it cannot be read.
    Both Of(const std::string& file, const std::string& top, uint64_t now_ns, const Read& read);

    // As it is on the disk. Only a directory that nobody but root and this user may write is believed.
    static std::optional<Attributes> FromDisk(const std::string& directory);

  private:
    Both OfOne(const std::string& directory, uint64_t now_ns, const Read& read);
    Both Parse(const std::string& directory, const Attributes& attributes);
    void Complain(const std::string& text);

    struct Kept {
        Both wishes;
        uint64_t until_ns = 0;
    };
    const Log log_;
    std::mutex mutex_; // of what follows
    std::unordered_map<std::string, Kept> kept_;
    std::set<std::string> said_;
};

} // namespace beer
