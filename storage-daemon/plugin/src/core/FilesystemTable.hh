// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <istream>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/Recorder.hh"

namespace beer {

struct Mount {
    std::string path;
    uint32_t major_number = 0;
    uint32_t minor_number = 0;
};

// The mounts in the text of /proc/self/mountinfo. Of several at one place the last one counts: it is the one on top.
std::vector<Mount> ReadMounts(std::istream& mountinfo);

// The measured filesystems, in the order of their records in the segment.
class FilesystemTable {
  public:
    // Every mount at or below one of the directories; a directory without any stands for itself, on the filesystem it
    // is on. A directory that does not exist is left out: a broken disk must not keep the others from being served.
    FilesystemTable(const std::vector<std::string>& directories, const std::vector<Mount>& mounts);

    const std::vector<std::string>& missing() const { return missing_; }
    const std::vector<Filesystem>& filesystems() const { return filesystems_; }

    // Of the file with this absolute path on the node, kNoFilesystem if it is on none of them.
    uint32_t FindPath(const char* path) const;
    // Of an open file. The device decides, so that symbolic links do not mislead; the path decides among several
    // records of one device.
    uint32_t FindOpen(const char* path, dev_t device) const;

  private:
    void Add(const std::string& path, uint32_t major_number, uint32_t minor_number);

    bool On(uint32_t filesystem, dev_t device) const;

    std::vector<std::string> missing_;
    std::vector<Filesystem> filesystems_;
    std::vector<uint32_t> longest_first_;
};

} // namespace beer
