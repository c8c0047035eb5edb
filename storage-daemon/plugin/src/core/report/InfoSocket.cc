// SPDX-License-Identifier: Apache-2.0
#include "core/report/InfoSocket.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/QuietThread.hh"

namespace beer {
namespace {

using Clock = std::chrono::steady_clock;

std::string Failure(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

int Timeout(Clock::time_point until) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    return static_cast<int>(std::clamp<long long>(left + 1, 0, 60000)); // rounded up: not too early again and again
}

} // namespace

struct InfoSocket::Peer {
    int fd;
    Clock::time_point until;
    std::string in;
    std::string out; // empty = it has not asked yet
    size_t sent = 0;
};

InfoSocket::InfoSocket(std::string path, Answer answer, const Log& log, Times times)
    : path_(std::move(path)), answer_(std::move(answer)), times_(times) {
    peers_.reserve(kMostPeers);
    std::string wrong = Listen();
    if (wrong.empty()) {
        try {
            thread_ = QuietThread("beer-info", [this] { Loop(); });
            return;
        } catch (const std::exception& exception) {
            wrong = exception.what();
        }
    }
    Close(); // nobody shall wait at a socket that is not served
    log("`beer storage` cannot ask this server: " + path_ + ": " + wrong);
}

std::string InfoSocket::Listen() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path_.size() > kLongestPath) return "the path is longer than 107 bytes";
    path_.copy(address.sun_path, kLongestPath);
    struct stat there{};
    if (lstat(path_.c_str(), &there) == 0) {
        if (!S_ISSOCK(there.st_mode)) return "there is something that is not a socket";
        if (unlink(path_.c_str()) != 0) return Failure("unlink");
    }
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener_ < 0) return Failure("socket");
    // Before bind(2): the file gets the mode of the socket without the bits of the umask (Linux: unix_bind_bsd), so at
    // no time more than these may connect; the umask may be narrower, hence once more afterwards.
    if (fchmod(listener_, 0660) != 0) return Failure("fchmod");
    if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return Failure("bind");
    if (lstat(path_.c_str(), &made_) != 0 || chmod(path_.c_str(), 0660) != 0) return Failure("chmod");
    if (listen(listener_, 64) != 0) return Failure("listen");
    stop_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return stop_ < 0 ? Failure("eventfd") : "";
}

InfoSocket::~InfoSocket() {
    if (thread_.joinable()) {
        eventfd_write(stop_, 1);
        thread_.join();
    }
    for (const Peer& peer : peers_)
        close(peer.fd);
    Close();
}

void InfoSocket::Close() {
    struct stat now{};
    if (made_.st_ino && lstat(path_.c_str(), &now) == 0 && now.st_ino == made_.st_ino && now.st_dev == made_.st_dev)
        unlink(path_.c_str());
    for (int* fd : {&listener_, &stop_}) {
        if (*fd >= 0) close(*fd);
        *fd = -1;
    }
}

void InfoSocket::Loop() {
    std::vector<pollfd> polled;
    polled.reserve(kMostPeers + 2);
    for (;;) {
        // When there are as many peers as may be, others wait in the queue of the kernel.
        const bool room = peers_.size() < kMostPeers;
        polled.assign({{stop_, POLLIN, 0}, {room ? listener_ : -1, POLLIN, 0}});
        Clock::time_point until = Clock::now() + std::chrono::minutes(1);
        for (const Peer& peer : peers_) {
            polled.push_back({peer.fd, static_cast<short>(peer.out.empty() ? POLLIN : POLLOUT), 0});
            until = std::min(until, peer.until);
        }
        if (poll(polled.data(), polled.size(), Timeout(until)) < 0 && errno != EINTR) {
            // No memory, or fewer descriptors allowed than before: that may pass, and nobody else serves the socket.
            eventfd_t stops;
            if (eventfd_read(stop_, &stops) == 0) return;
            std::this_thread::sleep_for(times_.ask / 10);
            continue;
        }
        if (polled[0].revents) return;
        const auto now = Clock::now();
        for (size_t i = peers_.size(); i-- > 0;) {
            if (polled[i + 2].revents ? Serve(peers_[i]) : now < peers_[i].until) continue;
            close(peers_[i].fd);
            peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(i));
        }
        if (polled[1].revents) Accept();
    }
}

void InfoSocket::Accept() {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        // No descriptors left: the one that asks stays in the queue, and poll would return at once for ever.
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) std::this_thread::sleep_for(times_.ask / 10);
        return;
    }
    if (!May(fd)) {
        close(fd);
        return;
    }
    peers_.push_back({fd, Clock::now() + times_.ask, {}, {}, 0}); // there is room: it allocates nothing
}

// The file's mode says the same; this holds also when somebody has changed that, or handed a descriptor on.
bool InfoSocket::May(int fd) const {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
    if (peer.uid == 0 || peer.uid == geteuid() || peer.gid == getegid()) return true;
    gid_t groups[1024];
    size = sizeof groups;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) != 0) return false;
    gid_t* const end = groups + size / sizeof(gid_t);
    return std::find(groups, end, getegid()) != end;
}

// What has come is read, and what goes is sent, before the deadline is looked at: an answer to somebody else may have
// taken long.
bool InfoSocket::Serve(Peer& peer) {
    const auto in_time = [&peer] { return Clock::now() < peer.until; };
    if (peer.out.empty()) {
        char buffer[kLongestRequest + 1];
        const ssize_t got = recv(peer.fd, buffer, sizeof buffer - peer.in.size(), 0);
        if (got < 0) return (errno == EAGAIN || errno == EINTR) && in_time();
        if (got == 0) return false;
        try {
            peer.in.append(buffer, static_cast<size_t>(got));
            Prepare(peer);
        } catch (...) { // no memory
            return false;
        }
        if (peer.out.empty()) return peer.in.size() <= kLongestRequest && in_time();
    }
    const ssize_t sent = send(peer.fd, peer.out.data() + peer.sent, peer.out.size() - peer.sent, MSG_NOSIGNAL);
    if (sent < 0) return (errno == EAGAIN || errno == EINTR) && in_time();
    peer.sent += static_cast<size_t>(sent);
    return peer.sent < peer.out.size() && in_time();
}

void InfoSocket::Prepare(Peer& peer) {
    const size_t end = peer.in.find('\n');
    if (end == std::string::npos) return;
    peer.out = answer_(peer.in.substr(0, end)) + "\n";
    peer.until = Clock::now() + times_.read;
}

} // namespace beer
