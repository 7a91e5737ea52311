#include "reports/comparison_series.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "reports/compare.h"
#include "reports/text.h"

namespace stepcast {
namespace {

// One colour a series.
void merge_smallest(CaseSeries& series) {
    while (series.size() > colours.size()) {
        const auto smallest = std::min_element(series.begin(), series.end(), [](const auto& a, const auto& b) {
            return a.first != "others" && (b.first == "others" || a.second.size() < b.second.size());
        });
        const std::vector<const Comparison*> cases = smallest->second;
        series.erase(smallest);
        auto& others = series["others"];
        others.insert(others.end(), cases.begin(), cases.end());
    }
}

}  // namespace

std::string machine_title(const std::vector<Comparison>& comparisons) {
    const std::set<std::string> names = machines_of(comparisons);
    return names.size() == 1 ? " on " + *names.begin() : "";
}

int mark_of(const Comparison& c) {
    constexpr int open_circle = 6, full_circle = 7, diamond = 13;
    if (!c.what.evidence) return full_circle;
    return *c.what.evidence == Evidence::fitted ? open_circle
           : *c.what.evidence == Evidence::seen ? full_circle
                                                : diamond;
}

std::string clusters_text(const std::vector<Comparison>& comparisons) {
    std::set<std::string> names;
    for (const Comparison& c : comparisons)
        if (c.forecast)
            names.insert(c.what.experiment.cluster.name + (c.forecast->calibrated ? " (fitted)" : " (uncalibrated)"));
    constexpr std::size_t most_named = 5;  // more would leave the picture
    return names.size() > most_named
               ? fmt::format("{} clusters", names.size())
               : fmt::format("cluster{} {}", names.size() == 1 ? "" : "s", fmt::join(names, ", "));
}

std::string count_title(const std::vector<Comparison>& comparisons, std::size_t shown) {
    const std::size_t all = comparisons.size();
    const auto refused =
        static_cast<std::size_t>(std::ranges::count_if(comparisons, [](const Comparison& c) { return !c.forecast; }));
    std::vector<std::string> why;
    if (refused > 0) why.push_back(fmt::format("{} refused", refused));
    if (all > shown + refused) why.push_back(fmt::format("{} not shown", all - shown - refused));
    return fmt::format("{}{} of {} cases", shown < all ? "only " : "", shown, all) +
           (why.empty() ? "" : fmt::format(" ({})", fmt::join(why, ", ")));
}

std::string error_text(const std::vector<Comparison>& comparisons) {
    const CompareSummary s = summarise(comparisons);
    std::string text =
        fmt::format("mean error {}, median {}, bias {}, worst {}", percent_text(s.mape), percent_text(s.median_ape),
                    signed_percent_text(s.bias), signed_percent_text(s.worst_error));
    constexpr std::size_t longest_name = 24;  // more would leave the picture
    if (s.worst_case.size() <= longest_name) text += fmt::format(" ({})", s.worst_case);
    if (s.with_interval > 0)
        text += fmt::format("; measured inside p10..p90: {} of {}", s.inside_of_them, s.with_interval);
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
        if (against_experts && c.what.experiment.routing.kind == RoutingSpec::Kind::file) name += ", recorded routing";
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
