// SPDX-License-Identifier: Apache-2.0
#include "core/report/Summary.hh"

#include "core/report/Totals.hh"

namespace beer {
namespace {

// Elements with numbers, in XRootD's style: short names, nothing but counters. With `longest` each has its most digits.
class Xml {
  public:
    explicit Xml(bool longest) : longest_(longest) {}
    void Number(const std::string& name, uint64_t value) {
        text += "<" + name + ">" + std::to_string(longest_ ? UINT64_MAX : value) + "</" + name + ">";
    }
    template <typename Inside>
    void Element(const std::string& name, Inside&& inside) {
        text += "<" + name + ">";
        inside();
        text += "</" + name + ">";
    }
    std::string text = "<stats id=\"beer\">";

  private:
    const bool longest_;
};

void AddClass(Xml& xml, const Segment* segment, uint32_t traffic) {
    uint64_t errors = 0;
    for (const auto& [name, event] : kEventNames) {
        const Sum sum = segment ? SumOf(*segment, static_cast<uint32_t>(event) + traffic) : Sum{};
        xml.Number(name, sum.operations);
        if (event == Event::read || event == Event::write) xml.Number(std::string(name) + "_bytes", sum.bytes);
        errors += sum.errors;
    }
    xml.Number("errors", errors);
    if (traffic == static_cast<uint32_t>(Traffic::internal)) return; // nobody waits for it
    for (const auto& [name, kind] : {std::pair("waits", kPacingKind), std::pair("stalls", kStallKind)}) {
        const Sum sum = segment ? SumOf(*segment, kind + traffic) : Sum{};
        xml.Number(name, sum.operations);
        xml.Number(std::string(name) + "_ns", sum.sum_ns);
    }
}

std::string Write(Core& core, bool longest) {
    const Segment* segment = core.segment();
    Xml xml(longest);
    for (uint32_t traffic = 0; traffic < 3; ++traffic)
        xml.Element(kClassNames[traffic], [&] { AddClass(xml, segment, traffic); });
    xml.Number("open", core.streams().size());
    xml.Number("waiting", core.shaping().waiting());
    xml.Number("internal_errors", segment ? segment->header().internal_errors.load() : 0);
    return xml.text + "</stats>";
}

} // namespace

std::string SummaryXml(Core& core) { return Write(core, false); }

size_t LongestSummary(Core& core) { return Write(core, true).size(); }

} // namespace beer
