// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <new>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "FakePlatform.hh"
#include "core/shaping/IoPrioritySentry.hh"

namespace beer {
namespace {

// Of this thread, as the kernel has it.
long Mine() { return syscall(SYS_ioprio_get, 1, 0); }

} // namespace

TEST(IoPrioritiesTest, TheKernelHasItUntilTheEndOfTheBlock) {
    std::vector<std::string> log;
    IoPriorities priorities(RealPlatform(), [&](const std::string& text) { log.push_back(text); });
    const long before = Mine();
    ASSERT_GE(before, 0);
    const long wanted = (2 << 13) | 6;
    ASSERT_NE(before, wanted);
    {
        const IoPrioritySentry sentry(priorities, ParseIoPriority("be:6"));
        EXPECT_EQ(Mine(), wanted);
        long inherited = 0;
        std::thread([&] { inherited = Mine(); }).join();
        EXPECT_EQ(inherited, wanted) << "why it must be taken back";
    }
    EXPECT_EQ(Mine(), before);
    {
        const IoPrioritySentry sentry(priorities, std::nullopt);
        EXPECT_EQ(Mine(), before);
    }
    EXPECT_TRUE(log.empty());
    EXPECT_FALSE(priorities.refused());
}

TEST(IoPrioritiesTest, WhatTheKernelRefusesIsSaidOnce) {
    FakePlatform platform;
    std::vector<std::string> log;
    IoPriorities priorities(platform, [&](const std::string& text) { log.push_back(text); });
    EXPECT_TRUE(priorities.Give(*ParseIoPriority("be:6")));
    platform.refuses_priority = true;
    for (const char* refused : {"rt:0", "rt:0", "rt:1"})
        EXPECT_FALSE(priorities.Give(*ParseIoPriority(refused)));
    EXPECT_EQ(log, std::vector<std::string>{
                       "the kernel refuses I/O priority rt:0: requests go on without (rt needs CAP_SYS_NICE)"});
    EXPECT_TRUE(priorities.refused());
}

TEST(IoPrioritiesTest, ALogThatFailsDoesNoHarm) {
    FakePlatform platform;
    platform.refuses_priority = true;
    IoPriorities priorities(platform, [](const std::string&) { throw std::bad_alloc(); });
    EXPECT_FALSE(priorities.Give(*ParseIoPriority("rt:0")));
    EXPECT_TRUE(priorities.refused());
}

} // namespace beer
