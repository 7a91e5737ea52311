// A small answer of a sweep for tests of reports.
#pragma once

#include "sim/results/sweep_answer.h"

namespace stepcast {

// Two rows of tp under the same zero, on 8 ranks, 4096 tokens a step.
inline SweepAnswer sample_sweep() {
    const auto row = [](const char* tp, double step, double gibibytes, double gap) {
        SweepRow r{.settings = {{"parallelism.tp", tp}, {"parallelism.zero", "1"}},
                   .step = Seconds(step),
                   .lower = Seconds(step * (1 - gap)),
                   .estimate = Seconds(step),
                   .peak = Bytes(gibibytes * 1024 * 1024 * 1024)};
        r.tokens_per_second = 4096 / step;
        r.ranks = 8;
        r.forecast.step = {r.step, r.step * 0.5, r.step, r.step * 1.25};
        r.forecast.model_flops_utilization = 0.05 / step;
        return r;
    };
    SweepAnswer answer{
        .experiment = "gpt", .cluster = "dgx", .calibrated = true, .second = {}, .asked = 2};
    answer.varied = {"parallelism.tp", "parallelism.zero"};
    answer.where = {"step < 1 s"};
    answer.best = {row("2", 0.1, 4, 0.02), row("4", 0.2, 2, 0.01)};
    answer.counts = {.points = 12,
                     .legal = 9,
                     .feasible = 7,
                     .bounded_away = 5,
                     .simulated = 2,
                     .illegal = {{"tp does not divide workload.heads", 3}},
                     .infeasible = {{"does not fit into the device's memory", 2}}};
    answer.map = HeatMap{.row_key = "parallelism.tp",
                         .column_key = "parallelism.zero",
                         .rows = {"2", "4"},
                         .columns = {"0", "1"},
                         .step = {Seconds(0.3), Seconds(0.1), Seconds(), Seconds(0.2)}};
    return answer;
}

}  // namespace stepcast
