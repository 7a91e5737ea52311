#include "reports/compare.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "model/machine/calibration.h"
#include "model/records/provenance.h"
#include "reports/tables.h"
#include "reports/text.h"

namespace stepcast {
namespace {

using Comparisons = std::vector<Comparison>;

template <class Value>
void add_once(std::vector<Value>& values, const Value& value) {
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

// What a fit has read, what was known and what is new: three sums, of which only the last is evidence.
void add_roles(std::vector<std::string>& sentences, const Comparisons& comparisons) {
    for (const Evidence evidence : all_evidence) {
        const Comparisons chosen = of_evidence(comparisons, evidence);
        if (chosen.empty()) continue;
        sentences.push_back(
            fmt::format("{}: {}, {}", meaning_of(evidence), chosen.size(), errors_text(summarise(chosen))));
    }
}

// Where phases were measured with every step.
bool of_script(const Comparisons& comparisons) {
    return std::count_if(comparisons.begin(), comparisons.end(),
                         [](const Comparison& c) { return c.forecast && c.what.source == "pytorch"; }) > 1;
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

std::string role_text(const Case& what) { return what.evidence ? std::string(to_string(*what.evidence)) : ""; }

std::string errors_text(const CompareSummary& s) {
    return fmt::format("mean error {}, median {}, p90 {}, bias {}, worst {} ({})", percent_text(s.mape),
                       percent_text(s.median_ape), percent_text(s.p90_ape), signed_percent_text(s.bias),
                       signed_percent_text(s.worst_error), s.worst_case);
}

std::vector<std::string> summary_sentences(const Comparisons& comparisons) {
    if (comparisons.empty()) return {"no cases: the input has a header and no rows; nothing was compared"};
    const CompareSummary s = summarise(comparisons);
    std::string first = fmt::format("{} of {} cases predicted", s.predicted, s.cases);
    if (s.refused > 0) first += fmt::format(", {} refused", s.refused);
    if (s.predicted == 0) return {first};
    std::string second = inside_count_text(s);
    if (s.rank_correlation) second += fmt::format("; rank correlation within models {:.3f}", *s.rank_correlation);
    std::vector<std::string> sentences{first + ": " + errors_text(s), second};
    if (s.regret)
        sentences.push_back(fmt::format(
            "choosing the predicted best of the mappings measured for one training job: the measured best in "
            "{} of {} decisions; time lost {} mean, {} at worst",
            s.best_chosen, s.decisions, percent_text(*s.regret), percent_text(s.worst_regret)));
    if (s.with_peak > 0)
        sentences.push_back(
            fmt::format("peak memory of {} cases: mean error {}", s.with_peak, percent_text(s.peak_mape)));
    if (of_script(comparisons)) sentences.push_back(phase_errors_text(comparisons));
    add_roles(sentences, comparisons);
    return sentences;
}

std::string provenance_text(const Cluster& cluster) {
    if (!cluster.fitted)
        return fmt::format("cluster {}: UNCALIBRATED: datasheet values and assumed costs", cluster.name);
    const Fitted& f = *cluster.fitted;
    std::vector<std::string> names;
    for (const std::string& source : f.sources) add_once(names, std::filesystem::path(source).filename().string());
    std::string text = fmt::format("cluster {}: fitted {} to {} samples of {}", cluster.name, f.date, f.samples,
                                   fmt::join(names, ", "));
    std::string method;
    for (const HeldOutError& e : f.errors) {
        text += e.method == method ? ", " : fmt::format("; {} errors (mean, worst): ", e.method);
        text += fmt::format("{} {} {}", e.kind, percent_text(e.mape), signed_percent_text(e.worst));
        method = e.method;
    }
    const auto kept =
        std::count_if(f.parameters.begin(), f.parameters.end(), [](const FittedParameter& p) { return !p.determined; });
    if (const std::string kinds = unmeasured_kinds(cluster); !kinds.empty())
        text += "; not measured on this device: " + kinds;
    if (kept > 0) text += fmt::format("; {} of {} parameters kept their prior", kept, f.parameters.size());
    return text;
}

}  // namespace stepcast
