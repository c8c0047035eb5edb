// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <arpa/inet.h>

#include "core/report/Json.hh"
#include "core/report/Report.hh"

namespace beer {
namespace {

// Without asking a name server: this thread must not wait for one.
Json HostText(const std::optional<Address>& address) {
    if (!address) return nullptr;
    char text[INET6_ADDRSTRLEN];
    const bool mapped = IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(address->data()));
    const char* done = mapped ? inet_ntop(AF_INET, address->data() + 12, text, sizeof text)
                              : inet_ntop(AF_INET6, address->data(), text, sizeof text);
    return done ? Json(done) : Json();
}

Json Moved(const OpenStream::Now& now, Direction direction) {
    const auto i = static_cast<size_t>(direction);
    return {{"bytes", now.bytes[i]}, {"operations", now.operations[i]}};
}

Json Stream(const Core& core, const StreamTable::Listed& listed, uint64_t now_ns) {
    const OpenStream::Owner& owner = listed.stream->owner;
    const OpenStream::Now now = listed.stream->Look();
    return {{"id", listed.id},
            {"user", owner.user},
            {"app", owner.app},
            {"host", HostText(owner.host)},
            {"link", owner.link},
            {"class", kClassNames[static_cast<size_t>(owner.traffic)]},
            {"filesystem", PathOf(core, owner.filesystem)},
            {"path", owner.path},
            {"writer", owner.writer},
            {"age_ns", now_ns - std::min(now_ns, listed.stream->opened_ns)},
            {"read", Moved(now, Direction::read)},
            {"written", Moved(now, Direction::write)},
            {"waits", now.waits},
            {"waited_ns", now.waited_ns},
            {"requests_waiting", now.waiting},
            {"waits_for_ns", now.waits_since ? Json(now_ns - std::min(now_ns, now.waits_since)) : Json()},
            {"by", now.by.empty() ? Json() : Json(now.by)}};
}

} // namespace

std::string Report::Streams(size_t most, size_t most_bytes) const {
    const auto streams = core_.streams().List(most);
    Json head = Head(core_, "streams"); // after the list: no stream is younger
    const uint64_t now = head["now_ns"];
    const size_t open = std::max(core_.streams().size(), streams.size());
    std::string list;
    size_t said = 0;
    for (const auto& one : streams) {
        std::string text = Text(Stream(core_, one, now));
        if (list.size() + text.size() > most_bytes) break;
        list += (said++ ? "," : "") + text;
    }
    head["open"] = open;
    head["left_out"] = open - said;
    std::string answer = Text(head);
    answer.pop_back(); // its brace: the list is too long to be copied once more
    return answer + ",\"streams\":[" + list + "]}";
}

} // namespace beer
