// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "FakePlatform.hh"
#include "FakeSfs.hh"
#include "TemporaryFolder.hh"
#include "XrdNet/XrdNetAddr.hh"
#include "XrdSec/XrdSecEntity.hh"
#include "XrdSfs/XrdSfsFlags.hh"
#include "xrootd/sfs/SfsFilesystem.hh"

namespace beer {

class Client {
  public:
    explicit Client(const char* address) {
        EXPECT_EQ(address_.Set(address, 1094), nullptr);
        entity.addrInfo = &address_;
    }
    XrdSecEntity entity{"test"};

  private:
    XrdNetAddr address_;
};

class SfsTest : public testing::Test {
  protected:
    SfsTest() {
        settings.segment = folder / "beer.lat";
        settings.directories = {folder.path};
        settings.batch.Add("127.0.0.2");
        core = std::make_unique<Core>(settings, std::vector<Mount>{}, platform, [](const std::string&) {});
        layer = std::make_unique<SfsFilesystem>(next, *core);
    }
    std::vector<std::string> Calls() {
        std::vector<std::string> calls;
        calls.swap(log.calls);
        return calls;
    }
    // From the file, like the guard.
    uint32_t Readers() { return Record().first; }
    uint32_t Writers() { return Record().second; }
    std::pair<uint32_t, uint32_t> Record() {
        const std::string bytes = ReadFile(settings.segment);
        const auto* record = reinterpret_cast<const FilesystemRecord*>(bytes.data() + sizeof(Header));
        return {record->open_readers, record->open_writers};
    }
    uint64_t Stalls(Traffic traffic) {
        const std::string bytes = ReadFile(settings.segment);
        const auto* header = reinterpret_cast<const Header*>(bytes.data());
        const auto* series = reinterpret_cast<const SeriesRecord*>(bytes.data() + header->series_offset);
        return series[kStallKind + static_cast<uint32_t>(traffic)].sum_ns;
    }

    TemporaryFolder folder;
    FakePlatform platform;
    Settings settings;
    FakeSfsLog log;
    FakeSfs next{log};
    std::unique_ptr<Core> core;
    std::unique_ptr<SfsFilesystem> layer;
    Client storage{"127.0.0.1"}, batch{"127.0.0.2"};
    XrdOucErrInfo error{"test"};
    const std::string path = folder / "file";
};

} // namespace beer
