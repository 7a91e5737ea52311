#include "calibrate/few_shot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>
#include <set>

#include <fmt/format.h>

#include "calibrate/fit.h"
#include "calibrate/step_fit.h"
#include "calibrate/step_fit_files.h"
#include "calibrate/step_model.h"
#include "import/tables/case_files.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/refuse.h"
#include "model/input/presets.h"
#include "model/records/provenance.h"
#include "sim/on_threads.h"
#include "sim/results/comparison.h"

namespace stepcast {
namespace {

struct FewShotRows {
    std::vector<Case> cases;
    int other_devices = 0;
    std::vector<std::string> refused;
};

// Leaves out a row whose device another shipped cluster has. A row whose device no shipped cluster
// has counts as the cluster's own.
FewShotRows read_rows(const CalibrationRequest& request) {
    FewShotRows rows;
    // throws for a wrong name here, so that no row is blamed
    if (!request.framework.empty()) read_framework(request.framework);
    const std::string device = read_cluster(request.cluster).gpu.name;
    std::vector<RowHash> before;  // rows of earlier files: a second copy is no second measurement
    for (const std::string& path : request.measurements) {
        std::vector<RowHash> here;
        std::vector<Comparison> own = read_comparisons(path, "", request.framework);
        std::vector<Comparison> on = read_comparisons(path, request.cluster, request.framework);
        for (const std::size_t i : indices_of(on)) {
            append(here, on[i].what.rows);
            const bool elsewhere = own[i].refused_because.empty() &&
                                   own[i].what.experiment.cluster.gpu.name != device &&
                                   request.blocks != std::vector<LeftOut>{LeftOut::device};
            if (elsewhere)
                ++rows.other_devices;
            else if (!on[i].refused_because.empty())
                rows.refused.push_back(on[i].refused_because);
            else if (const auto& hashes = on[i].what.rows;
                     !hashes.empty() && known_among(before, hashes.front()))
                rows.refused.push_back(
                    path + ": the same row is in another file, too; expected each once");
            else
                rows.cases.push_back(std::move(on[i].what));
        }
        before = joined(std::move(before), here);
    }
    if (rows.cases.empty())
        refuse("calibrate: no row can be predicted on {}: {} of other devices, {} refused{}",
               request.cluster, rows.other_devices, rows.refused.size(),
               rows.refused.empty() ? "" : ": " + rows.refused.front());
    return rows;
}

// Each reason once, with the number of rows that it excluded.
std::string reasons(const std::vector<std::string>& refused) {
    std::map<std::string, int> counts;
    for (const std::string& reason : refused) ++counts[reason];
    std::string text;
    for (const auto& [reason, rows] : counts)
        text += fmt::format("  {} cannot be predicted: {}\n", rows, reason);
    return text;
}

// A hint about rows that the base's own fit has already read: they tell nothing new, and a fit to
// these rows alone forgets the others.
std::string read_before(const std::vector<Case>& cases) {
    const Framework& base = cases.front().experiment.framework;
    if (!base.fitted) return "";
    const auto known = std::ranges::count_if(cases, [&](const Case& c) {
        return evidence_of(c.rows, base.fitted->rows, {}) == Evidence::fitted;
    });
    if (known == 0) return "";
    return fmt::format(
        "  {} was already fitted to {} of them, among {}: they add nothing new, and a fit to only "
        "a few of those rows loses what the others said\n",
        base.name, known, base.fitted->rows.size());
}

// The fit has one set of framework costs and writes one file.
void require_one_framework(const CalibrationRequest& request, const std::vector<Case>& cases) {
    if (request.target != FitTarget::framework && request.target != FitTarget::both) return;
    for (const Case& c : cases)
        if (const std::string& first = cases.front().experiment.framework.name,
            &other = c.experiment.framework.name;
            other != first)
            refuse(
                "calibrate: {} ran in {}, {} in {}; expected rows of one framework "
                "whose costs are to be fitted, or --framework, the one to start from",
                cases.front().case_id, first, c.case_id, other);
}

// The message when nothing is determined. It shows the median of measured / forecast, because no
// constant can move that far when the steps are in another unit or of other work.
std::string nothing_determined(const CalibrationRequest& request, const StepFit& fit,
                               const std::string& hints) {
    const std::vector<Case> stated = read_rows(request).cases;
    std::vector<double> ratios;
    for (const Case& c : stated)
        ratios.push_back(c.measured_step / step_with_slopes(c, {}, {}).step);
    std::ranges::nth_element(ratios,
                             ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2));
    return fmt::format(
        "calibrate: these {} rows determine none of {} constants: nothing is written; expected "
        "steps that differ in micro-batch, parallel layout or size; in the median a measured step "
        "is {:.3g} times its forecast (far from 1: another unit, or other work)\n{}{}",
        stated.size(), fit.constants.size() + fit.left.size(), ratios[ratios.size() / 2],
        constants_table(fit), hints);
}

// Names the rows that most others contradict: wrong times, or work that their cells do not tell.
std::string rows_left_out(const std::vector<Case>& apart, std::size_t used) {
    if (apart.empty()) return "";
    std::string names;
    for (const Case& c : apart)
        names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", c.case_id,
                             to_string(c.measured_step));
    return fmt::format("{} rows are left out, far from what the other {} agree on: {}\n",
                       apart.size(), used, names);
}

