#include "reports/lever_tables.h"

#include <fmt/format.h>

#include "reports/table.h"

namespace stepcast {
namespace {

std::string change_text(const Lever& lever) {
    if (!lever.hardware.empty()) return "hardware: " + lever.hardware;
    std::string text;
    for (const auto& [key, value] : lever.set)
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
    return fmt::format("{} (was {})", text, lever.from);
}

std::string verdict_of(const Lever& lever) {
    if (!lever.fits) return "does not fit";
    if (!lever.cannot.empty())
        return "not in the framework: " +
               lever.cannot.substr(0, lever.cannot.find(", which framework"));
    return lever.flag;
}

}  // namespace

std::string difference_text(const Behind& behind) {
    return fmt::format("{}{:+.1f} .. {:+.1f} %", behind.distinguishable ? "" : "~ ",
                       100 * behind.p10, 100 * behind.p90);
}

Table levers_of(const std::vector<Lever>& levers, const Forecast& f) {
    const Bytes now = f.memory.peak + f.memory.overheads;
    Table table{"each changed alone, fastest first",
                {{"--set", 0, true},
                 {"step"},
                 {"against now"},
                 {"p10 .. p90 of it"},
                 {"memory"},
                 {"in the framework's script", 0, true}},
                {}};
    for (const Lever& one : levers) {
        const double more = (one.memory - now).si() / double{1 << 30};
        table.rows.push_back({{change_text(one)},
                              time_cell(one.step.p50),
                              signed_percent_cell(one.step.p50 / f.step.p50 - 1),
                              {difference_text(one.against), one.against.p50},
                              {fmt::format("{:+.2f} GiB", more), more},
                              {verdict_of(one)}});
    }
    return table;
}

std::string lever_table(const std::vector<Lever>& levers, const Forecast& f) {
    if (levers.empty()) return "levers: none; they are of transformers\n";
    return text_of(levers_of(levers, f));
}

}  // namespace stepcast
