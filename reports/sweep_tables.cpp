#include "reports/sweep_tables.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/csv.h"
#include "model/plain_text.h"
#include "model/whole_files.h"
#include "reports/campaign_table.h"
#include "reports/sweep_plots.h"
#include "reports/text.h"

namespace stepcast {
namespace {

// "tp" for parallelism.tp where no other varied key ends so.
std::string short_key(const std::string& key) { return key.substr(key.find_last_of('.') + 1); }

using Cells = std::vector<std::vector<std::string>>;  // rows, the first one the heads
constexpr std::size_t most_machines = 8;              // whose prices and powers are told

// Where it was asked: a price alone is no question.
bool has_cost(const SweepAnswer& r) { return r.objective == Objective::cost || r.second == Objective::cost; }
bool has_campaign(const std::vector<SweepRow>& rows) {
    return std::ranges::any_of(rows, [](const SweepRow& row) { return row.campaign.has_value(); });
}

std::string bound_text(const SweepRow& row) {
    if (row.lower <= Seconds(0)) return "-";
    return fmt::format("-{:.1f} %", 100 * (1 - row.lower / row.step));
}

bool has_intervals(const std::vector<SweepRow>& rows) {
    return std::ranges::any_of(rows, [](const SweepRow& row) { return has_spread(row.forecast.step); });
}
bool has_draws(const std::vector<SweepRow>& rows) {
    return std::ranges::any_of(rows, [](const SweepRow& row) { return row.behind.has_value(); });
}

// "+1.2 .. +8.0 %"; "~" before what cannot be told from the first.
std::string behind_text(const SweepRow& row) {
    if (!row.behind) return "";
    return fmt::format("{}{:+.1f} .. {:+.1f} %", row.behind->distinguishable ? "" : "~ ", 100 * row.behind->p10,
                       100 * row.behind->p90);
}

Cells cells_of(const SweepAnswer& r, const std::vector<SweepRow>& rows) {
    const bool cost = has_cost(r), intervals = has_intervals(rows), draws = has_draws(rows),
               campaign = has_campaign(rows);
    Cells cells(1, {""});
    for (const std::string& key : r.varied) cells[0].push_back(short_key(key));
    cells[0].emplace_back("step");
    if (intervals) cells[0].emplace_back("p10 .. p90");
    if (draws) cells[0].emplace_back("against 1");
    if (!campaign)
        for (const char* head : {"tokens/s", "MFU"}) cells[0].emplace_back(head);
    cells[0].emplace_back("memory");
    if (cost) cells[0].emplace_back("cost/M tokens");
    if (campaign)
        for (const char* head : {"time", "money", "energy"}) cells[0].emplace_back(head);
    if (!campaign) cells[0].emplace_back("bound");
    for (const SweepRow& row : rows) {
        std::vector<std::string> line{std::to_string(cells.size())};
        for (const auto& [key, value] : row.settings) line.push_back(value);
        line.push_back(time_text(row.step));
        if (intervals) line.push_back(range_text(row.forecast.step));
        if (draws) line.push_back(behind_text(row));
        if (!campaign) {
            line.push_back(count_text(row.tokens_per_second));
            line.push_back(percent_text(row.forecast.model_flops_utilization));
        }
        line.push_back(bytes_text(row.peak));
        if (cost) line.push_back(fmt::format("{:.4g}", row.cost_per_token * 1e6));
        if (campaign) {
            const Campaign& c = *row.campaign;
            line.insert(line.end(), {days_text(c), money_text(c), energy_text(c)});
        }
        if (!campaign) line.push_back(bound_text(row));
        cells.push_back(std::move(line));
    }
    return cells;
}

// Columns that say the same in every row are told once, beneath.
std::vector<bool> constant_columns(const Cells& cells, std::size_t varied) {
    std::vector<bool> constant(cells.front().size());
    for (std::size_t c = 1; c <= varied && cells.size() > 2; ++c)
        constant[c] =
            std::all_of(cells.begin() + 2, cells.end(), [&](const auto& row) { return row[c] == cells[1][c]; });
    return constant;
}

std::string aligned(const Cells& cells, const std::vector<bool>& left_out) {
    std::vector<std::size_t> width(cells.front().size());
    for (const auto& row : cells)
        for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
    std::string text;
    for (const auto& row : cells) {
        std::string line;
        for (std::size_t c = 0; c < row.size(); ++c)
            if (!left_out[c]) line += fmt::format("{}{:>{}}", c == 0 ? "" : "  ", row[c], width[c]);
        text += line + "\n";
    }
    return text;
}

std::string common_text(const Cells& cells, const std::vector<bool>& constant) {
    std::string text;
    for (std::size_t c = 0; c < constant.size(); ++c)
        if (constant[c]) text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", cells[0][c], cells[1][c]);
    return text.empty() ? "" : wrapped("all of them: " + text);
}

std::string objective_text(const SweepAnswer& r) {
    static constexpr const char* words[] = {"shortest step", "most tokens/s", "cheapest tokens", "least memory"};
    const auto word = [](Objective o) { return words[static_cast<std::size_t>(o)]; };
    return r.second ? fmt::format("Pareto front of {} and {}", word(r.objective), word(*r.second)) : word(r.objective);
}

std::string reason_lines(const char* what, const std::map<std::string, std::uint64_t>& counts) {
    std::vector<std::pair<std::uint64_t, std::string>> sorted;
    for (const auto& [reason, points] : counts) sorted.emplace_back(points, reason);
    std::ranges::sort(sorted, std::greater<>());
    std::string text;
    for (const auto& [points, reason] : sorted)
        text += wrapped(fmt::format("  {:>15} {}: {}", count_text(static_cast<double>(points)), what, plain_text(reason)), 18);
    return text;
}

// One line; --json has every reason with its count.
std::string illegal_line(const std::map<std::string, std::uint64_t>& counts) {
    if (counts.size() <= 1) return reason_lines("illegal", counts);
    const auto most = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
    std::uint64_t sum = 0;
    for (const auto& [reason, points] : counts) sum += points;
    return fmt::format("  {:>15} illegal, most of them: {} (--json: all {} reasons)\n",
                       count_text(static_cast<double>(sum)), most->first, counts.size());
}

std::string count_lines(const SweepAnswer& r) {
    const SweepCounts& c = r.counts;
    const auto line = [](std::uint64_t points, const char* what) {
        return fmt::format("  {:>15} {}\n", count_text(static_cast<double>(points)), what);
    };
    return line(c.points, "points asked for") + line(c.legal, "legal") + line(c.feasible, "feasible") +
           line(c.bounded_away, "bounded away: by their lower bound no better") + line(c.simulated, "simulated") +
           (c.twins > 0 ? line(c.twins, "of them as a twin: other switches without effect") : "") +
           reason_lines("infeasible", c.infeasible) + illegal_line(c.illegal);
}

// Of every row that is shown, once.
std::string machines_of(const SweepAnswer& r) {
    std::vector<std::string> names;
    for (const auto* rows : {&r.of_each, &r.best, &r.scaling})
        for (const SweepRow& row : *rows)
            if (!row.forecast.cluster.empty() && std::ranges::find(names, row.forecast.cluster) == names.end())
                names.push_back(row.forecast.cluster);
    if (names.empty()) names.push_back(r.cluster);
    return fmt::format("{}", fmt::join(names, ", "));
}

std::string title(const SweepAnswer& r) {
    const std::string framework = r.framework.empty() ? "" : ", framework " + r.framework;
    return fmt::format("{} on {}{}, {}: {}{}", r.experiment, machines_of(r), framework, r.calibrated ? "calibrated" : "UNCALIBRATED",
                       objective_text(r),
                       r.work_differs ? ", as tokens per step differ between configurations" : "");
}

// What days, money and energy rest on, machine by machine.
std::string campaign_text(const SweepAnswer& r) {
    const std::vector<SweepRow>& rows = r.of_each.empty() ? r.best : r.of_each;
    if (!has_campaign(rows)) return "";
    std::vector<std::string> said;
    std::string text = wrapped(fmt::format("time, money and at most energy of training on {} tokens; ranges are p10 .. p90 "
                                           "of the step",
                                           spoken_count(rows.front().campaign->tokens)));
    for (const SweepRow& row : rows) {
        const Campaign& c = *row.campaign;
        const std::string line =
            fmt::format("{} x {}: useful {}; {}; {}", row.ranks, row.forecast.cluster, goodput_text(c.goodput),
                        price_text(c), c.offer.power_source.empty() ? "power not known" : c.offer.power_source);
        if (std::ranges::find(said, line) != said.end()) continue;
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
            if (std::ranges::find(r.each_of, key) != r.each_of.end()) what += fmt::format(", {} = {}", short_key(key), value);
        const bool sure = row.campaign->time[2] <= *r.within;
        text += wrapped(fmt::format("{} ranks of {} are the least that end within {}: {}{}{}", row.ranks,
                                    row.forecast.cluster, duration_text(*r.within), days_text(*row.campaign),
                                    what, sure ? "" : " (not at the p90 of the step)"));
    }
    if (text.empty()) text = wrapped("none ends within " + duration_text(*r.within));
    return text + "\n";
}

std::string each_text(const SweepAnswer& r) {
    if (r.of_each.empty()) return "";
    std::string keys;
    for (const std::string& key : r.each_of) keys += (keys.empty() ? "" : " and ") + short_key(key);
    const Cells cells = cells_of(r, r.of_each);
    const auto same = constant_columns(cells, r.varied.size());
    return fmt::format("\nthe best of each {}\n", keys) + aligned(cells, same) + common_text(cells, same);
}

// What the ranking leaves open, or "".
std::string doubts(const SweepAnswer& r) {
    if (r.one_routing)
        return wrapped(
            "ranked by one draw of the routing: with another routing.seed the order may differ; --set routing.draws=100 "
            "ranks by the median of 100");
    const auto alike = std::ranges::count_if(
        r.best, [](const SweepRow& row) { return row.behind && !row.behind->distinguishable; });
    if (alike == 0) return "";
    const int draws = r.best.front().forecast.draws;
    const std::string over = draws > 1 ? fmt::format("over the {} draws that both met, ", draws) : "";
    return wrapped(fmt::format(
        "~ not distinguishable from 1 ({} of {}): {}p10 .. p90 of the difference contains zero{}, as far as forecasts of one "
        "model's configurations have been off against each other; measured, one of them may come first",
        alike, r.best.size(), over, draws > 1 && draws < 5 ? " or is of too few draws" : ""));
}

std::string top_csv(const SweepAnswer& r) {
    std::string text;
    for (const std::string& key : r.varied) text += key + ",";
    text +=
        "step_s,p10_s,p90_s,lower_bound_s,tokens_per_s,model_flops_utilization,peak_bytes,cost_per_token,ranks,"
        "behind_p10,behind_p90,distinguishable\n";
    for (const SweepRow& row : r.best) {
        for (const auto& [key, value] : row.settings) text += csv_field(value) + ",";
        text += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", row.step.si(), row.forecast.step.p10.si(),
                            row.forecast.step.p90.si(), row.lower.si(), row.tokens_per_second,
                            row.forecast.model_flops_utilization, row.peak.si(), row.cost_per_token, row.ranks,
                            row.behind ? fmt::format("{},{},{}", row.behind->p10, row.behind->p90,
                                                     row.behind->distinguishable)
                                       : ",,");
    }
    return text;
}

}  // namespace

