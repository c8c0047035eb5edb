// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "TemporaryFolder.hh"
#include "core/report/InfoSocket.hh"

namespace beer {

// The other end.
class Asker {
  public:
    explicit Asker(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        connected = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    }
    ~Asker() { close(fd_); }
    void Say(const std::string& text) {
        // A server that has hung up is no error here.
        (void)!send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    }
    // Everything until the server hangs up; "(still there)" if it does not.
    std::string Hear() {
        std::string text;
        char buffer[65536];
        for (;;) {
            pollfd one{fd_, POLLIN, 0};
            if (poll(&one, 1, 20000) != 1) return "(still there)";
            const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
            if (got <= 0) return text;
            text.append(buffer, static_cast<size_t>(got));
        }
    }
    // Waits for the end without reading what is before it.
    bool IsCutOff() {
        pollfd one{fd_, 0, 0};
        return poll(&one, 1, 20000) == 1;
    }
    std::string Ask(const std::string& request) {
        Say(request + "\n");
        return Hear();
    }
    bool connected;

  private:
    const int fd_;
};

class InfoSocketTest : public testing::Test {
  protected:
    std::unique_ptr<InfoSocket> Make(InfoSocket::Times times = {}) {
        return std::make_unique<InfoSocket>(
            path,
            [](const std::string& request) {
                if (request == "throw") throw std::bad_alloc();
                return request == "large" ? std::string(size_t{4} << 20, 'x') : "[" + request + "]";
            },
            [this](const std::string& line) { log.push_back(line); }, times);
    }
    const InfoSocket::Times soon{std::chrono::milliseconds(500), std::chrono::milliseconds(500)};
    TemporaryFolder folder;
    const std::string path = folder / "beer.info";
    std::vector<std::string> log;
};

TEST_F(InfoSocketTest, AnswersOneLineAndHangsUp) {
    const auto server = Make();
    EXPECT_TRUE(server->serves());
    EXPECT_EQ(Asker(path).Ask("stat"), "[stat]\n");
    EXPECT_EQ(Asker(path).Ask("large").size(), (size_t{4} << 20) + 1);
    Asker slow(path);
    slow.Say("st");
    slow.Say("at\nand more");
    EXPECT_EQ(slow.Hear(), "[stat]\n");
    EXPECT_EQ(Asker(path).Ask("throw"), "");
    EXPECT_EQ(Asker(path).Ask("stat"), "[stat]\n");
    EXPECT_TRUE(log.empty());
}

TEST_F(InfoSocketTest, IsForUserAndGroupWhateverTheUmask) {
    for (const mode_t mask : {0000, 0077}) {
        const mode_t before = umask(mask);
        const auto server = Make();
        umask(before);
        struct stat found{};
        ASSERT_EQ(stat(path.c_str(), &found), 0);
        EXPECT_EQ(found.st_mode, mode_t{S_IFSOCK | 0660});
    }
}

TEST_F(InfoSocketTest, WhoDoesNotAskOrReadIsCutOffAndOthersAreServed) {
    const auto server = Make(soon);
    Asker silent(path), deaf(path);
    deaf.Say("large\n");
    EXPECT_EQ(Asker(path).Ask("stat"), "[stat]\n");
    EXPECT_EQ(silent.Hear(), "");
    EXPECT_TRUE(deaf.IsCutOff());
    EXPECT_LT(deaf.Hear().size(), size_t{4} << 20);
}

TEST_F(InfoSocketTest, WhoAsksWhileAnotherAnswerTakesLongIsNotCutOff) {
    std::atomic<Asker*> quick{nullptr};
    const InfoSocket::Answer answer = [&](const std::string& request) {
        if (request == "long") {
            quick.load()->Say("stat\n");
            std::this_thread::sleep_for(2 * soon.ask);
        }
        return "[" + request + "]";
    };
    const InfoSocket server(path, answer, nullptr, soon);
    Asker first(path), second(path); // first is accepted before second
    quick = &first;
    EXPECT_EQ(second.Ask("long"), "[long]\n");
    EXPECT_EQ(first.Hear(), "[stat]\n");
}

TEST_F(InfoSocketTest, OutlivesAPollThatFails) {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit low{1, before.rlim_max}; // fewer than are polled: EINVAL
    const InfoSocket::Answer answer = [&](const std::string& request) {
        if (request == "break") setrlimit(RLIMIT_NOFILE, &low);
        return "[" + request + "]";
    };
    auto server = std::make_unique<InfoSocket>(path, answer, nullptr);
    for (const bool passes : {true, false}) {
        EXPECT_EQ(Asker(path).Ask("break"), "[break]\n");
        std::this_thread::sleep_for(std::chrono::milliseconds(100)); // it polls
        if (!passes) server.reset();                                 // ends its thread all the same
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (passes) {
            EXPECT_EQ(Asker(path).Ask("stat"), "[stat]\n");
        }
    }
}

TEST_F(InfoSocketTest, AFloodOfSilentPeersDelaysOthersOnly) {
    const auto server = Make(soon);
    std::vector<std::unique_ptr<Asker>> flood;
    for (size_t i = 0; i < 3 * InfoSocket::kMostPeers; ++i)
        flood.push_back(std::make_unique<Asker>(path));
    EXPECT_EQ(Asker(path).Ask("stat"), "[stat]\n");
}

TEST_F(InfoSocketTest, ARequestThatIsTooLongIsNotRead) {
    const auto server = Make();
    Asker talker(path);
    talker.Say(std::string(100000, 'x'));
    EXPECT_EQ(talker.Hear(), "");
    EXPECT_EQ(Asker(path).Ask(std::string(InfoSocket::kLongestRequest - 1, 'x')).size(),
              InfoSocket::kLongestRequest + 2);
    EXPECT_EQ(Asker(path).Ask("stat"), "[stat]\n");
}

TEST_F(InfoSocketTest, TakesThePlaceOfADeadServerAndLeavesAnythingElse) {
    {
        const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        ASSERT_EQ(bind(dead, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        close(dead);
    }
    EXPECT_FALSE(Asker(path).connected);
    auto first = Make();
    EXPECT_EQ(Asker(path).Ask("stat"), "[stat]\n");
    const auto second = Make(); // of a new process, while the old one dies
    first.reset();
    EXPECT_EQ(Asker(path).Ask("stat"), "[stat]\n") << "the first has taken the second one's socket away";
    EXPECT_TRUE(log.empty());

    const std::string file = folder.Write("file", "precious");
    InfoSocket refused(file, nullptr, [this](const std::string& line) { log.push_back(line); });
    EXPECT_FALSE(refused.serves());
    EXPECT_EQ(ReadFile(file), "precious");
    ASSERT_EQ(log.size(), 1u);
    EXPECT_NE(log[0].find("file: there is something that is not a socket"), std::string::npos) << log[0];
}

TEST_F(InfoSocketTest, ServesNothingWithoutAFolderOrWithTooLongAPath) {
    for (const std::string& bad : {folder / "none/beer.info", "/" + std::string(107, 'x')}) {
        InfoSocket refused(bad, nullptr, [this](const std::string& line) { log.push_back(line); });
        EXPECT_FALSE(refused.serves());
    }
    ASSERT_EQ(log.size(), 2u);
    EXPECT_NE(log[0].find("bind: No such file"), std::string::npos) << log[0];
    EXPECT_NE(log[1].find("longer than 107"), std::string::npos) << log[1];
}

TEST_F(InfoSocketTest, LeavesNothingBehind) {
    Make().reset();
    EXPECT_NE(access(path.c_str(), F_OK), 0);
}

} // namespace beer
