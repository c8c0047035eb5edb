// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/DirectoryWishes.hh"

#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <vector>

#include "core/shaping/ShapingConfig.hh"

namespace beer {
namespace {

constexpr char kPrefix[] = "user.beer.forced.";
constexpr size_t kPrefixLength = sizeof kPrefix - 1;
constexpr size_t kLongestValue = 64;
constexpr uint64_t kKeepNs = 5000000000;
constexpr size_t kMostKept = 4096, kMostSaid = 1024;
constexpr size_t kDeepest = 64; // levels that are looked at: a client names as many as it likes

// `top` and those below it on the way to the file, the nearest to the file last.
std::vector<std::string> Directories(const std::string& file, const std::string& top) {
    std::vector<std::string> found;
    const std::string end = top == "/" ? "" : top;
    if (file.size() >= PATH_MAX || file.compare(0, end.size(), end) != 0) return found;
    for (size_t slash = end.size(); slash < file.size() && file[slash] == '/' && found.size() < kDeepest;) {
        found.push_back(slash ? file.substr(0, slash) : "/");
        slash = file.find('/', slash + 1);
    }
    return found;
}

DirectoryWishes::Attributes ReadAll(int fd) {
    DirectoryWishes::Attributes found;
    const ssize_t size = flistxattr(fd, nullptr, 0);
    if (size <= 0) return found;
    std::vector<char> names(static_cast<size_t>(size));
    const ssize_t used = flistxattr(fd, names.data(), names.size());
    for (size_t at = 0; used > 0 && at < static_cast<size_t>(used);) {
        const std::string name = names.data() + at; // each ends with a zero byte: listxattr(2)
        at += name.size() + 1;
        if (name.compare(0, kPrefixLength, kPrefix) != 0) continue;
        char value[kLongestValue];
        const ssize_t length = fgetxattr(fd, name.c_str(), value, sizeof value);
        found[name.substr(kPrefixLength)] = length < 0 ? "" : std::string(value, static_cast<size_t>(length));
    }
    return found;
}

} // namespace

std::optional<DirectoryWishes::Attributes> DirectoryWishes::FromDisk(const std::string& directory) {
    const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == EIO || errno == EMFILE || errno == ENFILE ? std::nullopt : std::make_optional<Attributes>();
    struct stat found{};
    const bool ours = fstat(fd, &found) == 0 && (found.st_uid == 0 || found.st_uid == geteuid()) &&
                      !(found.st_mode & (S_IWGRP | S_IWOTH));
    Attributes attributes;
    if (ours) attributes = ReadAll(fd);
    close(fd);
    return attributes;
}

void DirectoryWishes::Complain(const std::string& text) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (said_.size() >= kMostSaid || !said_.insert(text).second) return;
    }
    log_(text);
}

DirectoryWishes::Both DirectoryWishes::Parse(const std::string& directory, const Attributes& attributes) {
    Both wishes;
    for (const auto& [name, value] : attributes) {
        const size_t dot = name.find_last_of('.');
        const std::string key = name.substr(0, dot), direction = dot == std::string::npos ? "" : name.substr(dot + 1);
        const bool known = direction == "r" || direction == "w";
        const std::string wrong = !known ? "the name does not end with .r or .w"
                                  : key == "readahead" && direction == "w"
                                      ? "it is for reads"
                                      : ParseWish(key, value, wishes[direction == "r" ? 0 : 1]);
        if (!wrong.empty()) Complain(directory + ": attribute " + kPrefix + name + " does not count: " + wrong);
    }
    return wishes;
}

DirectoryWishes::Both DirectoryWishes::OfOne(const std::string& directory, uint64_t now_ns, const Read& read) {
    Both before;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto kept = kept_.find(directory);
        if (kept != kept_.end()) {
            if (now_ns < kept->second.until_ns) return kept->second.wishes;
            before = kept->second.wishes;
            kept->second.until_ns = now_ns + kKeepNs; // one of those who ask now looks, the others take what was
        }
    }
    const auto attributes = read(directory); // may wait for the disk, as the open that asks for it would
    const Both wishes = attributes ? Parse(directory, *attributes) : before;
    std::lock_guard<std::mutex> lock(mutex_);
    if (kept_.size() >= kMostKept) kept_.clear();
    kept_[directory] = {wishes, now_ns + kKeepNs};
    return wishes;
}

DirectoryWishes::Both DirectoryWishes::Of(const std::string& file, const std::string& top, uint64_t now_ns,
                                          const Read& read) {
    Both wishes;
    const std::vector<std::string> directories = Directories(file, top);
    for (auto directory = directories.rbegin(); directory != directories.rend(); ++directory) {
        const Both own = OfOne(*directory, now_ns, read);
        for (size_t direction = 0; direction < wishes.size(); ++direction)
            wishes[direction].FillUp(own[direction]);
    }
    return wishes;
}

} // namespace beer