std::string sweep_table(const SweepAnswer& r) {
    const Cells cells = cells_of(r, r.best);
    const auto constant = constant_columns(cells, r.varied.size());
    std::string text = wrapped(title(r)) + "\n" + within_text(r) + aligned(cells, constant) + common_text(cells, constant) + doubts(r);
    if (!r.scaling.empty()) {
        const Cells scaling = cells_of(r, r.scaling);
        const auto same = constant_columns(scaling, r.varied.size());
        text += "\nthe best of each number of ranks\n" + aligned(scaling, same) + common_text(scaling, same);
    }
    text += each_text(r) + campaign_text(r);
    text += "\n" + count_lines(r);
    for (const std::string& where : r.where) text += wrapped("only where " + where);
    return text + wrapped(proof_text(r));
}

std::string sweep_markdown(const SweepAnswer& r) {
    Cells cells = cells_of(r, r.best);
    std::string text = "# " + markdown_text(title(r)) + "\n\n";
    for (std::size_t i = 0; i < cells.size(); ++i) {
        for (std::string& cell : cells[i]) cell = markdown_text(cell);
        text += fmt::format("| {} |\n", fmt::join(cells[i], " | "));
        if (i == 0)
            for (std::size_t c = 0; c <= cells[0].size(); ++c) text += c == cells[0].size() ? "|\n" : "|---";
    }
    return text + "\n" + doubts(r) + "\n" + markdown_text(proof_text(r)) + ".\n\n```\n" + count_lines(r) + "```\n";
}

void write_sweep(const std::string& folder, const SweepAnswer& r) {
    std::string summary = sweep_markdown(r);
    write_whole({{folder + "/top.csv", top_csv(r)}, {folder + "/summary.md", summary}});
    for (const std::string& plot : plot_sweep(r, folder)) summary += fmt::format("\n![{}]({})\n", plot, plot);
    write_whole({{folder + "/summary.md", summary}});
}

}  // namespace stepcast
