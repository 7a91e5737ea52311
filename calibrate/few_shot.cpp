#include "calibrate/few_shot.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "calibrate/few_shot_internal.h"
#include "calibrate/step_model.h"
#include "model/errors.h"

namespace stepcast {
namespace {

using Progress = std::function<void(std::string_view)>;

struct Rows {
    std::vector<Case> cases;
    int other_devices = 0;
    std::vector<std::string> refused;
};

// A row of another device that some shipped cluster has is passed over; one of a device that none has is the cluster's.
Rows read_rows(const FewShotRequest& request) {
    Rows rows;
    const std::string device = read_cluster(request.cluster).gpu.name;
    for (const std::string& path : request.measurements) {
        std::vector<Comparison> own = read_comparisons(path, "", request.framework);
        std::vector<Comparison> on = read_comparisons(path, request.cluster, request.framework);
        for (std::size_t i = 0; i < on.size(); ++i) {
            const bool elsewhere = own[i].refused_because.empty() && own[i].what.experiment.cluster.gpu.name != device &&
                                   request.blocks != std::vector<LeftOut>{LeftOut::device};
            if (elsewhere)
                ++rows.other_devices;
            else if (!on[i].refused_because.empty())
                rows.refused.push_back(on[i].refused_because);
            else
                rows.cases.push_back(std::move(on[i].what));
        }
    }
    if (rows.cases.empty())
        throw ConfigError(fmt::format("calibrate: no row can be predicted on {}: {} of other devices, {} refused{}",
                                      request.cluster, rows.other_devices, rows.refused.size(),
                                      rows.refused.empty() ? "" : ": " + rows.refused.front()));
    return rows;
}

// Each reason once, with the number of rows that it kept out.
std::string reasons(const std::vector<std::string>& refused) {
    std::map<std::string, int> counts;
    for (const std::string& reason : refused) ++counts[reason];
    std::string text;
    for (const auto& [reason, rows] : counts) text += fmt::format("  {} cannot be predicted: {}\n", rows, reason);
    return text;
}

// One framework's costs are fitted, and one file is written.
void require_one_framework(const FewShotRequest& request, const std::vector<Case>& cases) {
    if (request.target != FitTarget::framework && request.target != FitTarget::both) return;
    for (const Case& c : cases)
        if (const std::string &first = cases.front().experiment.framework.name, &other = c.experiment.framework.name; other != first)
            throw ConfigError(fmt::format("calibrate: {} ran in {}, {} in {}; expected rows of one framework whose costs are fitted, or "
                                          "--framework, the one to begin at",
                                          cases.front().case_id, first, c.case_id, other));
}

// Steps in another unit, or of other work, are beyond what any constant may move.
std::string nothing_determined(const FewShotRequest& request, const StepFit& fit, const std::string& other_base) {
    const std::vector<Case> stated = read_rows(request).cases;
    std::vector<double> ratios;
    for (const Case& c : stated) ratios.push_back(c.measured_step / step_with_slopes(c, {}, {}).step);
    std::ranges::nth_element(ratios, ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2));
    return fmt::format("calibrate: these {} rows determine none of {} constants: nothing is written; expected steps that differ in "
                       "micro-batch, split or size; in the median they measured {:.3g} of what is forecast for them, in seconds\n{}{}",
                       stated.size(), fit.constants.size() + fit.left.size(), ratios[ratios.size() / 2], constants_table(fit), other_base);
}

std::string blocks_text(const Evaluated& e) {
    std::string text;
    for (const auto& [by, blocks] : e.blocks)
        if (!blocks.empty()) text += block_table(blocks, by);
    return text;
}

// What is written is what the rows determined, and what they moved with it.
std::string written(const Evaluated& e, const FewShotRequest& request, const std::vector<Case>& cases) {
    std::string text;
    const bool software = any_determined(e.fit, true);
    if (request.target == FitTarget::framework || (request.target == FitTarget::both && software))
        text += "framework written to " + write_framework_file(e, request, cases) + "\n";
    if (request.target == FitTarget::both && !software)
        text += "no framework is written: the rows determine none of its costs, and the cluster is fitted with the base's\n";
    if (request.target != FitTarget::framework) text += "cluster written to " + write_cluster_file(e, request, cases) + "\n";
    return text;
}

}  // namespace

std::string calibrate_few_shot(const FewShotRequest& request, const Progress& progress) {
    const auto stopped = [&] { return request.enough && request.enough(); };
    Rows rows = read_rows(request);
    require_one_framework(request, rows.cases);
    Evaluated e{fitted_to(rows.cases, request, progress), {}};
    if (e.fit.posterior.at_start) return "interrupted before the first pass: nothing is written\n";
    std::string text = fmt::format("{} measured steps; passed over: {} of other devices, {} that cannot be predicted\n",
                                   rows.cases.size(), rows.other_devices, rows.refused.size()) +
                       reasons(rows.refused);
    const HeldOutError own = summary_of(e.fit.posterior.rows.errors, "fitted");
    const std::string other_base = nearer_frameworks(request, rows.cases, own.median, stopped);
    if (!any_determined(e.fit, true) && !any_determined(e.fit, false)) throw ConfigError(nothing_determined(request, e.fit, other_base));
    for (const LeftOut by : request.blocks) e.blocks.emplace_back(by, leave_out_blocks(e.fit, rows.cases, by, stopped));
    text += written(e, request, rows.cases);
    if (stopped()) text += "interrupted: the constants are those of the last pass\n";
    text += constants_table(e.fit);
    text += fmt::format("  fitted: median {:.1f} %, mean {:.1f} %, bias {:+.1f} %, scatter {:.1f} %\n", 100 * own.median,
                        100 * own.mape, 100 * own.bias, 100 * e.fit.posterior.noise);
    text += blocks_text(e) + contradictions(rows.cases, e.fit.posterior) + other_base;
    if (request.target == FitTarget::cluster && read_cluster(request.cluster).fitted) return text;
    return text + "calibrated: steps; GEMM, attention, memory passes and collectives by themselves: not measured\n";
}

std::string cross_validate(const FewShotRequest& request, LeftOut by, const Progress& progress) {
    Rows rows = read_rows(request);
    const StepFit fit = fitted_to(rows.cases, request, progress);
    const auto blocks = leave_out_blocks(fit, rows.cases, by, request.enough);
    if (blocks.empty())
        throw ConfigError(fmt::format("--cross-validate {}: the rows have one {} only; expected two or more",
                                      to_string(by), to_string(by)));
    return block_table(blocks, by);
}

}  // namespace stepcast