// Writes the files whose constants the rows determined, and says which ones it does not write.
std::string written(const StepFit& fit, const CalibrationRequest& request,
                    const std::vector<Case>& cases) {
    std::string text;
    const bool software = any_determined(fit, true);
    if (request.target == FitTarget::framework || (request.target == FitTarget::both && software))
        text += "framework written to " + write_framework_file(fit, request, cases) + "\n";
    if (request.target == FitTarget::both && !software)
        text +=
            "no framework is written: the rows determine none of its costs, and the cluster is "
            "fitted with those of the base\n";
    if (request.target == FitTarget::both && software && !any_determined(fit, false))
        return text +
               "no cluster is written: the rows determine none of its constants, and the framework "
               "is fitted with " +
               request.cluster + " as it is\n";
    if (request.target != FitTarget::framework)
        text += "cluster written to " + write_cluster_file(fit, request, cases) + "\n";
    return text;
}

constexpr double far_off = 0.05;  // below this median error a fit needs no other base
// a base with less than this share of the fit's median error is worth mentioning
constexpr double much_nearer = 0.7;
constexpr std::size_t most_rows = 12;  // these suffice for a hint
constexpr std::size_t most_named = 3;

struct Candidate {
    std::string framework;
    std::vector<Case> cases;
    double median = 0;  // of |log(predicted / measured)|, without any fit
};

// The shipped frameworks that can run a sample of these rows, taken evenly from all.
std::vector<Candidate> candidates(const CalibrationRequest& request, const std::vector<Case>& all) {
    std::set<std::string> ids;
    for (std::size_t i = 0; i < all.size(); i += (all.size() + most_rows - 1) / most_rows)
        ids.insert(all[i].case_id);
    std::vector<Candidate> found;
    for (const std::string& name : preset_names(PresetKind::framework)) {
        if (name == request.framework) continue;
        Candidate c{name, {}};
        const bool can = std::ranges::all_of(request.measurements, [&](const std::string& path) {
            return std::ranges::all_of(read_comparisons(path, request.cluster, name),
                                       [&](Comparison& row) {
                                           if (!ids.contains(row.what.case_id)) return true;
                                           c.cases.push_back(std::move(row.what));
                                           return row.refused_because.empty();
                                       });
        });
        if (can && !c.cases.empty()) found.push_back(std::move(c));
    }
    return found;
}

// One line that names the shipped frameworks that, without any fit, forecast the rows much better
// than the fit that began at request.framework; "" when there are none.
std::string nearer_frameworks(const CalibrationRequest& request, const std::vector<Case>& cases,
                              double fitted_median, bool base_kept,
                              const std::function<bool()>& enough) {
    if (request.target == FitTarget::hardware || request.framework.empty() ||
        fitted_median < far_off)
        return "";
    std::vector<Candidate> all = candidates(request, cases);
    each_on_threads(0, all.size(), [&](std::size_t i) {
        if (enough()) return;
        std::vector<double> errors;
        for (const Case& c : all[i].cases)
            errors.push_back(std::log(step_with_slopes(c, {}, {}).step / c.measured_step));
        all[i].median = summary_of(errors, "").median;
    });
    if (enough()) return "";
    std::erase_if(all, [&](const Candidate& c) { return c.median > much_nearer * fitted_median; });
    if (all.empty()) return "";
    std::ranges::stable_sort(all, {}, &Candidate::median);
    std::string names;
    for (const Candidate& c : all | std::views::take(most_named))
        names +=
            fmt::format("{}{} {:.1f} %", names.empty() ? "" : ", ", c.framework, 100 * c.median);
    return fmt::format(
        "{} may be the wrong base: as shipped, others are nearer to these rows in the median: {}; "
        "{} {}: {:.1f} %\n",
        request.framework, names, base_kept ? "with" : "fitted from", request.framework,
        100 * fitted_median);
}

