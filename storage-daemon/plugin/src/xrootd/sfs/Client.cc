// SPDX-License-Identifier: Apache-2.0
#include "xrootd/sfs/Client.hh"

#include <cctype>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "XrdOuc/XrdOucEnv.hh"
#include "XrdSec/XrdSecEntityAttr.hh"

namespace beer {
namespace {

// Empty = nothing is wrong.
std::string ParseAsked(XrdOucEnv& asked, Wish& wish) {
    constexpr std::pair<const char*, const char*> kAsked[] = {
        {"eos.iotype", "iotype"}, {"eos.iopriority", "iopriority"}, {"eos.iobw", "bandwidth"}, {"eos.iops", "iops"}};
    for (const auto& [name, key] : kAsked) {
        const char* said = asked.Get(name);
        if (!said) continue;
        std::string value = said;
        const bool number = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
        if (number && std::strcmp(key, "bandwidth") == 0) value += "MB/s";
        if (std::string wrong = ParseWish(key, value, wish); !wrong.empty()) return name + (": " + wrong);
    }
    return "";
}

} // namespace

std::string CleanApplication(const char* text) {
    constexpr size_t kLongest = 64;
    std::string name = text ? text : "";
    if (name.empty() || name.size() > kLongest) return "default";
    for (const char c : name)
        if (!std::isalnum(static_cast<unsigned char>(c)) && std::string("_.:-").find(c) == std::string::npos)
            return "default";
    return name;
}

std::string NameOf(const XrdSecEntity* client) {
    if (!client) return "";
    std::string name;
    if (client->eaAPI && client->eaAPI->Get("request.name", name) && !name.empty()) return name;
    return client->name ? client->name : "";
}

std::string HostOf(const XrdSecEntity* client) {
    Address address;
    if (!client || !client->addrInfo || !AddressOf(client->addrInfo->SockAddr(), address)) return "";
    return {address.begin(), address.end()};
}

Identity PersonOf(const XrdSecEntity* client, const Origin& origin) {
    Identity who;
    who.user = NameOf(client);
    if (client && client->grps) {
        std::istringstream groups(client->grps);
        for (std::string group; groups >> group;)
            who.groups.push_back(group);
    }
    who.batch = origin.traffic == Traffic::batch;
    return who;
}

bool IsHttp(const Core& core, const XrdSecEntity* client) {
    if (!client) return false;
    if (std::strncmp(client->prot, "http", 4) == 0) return true;
    if (!core.serves_http() || std::strcmp(client->prot, "gsi") != 0) return false;
    const char* dialect = client->addrInfo ? client->addrInfo->Dialect() : nullptr;
    return !dialect || std::strncmp(dialect, "xroot", 5) != 0; // "xroots" with TLS
}

int RefuseForNow(const Core& core, const XrdSecEntity* client, const Origin& origin, uint32_t filesystem,
                 XrdOucErrInfo& error, const char* why) {
    const bool http = IsHttp(core, client);
    const uint64_t stall_s = core.settings().overload_stall_s;
    if (!http && stall_s && core.recorder()) core.recorder()->Stall(filesystem, origin.traffic, stall_s * 1000000000u);
    error.setErrInfo(http ? EAGAIN : EUSERS, why);
    return SFS_ERROR;
}

Identity IdentityOf(Core& core, const XrdSecEntity* client, const Origin& origin, const char* path, const char* opaque,
                    uint32_t filesystem, std::string& wrong) {
    Identity who = PersonOf(client, origin);
    const auto config = core.shaping().config();
    XrdOucEnv asked(opaque);
    who.app = CleanApplication(asked.Get("eos.app"));
    who.space = config->SpaceOf(path ? path : "");
    wrong = ParseAsked(asked, who.asked);
    if (!config->IsOperator(who.user)) wrong.clear(); // it does not count, whatever it is
    const auto& filesystems = core.filesystems().filesystems();
    if (filesystem < filesystems.size())
        who.directory = core.shaping().directories().Of(core.PathOnNode(path), filesystems[filesystem].path,
                                                        core.platform().MonotonicNs(), [&](const std::string& one) {
                                                            OperationTimer timer(core.recorder(), filesystem,
                                                                                 Event::meta, {Traffic::internal, 0});
                                                            auto found = DirectoryWishes::FromDisk(one);
                                                            timer.Done(0);
                                                            return found;
                                                        });
    return who;
}

int Answer(const Core& core, const XrdSecEntity* client, const Origin& origin, const char* path, XrdOucErrInfo& error,
           int result) {
    if (result < SFS_STALL) return result;
    if (IsHttp(core, client)) {
        error.setErrCode(EAGAIN);
        return SFS_ERROR;
    }
    if (core.recorder())
        core.recorder()->Stall(core.FilesystemOf(path), origin.traffic, static_cast<uint64_t>(result) * 1000000000u);
    return result;
}

} // namespace beer
