#include "reports/tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "model/records/measurements.h"
#include "reports/compare.h"
#include "reports/text.h"

namespace stepcast {
namespace {

auto shape_of(const Comparison& c) {
    const Workload& w = c.what.experiment.workload;
    return std::tuple(w.kind, w.layers, w.hidden, w.heads, w.ffn, w.vocab, w.seq, w.moe.experts, w.dtype,
                      w.attention == AttentionKind::plain, c.what.experiment.parallelism.micro_batch,
                      rank_count(c.what.experiment.cluster));
}

// Measured over predicted of each phase that the case states.
std::map<std::string, double> phase_errors(const Comparison& c) {
    std::map<std::string, double> errors;
    const auto add = [&](const std::string& name, const std::optional<Seconds>& measured, Seconds predicted) {
        if (measured && *measured > Seconds(0)) errors[name] = predicted / *measured - 1;
    };
    add("forward", c.what.measured_forward, c.forecast->forward.p50);
    add("backward", c.what.measured_backward, predicted_backward(c));
    for (const PhaseComparison& p : phase_comparisons(c))
        if (p.rank < 0) add(p.name, p.measured, p.predicted);
    return errors;
}

}  // namespace

std::string side_by_side_table(const std::vector<Comparison>& comparisons) {
    std::map<decltype(shape_of(comparisons.front())), std::vector<const Comparison*>> by_shape;
    for (const Comparison& c : comparisons)
        if (c.forecast) by_shape[shape_of(c)].push_back(&c);
    Table table{"", {{"side by side", 12, true}, {"by", 8, true}, {"measured", 11}, {"predicted", 11}, {"error", 8}}, {}};
    for (const auto& [shape, cases] : by_shape) {
        const auto of = [&](const char* source, const char* by) {
            std::vector<std::vector<Cell>> rows;
            for (const Comparison* c : cases)
                if (c->what.source == source)
                    rows.push_back({{c->what.case_id}, {by}, time_cell(c->what.measured_step), time_cell(c->forecast->step.p50),
                                    signed_percent_cell(relative_error(*c))});
            return rows;
        };
        const auto executed = of("executed", "executed"), scripts = of("pytorch", "PyTorch");
        if (executed.empty() || scripts.empty()) continue;
        for (const auto& rows : {executed, scripts}) table.rows.insert(table.rows.end(), rows.begin(), rows.end());
    }
    return table.rows.empty() ? "" : "\n" + text_of(table);
}

std::string phase_errors_text(const std::vector<Comparison>& comparisons) {
    std::map<std::string, std::vector<double>> errors;
    for (const Comparison& c : comparisons)
        if (c.forecast)
            for (const auto& [name, error] : phase_errors(c)) errors[name].push_back(std::abs(error));
    std::string text;
    for (const auto& [name, values] : errors) {
        if (values.size() < 2) continue;
        text += fmt::format("{}{} {}, {}", text.empty() ? "errors of phases (median, mean): " : "; ", name,
                            percent_text(median(values)), percent_text(mean(values)));
    }
    return text;
}

}  // namespace stepcast