// Why the costs are the base's; "" where they were fitted.
std::string why_base_is_kept(const StepFit& fit) {
    if (fit.divided)
        return "the costs of the base are kept: some rows are near to its forecasts, the others "
               "are far and disagree with each other; the rows do not show which are right\n";
    if (fit.base_kept)
        return "the costs of the base are kept: fits to some of the rows hardly predict the others "
               "better; their errors widen the interval\n";
    return "";
}

// The last line: which constants the file has from these rows.
std::string what_is_calibrated(const CalibrationRequest& request, const StepFit& fit) {
    if (request.target == FitTarget::cluster && read_cluster(request.cluster).fitted) return "";
    if (fit.base_kept)
        return "calibrated: nothing; the file holds the costs of the base and how far these steps "
               "are from them\n";
    return "calibrated: steps; GEMM, attention, memory-bound kernels and collectives alone: not "
           "measured\n";
}

}  // namespace

std::string calibrate_few_shot(const CalibrationRequest& request, const Progress& progress) {
    const auto stopped = [&] { return request.enough && request.enough(); };
    FewShotRows rows = read_rows(request);
    require_one_framework(request, rows.cases);
    StepFit fit = fitted_to(rows.cases, request, progress);
    if (fit.posterior.at_start) return "interrupted before the first pass: nothing is written\n";
    std::string text =
        fmt::format(
            "{} measured steps; passed over: {} of other devices, {} that cannot be predicted\n",
            rows.cases.size(), rows.other_devices, rows.refused.size()) +
        reasons(rows.refused) + rows_left_out(fit.apart, rows.cases.size()) +
        (request.target == FitTarget::framework || request.target == FitTarget::both
             ? read_before(rows.cases)
             : "");
    const HeldOutError own = summary_of(fit.posterior.rows.errors, "fitted");
    const std::string other_base =
        nearer_frameworks(request, rows.cases, own.median, fit.base_kept, stopped);
    if (!fit.base_kept && !any_determined(fit, true) && !any_determined(fit, false))
        throw ConfigError(nothing_determined(
            request, fit,
            rows_apart(rows.cases, fit.posterior.rows.errors, least_contradiction) + other_base));
    for (const LeftOut by : request.blocks)
        fit.blocks.emplace_back(by, leave_out_blocks(fit, rows.cases, by, stopped));
    text += written(fit, request, rows.cases);
    if (stopped()) text += "interrupted: the constants are those of the last pass\n";
    text += why_base_is_kept(fit) + constants_table(fit);
    text += fmt::format("  {}: median {:.1f} %, mean {:.1f} %, bias {:+.1f} %, scatter {:.1f} %\n",
                        fit.base_kept ? "with the costs of the base" : "fitted", 100 * own.median,
                        100 * own.mape, 100 * own.bias, 100 * fit.posterior.noise);
    for (const auto& [by, blocks] : fit.blocks)
        if (!blocks.empty()) text += block_table(blocks, by);
    return text + contradictions(rows.cases, fit.posterior) + other_base +
           what_is_calibrated(request, fit);
}

std::string cross_validate(const CalibrationRequest& request, LeftOut by,
                           const Progress& progress) {
    FewShotRows rows = read_rows(request);
    const StepFit fit = fitted_to(rows.cases, request, progress);
    const auto blocks = leave_out_blocks(fit, rows.cases, by, request.enough);
    if (blocks.empty())
        refuse("--cross-validate {}: the rows have one {} only; expected two or more",
               to_string(by), to_string(by));
    return block_table(blocks, by);
}

}  // namespace stepcast
