// SPDX-License-Identifier: Apache-2.0
#include "core/shaping/Scheduler.hh"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace beer {
namespace {

namespace fs = std::filesystem;

std::string Chosen(const fs::path& file) {
    std::ifstream stream(file);
    std::ostringstream text;
    text << stream.rdbuf();
    const std::string all = text.str(); // "none [mq-deadline] bfq"
    const size_t from = all.find('['), to = all.find(']');
    if (from != std::string::npos && to != std::string::npos && to > from) return all.substr(from + 1, to - from - 1);
    return all.compare(0, 4, "none") == 0 ? "none" : "";
}

} // namespace

std::string SchedulerOf(uint32_t major_number, uint32_t minor_number, const std::string& sys) {
    std::error_code error;
    fs::path device =
        fs::canonical(sys + "/dev/block/" + std::to_string(major_number) + ":" + std::to_string(minor_number), error);
    if (error) return "";
    for (int depth = 0; depth < 8; ++depth) {
        if (fs::exists(device / "partition", error)) device = device.parent_path();
        const fs::directory_iterator slaves(device / "slaves", error), end;
        if (error || slaves == end) break;
        const fs::path below = fs::canonical(slaves->path(), error);
        if (error) break;
        device = below;
    }
    return Chosen(device / "queue" / "scheduler");
}

const char* PriorityEffect(const std::string& scheduler, bool turns) {
    if (scheduler.empty()) return "the effect of I/O priorities is not known";
    if (scheduler == "bfq")
        return turns ? "I/O priorities have full effect, their classes also by turns that are kept here"
                     : "I/O priorities have full effect";
    if (turns) return "of I/O priorities only the class has an effect, by turns that are kept here";
    return scheduler == "mq-deadline"
               ? "of I/O priorities only the class has an effect, until a request is with the disk"
               : "I/O priorities have no effect";
}

} // namespace beer
