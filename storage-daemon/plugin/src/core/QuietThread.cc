// SPDX-License-Identifier: Apache-2.0
#include "core/QuietThread.hh"

#include <csignal>
#include <pthread.h>

namespace beer {

std::thread QuietThread(const char* name, std::function<void()> work) {
    // The thread inherits this mask.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread;
    try {
        thread = std::thread([name, work = std::move(work)] {
            pthread_setname_np(pthread_self(), name);
            work();
        });
    } catch (...) {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

} // namespace beer
