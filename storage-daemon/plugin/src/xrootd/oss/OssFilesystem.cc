// SPDX-License-Identifier: Apache-2.0
#include "xrootd/oss/OssFilesystem.hh"

#include <cstring>

#include "core/report/Summary.hh"
#include "xrootd/oss/OssDirectory.hh"
#include "xrootd/oss/OssFile.hh"

namespace beer {
namespace {

// Without memory for the wrapper the request is served by the lower object alone: unmeasured, but served.
template <typename Wrapper, typename... More>
XrdOssDF* Wrap(XrdOssDF* lower, Core& core, More&... more) {
    if (!lower) return nullptr;
    try {
        return new Wrapper(*lower, core, more...);
    } catch (...) {
        if (core.recorder()) core.recorder()->InternalError();
        return lower;
    }
}

} // namespace

OssFilesystem::OssFilesystem(XrdOss& lower, Core& core) : XrdOssWrapper(lower), core_(core) {
    core.SetTranslation([&lower](const char* path, char* buffer, int size) {
        int code = 0;
        return lower.Lfn2Pfn(path, buffer, size, code);
    });
}

XrdOssDF* OssFilesystem::newDir(const char* tident) { return Wrap<OssDirectory>(wrapPI.newDir(tident), core_); }

XrdOssDF* OssFilesystem::newFile(const char* tident) { return Wrap<OssFile>(wrapPI.newFile(tident), core_, wrapPI); }

uint64_t OssFilesystem::Features() {
    return wrapPI.Features() | XRDOSS_HASNAIO | (core_.settings().sendfile ? 0 : XRDOSS_HASNOSF);
}

int OssFilesystem::Chmod(const char* path, mode_t mode, XrdOucEnv* env) {
    return Timed(path, false, Event::meta, [&] { return wrapPI.Chmod(path, mode, env); });
}

int OssFilesystem::Create(const char* tid, const char* path, mode_t mode, XrdOucEnv& env, int options) {
    return Timed(path, false, Event::open, [&] { return wrapPI.Create(tid, path, mode, env, options); });
}

int OssFilesystem::Mkdir(const char* path, mode_t mode, int make_path, XrdOucEnv* env) {
    return Timed(path, false, Event::meta, [&] { return wrapPI.Mkdir(path, mode, make_path, env); });
}

int OssFilesystem::Remdir(const char* path, int options, XrdOucEnv* env) {
    return Timed(path, options & XRDOSS_isPFN, Event::meta, [&] { return wrapPI.Remdir(path, options, env); });
}

int OssFilesystem::Rename(const char* from, const char* to, XrdOucEnv* from_env, XrdOucEnv* to_env) {
    return Timed(from, false, Event::meta, [&] { return wrapPI.Rename(from, to, from_env, to_env); });
}

int OssFilesystem::Stat(const char* path, struct stat* to, int options, XrdOucEnv* env) {
    return Timed(path, false, Event::meta, [&] { return wrapPI.Stat(path, to, options, env); });
}

int OssFilesystem::Stats(char* buffer, int size) {
    int written = wrapPI.Stats(buffer, size);
    try {
        // Without a buffer it is asked how large one must be.
        if (!buffer) return written + static_cast<int>(LongestSummary(core_)) + 1;
        const std::string own = SummaryXml(core_);
        if (written < 0 || size - written <= static_cast<int>(own.size())) return written;
        std::memcpy(buffer + written, own.c_str(), own.size() + 1);
        written += static_cast<int>(own.size());
    } catch (...) { // no memory
        if (core_.recorder()) core_.recorder()->InternalError();
    }
    return written;
}

int OssFilesystem::Truncate(const char* path, unsigned long long size, XrdOucEnv* env) {
    return Timed(path, false, Event::meta, [&] { return wrapPI.Truncate(path, size, env); });
}

int OssFilesystem::Unlink(const char* path, int options, XrdOucEnv* env) {
    return Timed(path, options & XRDOSS_isPFN, Event::meta, [&] { return wrapPI.Unlink(path, options, env); });
}

} // namespace beer
