#include "reports/comparison_tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "measured/medians.h"
#include "model/base/csv.h"
#include "model/base/lists.h"
#include "model/records/measurements.h"
#include "model/runtime_rules.h"
#include "reports/compare.h"
#include "reports/comparison_words.h"
#include "reports/explain_tables.h"

namespace stepcast {
namespace {

using Comparisons = std::vector<Comparison>;

Column case_column(const char* name, const Comparisons& comparisons, std::size_t most) {
    std::size_t width = 4;
    for (const Comparison& c : comparisons) width = std::max(width, c.what.case_id.size());
    return {name, std::min(width, most), true};
}

// A case name wider than its column gets a line of its own.
void add_row(Table& table, const Comparison& c, const std::vector<Cell>& cells) {
    std::vector<Cell> row{{c.what.case_id}};
    if (c.what.case_id.size() > table.columns.front().width) {
        table.rows.push_back(row);
        row.front() = {};
    }
    append(row, cells);
    table.rows.push_back(std::move(row));
}

// If the cases ran on several machines, each group has a line with its machine.
std::string case_lines(const Comparisons& comparisons) {
    const bool roles = std::ranges::any_of(
        comparisons, [](const Comparison& c) { return c.forecast && c.what.evidence; });
    Table table{"",
                {case_column("case", comparisons, roles ? 34 : 44),
                 {"measured", 11},
                 {"predicted", 11},
                 {"p10 .. p90", 19},
                 {"error", 8},
                 {"inside", 6},
                 {roles ? "row" : "", 0, true}},
                {}};
    std::string machine, refused;
    const bool several = machines_of(comparisons).size() > 1;
    for (const Comparison& c : comparisons) {
        if (!c.forecast) {
            refused += wrapped(fmt::format("{:<{}}  refused: {}", c.what.case_id,
                                           table.columns.front().width, c.refused_because),
                               4);
            continue;
        }
        if (several && c.what.experiment.cluster.name != machine)
            table.rows.push_back({{"on " + (machine = c.what.experiment.cluster.name)}});
        add_row(table, c, case_cells(c));
    }
    return text_of(table) + refused;
}

std::vector<Cell> phase_cells(const std::optional<Seconds>& measured, Seconds predicted) {
    const Seconds known = measured.value_or(Seconds(0));
    return {known > Seconds(0) ? time_cell(known) : Cell{"-"}, time_cell(predicted),
            error_cell(predicted, known)};
}

// The forward and backward of cases that measured them.
std::string phase_lines(const Comparisons& comparisons) {
    Table table{"",
                {case_column("", comparisons, 35),
                 {"forward", 11},
                 {"predicted", 11},
                 {"error", 8},
                 {"backward", 11},
                 {"predicted", 11},
                 {"error", 8}},
                {}};
    for (const Comparison& c : comparisons) {
        if (!c.forecast || !(c.what.measured_forward || c.what.measured_backward)) continue;
        std::vector<Cell> cells = phase_cells(c.what.measured_forward, c.forecast->forward.p50);
        for (const Cell& cell : phase_cells(c.what.measured_backward, predicted_backward(c)))
            cells.push_back(cell);
        add_row(table, c, cells);
    }
    return table.rows.empty() ? "" : "\n" + text_of(table);
}

// Whether there are enough recorded steps for a mean and a share, and the forecast has a spread.
bool has_series(const Comparison& c) {
    return has_spread(c.forecast->step) && c.what.recorded_steps.size() >= 10;
}

// What recorded runs state besides forward and backward: other phases, kernels, mean and spread of
// the steps.
std::string detail_lines(const Comparisons& comparisons) {
    Table table{"",
                {case_column("", comparisons, 44),
                 {"phase", 20, true},
                 {"rank", 4},
                 {"measured", 11},
                 {"predicted", 11},
                 {"error", 8}},
                {}};
    std::string sentences;
    for (const Comparison& c : comparisons) {
        const auto add = [&](const std::string& phase, const std::string& rank, Seconds measured,
                             Seconds predicted) {
            std::vector<Cell> cells = phase_cells(measured, predicted);
            cells.insert(cells.begin(), {Cell{phase}, Cell{rank}});
            add_row(table, c, cells);
        };
        for (const PhaseComparison& p : phase_comparisons(c))
            add(p.name, p.rank < 0 ? "-" : std::to_string(p.rank), p.measured, p.predicted);
        if (c.forecast && c.what.measured_mean && has_series(c))
            add("mean of the step", "-", *c.what.measured_mean, c.forecast->step.mean);
        if (const auto share = series_inside(c); share && has_series(c))
            sentences += wrapped(fmt::format("{}: {} of the {} recorded steps inside p10..p90",
                                             c.what.case_id, percent_text(*share),
                                             c.what.recorded_steps.size()));
    }
    return (table.rows.empty() ? "" : "\n" + text_of(table)) + sentences;
}

}  // namespace

std::vector<Cell> case_cells(const Comparison& c) {
    const Interval& step = c.forecast->step;
    return {time_cell(c.what.measured_step),        time_cell(step.p50), range_cell(step),
            signed_percent_cell(relative_error(c)), {inside_text(c)},    {role_text(c.what)}};
}

std::string comparison_table(const Comparisons& comparisons) {
    std::string text = comparisons.empty() ? std::string() : case_lines(comparisons);
    for (const std::string& sentence : summary_sentences(comparisons)) text += wrapped(sentence);
    text += phase_lines(comparisons) + detail_lines(comparisons) + side_by_side_table(comparisons) +
            "\n";
    for (const Comparison& c : comparisons)
        if (c.attribution) text += attribution_table(c.what.case_id, *c.attribution) + "\n";
    for (const std::string& line : all_provenance(comparisons)) text += wrapped(line);
    for (const std::string& assumption : all_assumptions(comparisons))
        text += wrapped("assumed: " + assumption);
    return text;
}

std::string comparison_csv(const Comparisons& comparisons) {
    std::string text =
        "source,case_id,series,measured_s,predicted_s,p10_s,p90_s,error,evidence,cluster,ranks,"
        "refused_because\n";
    for (const Comparison& c : comparisons) {
        const bool known = c.what.measured_step > Seconds(0);
        text += fmt::format("{},{},{},{},", spreadsheet_field(c.what.source),
                            spreadsheet_field(c.what.case_id), spreadsheet_field(c.what.series),
                            known ? fmt::format("{:.9g}", c.what.measured_step.si()) : "");
        if (c.forecast)
            text +=
                fmt::format("{:.9g},{:.9g},{:.9g},{:.6g},{},{},{},\n", c.forecast->step.p50.si(),
                            c.forecast->step.p10.si(), c.forecast->step.p90.si(), relative_error(c),
                            role_text(c.what), spreadsheet_field(c.what.experiment.cluster.name),
                            rank_count(c.what.experiment.cluster));
        else
            text += fmt::format(",,,,,,,{}\n", spreadsheet_field(c.refused_because));
    }
    return text;
}

// ---- cases of one shape from different sources, and the errors of their phases

namespace {

auto shape_of(const Comparison& c) {
    const Workload& w = c.what.experiment.workload;
    return std::tuple(w.kind, w.layers, w.hidden, w.heads, w.ffn, w.vocab, w.seq, w.moe.experts,
                      w.dtype, attention_kernel(c.what.experiment) == AttentionKind::plain,
                      c.what.experiment.parallelism.micro_batch,
                      rank_count(c.what.experiment.cluster));
}

// Predicted / measured - 1 of each phase that the case states.
std::map<std::string, double> phase_errors(const Comparison& c) {
    std::map<std::string, double> errors;
    const auto add = [&](const std::string& name, const std::optional<Seconds>& measured,
                         Seconds predicted) {
        if (measured && *measured > Seconds(0)) errors[name] = predicted / *measured - 1;
    };
    add("forward", c.what.measured_forward, c.forecast->forward.p50);
    add("backward", c.what.measured_backward, predicted_backward(c));
    for (const PhaseComparison& p : phase_comparisons(c))
        if (p.rank < 0) add(p.name, p.measured, p.predicted);
    return errors;
}

}  // namespace

std::string side_by_side_table(const std::vector<Comparison>& comparisons) {
    std::map<decltype(shape_of(comparisons.front())), std::vector<const Comparison*>> by_shape;
    for (const Comparison& c : comparisons)
        if (c.forecast) by_shape[shape_of(c)].push_back(&c);
    Table table{"",
                {{"side by side", 12, true},
                 {"by", 8, true},
                 {"measured", 11},
                 {"predicted", 11},
                 {"error", 8}},
                {}};
    for (const auto& [shape, cases] : by_shape) {
        const auto of = [&](const char* source, const char* by) {
            std::vector<std::vector<Cell>> rows;
            for (const Comparison* c : cases)
                if (c->what.source == source)
                    rows.push_back({{c->what.case_id},
                                    {by},
                                    time_cell(c->what.measured_step),
                                    time_cell(c->forecast->step.p50),
                                    signed_percent_cell(relative_error(*c))});
            return rows;
        };
        const auto executed = of("executed", "executed"), scripts = of("pytorch", "PyTorch");
        if (executed.empty() || scripts.empty()) continue;
        for (const auto& rows : {executed, scripts}) append(table.rows, rows);
    }
    return table.rows.empty() ? "" : "\n" + text_of(table);
}

std::string phase_errors_text(const std::vector<Comparison>& comparisons) {
    std::map<std::string, std::vector<double>> errors;
    for (const Comparison& c : comparisons)
        if (c.forecast)
            for (const auto& [name, error] : phase_errors(c))
                errors[name].push_back(std::abs(error));
    std::string text;
    for (const auto& [name, values] : errors) {
        if (values.size() < 2) continue;
        text +=
            fmt::format("{}{} {}, {}", text.empty() ? "errors of phases (median, mean): " : "; ",
                        name, percent_text(median(values)), percent_text(mean(values)));
    }
    return text;
}

}  // namespace stepcast
