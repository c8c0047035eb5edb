// SPDX-License-Identifier: Apache-2.0
#include "core/Core.hh"

#include <climits>
#include <sys/stat.h>

#include "core/Context.hh"

namespace beer {

Core::Core(Settings settings, const std::vector<Mount>& mounts, const Platform& platform, const Log& log)
    : platform_(platform), settings_(std::move(settings)), filesystems_(settings_.directories, mounts),
      io_priorities_(platform, log),
      shaping_(settings_.shaping, settings_.policy, filesystems_.filesystems(), platform, log) {
    for (const auto& missing : filesystems_.missing())
        log("not measured: " + missing);
    SegmentOptions options;
    options.path = settings_.segment;
    options.instance = settings_.instance;
    options.filesystems = filesystems_.filesystems();
    std::string error;
    try {
        segment_ = Segment::Create(options, platform, error);
        if (segment_) {
            heartbeat_ = std::make_unique<Heartbeat>(*segment_, platform);
            recorder_ = std::make_unique<Recorder>(*segment_, platform);
            shaping_.control().ReportTo(segment_->header().shaping_sequence);
            shaping_.overload().OnChange([this](uint32_t i, bool now) { recorder_->Overloaded(i, now); });
            return;
        }
    } catch (const std::exception& exception) {
        error = exception.what();
    }
    log("SERVING WITHOUT MEASURING: no latency segment: " + error);
}

template <typename Find>
uint32_t Core::OnNode(const char* path, Find find) const noexcept {
    if (!path) return kNoFilesystem;
    try {
        char buffer[PATH_MAX + 1];
        const char* on_node = translate_ ? translate_(path, buffer, sizeof buffer) : path;
        return on_node ? find(on_node) : kNoFilesystem;
    } catch (...) {
        if (recorder_) recorder_->InternalError();
        return kNoFilesystem;
    }
}

uint32_t Core::FilesystemOf(const char* path) const noexcept {
    return OnNode(path, [this](const char* on_node) { return filesystems_.FindPath(on_node); });
}

uint32_t Core::FilesystemOfOpen(const char* path, int fd) const noexcept {
    struct stat found{};
    if (fstat(fd, &found) != 0) return FilesystemOf(path);
    return OnNode(path, [&](const char* on_node) { return filesystems_.FindOpen(on_node, found.st_dev); });
}

std::string Core::PathOnNode(const char* path) const noexcept {
    std::string found;
    OnNode(path, [&](const char* on_node) {
        found = on_node;
        return kNoFilesystem;
    });
    return found;
}

Origin Core::OriginOf(const sockaddr* from) const noexcept {
    Address address;
    if (!AddressOf(from, address) || !settings_.batch.Contains(address)) return {Traffic::storage, 0};
    return {Traffic::batch, recorder_ ? recorder_->clients().Find(address) : 0};
}

Origin Core::CurrentOrigin() const noexcept {
    if (const Context* context = Context::Current()) return context->origin;
    return {sfs_half_ ? Traffic::internal : Traffic::storage, 0};
}

} // namespace beer
