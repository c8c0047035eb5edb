// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <sys/stat.h>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace beer {

// A socket in the filesystem where root, this user and this group may ask: one line in, one line out, and closed. One
// thread serves it, and waits for nobody: who does not ask or does not read within a second or two is cut off. When
// setting it up fails, the reason is logged and the server serves without it.
class InfoSocket {
  public:
    using Answer = std::function<std::string(const std::string& request)>;
    using Log = std::function<void(const std::string&)>;
    struct Times {
        std::chrono::milliseconds ask{1000}, read{3000};
    };

    // In place of a socket that is there already (of a server that is dead, or dies); of anything else it is not.
    InfoSocket(const std::string& path, Answer answer, const Log& log) : InfoSocket(path, answer, log, Times()) {}
    InfoSocket(std::string path, Answer answer, const Log& log, Times times);
    // Ends the thread and takes the socket away.
    ~InfoSocket();
    InfoSocket(const InfoSocket&) = delete;
    InfoSocket& operator=(const InfoSocket&) = delete;

    bool serves() const { return thread_.joinable(); }

    static constexpr size_t kLongestPath = 107; // sun_path, with its end
    static constexpr size_t kLongestRequest = 64, kMostPeers = 8;

  private:
    struct Peer;
    // What is wrong; empty = it listens.
    std::string Listen();
    // Takes the socket away, unless another server has put its own there.
    void Close();
    void Loop();
    void Accept();
    // False: it is done, one way or another.
    bool Serve(Peer& peer);
    void Prepare(Peer& peer);
    bool May(int fd) const;

    const std::string path_;
    const Answer answer_;
    const Times times_;
    int listener_ = -1, stop_ = -1;
    struct stat made_{};
    std::vector<Peer> peers_; // of the thread
    std::thread thread_;      // last: it uses the others
};

} // namespace beer
