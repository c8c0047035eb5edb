// SPDX-License-Identifier: Apache-2.0
#include "core/FilesystemTable.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <sstream>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace beer {
namespace {

// The kernel writes blank, tab, newline and backslash as \ooo.
std::string Unescaped(const std::string& text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 3 < text.size()) {
            plain += static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8));
            i += 3;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

bool AtOrBelow(const char* path, const std::string& directory) {
    if (directory == "/") return path[0] == '/';
    if (std::strncmp(path, directory.c_str(), directory.size()) != 0) return false;
    return path[directory.size()] == '\0' || path[directory.size()] == '/';
}

} // namespace

std::vector<Mount> ReadMounts(std::istream& mountinfo) {
    std::vector<Mount> mounts;
    std::map<std::string, std::string> device_of; // mount id -> device
    for (std::string line; std::getline(mountinfo, line);) {
        std::istringstream words(line);
        std::string id, parent, device, root, path;
        if (!(words >> id >> parent >> device >> root >> path)) continue;
        Mount mount;
        if (std::sscanf(device.c_str(), "%u:%u", &mount.major_number, &mount.minor_number) != 2) continue;
        device_of[id] = device;
        // A directory bound onto itself, as systemd does for ReadWritePaths=, is no other filesystem.
        const auto below = device_of.find(parent);
        if (below != device_of.end() && below->second == device) continue;
        mount.path = Unescaped(path);
        const auto same = std::find_if(mounts.begin(), mounts.end(), [&](auto& m) { return m.path == mount.path; });
        if (same == mounts.end()) {
            mounts.push_back(mount);
        } else {
            *same = mount;
        }
    }
    return mounts;
}

FilesystemTable::FilesystemTable(const std::vector<std::string>& directories, const std::vector<Mount>& mounts) {
    for (const auto& directory : directories) {
        bool any = false;
        for (const auto& mount : mounts) {
            if (!AtOrBelow(mount.path.c_str(), directory)) continue;
            Add(mount.path, mount.major_number, mount.minor_number);
            any = true;
        }
        if (any) continue;
        struct stat found{};
        if (stat(directory.c_str(), &found) == 0) {
            Add(directory, major(found.st_dev), minor(found.st_dev));
        } else {
            missing_.push_back(directory + ": " + std::strerror(errno));
        }
    }
    for (uint32_t i = 0; i < filesystems_.size(); ++i)
        longest_first_.push_back(i);
    std::stable_sort(longest_first_.begin(), longest_first_.end(), [this](uint32_t a, uint32_t b) {
        return filesystems_[a].path.size() > filesystems_[b].path.size();
    });
}

void FilesystemTable::Add(const std::string& path, uint32_t major_number, uint32_t minor_number) {
    const bool known =
        std::any_of(filesystems_.begin(), filesystems_.end(), [&](const Filesystem& f) { return f.path == path; });
    if (!known) filesystems_.push_back({path, major_number, minor_number});
}

uint32_t FilesystemTable::FindPath(const char* path) const {
    for (uint32_t i : longest_first_)
        if (AtOrBelow(path, filesystems_[i].path)) return i;
    return kNoFilesystem;
}

bool FilesystemTable::On(uint32_t filesystem, dev_t device) const {
    const Filesystem& record = filesystems_[filesystem];
    return record.major_number == major(device) && record.minor_number == minor(device);
}

uint32_t FilesystemTable::FindOpen(const char* path, dev_t device) const {
    const uint32_t by_path = FindPath(path);
    if (by_path != kNoFilesystem && On(by_path, device)) return by_path;
    for (uint32_t i = 0; i < filesystems_.size(); ++i)
        if (On(i, device)) return i;
    return by_path;
}

} // namespace beer
