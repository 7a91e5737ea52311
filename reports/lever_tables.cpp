#include "reports/lever_tables.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/input/keys.h"
#include "reports/table.h"

namespace stepcast {
namespace {

// As --set takes it: without its table where no other has the key.
std::string shortest(const std::string& key) {
    const std::string word = key.substr(key.find('.') + 1);
    try {
        return whole_key(word) == key ? word : key;
    } catch (const ConfigError&) {  // of two tables
        return key;
    }
}

std::string change_text(const Lever& lever) {
    if (!lever.hardware.empty()) return "hardware: " + lever.hardware;
    std::string text;
    for (const auto& [key, value] : lever.set)
        text += text.empty() ? fmt::format("{}={} (was {})", shortest(key), value, lever.from)
                             : fmt::format(" {}={}", shortest(key), value);
    return text;
}

std::string verdict_of(const Lever& lever) {
    if (!lever.fits) return "does not fit";
    if (!lever.cannot.empty())
        return "not in the framework: " +
               lever.cannot.substr(0, lever.cannot.find(", which framework"));
    return lever.flag;
}

double more_memory(const Lever& lever, const Forecast& f) {
    return (lever.memory - f.memory.peak - f.memory.overheads).si() / double{1 << 30};
}

// Beyond what the table has digits for.
bool changes_something(const Lever& lever, const Forecast& f) {
    return std::abs(lever.step.p50 / f.step.p50 - 1) >= 0.0005 ||
           std::abs(more_memory(lever, f)) >= 0.005;
}

// Neither a user of this framework's scripts can turn it, nor would he want to.
bool is_idle_wish(const Lever& lever, const Forecast& f) {
    return !lever.cannot.empty() && lever.hardware.empty() &&
           lever.step.p50 / f.step.p50 > 1 - 0.0005 && more_memory(lever, f) > -0.05;
}

std::string left_out_text(const std::vector<Lever>& levers, const Forecast& f) {
    const auto count =
        std::ranges::count_if(levers, [&](const Lever& one) { return is_idle_wish(one, f); });
    return count == 0 ? ""
                      : fmt::format(
                            "left out: {} that the framework lacks and that gain nothing "
                            "(--json has them)",
                            count);
}

}  // namespace

std::string difference_text(const Behind& behind) {
    return fmt::format("{}{:+.1f} .. {:+.1f} %", behind.distinguishable ? "" : "~ ",
                       100 * behind.p10, 100 * behind.p90);
}

Table levers_of(const std::vector<Lever>& levers, const Forecast& f) {
    Table table{"each changed alone, fastest first",
                {{"--set", 0, true},
                 {"step"},
                 {"against now"},
                 {"p10 .. p90 of it"},
                 {"memory"},
                 {"in the framework's script", 0, true}},
                {},
                left_out_text(levers, f)};
    for (const Lever& one : levers) {
        if (!changes_something(one, f) || is_idle_wish(one, f)) continue;
        const double more = more_memory(one, f);
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
