// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/FilesystemTable.hh"
#include "core/Heartbeat.hh"
#include "core/PrefixList.hh"
#include "core/Recorder.hh"
#include "core/StreamTable.hh"
#include "core/shaping/IoPriorities.hh"
#include "core/shaping/Shaping.hh"

struct sockaddr;

namespace beer {

struct Settings {
    std::string instance;
    std::string segment; // path of the file
    std::string info;    // path of the socket
    std::vector<std::string> directories;
    PrefixList batch;
    bool serves_http = false;
    bool sendfile = true;
    uint32_t overload_stall_s = 33; // of `xrootd.fsoverload`; 0 = clients are sent elsewhere
    ShapingOptions shaping;
    ShapingConfig policy;    // of the configuration file
    std::string policy_file; // with more of it, read again when it changes; empty = none
};

// What the two halves of the plug-in share. When the segment cannot be made it says so once and the server serves
// without being measured: every method below then does nothing.
class Core {
  public:
    using Log = std::function<void(const std::string&)>;
    Core(Settings settings, const std::vector<Mount>& mounts, const Platform& platform, const Log& log);

    Recorder* recorder() const { return recorder_.get(); }
    const Segment* segment() const { return segment_.get(); } // null when nothing is measured
    const Settings& settings() const { return settings_; }
    StreamTable& streams() { return streams_; }
    const FilesystemTable& filesystems() const { return filesystems_; }
    Shaping& shaping() { return shaping_; }
    IoPriorities& io_priorities() { return io_priorities_; }
    bool serves_http() const { return settings_.serves_http; }
    const Platform& platform() const { return platform_; }

    // How the OSS half turns a path of a client into one on the node (null = there is none); set before the server
    // serves. The buffer is for the result, which may also be the path itself.
    using Translate = std::function<const char*(const char* path, char* buffer, int size)>;
    void SetTranslation(Translate translate) { translate_ = std::move(translate); }
    // Record of the filesystem that a client's path is on.
    uint32_t FilesystemOf(const char* path) const noexcept;
    // The same for an open file.
    uint32_t FilesystemOfOpen(const char* path, int fd) const noexcept;
    // Where a client's path is on the node; empty = nowhere.
    std::string PathOnNode(const char* path) const noexcept;

    // The class of a client by its address. Null: it has none (a local socket), which is storage.
    Origin OriginOf(const sockaddr* address) const noexcept;

    // For whom this thread works. Without an SFS half nobody says so, and everything counts as storage.
    Origin CurrentOrigin() const noexcept;
    void AttachSfsHalf() { sfs_half_ = true; }

  private:
    template <typename Find>
    uint32_t OnNode(const char* path, Find find) const noexcept;

    const Platform& platform_;
    const Settings settings_;
    const FilesystemTable filesystems_;
    StreamTable streams_;
    IoPriorities io_priorities_;
    Translate translate_;
    std::atomic<bool> sfs_half_{false};
    std::unique_ptr<Segment> segment_;
    std::unique_ptr<Recorder> recorder_;
    std::unique_ptr<Heartbeat> heartbeat_; // after the segment, which it uses
    Shaping shaping_;
};

} // namespace beer
