#include "reports/summary.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "reports/tables.h"

namespace stepcast {
namespace {

// Which of the figures above a fit has seen.
std::string evidence_text(const std::vector<Comparison>& comparisons) {
    int fitted = 0, held_out = 0, unknown = 0;
    for (const Comparison& c : comparisons) {
        if (!c.forecast) continue;
        ++(!c.what.held_out ? unknown : *c.what.held_out ? held_out : fitted);
    }
    std::string text = "Evidence:";
    if (fitted > 0) text += fmt::format(" {} of these cases were among those that the cluster was fitted to, so their errors say how well it fits, not how well it predicts.", fitted);
    if (held_out > 0) text += fmt::format(" {} were held out: the cluster was made without them.", held_out);
    if (unknown > 0) text += fmt::format(" For {} it is not stated whether a fit has seen them.", unknown);
    return fitted + held_out + unknown == 0 ? "" : "\n" + text + "\n";
}

}  // namespace

std::string markdown_summary(const std::string& title, const std::vector<SummarySection>& sections) {
    std::string text = "# " + title + "\n";
    for (const SummarySection& section : sections) {
        text += "\n## " + section.title + "\n\n";
        for (const std::string& remark : section.remarks) text += remark + "\n\n";
        if (!section.comparisons.empty()) text += comparison_markdown(section.comparisons) + evidence_text(section.comparisons);
        for (const std::string& plot : section.plots) text += fmt::format("\n![{}]({})\n", std::filesystem::path(plot).stem().string(), plot);
    }
    return text;
}

}  // namespace stepcast
