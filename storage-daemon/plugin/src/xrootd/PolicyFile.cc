// SPDX-License-Identifier: Apache-2.0
#include "xrootd/PolicyFile.hh"

#include "XrdSys/XrdSysError.hh"
#include "xrootd/Config.hh"

namespace beer {

PolicyFile::PolicyFile(std::string path, ShapingConfig base, Shaping& shaping, XrdSysError& log)
    : path_(std::move(path)), base_(std::move(base)), shaping_(shaping), log_(log) {}

bool PolicyFile::Changed() {
    struct stat now{};
    stat(path_.c_str(), &now); // what is not there is all zero, and so seen once
    const bool same = now.st_ino == seen_.st_ino && now.st_size == seen_.st_size &&
                      now.st_mtim.tv_sec == seen_.st_mtim.tv_sec && now.st_mtim.tv_nsec == seen_.st_mtim.tv_nsec;
    seen_ = now;
    return !same;
}

bool PolicyFile::Load() {
    Changed();
    ShapingConfig config = base_;
    if (!ReadPolicyFile(path_, log_, config)) return false;
    shaping_.Use(std::move(config));
    return true;
}

void PolicyFile::Look() {
    if (!Changed()) return;
    ShapingConfig config = base_;
    if (ReadPolicyFile(path_, log_, config)) {
        shaping_.Use(std::move(config));
        log_.Say("beer: new policy from ", path_.c_str());
    } else {
        log_.Say("beer: WARNING: the old policy stays in force");
    }
}

void PolicyFile::Start() {
    thread_ = std::make_unique<PeriodicThread>("beer-policy", std::chrono::seconds(1), [this] {
        try {
            Look();
        } catch (...) { // no memory
        }
    });
}

} // namespace beer
