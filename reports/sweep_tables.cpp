#include "reports/sweep_tables.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include <fmt/format.h>

#include "model/base/csv.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/text_search.h"
#include "reports/campaign_tables.h"
#include "reports/forecast_tables.h"
#include "reports/lever_tables.h"

namespace stepcast {
namespace {

constexpr std::size_t most_machines = 8;  // machines whose prices and powers are listed

// Costs are shown only if they are an objective; a known price alone is no reason.
bool has_cost(const SweepAnswer& r) {
    return r.objective == Objective::cost || r.second == Objective::cost;
}
bool has_campaign(const std::vector<SweepRow>& rows) {
    return std::ranges::any_of(rows, [](const SweepRow& row) { return row.campaign.has_value(); });
}

std::string bound_text(const SweepRow& row) {
    if (row.lower <= Seconds(0)) return "-";
    return fmt::format("{}{:.1f} %", row.lower > row.step ? '+' : '-',
                       100 * std::abs(1 - row.lower / row.step));
}

std::string behind_text(const SweepRow& row) {
    return row.behind ? difference_text(*row.behind) : "";
}

// Numbers sort as numbers: "8" before "16".
Cell setting_cell(const std::string& value) { return {value, as_number<double>(value)}; }

// Moves keys that have the same value in every row below the table.
void tell_once(Table& table, std::size_t keys) {
    if (table.rows.size() < 2) return;
    for (std::size_t c = keys; c > 0; --c) {
        const auto at = static_cast<std::ptrdiff_t>(c);
        if (!std::ranges::all_of(
                table.rows, [&](const auto& row) { return row[c].text == table.rows[0][c].text; }))
            continue;
        if (table.rows[0][c].text != "[]")  // a list that states nothing
            table.below = fmt::format("{} = {}{}{}", table.columns[c].name, table.rows[0][c].text,
                                      table.below.empty() ? "" : ", ", table.below);
        table.columns.erase(table.columns.begin() + at);
        for (auto& row : table.rows) row.erase(row.begin() + at);
    }
    if (!table.below.empty()) table.below = "all of them: " + table.below;
}

std::string objective_text(const SweepAnswer& r) {
    static constexpr const char* words[] = {"shortest step", "most tokens/s", "cheapest tokens",
                                            "least memory"};
    const auto word = [](Objective o) { return words[as_index(o)]; };
    return r.second ? fmt::format("Pareto front of {} and {}", word(r.objective), word(*r.second))
                    : word(r.objective);
}

std::string reason_lines(const char* what, const std::map<std::string, std::uint64_t>& counts) {
    std::vector<std::pair<std::uint64_t, std::string>> sorted;
    for (const auto& [reason, points] : counts) sorted.emplace_back(points, reason);
    std::ranges::sort(sorted, std::greater<>());
    std::string text;
    for (const auto& [points, reason] : sorted)
        text += wrapped(
            fmt::format("  {:>15} {}: {}", count_text(real(points)), what, plain_text(reason)), 18);
    return text;
}

// One line; --json lists every reason with its count.
std::string illegal_line(const std::map<std::string, std::uint64_t>& counts) {
    if (counts.size() <= 1) return reason_lines("illegal", counts);
    const auto most =
        std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
    std::uint64_t sum = 0;
    for (const auto& [reason, points] : counts) sum += points;
    return fmt::format("  {:>15} illegal, most of them: {} (--json: all {} reasons)\n",
                       count_text(real(sum)), most->first, counts.size());
}

// The machines of all rows that are shown, each once.
std::vector<std::string> machines_shown(const SweepAnswer& r, bool uncalibrated_only = false) {
    std::vector<std::string> names;
    for (const auto* rows : {&r.of_each, &r.best, &r.scaling})
        for (const SweepRow& row : *rows)
            if (!row.forecast.cluster.empty() && !(uncalibrated_only && row.forecast.calibrated) &&
                !contains(names, row.forecast.cluster))
                names.push_back(row.forecast.cluster);
    if (names.empty()) names.push_back(r.cluster);
    return names;
}

// Whether the machines are calibrated; if only some are not, their names.
std::string calibration_shown(const SweepAnswer& r) {
    if (r.calibrated) return "calibrated";
    const auto without = machines_shown(r, true);
    std::string makers;
    for (const SweepRow& row : r.best)
        if (const std::string& maker = row.forecast.maker; !maker.empty() && !has(makers, maker))
            makers += (makers.empty() ? ", no machine of " : ", ") + maker;
    if (!makers.empty()) makers += " is measured";
    return without == machines_shown(r)
               ? "UNCALIBRATED" + makers
               : fmt::format("UNCALIBRATED on {}{}", joined(without, ", "), makers);
}

}  // namespace

Table rows_table(const SweepAnswer& r, const std::vector<SweepRow>& rows) {
    Table table{"", {{""}}, {}};
    for (const SweepRow& row : rows)
        table.rows.push_back({count_cell(real(&row - rows.data() + 1))});
    const auto add = [&](const std::string& name, const auto& cell) {
        table.columns.push_back({name});
        for (const std::size_t i : indices_of(rows)) table.rows[i].push_back(cell(rows[i]));
    };
    for (const std::size_t i : indices_of(r.varied))
        add(short_key(r.varied[i]), [i, &r](const SweepRow& row) {
            Cell cell = setting_cell(row.settings[i].second);
            if (r.varied[i] == "parallelism.vp" && row.least_vp < row.most_vp)
                cell.text += fmt::format(" ({} .. {})", row.least_vp, row.most_vp);
            return cell;
        });
    add("step", [](const SweepRow& row) { return time_cell(row.step); });
    if (std::ranges::any_of(rows,
                            [](const SweepRow& row) { return has_spread(row.forecast.step); }))
        add("p10 .. p90", [](const SweepRow& row) {
            Cell range = range_cell(row.forecast.step);
            range.value = row.forecast.step.p90.si();
            return range;
        });
    add("memory", [](const SweepRow& row) {
        Cell cell = bytes_cell(row.peak);
        if (row.tight) cell.text += " *";
        return cell;
    });
    if (std::ranges::any_of(rows, [](const SweepRow& row) { return row.behind.has_value(); }))
        add("against 1", [](const SweepRow& row) {
            return Cell{behind_text(row), row.behind ? row.behind->p50 : 0};
        });
    const bool campaign = has_campaign(rows);
    if (!campaign) {
        add("tokens/s", [](const SweepRow& row) { return count_cell(row.tokens_per_second); });
        add("MFU, unmasked",
            [](const SweepRow& row) { return percent_cell(row.forecast.model_flops_utilization); });
    }
    if (has_cost(r))
        add("cost/M tokens", [](const SweepRow& row) {
            return Cell{fmt::format("{:.4g}", row.cost_per_token * 1e6), row.cost_per_token};
        });
    if (campaign) {
        add("time", [](const SweepRow& row) {
            return Cell{days_text(*row.campaign), row.campaign->time[1].si()};
        });
        add("money", [](const SweepRow& row) {
            return Cell{money_text(*row.campaign), row.campaign->money[1]};
        });
        add("energy", [](const SweepRow& row) {
            return Cell{energy_text(*row.campaign), row.campaign->energy[1].si()};
        });
    } else {
        add("bound", [](const SweepRow& row) {
            return Cell{bound_text(row), row.lower / row.step};
        });
    }
    tell_once(table, r.varied.size());
    return table;
}

std::string sweep_title(const SweepAnswer& r) {
    const std::string framework = r.framework.empty() ? "" : ", framework " + r.framework;
    return fmt::format("{} on {}{}, {}: {}{}", r.experiment, joined(machines_shown(r), ", "),
                       framework, calibration_shown(r), objective_text(r),
                       r.work_differs ? ", as tokens per step differ between configurations" : "");
}

static std::string left_out_text(const std::vector<std::string>& schedules) {
    if (schedules.empty()) return "";
    return wrapped(fmt::format(
        "not searched: schedule {}, whose kernels do not run side by side here as they do in its "
        "program; --vary parallelism.schedule=1f1b,{} includes it",
        joined(schedules, ", "), joined(schedules, ",")));
}

// What of the software was searched with the split, and what the experiment states against it.
static std::string switches_text(const SweepAnswer& r) {
    std::string text;
    if (!r.switches.empty())
        text += wrapped(
            fmt::format("searched with the parallel layout: {}, as framework {} can switch them",
                        joined(r.switches, ", "), r.framework));
    if (!r.outvoting.empty())
        text +=
            wrapped(fmt::format("kept as you set them; framework {} would use the value in "
                                "parentheses: {}; --vary KEY=A,B searches one",
                                r.framework, joined(r.outvoting, ", ")));
    return text;
}

std::string sweep_counts(const SweepAnswer& r) {
    const SweepCounts& c = r.counts;
    const auto line = [](std::uint64_t points, const char* what) {
        return fmt::format("  {:>15} {}\n", count_text(real(points)), what);
    };
    return line(c.points, "points asked for") + line(c.legal, "legal") +
           line(c.feasible, "feasible") +
           (c.tight > 0
                ? line(c.tight, "of them leave less memory free than the margin and come last")
                : "") +
           line(c.bounded_away, "bounded away, not simulated: their lower bound is no better") +
           line(c.simulated, "simulated") +
           (c.twins > 0
                ? line(c.twins, "of them as a twin: differs only in switches without effect")
                : "") +
           reason_lines("infeasible", c.infeasible) + illegal_line(c.illegal) +
           left_out_text(r.schedules_left_out);
}

std::string campaign_text(const SweepAnswer& r) {
    const std::vector<SweepRow>& rows = r.of_each.empty() ? r.best : r.of_each;
    if (!has_campaign(rows)) return "";
    std::vector<std::string> said;
    std::string text = wrapped(fmt::format(
        "time, money and at most energy of training on {} tokens; ranges are p10 .. p90 "
        "of the step",
        spoken_count(rows.front().campaign->tokens)));
    for (const SweepRow& row : rows) {
        const Campaign& c = *row.campaign;
        const std::string line =
            fmt::format("{} GPUs of {}: useful {}; {}; {}", row.ranks, row.forecast.cluster,
                        goodput_text(c.goodput), price_text(c),
                        c.offer.power_source.empty() ? "power not known" : c.offer.power_source);
        if (contains(said, line)) continue;
        said.push_back(line);
        if (said.size() <= most_machines) text += wrapped("  " + line, 4);
    }
    return text;
}

std::string within_text(const SweepAnswer& r) {
    if (!r.within) return "";
    std::string text;
    for (const SweepRow& row : r.of_each) {
        if (!row.least_within) continue;
        std::string what;
        for (const auto& [key, value] : row.settings)
            if (contains(r.each_of, key)) what += fmt::format(", {} = {}", short_key(key), value);
        const bool sure = row.campaign->time[2] <= *r.within;
        text += wrapped(fmt::format("{} ranks of {} are the least that end within {}: {}{}{}",
                                    row.ranks, row.forecast.cluster, duration_text(*r.within),
                                    days_text(*row.campaign), what,
                                    sure ? "" : " (not at the p90 of the step)"));
    }
    if (text.empty()) text = wrapped("no configuration ends within " + duration_text(*r.within));
    return text + "\n";
}

// Those within the margin, and how to rank them with the others.
static std::string margin_text(const SweepAnswer& r) {
    if (r.counts.tight == 0) return "";
    const bool shown = std::ranges::any_of(r.best, &SweepRow::tight);
    return wrapped(fmt::format(
        "{}{} of the feasible leave less than {:.3g} % of the memory free and come last; --set "
        "cluster.overheads.margin=0 ranks them with the others",
        shown ? "* " : "", count_text(real(r.counts.tight)), 100 * r.margin));
}

static std::string distinct_text(const SweepAnswer& r) {
    if (!r.distinct || r.best.size() < 2) return "";
    const bool folded =
        std::ranges::any_of(r.best, [](const SweepRow& row) { return row.least_vp < row.most_vp; });
    return wrapped(
        fmt::format("rows differ in ranks or schedule, each with the best of its other switches{}",
                    folded ? "; vp (2 .. 4): neighbours within 1 % by the closed form" : ""));
}

std::string sweep_doubts(const SweepAnswer& r) {
    if (r.one_routing)
        return "ranked by one draw of the routing: with another routing.seed the order may differ; "
               "--set routing.draws=100 "
               "ranks by the median of 100";
    const auto alike = std::ranges::count_if(
        r.best, [](const SweepRow& row) { return row.behind && !row.behind->distinguishable; });
    if (alike == 0) return "";
    const int draws = r.best.front().forecast.draws;
    const std::string over =
        draws > 1 ? fmt::format("over the {} draws that both met, ", draws) : "";
    return fmt::format(
        "~ not distinguishable from 1 ({} of {}): {}the difference, with the errors that forecasts "
        "of one model's configurations have against each other, has zero between p10 and p90{}; "
        "measured, one of them may be faster",
        alike, r.best.size(), over, draws > 1 && draws < 5 ? " or is of too few draws" : "");
}

std::string top_csv(const SweepAnswer& r) {
    std::string text;
    for (const std::string& key : r.varied) text += key + ",";
    text +=
        "step_s,p10_s,p90_s,lower_bound_s,tokens_per_s,model_flops_utilization,peak_bytes,cost_per_"
        "token,ranks,"
        "behind_p10,behind_p90,distinguishable,masked_flops_utilization,within_margin,"
        "out_of_memory\n";
    for (const SweepRow& row : r.best) {
        for (const auto& [key, value] : row.settings) text += spreadsheet_field(value) + ",";
        text += fmt::format(
            "{},{},{},{},{},{},{},{},{},{},{},{},{}\n", row.step.si(), row.forecast.step.p10.si(),
            row.forecast.step.p90.si(), row.lower.si(), row.tokens_per_second,
            row.forecast.model_flops_utilization, row.peak.si(), row.cost_per_token, row.ranks,
            row.behind ? fmt::format("{},{},{}", row.behind->p10, row.behind->p90,
                                     row.behind->distinguishable)
                       : ",,",
            row.forecast.masked_flops_utilization, row.tight, row.forecast.memory.out_of_memory);
    }
    return text;
}

std::string each_of_text(const SweepAnswer& r) {
    return joined(r.each_of | std::views::transform(short_key), " and ");
}

std::string sweep_table(const SweepAnswer& r) {
    std::string text =
        wrapped(sweep_title(r)) + "\n" + within_text(r) + text_of(rows_table(r, r.best));
    if (const std::string open = sweep_doubts(r); !open.empty()) text += wrapped(open);
    text += margin_text(r) + distinct_text(r) + switches_text(r);
    if (!r.scaling.empty())
        text += "\nthe best of each number of ranks\n" + text_of(rows_table(r, r.scaling));
    if (!r.of_each.empty())
        text += fmt::format("\nthe best of each {}\n", each_of_text(r)) +
                text_of(rows_table(r, r.of_each));
    text += campaign_text(r) + "\n" + sweep_counts(r);
    for (const std::string& where : r.where) text += wrapped("only where " + where);
    return text + wrapped(proof_text(r));
}

}  // namespace stepcast
