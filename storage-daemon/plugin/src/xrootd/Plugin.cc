// SPDX-License-Identifier: Apache-2.0
//
// The two entry points. When set-up fails: a mistake in the configuration returns null, which keeps the server from
// starting; anything else (no space in /run, no such directory) is logged and the server serves without measuring.
#include "xrootd/Plugin.hh"

#include <fstream>
#include <memory>

#include "XrdSys/XrdSysError.hh"
#include "XrdSys/XrdSysLogger.hh"
#include "XrdVersion.hh"
#include "core/report/InfoSocket.hh"
#include "core/report/Report.hh"
#include "core/shaping/Scheduler.hh"
#include "xrootd/Config.hh"
#include "xrootd/PolicyFile.hh"
#include "xrootd/oss/OssFilesystem.hh"
#include "xrootd/sfs/SfsFilesystem.hh"

namespace beer {
namespace {

Core* the_core = nullptr;

XrdSysError& LogOf(XrdSysLogger* logger) {
    static XrdSysError log(logger, "beer_");
    return log;
}

} // namespace

Core* TheCore() { return the_core; }
void SetTheCore(Core* core) { the_core = core; }

} // namespace beer

XrdVERSIONINFO(XrdOssAddStorageSystem2, Beer);
XrdVERSIONINFO(XrdSfsGetFileSystem2, Beer);

extern "C" {

XrdOss* XrdOssAddStorageSystem2(XrdOss* lower, XrdSysLogger* logger, const char* config_file, const char*, XrdOucEnv*) {
    using namespace beer;
    XrdSysError& log = LogOf(logger);
    try {
        Config config;
        if (!ReadConfig(config_file, log, config)) return nullptr;
        if (!config.sfs_half)
            log.Say("beer: WARNING: no `xrootd.fslib ++ libXrdBeer.so` in ", config_file,
                    ": batch is NOT told from storage, everything counts as storage");
        const std::string policy_file = config.settings.policy_file;
        const ShapingConfig policy = config.settings.policy;
        std::ifstream mountinfo("/proc/self/mountinfo");
        auto core = std::make_unique<Core>(std::move(config.settings), ReadMounts(mountinfo), RealPlatform(),
                                           [&](const std::string& text) { log.Say("beer: WARNING: ", text.c_str()); });
        for (const auto& filesystem : core->filesystems().filesystems()) {
            const std::string device =
                std::to_string(filesystem.major_number) + ":" + std::to_string(filesystem.minor_number);
            const std::string scheduler = SchedulerOf(filesystem.major_number, filesystem.minor_number);
            const std::string effect = (scheduler.empty() ? "" : ", scheduler " + scheduler) + ": " +
                                       PriorityEffect(scheduler, core->shaping().config()->turns);
            log.Say("beer: measures ", filesystem.path.c_str(), " on device ", device.c_str(), effect.c_str());
        }
        if (!policy_file.empty()) {
            auto reloaded = std::make_unique<PolicyFile>(policy_file, policy, core->shaping(), log);
            if (!reloaded->Load()) return nullptr;
            reloaded->Start();
            reloaded.release(); // it lives as long as the process, as the core does
        }
        auto layer = std::make_unique<OssFilesystem>(*lower, *core);
        auto info = std::make_unique<InfoSocket>(
            core->settings().info, [core = core.get()](const std::string& what) { return Report(*core).Answer(what); },
            [&](const std::string& text) { log.Say("beer: WARNING: ", text.c_str()); });
        info.release(); // it lives as long as the process, as the core does
        SetTheCore(core.release());
        return layer.release();
    } catch (const std::exception& exception) {
        log.Say("beer: WARNING: SERVING WITHOUT MEASURING: ", exception.what());
        return lower;
    }
}

XrdSfsFileSystem* XrdSfsGetFileSystem2(XrdSfsFileSystem* next, XrdSysLogger* logger, const char*, XrdOucEnv*) {
    using namespace beer;
    XrdSysError& log = LogOf(logger);
    if (!TheCore()) {
        log.Emsg("Config", "the SFS half needs the OSS half: `ofs.osslib ++ libXrdBeer.so` is missing");
        return nullptr;
    }
    try {
        auto layer = std::make_unique<SfsFilesystem>(*next, *TheCore());
        TheCore()->AttachSfsHalf();
        return layer.release();
    } catch (const std::exception& exception) {
        log.Say("beer: WARNING: batch is NOT told from storage: ", exception.what());
        return next;
    }
}
}
