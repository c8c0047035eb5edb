// SPDX-License-Identifier: Apache-2.0
//
// Prints the golden segment: `make -C storage-daemon golden` writes it to docs/formats/.
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "GoldenScenario.hh"

int main() {
    char folder[] = "/tmp/beer-golden.XXXXXX";
    if (!mkdtemp(folder)) return 1;
    const std::string path = std::string(folder) + "/beer.lat";
    std::fputs(beer::GoldenDump(path).c_str(), stdout);
    unlink(path.c_str());
    rmdir(folder);
    return 0;
}
