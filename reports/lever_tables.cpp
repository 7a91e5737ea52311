// What single changes make of a step, for a terminal.
#include <fmt/format.h>

#include "reports/table.h"
#include "reports/tables.h"

namespace stepcast {
namespace {

std::string change_text(const Lever& lever) {
    std::string text;
    for (const auto& [key, value] : lever.set)
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
    return fmt::format("{} (was {})", text, lever.from);
}

std::string verdict_of(const Lever& lever) {
    if (!lever.fits) return "does not fit";
    return lever.cannot.empty() ? "" : "not in the framework";
}

}  // namespace

std::string lever_table(const std::vector<Lever>& levers, const Forecast& f) {
    if (levers.empty()) return "levers: none; they are of transformers\n";
    const Bytes now = f.memory.peak + f.memory.overheads;
    Table table{"each changed alone, fastest first",
                {{"--set", 0, true}, {"step"}, {"against now"}, {"memory"}, {"", 0, true}},
                {}};
    for (const Lever& one : levers) {
        const double more = (one.memory - now).si() / double{1 << 30};
        table.rows.push_back({{change_text(one)},
                              time_cell(one.step.p50),
                              signed_percent_cell(one.step.p50 / f.step.p50 - 1),
                              {fmt::format("{:+.2f} GiB", more)},
                              {verdict_of(one)}});
    }
    return text_of(table);
}

}  // namespace stepcast
