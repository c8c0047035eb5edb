// SPDX-License-Identifier: Apache-2.0
#include "xrootd/Config.hh"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "XrdOuc/XrdOucGatherConf.hh"
#include "XrdSys/XrdSysError.hh"
#include "core/report/InfoSocket.hh"

namespace beer {
namespace {

using Words = std::vector<std::string>;

Words Split(const std::string& line) {
    std::istringstream stream(line);
    Words words;
    for (std::string word; stream >> word;)
        words.push_back(word);
    return words;
}

std::string One(const Words& values, const char* what, std::string& target) {
    if (values.size() != 1) return std::string("wants one ") + what;
    target = values[0];
    return "";
}

std::string Path(const std::string& text) {
    if (text[0] != '/') return "'" + text + "' is not an absolute path";
    if (text.find("//") != std::string::npos || (text.size() > 1 && text.back() == '/'))
        return "'" + text + "' has a needless '/'";
    return "";
}

std::string Batch(const Words& values, Settings& settings) {
    if (values.empty()) return "wants at least one network";
    for (const auto& value : values)
        if (std::string wrong = settings.batch.Add(value); !wrong.empty()) return wrong;
    return "";
}

std::string Directories(const Words& values, Settings& settings) {
    if (values.empty()) return "wants at least one directory";
    for (const auto& value : values) {
        if (std::string wrong = Path(value); !wrong.empty()) return wrong;
        settings.directories.push_back(value);
    }
    return "";
}

std::string SegmentFile(const Words& values, Settings& settings) {
    if (std::string wrong = One(values, "path", settings.segment); !wrong.empty()) return wrong;
    return Path(settings.segment);
}

std::string InfoSocketPath(const Words& values, Settings& settings) {
    if (std::string wrong = One(values, "path", settings.info); !wrong.empty()) return wrong;
    if (settings.info.size() > InfoSocket::kLongestPath) return "'" + settings.info + "' is longer than 107 bytes";
    return Path(settings.info);
}

std::string ControlFilePath(const Words& values, Settings& settings) {
    if (std::string wrong = One(values, "path", settings.shaping.control); !wrong.empty()) return wrong;
    return Path(settings.shaping.control);
}

std::string PolicyFilePath(const Words& values, Settings& settings) {
    if (std::string wrong = One(values, "path", settings.policy_file); !wrong.empty()) return wrong;
    return Path(settings.policy_file);
}

std::string Instance(const Words& values, Settings& settings) {
    if (std::string wrong = One(values, "name", settings.instance); !wrong.empty()) return wrong;
    const char* allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const bool plain = settings.instance.find_first_not_of(allowed) == std::string::npos;
    if (!plain || settings.instance[0] == '.' || settings.instance.size() >= kInstanceBytes)
        return "'" + settings.instance + "' is not a name of letters, digits, '_', '-' and '.'";
    return "";
}

std::string Sendfile(const Words& values, Settings& settings) {
    if (values.size() != 1 || (values[0] != "on" && values[0] != "off")) return "wants on or off";
    settings.sendfile = values[0] == "on";
    return "";
}

const std::map<std::string, std::function<std::string(const Words&, Settings&)>> kDirectives = {
    {"beer.batch", Batch},         {"beer.control", ControlFilePath}, {"beer.fs", Directories},
    {"beer.info", InfoSocketPath}, {"beer.instance", Instance},       {"beer.policyfile", PolicyFilePath},
    {"beer.segment", SegmentFile}, {"beer.sendfile", Sendfile},
};

std::string Names(std::vector<std::string> all) {
    std::sort(all.begin(), all.end());
    std::string names;
    for (const auto& name : all)
        names += (names.empty() ? "" : ", ") + name;
    return names;
}

bool IsPolicy(const std::string& directive) {
    const auto& names = ShapingConfig::Directives();
    return std::find(names.begin(), names.end(), directive) != names.end();
}

std::string AddPolicyLine(const std::string& directive, const Words& values, ShapingConfig& policy) {
    Words line = {directive};
    line.insert(line.end(), values.begin(), values.end());
    return policy.Add(line);
}

bool LoadsSfsHalf(const Words& words) {
    for (const auto& word : words)
        if (word.find("libXrdBeer") != std::string::npos) return true;
    return false;
}

// `xrd.sched ... maxt N`: how many threads there may be.
void ReadSched(const Words& words, Settings& settings) {
    for (size_t i = 0; i + 1 < words.size(); ++i)
        if (words[i] == "maxt")
            settings.shaping.workers = static_cast<uint32_t>(std::max(4, std::atoi(words[i + 1].c_str())));
}

// `xrootd.fsoverload ... [redirect HOST:PORT] [stall SECONDS]`: what clients are told who must come back later.
void ReadOverload(const Words& words, Settings& settings) {
    constexpr std::pair<char, uint32_t> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}};
    uint32_t stall_s = settings.overload_stall_s;
    for (size_t i = 0; i + 1 < words.size(); ++i) {
        if (words[i] != "stall") continue;
        stall_s = static_cast<uint32_t>(std::max(0, std::atoi(words[i + 1].c_str())));
        for (const auto& [unit, seconds] : kUnits)
            if (words[i + 1].back() == unit) stall_s *= seconds;
    }
    const bool elsewhere = std::find(words.begin(), words.end(), "redirect") != words.end();
    settings.overload_stall_s = elsewhere ? 0 : stall_s; // XRootD sends them there whatever else it says
}

} // namespace

