// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <sys/stat.h>

#include "core/PeriodicThread.hh"
#include "core/shaping/Shaping.hh"

class XrdSysError;

namespace beer {

// Reads `beer.policyfile` again when it has changed. A bad or missing one is told once and changes nothing.
class PolicyFile {
  public:
    // `base`: what the configuration file says, to which the lines of this file are added.
    PolicyFile(std::string path, ShapingConfig base, Shaping& shaping, XrdSysError& log);

    // At the start: false after it has said what is wrong.
    bool Load();
    // Looks once a second, in a thread of its own.
    void Start();
    void Look();

  private:
    bool Changed();

    const std::string path_;
    const ShapingConfig base_;
    Shaping& shaping_;
    XrdSysError& log_;
    struct stat seen_{};
    std::unique_ptr<PeriodicThread> thread_; // last: it uses the others
};

} // namespace beer
