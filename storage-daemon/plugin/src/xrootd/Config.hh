// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/Core.hh"

class XrdSysError;

namespace beer {

struct Config {
    Settings settings;
    bool sfs_half = false; // the same file loads it
};

// Reads the `beer.` directives. False after it has said, with file and line, what is wrong: then the server must not
// start, for it would not do what its administrator believes.
bool ReadConfig(const char* file, XrdSysError& log, Config& config);

// Adds the lines of a file that holds nothing but policy (`beer.policyfile`). False after it has said what is wrong.
bool ReadPolicyFile(const std::string& file, XrdSysError& log, ShapingConfig& policy);

// The line of the directive in the file, 0 if it is in another one (XRootD's `continue`) or made from variables.
unsigned LineOf(const std::string& file, const std::string& directive, const std::string& text);

} // namespace beer
