#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <set>

#include "calibrate/few_shot_internal.h"
#include "calibrate/step_model.h"
#include "model/presets.h"
#include "sim/on_threads.h"

namespace stepcast {
namespace {

constexpr double far_off = 0.05;       // a fit whose median row is nearer than this has no need of another base
constexpr double much_nearer = 0.7;    // of the fit's median error: what is worth a word
constexpr std::size_t most_rows = 12;  // evenly over all: a hint needs no more
constexpr std::size_t most_named = 3;

struct Candidate {
    std::string framework;
    std::vector<Case> cases;
    double median = 0;  // of |log(predicted / measured)|, nothing fitted
};

std::set<std::string> some_of(const std::vector<Case>& cases) {
    const std::size_t step = (cases.size() + most_rows - 1) / most_rows;
    std::set<std::string> ids;
    for (std::size_t i = 0; i < cases.size(); i += step) ids.insert(cases[i].case_id);
    return ids;
}

// Shipped frameworks that can run all of these rows.
std::vector<Candidate> candidates(const FewShotRequest& request, const std::set<std::string>& ids) {
    std::vector<Candidate> found;
    for (const std::string& name : preset_names(PresetKind::framework)) {
        Candidate c{name, {}};
        bool can = name != request.framework;
        for (const std::string& path : request.measurements) {
            if (!can) break;
            for (Comparison& row : read_comparisons(path, request.cluster, name)) {
                if (!ids.contains(row.what.case_id)) continue;
                can = can && row.refused_because.empty();
                c.cases.push_back(std::move(row.what));
            }
        }
        if (can && !c.cases.empty()) found.push_back(std::move(c));
    }
    return found;
}

void predict(std::vector<Candidate>& all, const std::function<bool()>& enough) {
    each_on_threads(0, all.size(), [&](std::size_t i) {
        if (enough()) return;
        std::vector<double> errors;
        for (const Case& c : all[i].cases) errors.push_back(std::log(step_with_slopes(c, {}, {}).step / c.measured_step));
        all[i].median = summary_of(errors, "").median;
    });
}

}  // namespace

std::string nearer_frameworks(const FewShotRequest& request, const std::vector<Case>& cases, double fitted_median,
                              const std::function<bool()>& enough) {
    if (request.target == FitTarget::hardware || request.framework.empty() || fitted_median < far_off) return "";
    std::vector<Candidate> all = candidates(request, some_of(cases));
    predict(all, enough);
    if (enough()) return "";
    std::erase_if(all, [&](const Candidate& c) { return c.median > much_nearer * fitted_median; });
    if (all.empty()) return "";
    std::ranges::stable_sort(all, {}, &Candidate::median);
    std::string names;
    for (const Candidate& c : all | std::views::take(most_named))
        names += fmt::format("{}{} {:.1f} %", names.empty() ? "" : ", ", c.framework, 100 * c.median);
    return fmt::format("{} may be the wrong base: as they stand, others are nearer to these rows in the median: {}; fitted from {}: "
                       "{:.1f} %\n",
                       request.framework, names, request.framework, 100 * fitted_median);
}

}  // namespace stepcast
