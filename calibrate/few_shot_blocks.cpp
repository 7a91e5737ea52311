// How a fit of steps predicts rows that it has not seen: blocks are left out in turn.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "calibrate/few_shot_internal.h"
#include "calibrate/kernel_comparisons.h"
#include "calibrate/scatter.h"
#include "model/base/errors.h"
#include "model/machine/scatter.h"
#include "model/records/measurement.h"

namespace stepcast {
namespace {

// Standard deviation of log(predicted / measured) of a row that the fit has not seen: from the
// rows' scatter and the constants' errors.
double predictive_sigma(const Posterior& p, const DenseMatrix& slopes, std::size_t row) {
    double variance = p.noise * p.noise;
    for (std::size_t j = 0; j < p.x.size(); ++j)
        for (std::size_t k = 0; k < p.x.size(); ++k)
            variance += slopes.at(row, j) * p.covariance.at(j, k) * slopes.at(row, k);
    return std::sqrt(variance);
}

// Tests how far fits of a framework's costs to few steps are off on models that they have not seen.

constexpr int least_rows = 3;  // fewest rows of a model for a fit to them
constexpr double tail = 0.1;   // share of the rows beyond each end

struct Off {
    double off, weight;
};

// The measured steps, each predicted with the default framework as if nobody had named its own,
// grouped by (its own framework, device).
std::map<std::pair<std::string, std::string>, std::vector<Case>> begun_anew(
    const std::vector<std::string>& measurements) {
    std::map<std::pair<std::string, std::string>, std::vector<Case>> groups;
    for (const std::string& path : measurements) {
        if (holds_kernels(path)) continue;
        const std::vector<Comparison> own = read_comparisons(path, "");
        std::vector<Comparison> anew = read_comparisons(path, "", std::string(default_framework));
        for (std::size_t i = 0; i < own.size(); ++i) {
            const Experiment& e = own[i].what.experiment;
            const bool named = !e.framework.name.empty() && e.framework.name != "native" &&
                               e.workload.kind == Workload::Kind::transformer;
            if (named && own[i].refused_because.empty() && anew[i].refused_because.empty())
                groups[{e.framework.name, e.cluster.gpu.name}].push_back(std::move(anew[i].what));
        }
    }
    return groups;
}

// Fits to the rows of each model in turn and returns log(measured / predicted) of all rows of the
// other models.
std::vector<double> offs_of_others(std::vector<Case>& cases) {
    std::map<std::string, int> models;
    for (const Case& c : cases) ++models[block_of(c, LeftOut::model)];
    std::vector<double> offs;
    if (models.size() < 2) return offs;
    CalibrationRequest request;
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

// The smallest width that leaves at most a tenth of the weight beyond it, on the slower (sign 1) or
// faster side (-1).
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

LeftOut parse_block(std::string_view text) {
    if (text == "block" || text == "fold")
        throw ConfigError(
            fmt::format("--cross-validate {}: is of tables of kernels; of measured steps expected "
                        "model, ranks, framework or device",
                        text));
    return at_place("--cross-validate", [&] { return parse_name<LeftOut>(text); });
}

std::string block_of(const Case& what, LeftOut by) {
    const Experiment& e = what.experiment;
    switch (by) {
        case LeftOut::model: return e.workload.name;
        case LeftOut::ranks: return fmt::format("{} ranks", rank_count(e.cluster));
        case LeftOut::framework: return e.framework.name;
        case LeftOut::device: return e.cluster.gpu.name;
    }
    return "";
}

std::pair<Posterior, RowErrors> foretold_by_the_rest(const StepFit& fit,
                                                     const std::vector<bool>& rows) {
    std::vector<bool> used = rows;
    used.flip();
    const RowModel lines = straight_lines(fit.posterior.x, fit.posterior.rows);
    Posterior without = most_probable(lines, priors_of(fit.constants), used, fit.posterior.x);
    RowErrors there = fit.model(without.x, rows);
    return {std::move(without), std::move(there)};
}

std::vector<BlockErrors> leave_out_in_turn(
    const std::vector<std::string>& names,
    const std::function<Foretell(const std::vector<bool>&)>& without,
    const std::function<bool()>& enough) {
    std::vector<BlockErrors> found;
    for (const std::string& name : std::set(names.begin(), names.end())) {
        if (enough && enough()) break;
        std::vector<bool> of_block;
        for (const std::string& other : names) of_block.push_back(other == name);
        const Foretell foretell = without(of_block);
        BlockErrors& block = found.emplace_back(BlockErrors{name, {}, 0});
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (!of_block[i]) continue;
            const auto [error, inside] = foretell(i);
            block.errors.push_back(error);
            block.inside += inside ? 1 : 0;
        }
    }
    return found;
}

std::vector<BlockErrors> leave_out_blocks(const StepFit& fit, const std::vector<Case>& cases,
                                          LeftOut by, const std::function<bool()>& enough) {
    std::vector<std::string> names;
    for (const Case& c : cases) names.push_back(block_of(c, by));
    if (std::ranges::all_of(names, [&](const std::string& name) { return name == names.front(); }))
        return {};
    const auto without = [&](const std::vector<bool>& of_block) -> Foretell {
        return [rest = foretold_by_the_rest(fit, of_block)](std::size_t i) {
            const auto& [posterior, there] = rest;
            return std::pair(there.errors[i],
                             std::abs(there.errors[i]) <=
                                 p90_of_normal * predictive_sigma(posterior, there.slopes, i));
        };
    };
    return leave_out_in_turn(names, without, enough);
}

std::string block_table(const std::vector<BlockErrors>& blocks, LeftOut by) {
    std::string text = fmt::format("  {:<34} {:>5} {:>8} {:>8} {:>8} {:>9} {:>8}\n",
                                   fmt::format("left out by {}", to_string(by)), "rows", "median",
                                   "mean", "bias", "worst", "inside");
    const auto line = [](const std::string& name, const HeldOutError& e, int inside) {
        return fmt::format(
            "  {:<34} {:>5} {:>6.1f} % {:>6.1f} % {:>+6.1f} % {:>+7.1f} % {:>6.0f} %\n",
            name.substr(0, 34), e.samples, 100 * e.median, 100 * e.mape, 100 * e.bias,
            100 * e.worst, 100.0 * inside / std::max(1, e.samples));
    };
    std::vector<double> all;
    int inside = 0;
    for (const BlockErrors& block : blocks) {
        text += line(block.left_out, summary_of(block.errors, ""), block.inside);
        all.insert(all.end(), block.errors.begin(), block.errors.end());
        inside += block.inside;
    }
    return text + line("all", summary_of(all, ""), inside);
}

Scatter few_shot_scatter(const std::vector<std::string>& measurements) {
    // over all devices, as a framework is off by the same on each
    std::map<std::string, std::vector<double>> by_framework;
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
