// What a fit of steps says: its constants, and rows that contradict each other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "calibrate/few_shot_internal.h"
#include "model/experiment.h"

namespace stepcast {

std::string text_of(const StepConstant& c, double x) {
    const double value = c.start * std::exp(std::clamp(x, c.prior.lower, c.prior.upper));
    return c.key.starts_with("host.") ? to_string(Seconds(value)) : fmt::format("{:.5g}", value);
}

// Rows of one configuration whose steps differ by more than they scatter, and rows far from all others.
std::string contradictions(const std::vector<Case>& cases, const Posterior& p) {
    constexpr double far = 5, least = 0.25;
    std::map<std::string, std::vector<std::size_t>> alike;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const Experiment& e = cases[i].experiment;
        const Parallelism& s = e.parallelism;
        alike[fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", e.workload.name, e.workload.layers, e.workload.seq,
                          rank_count(e.cluster), s.tp, s.pp, s.vp, s.cp, s.dp, s.ep, s.sequence_parallel, s.micro_batch, s.zero,
                          s.global_batch, to_string(s.recompute), to_string(e.workload.dtype), to_string(s.moe_system),
                          e.framework.name)]
            .push_back(i);
    }
    const double limit = std::max(least, far * p.noise);
    std::string text;
    for (const auto& [what, rows] : alike)
        for (std::size_t k = 1; k < rows.size(); ++k)
            if (std::abs(p.rows.errors[rows[0]] - p.rows.errors[rows[k]]) > limit)
                text += fmt::format("rows contradict each other: {} took {}, {} of the same configuration {}\n",
                                    cases[rows[0]].case_id, to_string(cases[rows[0]].measured_step),
                                    cases[rows[k]].case_id, to_string(cases[rows[k]].measured_step));
    for (std::size_t i = 0; i < cases.size(); ++i)
        if (std::abs(p.rows.errors[i]) > limit)
            text += fmt::format("far from the others, of little weight: {}, measured {}, fitted {:+.0f} %\n",
                                cases[i].case_id, to_string(cases[i].measured_step), 100 * std::expm1(p.rows.errors[i]));
    return text;
}

std::string constants_table(const StepFit& fit) {
    const auto name_of = [](const StepConstant& c) { return c.framework.empty() ? c.key : "framework." + c.framework; };
    std::string text = fmt::format("  {:<32} {:>12} {:>12} {:>8}  {}\n", "constant", "fitted", "prior", "error", "");
    for (std::size_t j = 0; j < fit.constants.size(); ++j) {
        const StepConstant& c = fit.constants[j];
        const char* const verdict = !determined(fit, j)          ? "not determined: as far as its prior lets it"
                                    : fit.posterior.at_bound[j] ? "AT ITS BOUND: another effect may be missing"
                                                                : "determined";
        text += fmt::format("  {:<32} {:>12} {:>12} {:>6.0f} %  {}\n",
                            name_of(c), text_of(c, fit.posterior.x[j]), text_of(c, 0),
                            100 * std::expm1(fit.posterior.sigma[j]), verdict);
    }
    for (const StepConstant& c : fit.left)
        text += fmt::format("  {:<32} {:>12} {:>12} {:>8}  not determined: stays as the base has it\n", name_of(c),
                            c.usual ? "0" : text_of(c, 0), text_of(c, 0), "");
    return text;
}

}  // namespace stepcast
