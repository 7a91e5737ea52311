#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "model/files/csv.h"
#include "reports/tables.h"
#include "reports/comparison_words.h"
#include "reports/text.h"

namespace stepcast {
namespace {

using Comparisons = std::vector<Comparison>;

// A name wider than its column stands on a line of its own.
std::string name_cell(const std::string& name, std::size_t width) {
    return name.size() <= width ? fmt::format("{:<{}}", name, width) : fmt::format("{}\n{:<{}}", name, "", width);
}

std::size_t name_width(const Comparisons& comparisons, std::size_t most) {
    std::size_t width = 4;
    for (const Comparison& c : comparisons) width = std::max(width, c.what.case_id.size());
    return std::min(width, most);
}

std::size_t machines_of(const Comparisons& comparisons) {
    std::set<std::string> names;
    for (const Comparison& c : comparisons)
        if (c.forecast) names.insert(c.what.experiment.cluster.name);
    return names.size();
}

// Where the cases ran on several machines each group says which.
std::string case_lines(const Comparisons& comparisons) {
    const bool roles = std::any_of(comparisons.begin(), comparisons.end(),
                                   [](const Comparison& c) { return c.forecast && c.what.evidence; });
    const std::size_t width = name_width(comparisons, roles ? 34 : 44);
    std::string text = fmt::format("{:<{}}  {:>11}  {:>11}  {:>19}  {:>8}  {:>6}{}\n", "case", width, "measured",
                                   "predicted", "p10 .. p90", "error", "inside", roles ? "  row" : "");
    std::string machine;
    const bool several = machines_of(comparisons) > 1;
    for (const Comparison& c : comparisons) {
        if (!c.forecast) continue;
        if (several && c.what.experiment.cluster.name != machine)
            text += fmt::format("on {}\n", machine = c.what.experiment.cluster.name);
        const Interval& step = c.forecast->step;
        text += fmt::format("{}  {:>11}  {:>11}  {:>19}  {:>8}  {:>6}", name_cell(c.what.case_id, width),
                            time_text(c.what.measured_step), time_text(step.p50), range_text(step),
                            signed_percent_text(relative_error(c)), inside_text(c));
        text += (c.what.evidence ? "  " : "") + role_text(c.what) + "\n";
    }
    for (const Comparison& c : comparisons)
        if (!c.forecast)
            text += wrapped(fmt::format("{:<{}}  refused: {}", c.what.case_id, width, c.refused_because), 4);
    return text;
}

std::string phase_cells(const std::optional<Seconds>& measured, Seconds predicted) {
    if (!measured || !(*measured > Seconds(0)))
        return fmt::format("{:>11}  {:>11}  {:>8}", "-", time_text(predicted), "-");
    return fmt::format("{:>11}  {:>11}  {:>8}", time_text(*measured), time_text(predicted),
                       signed_percent_text(predicted / *measured - 1));
}

// Forward and backward of the cases that measured them.
std::string phase_lines(const Comparisons& comparisons) {
    const std::size_t width = name_width(comparisons, 35);
    std::string rows;
    for (const Comparison& c : comparisons)
        if (c.forecast && (c.what.measured_forward || c.what.measured_backward))
            rows += fmt::format("{}  {}  {}\n", name_cell(c.what.case_id, width),
                                phase_cells(c.what.measured_forward, c.forecast->forward.p50),
                                phase_cells(c.what.measured_backward, predicted_backward(c)));
    if (rows.empty()) return "";
    return fmt::format("\n{:<{}}  {:>11}  {:>11}  {:>8}  {:>11}  {:>11}  {:>8}\n", "", width, "forward", "predicted",
                       "error", "backward", "predicted", "error") +
           rows;
}

// Enough recorded steps for a mean and a share, and a forecast that spreads.
bool has_series(const Comparison& c) { return has_spread(c.forecast->step) && c.what.recorded_steps.size() >= 10; }

// What recorded runs state beyond forward and backward: other phases, kernels, the mean and the spread of their steps.
std::string detail_lines(const Comparisons& comparisons) {
    std::string rows, sentences;
    const std::size_t width = name_width(comparisons, 44);
    for (const Comparison& c : comparisons) {
        for (const PhaseComparison& p : phase_comparisons(c))
            rows += fmt::format("{}  {:<20}  {:>4}  {}\n", name_cell(c.what.case_id, width), p.name,
                                p.rank < 0 ? "-" : std::to_string(p.rank), phase_cells(p.measured, p.predicted));
        if (c.forecast && c.what.measured_mean && has_series(c))
            rows += fmt::format("{}  {:<20}  {:>4}  {}\n", name_cell(c.what.case_id, width), "mean of the step", "-",
                                phase_cells(c.what.measured_mean, c.forecast->step.mean));
        if (const auto share = series_inside(c); share && has_series(c))
            sentences += wrapped(fmt::format("{}: {} of the {} recorded steps inside p10..p90", c.what.case_id,
                                             percent_text(*share), c.what.recorded_steps.size()));
    }
    if (rows.empty()) return sentences;
    return fmt::format("\n{:<{}}  {:<20}  {:>4}  {:>11}  {:>11}  {:>8}\n", "", width, "phase", "rank", "measured",
                       "predicted", "error") +
           rows + sentences;
}

}  // namespace

std::string comparison_table(const Comparisons& comparisons) {
    std::string text = comparisons.empty() ? std::string() : case_lines(comparisons);
    for (const std::string& sentence : summary_sentences(comparisons)) text += wrapped(sentence);
    text += phase_lines(comparisons) + detail_lines(comparisons) + side_by_side_table(comparisons) + "\n";
    for (const Comparison& c : comparisons)
        if (c.attribution) text += attribution_table(c.what.case_id, *c.attribution) + "\n";
    for (const std::string& line : all_provenance(comparisons)) text += wrapped(line);
    for (const std::string& assumption : all_assumptions(comparisons)) text += wrapped("assumed: " + assumption);
    return text;
}

std::string comparison_csv(const Comparisons& comparisons) {
    std::string text =
        "source,case_id,series,measured_s,predicted_s,p10_s,p90_s,error,evidence,cluster,ranks,refused_because\n";
    for (const Comparison& c : comparisons) {
        const bool known = c.what.measured_step > Seconds(0);
        text += fmt::format("{},{},{},{},", csv_field(c.what.source), csv_field(c.what.case_id),
                            csv_field(c.what.series), known ? fmt::format("{:.9g}", c.what.measured_step.si()) : "");
        if (c.forecast)
            text +=
                fmt::format("{:.9g},{:.9g},{:.9g},{:.6g},{},{},{},\n", c.forecast->step.p50.si(),
                            c.forecast->step.p10.si(), c.forecast->step.p90.si(), relative_error(c), role_text(c.what),
                            csv_field(c.what.experiment.cluster.name), rank_count(c.what.experiment.cluster));
        else
            text += fmt::format(",,,,,,,{}\n", csv_field(c.refused_because));
    }
    return text;
}

}  // namespace stepcast
