// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace beer {

class TemporaryFolder {
  public:
    explicit TemporaryFolder(const std::string& in = "/tmp") : path(in + "/beer-test.XXXXXX") {
        if (!mkdtemp(path.data())) throw std::runtime_error("mkdtemp");
    }
    // On a disk: /tmp may be in memory.
    static std::string BesideThisProgram() {
        return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
    }
    ~TemporaryFolder() { std::filesystem::remove_all(path); }
    std::string operator/(const std::string& name) const { return path + "/" + name; }
    std::string Write(const std::string& name, const std::string& text) const {
        std::ofstream(*this / name) << text;
        return *this / name;
    }
    std::string path;
};

inline std::string ReadFile(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
}

} // namespace beer