unsigned LineOf(const std::string& file, const std::string& directive, const std::string& text) {
    std::ifstream stream(file);
    const Words wanted = Split(text);
    unsigned number = 0, first = 0;
    for (std::string line; std::getline(stream, line);) {
        ++number;
        Words words = Split(line);
        if (words.empty() || words[0] != directive) continue;
        if (!first) first = number;
        if (words.size() >= wanted.size() && std::equal(wanted.begin(), wanted.end(), words.begin())) return number;
    }
    return first;
}

namespace {

bool Refuse(XrdSysError& log, const std::string& text) {
    log.Emsg("Config", text.c_str());
    return false;
}

// Gives every line that begins with one of the `wanted` prefixes to `take`, which answers what is wrong with it.
template <typename Take>
bool ReadLines(const char* file, const char* wanted, XrdSysError& log, Take&& take) {
    XrdOucGatherConf lines(wanted, &log);
    if (lines.Gather(file, XrdOucGatherConf::full_lines) < 0) return Refuse(log, std::string("cannot read ") + file);
    while (const char* line = lines.GetLine()) {
        const std::string text = line;
        Words words = Split(text);
        if (words.empty()) continue;
        const std::string directive = words[0];
        words.erase(words.begin());
        const std::string wrong = take(directive, words);
        if (wrong.empty()) continue;
        const unsigned number = LineOf(file, directive, text);
        return Refuse(log, std::string(file) + (number ? ":" + std::to_string(number) : "") + ": " + directive + " " +
                               wrong);
    }
    return true;
}

} // namespace

bool ReadPolicyFile(const std::string& file, XrdSysError& log, ShapingConfig& policy) {
    return ReadLines(file.c_str(), "beer.", log, [&](const std::string& directive, const Words& values) {
        return IsPolicy(directive)
                   ? AddPolicyLine(directive, values, policy)
                   : "does not belong into a policy file; there are " + Names(ShapingConfig::Directives());
    });
}

bool ReadConfig(const char* file, XrdSysError& log, Config& config) {
    const char* running = std::getenv("XRDNAME");
    config.settings.instance = running && *running ? running : "anon";
    if (!file || !*file) return Refuse(log, "no configuration file: beer.fs must say what to measure");

    const auto take = [&](const std::string& directive, const Words& values) -> std::string {
        if (directive == "xrootd.fslib") {
            config.sfs_half = config.sfs_half || LoadsSfsHalf(values);
            return "";
        }
        if (directive == "xrd.protocol") {
            for (const auto& value : values)
                if (value.find("libXrdHttp") != std::string::npos) config.settings.serves_http = true;
            return "";
        }
        if (directive == "xrootd.fsoverload") {
            ReadOverload(values, config.settings);
            return "";
        }
        if (directive == "xrd.sched") {
            ReadSched(values, config.settings);
            return "";
        }
        if (const auto known = kDirectives.find(directive); known != kDirectives.end())
            return known->second(values, config.settings);
        if (IsPolicy(directive)) return AddPolicyLine(directive, values, config.settings.policy);
        std::vector<std::string> all = ShapingConfig::Directives();
        for (const auto& known : kDirectives)
            all.push_back(known.first);
        return "is unknown; there are " + Names(all);
    };
    if (!ReadLines(file, "beer. xrootd.fslib xrootd.fsoverload xrd.sched xrd.protocol", log, take)) return false;
    if (config.settings.directories.empty())
        return Refuse(log, std::string(file) + ": beer.fs is missing: it says which directories to measure");
    if (config.settings.segment.empty())
        config.settings.segment = "/run/beer/storage/" + config.settings.instance + ".lat";
    if (config.settings.info.empty()) config.settings.info = "/run/beer/storage/" + config.settings.instance + ".info";
    return true;
}

} // namespace beer
