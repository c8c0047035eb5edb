// SPDX-License-Identifier: Apache-2.0
#include "xrootd/Config.hh"

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "XrdOuc/XrdOucGatherConf.hh"
#include "XrdSys/XrdSysError.hh"

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

std::string Instance(const Words& values, Settings& settings) {
    if (std::string wrong = One(values, "name", settings.instance); !wrong.empty()) return wrong;
    const char* allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const bool plain = settings.instance.find_first_not_of(allowed) == std::string::npos;
    if (!plain || settings.instance[0] == '.' || settings.instance.size() >= kInstanceBytes)
        return "'" + settings.instance + "' is not a name of letters, digits, '_', '-' and '.'";
    return "";
}

const std::map<std::string, std::function<std::string(const Words&, Settings&)>> kDirectives = {
    {"beer.batch", Batch},
    {"beer.fs", Directories},
    {"beer.instance", Instance},
    {"beer.segment", SegmentFile},
};

std::string Known() {
    std::string names;
    for (const auto& directive : kDirectives)
        names += (names.empty() ? "" : ", ") + directive.first;
    return names;
}

bool LoadsSfsHalf(const Words& words) {
    for (const auto& word : words)
        if (word.find("libXrdBeer") != std::string::npos) return true;
    return false;
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

bool ReadConfig(const char* file, XrdSysError& log, Config& config) {
    const char* running = std::getenv("XRDNAME");
    config.settings.instance = running && *running ? running : "anon";
    const auto refuse = [&](const std::string& text) {
        log.Emsg("Config", text.c_str());
        return false;
    };
    if (!file || !*file) return refuse("no configuration file: beer.fs must say what to measure");

    XrdOucGatherConf lines("beer. xrootd.fslib", &log);
    if (lines.Gather(file, XrdOucGatherConf::full_lines) < 0) return refuse(std::string("cannot read ") + file);
    while (const char* line = lines.GetLine()) {
        const std::string text = line;
        Words words = Split(text);
        if (words.empty()) continue;
        const std::string directive = words[0];
        words.erase(words.begin());
        if (directive == "xrootd.fslib") {
            config.sfs_half = config.sfs_half || LoadsSfsHalf(words);
            continue;
        }
        const auto known = kDirectives.find(directive);
        const std::string wrong =
            known == kDirectives.end() ? "is unknown; there are " + Known() : known->second(words, config.settings);
        if (wrong.empty()) continue;
        const unsigned number = LineOf(file, directive, text);
        return refuse(std::string(file) + (number ? ":" + std::to_string(number) : "") + ": " + directive + " " +
                      wrong);
    }
    if (config.settings.directories.empty())
        return refuse(std::string(file) + ": beer.fs is missing: it says which directories to measure");
    if (config.settings.segment.empty())
        config.settings.segment = "/run/beer/storage/" + config.settings.instance + ".lat";
    return true;
}

} // namespace beer
