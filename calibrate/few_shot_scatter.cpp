// What is believed of a framework whose costs were fitted to few steps: how far such fits are off on models that they have not seen.
#include <algorithm>
#include <cmath>
#include <map>

#include "calibrate/few_shot_internal.h"
#include "calibrate/kernel_comparisons.h"
#include "calibrate/scatter.h"

namespace stepcast {
namespace {

constexpr int least_rows = 3;  // of a model that a fit is made to
constexpr double tail = 0.1;   // of the rows lie beyond an end

struct Off {
    double off, weight;
};

// Whole steps as of a framework that nobody named, by what they ran in and on.
std::map<std::pair<std::string, std::string>, std::vector<Case>> begun_anew(const std::vector<std::string>& measurements) {
    std::map<std::pair<std::string, std::string>, std::vector<Case>> groups;
    for (const std::string& path : measurements) {
        if (holds_kernels(path)) continue;
        const std::vector<Comparison> own = read_comparisons(path, "");
        std::vector<Comparison> anew = read_comparisons(path, "", std::string(default_framework));
        for (std::size_t i = 0; i < own.size(); ++i) {
            const Experiment& e = own[i].what.experiment;
            const bool named = !e.framework.name.empty() && e.framework.name != "native" && e.workload.kind == Workload::Kind::transformer;
            if (named && own[i].refused_because.empty() && anew[i].refused_because.empty())
                groups[{e.framework.name, e.cluster.gpu.name}].push_back(std::move(anew[i].what));
        }
    }
    return groups;
}

// log(measured / predicted) of all other models' rows by a fit to each model's in turn.
std::vector<double> offs_of_others(std::vector<Case>& cases) {
    std::map<std::string, int> models;
    for (const Case& c : cases) ++models[block_of(c, LeftOut::model)];
    std::vector<double> offs;
    if (models.size() < 2) return offs;
    FewShotRequest request;
    request.target = FitTarget::framework;
    const StepFit fit = fitted_to(cases, request, {});
    if (!any_determined(fit, true)) return offs;
    for (const auto& [model, rows] : models) {
        if (rows < least_rows) continue;
        std::vector<bool> others;
        for (const Case& c : cases) others.push_back(block_of(c, LeftOut::model) != model);
        const RowErrors there = foretold_by_the_rest(fit, others).second;
        for (std::size_t i = 0; i < cases.size(); ++i)
            if (others[i]) offs.push_back(-there.errors[i]);
    }
    return offs;
}

// The least width that leaves at most a tenth of the weight beyond, to the slower side (sign 1) or the faster (-1).
double end_of(std::vector<Off> offs, double sign) {
    double all = 0, beyond = 0;
    for (const Off& o : offs) all += o.weight;
    std::ranges::sort(offs, std::ranges::greater{}, [&](const Off& o) { return sign * o.off; });
    for (const Off& o : offs) {
        beyond += o.weight;
        if (beyond > tail * all) return std::max(0.0, sign * o.off);
    }
    return 0;
}

}  // namespace

Scatter few_shot_scatter(const std::vector<std::string>& measurements) {
    std::map<std::string, std::vector<double>> by_framework;  // what is off of a framework is so on all devices
    for (auto& [group, cases] : begun_anew(measurements)) {
        std::vector<double>& offs = by_framework[group.first];
        for (const double off : offs_of_others(cases)) offs.push_back(off);
    }
    std::vector<Off> all;
    for (const auto& [framework, offs] : by_framework)
        for (const double off : offs) all.push_back({off, 1 / static_cast<double>(offs.size())});
    return {end_of(all, -1), end_of(all, 1)};
}

}  // namespace stepcast
