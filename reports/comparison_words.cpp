#include "reports/comparison_words.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "measured/priors.h"
#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/records/provenance.h"
#include "reports/compare.h"
#include "reports/comparison_tables.h"
#include "sim/calibration.h"

namespace stepcast {
namespace {

using Comparisons = std::vector<Comparison>;

// One sentence each for fitted, seen and unseen cases; only the last is evidence. Errors that the
// sentence about all cases states are not repeated.
void add_roles(std::vector<std::string>& sentences, const Comparisons& comparisons, int predicted) {
    for (const Evidence evidence : all_evidence) {
        const Comparisons chosen = of_evidence(comparisons, evidence);
        if (chosen.empty()) continue;
        const CompareSummary s = summarise(chosen);
        sentences.push_back(meaning_of(evidence) + ": " +
                            (s.predicted == predicted
                                 ? "all of them"
                                 : fmt::format("{}, {}", chosen.size(), errors_text(s))));
    }
}

// Whether several cases are of PyTorch scripts, which measure phases with every step.
bool of_script(const Comparisons& comparisons) {
    return std::ranges::count_if(comparisons, [](const Comparison& c) {
               return c.forecast && c.what.source == "pytorch";
           }) > 1;
}

}  // namespace

std::vector<std::string> all_assumptions(const Comparisons& comparisons) {
    std::vector<std::string> found;
    for (const Comparison& c : comparisons)
        for (const std::string& assumption : c.what.assumptions) add_once(found, assumption);
    return found;
}

std::vector<std::string> all_provenance(const Comparisons& comparisons) {
    std::vector<std::string> found;
    for (const Comparison& c : comparisons)
        if (c.forecast) add_once(found, provenance_text(c.what.experiment.cluster));
    return found;
}

std::set<std::string> machines_of(const Comparisons& comparisons) {
    std::set<std::string> names;
    for (const Comparison& c : comparisons)
        if (c.forecast) names.insert(c.what.experiment.cluster.name);
    return names;
}

std::string inside_text(const Comparison& c) {
    return !has_spread(c.forecast->step) ? "-" : inside_interval(c) ? "yes" : "no";
}

std::string role_text(const Case& what) {
    return what.evidence ? std::string(to_string(*what.evidence)) : "";
}

std::string errors_text(const CompareSummary& s) {
    if (s.predicted == 1) return "error " + signed_percent_text(s.worst_error);
    return fmt::format("mean error {}, median {}, p90 {}, bias {}, worst {} ({})",
                       percent_text(s.mape), percent_text(s.median_ape), percent_text(s.p90_ape),
                       signed_percent_text(s.bias), signed_percent_text(s.worst_error),
                       s.worst_case);
}

std::vector<std::string> summary_sentences(const Comparisons& comparisons) {
    if (comparisons.empty())
        return {"no cases: the input has a header and no rows; nothing was compared"};
    const CompareSummary s = summarise(comparisons);
    std::string first = fmt::format("{} of {} cases predicted", s.predicted, s.cases);
    if (s.refused > 0) first += fmt::format(", {} refused", s.refused);
    if (s.predicted == 0) return {first};
    std::string second = inside_count_text(s);
    if (s.rank_correlation)
        second += fmt::format("; rank correlation within models {:.3f}", *s.rank_correlation);
    std::vector<std::string> sentences{first + ": " + errors_text(s), second};
    if (s.regret)
        add_line(
            sentences,
            "of the parallel layouts measured for one training job, the fastest by forecast is the "
            "fastest measured in {} of {} decisions; it costs {} in the mean, {} at worst",
            s.best_chosen, s.decisions, percent_text(*s.regret), percent_text(s.worst_regret));
    if (s.with_peak > 0)
        add_line(sentences, "peak memory of {} cases: mean error {}", s.with_peak,
                 percent_text(s.peak_mape));
    if (of_script(comparisons)) sentences.push_back(phase_errors_text(comparisons));
    add_roles(sentences, comparisons, s.predicted);
    return sentences;
}

namespace {

constexpr std::size_t few_tables = 4;

// "4.8 %, at worst +12.0 % (five folds by model and layout)".
std::string step_errors(const Fitted& fitted, bool own) {
    std::string text;
    for (const HeldOutError& e : fitted.errors)
        if (e.kind == "step" && (e.method == "fitted") == own)
            text +=
                fmt::format("{}{}, at worst {}{}", text.empty() ? "" : "; ", percent_text(e.mape),
                            signed_percent_text(e.worst), own ? "" : " (" + e.method + ")");
    return text.empty() ? "-" : text;
}

}  // namespace

std::vector<Cell> fit_row(const std::string& name, const Fitted& fitted,
                          const std::string& unmeasured) {
    const auto tables = source_names(fitted);
    const auto assumed = std::ranges::count(fitted.parameters, false, &FittedParameter::determined);
    return {{name},
            {fitted.date.substr(0, 10)},
            count_cell(fitted.samples),
            {tables.size() > few_tables ? fmt::format("{} tables", tables.size())
                                        : joined(tables, ", ")},
            {step_errors(fitted, false)},
            {step_errors(fitted, true)},
            {fmt::format("{} of {}", assumed, fitted.parameters.size())},
            {unmeasured}};
}

std::string provenance_text(const Cluster& cluster) {
    const std::string name = "cluster " + cluster.name;
    if (!cluster.fitted) return name + ": " + uncalibrated_text(unmeasured_maker(cluster.gpu));
    const auto row = fit_row(name, *cluster.fitted, unmeasured_kinds(cluster));
    return fmt::format(
               "{}: fitted {} to {} samples of {}; errors by the program of that day (mean, "
               "worst): "
               "on steps left out {}, on fitted steps {}; "
               "parameters that kept their prior {}",
               name, row[1].text, row[2].text, row[3].text, row[4].text, row[5].text, row[6].text) +
           (row[7].text.empty() ? "" : "; not measured on this device: " + row[7].text);
}

std::vector<std::string> source_names(const Fitted& fitted) {
    std::vector<std::string> names;
    for (const std::string& source : fitted.sources)
        add_once(names, std::filesystem::path(source).filename().string());
    return names;
}

// ---- around plots

namespace {

// There is one colour per series, so this merges the smallest series when there are too many.
void merge_smallest(CaseSeries& series) {
    while (series.size() > colours.size()) {
        const auto smallest =
            std::min_element(series.begin(), series.end(), [](const auto& a, const auto& b) {
                return a.first != "others" &&
                       (b.first == "others" || a.second.size() < b.second.size());
            });
        const std::vector<const Comparison*> cases = smallest->second;
        series.erase(smallest);
        auto& others = series["others"];
        append(others, cases);
    }
}

}  // namespace

std::string machine_title(const std::vector<Comparison>& comparisons) {
    const std::set<std::string> names = machines_of(comparisons);
    return names.size() == 1 ? " on " + *names.begin() : "";
}

constexpr int open_circle = 6, full_circle = 7, diamond = 13;

int mark_of(const Comparison& c) {
    static constexpr int marks[] = {open_circle, full_circle, diamond};
    return marks[as_index(c.what.evidence.value_or(Evidence::seen))];
}

int mark_of(const std::vector<const Comparison*>& cases) {
    const int mark = mark_of(*cases.front());
    const auto has_it = [mark](const Comparison* c) { return mark_of(*c) == mark; };
    return std::ranges::all_of(cases, has_it) ? mark : full_circle;
}

void add_marks(Plot& plot, const CaseSeries& series, double size) {
    const auto add = [&](int mark, const char* colour, const std::string& label) {
        plot.add(fmt::format("NaN with points pt {} ps {} lw 1.2 lc '{}'", mark, size, colour),
                 label);
    };
    std::map<Evidence, int> marks;
    for (std::size_t i = 0; const auto& [name, cases] : series) {
        add(mark_of(cases), colour(i++), series_label(name, cases));
        for (const Comparison* c : cases)
            if (c->what.evidence) marks[*c->what.evidence] = mark_of(*c);
    }
    for (const auto& [evidence, mark] : marks)
        add(mark, "#555555", std::string(to_string(evidence)));
}

std::string clusters_text(const std::vector<Comparison>& comparisons) {
    std::set<std::string> names;
    for (const Comparison& c : comparisons)
        if (c.forecast)
            names.insert(c.what.experiment.cluster.name +
                         (c.forecast->calibrated ? " (fitted)" : " (uncalibrated)"));
    constexpr std::size_t most_named = 5;  // more would not fit the picture
    return names.size() > most_named
               ? fmt::format("{} clusters", names.size())
               : fmt::format("cluster{} {}", names.size() == 1 ? "" : "s", joined(names, ", "));
}

std::string count_title(const std::vector<Comparison>& comparisons, std::size_t shown) {
    const std::size_t all = comparisons.size();
    const auto refused = as_index(
        std::ranges::count_if(comparisons, [](const Comparison& c) { return !c.forecast; }));
    std::vector<std::string> why;
    if (refused > 0) add_line(why, "{} refused", refused);
    if (all > shown + refused) add_line(why, "{} not shown", all - shown - refused);
    return fmt::format("{} of {} cases", shown, all) +
           (why.empty() ? "" : fmt::format(" ({})", joined(why, ", ")));
}

std::string error_text(const std::vector<Comparison>& comparisons) {
    const CompareSummary s = summarise(comparisons);
    std::string text = fmt::format("mean error {}, median {}, bias {}, worst {}",
                                   percent_text(s.mape), percent_text(s.median_ape),
                                   signed_percent_text(s.bias), signed_percent_text(s.worst_error));
    constexpr std::size_t longest_name = 24;  // more would not fit the picture
    if (s.worst_case.size() <= longest_name) text += fmt::format(" ({})", s.worst_case);
    if (s.with_interval > 0)
        text +=
            fmt::format("; measured inside p10..p90: {} of {}", s.inside_of_them, s.with_interval);
    return text;
}

CaseSeries series_of(const std::vector<Comparison>& comparisons, bool against_experts) {
    std::set<std::string> sources;
    for (const Comparison& c : comparisons)
        if (c.forecast) sources.insert(c.what.source);
    CaseSeries series;
    for (const Comparison& c : comparisons) {
        if (!c.forecast || (against_experts && !(c.what.x > 0))) continue;
        std::string name = sources.size() > 1 && !against_experts ? c.what.source : c.what.series;
        if (name.empty()) name = "cases";
        if (against_experts && c.what.experiment.routing.kind == RoutingSpec::Kind::file)
            name += ", recorded routing";
        series[name].push_back(&c);
    }
    merge_smallest(series);
    for (auto& [name, cases] : series)
        std::ranges::stable_sort(cases, {}, [](const Comparison* c) { return c->what.x; });
    return series;
}

std::size_t size_of(const CaseSeries& series) {
    std::size_t n = 0;
    for (const auto& [name, cases] : series) n += cases.size();
    return n;
}

std::string series_label(const std::string& name, const std::vector<const Comparison*>& cases) {
    std::vector<Comparison> own;
    for (const Comparison* c : cases) own.push_back(*c);
    return fmt::format("{}: {} case{}, mean error {}", name, own.size(), own.size() == 1 ? "" : "s",
                       percent_text(summarise(own).mape));
}

}  // namespace stepcast
