// Results drawn from a seed, every field of them filled or left out by chance: for golden texts of
// whole reports.
#pragma once

#include "reports/compare_page.h"
#include "sim/results/gantt.h"
#include "sim/results/sweep_answer.h"
#include "tests/random_graphs.h"
#include "tests/reports/samples.h"
#include "tests/reports/sweeps.h"

namespace stepcast::samples {

class Drawn {
public:
    explicit Drawn(std::uint64_t seed) : random_(seed) {}

    [[nodiscard]] Forecast forecast(double step) {
        Forecast f;
        f.experiment = one_of({"gpt", "llama <3>"});
        f.cluster = one_of({"dgx", "pcie-a100-x4"});
        f.framework = one_of({"", "own"});
        f.calibrated = maybe();
        if (maybe())
            f.basis = {{"host", "host.call", maybe(), 0.3},
                       {"gemm", "kernel.gemm_efficiency", maybe(), 0.5},
                       {"all_reduce", "link.inter.bandwidth", false, 0.2}};
        f.step = spread(step, !random_.one_in(4));
        f.forward = spread(0.3 * step, maybe());
        f.backward = spread(0.5 * step, maybe());
        f.gradient_sync = spread(0.1 * step, maybe());
        f.optimizer = spread(0.02 * step, false);
        f.phases = {Seconds(step), Seconds(0.31 * step), Seconds(0.52 * step), Seconds(0.1 * step),
                    Seconds(0.02 * step)};
        f.doubts = {
            size(0.1), 0, size(0.2), size(0.3), size(0.4), size(0.5), {{"read otherwise", 1.3}}};
        f.breakdown = {Seconds(0.4 * step),  Seconds(0.2 * step),
                       Seconds(0.15 * step), Seconds(maybe() ? 0.1 * step : 0),
                       Seconds(0.04 * step), Seconds(0.11 * step)};
        f.memory = memory();
        f.tokens_per_second = maybe() ? 4096 / step : 0;
        f.model_flops_utilization = maybe() ? size(0.5) : 0;
        f.model_flops_per_gpu = FlopsPerSecond(size(3e14));
        f.energy = Joules(maybe() ? size(1e5) : 0);
        f.gpus = 8;
        f.tasks = 12'345;
        f.ranks_simulated = random_.one_in(3) ? 2 : 8;
        f.draws = maybe() ? 1 : 25;
        f.noise = maybe();
        f.median_draw = random_.below(25);
        for (const char* name : {"gemm", "flash", "norm"})
            for (int rank = 0; rank < 3; ++rank)
                f.kernels.push_back({name, rank == 1 ? Phase::backward : Phase::forward, rank,
                                     Seconds(size(0.1 * step))});
        f.notes = {remark("a remark"),
                   {.kind = Note::Kind::extrapolated,
                    .key = "all_reduce.bytes",
                    .value = 1073741824,
                    .least = 512,
                    .most = 16384},
                   {.kind = Note::Kind::undetermined, .key = "host.call", .text = "5 us"}};
        return f;
    }

    [[nodiscard]] Campaign campaign() {
        Campaign c;
        c.tokens = size(2e13);
        c.steps = size(1e6);
        c.ranks = 8;
        if (maybe()) c.goodput = {Seconds(size(1e6)), Seconds(size(9e3)), 0.9};
        const double days = size(50), money = maybe() ? size(5e6) : 0,
                     energy = maybe() ? size(5e12) : 0;
        for (std::size_t i = 0; i < 3; ++i) {
            c.time[i] = Seconds(86'400 * days * (1 + 0.1 * static_cast<double>(i)));
            c.money[i] = money * (1 + 0.1 * static_cast<double>(i));
            c.energy[i] = Joules(energy * (1 + 0.1 * static_cast<double>(i)));
        }
        c.currency = one_of({"USD", ""});
        c.offer = {"H100",     money > 0 ? 2.5 : 0, "a list of 2026",
                   Watts(700), Watts(100),          Watts(250),
                   1.2,        "a datasheet"};
        return c;
    }

    // Of `count` cases; about one in five refused.
    [[nodiscard]] std::vector<Comparison> comparisons(int count) {
        std::vector<Comparison> all;
        for (int i = 0; i < count; ++i) all.push_back(comparison(i));
        return all;
    }

    [[nodiscard]] KernelComparisons kernels(int count) {
        KernelComparisons all;
        for (int i = 0; i < count; ++i) all.rows.push_back(kernel());
        if (maybe())
            all.refused = {{"GPU B", "no cluster of this device; <none>", 3},
                           {"GPU C", "fp8 has no peak", 1}};
        return all;
    }

    [[nodiscard]] SweepAnswer sweep() {
        SweepAnswer a = sample_sweep();
        a.framework = one_of({"", "megatron-core"});
        a.calibrated = maybe();
        a.objective =
            one_of({Objective::step, Objective::tokens, Objective::cost, Objective::memory});
        if (random_.one_in(3) && a.objective != Objective::memory) a.second = Objective::memory;
        a.work_differs = random_.one_in(3);
        a.one_routing = random_.one_in(3);
        a.varied = {"cluster", "parallelism.tp", "parallelism.recompute"};
        a.best.clear();
        const int rows = 2 + random_.below(4);
        trains_ = maybe();
        for (int i = 0; i < rows; ++i) a.best.push_back(row(0.1 * (1 + 0.03 * i), 8, i));
        for (int i = 0; i < 3; ++i) a.scaling.push_back(row(0.4 / (1 << i), 8 << i, i));
        a.each_of = {"cluster"};
        a.of_each = {row(0.2, 8, 0), row(0.3, 16, 1), row(0.25, 8, 2), row(0.35, 16, 3)};
        a.of_each[1].least_within = maybe();
        if (maybe()) a.within = Seconds(86'400 * 30);
        a.asked = maybe() ? rows : 10;
        a.counts = {5'000'000,
                    9,
                    7,
                    5,
                    2,
                    static_cast<std::uint64_t>(random_.below(3)),
                    0,
                    {{"tp does not divide workload.heads", 3}, {"pp > layers", 2}},
                    {{"does not fit into the device's memory", 2}}};
        a.broken_bounds = random_.one_in(4) ? 1 : 0;
        a.map->of_token = maybe();
        a.map->simulated = maybe();
        a.points =
            SweepMap{{{"parallelism.tp", {"1", "2"}}, {"parallelism.zero", {"0", "1", "<2>"}}},
                     {{{0, 2}, Seconds(0.123456789), Bytes(4e9), 8, 4, true},
                      {{1, 1}, Seconds(0.2), Bytes(3e9), 7, 4, false}},
                     {Bytes(3e9), Bytes(5e9)},
                     maybe()};
        return a;
    }

    [[nodiscard]] Explanation explanation() {
        Explanation x;
        x.step = Seconds(10);
        x.path = {{"gemm", LinkLevel::none, false, Seconds(6), 120},
                  {"all_reduce", LinkLevel::leaf, false, Seconds(2), 40},
                  {"send_recv", LinkLevel::spine, false, Seconds(0.7), 4},
                  {"all_gather", LinkLevel::node, false, Seconds(0.3), 3},
                  {"issue", LinkLevel::none, true, Seconds(1), 7}};
        x.slowest = {3, 1, Seconds(7), Seconds(1), Seconds(0.5), Seconds(0.25), Seconds(0.125)};
        x.median = {1, 1024, Seconds(6), Seconds(2), Seconds(0.75), Seconds(1.25), Seconds(0.375)};
        x.elasticities = {{"gpu.peak.bf16", "989.4 TFLOP/s", Seconds(-0.5), Seconds(-0.75)},
                          {"host.call", "5 us", Seconds(0.25), Seconds(0.2)},
                          {"link.inter.bandwidth", "50 GB/s", Seconds(-0.01), Seconds(0)}};
        x.without_effect = {"gpu.memory", "price_per_gpu_hour"};
        x.uncertainties = {
            {"kernel.training_gemm", "0.78", Uncertainty::Source::prior, 0.5, Seconds(0.25), 0.75},
            {"host.call", "5 us", Uncertainty::Source::fitted, 0.1, Seconds(0.1), 0.25}};
        x.uncertainty = Seconds(0.3125);
        return x;
    }

    [[nodiscard]] Gantt gantt() {
        Gantt g{.title = one_of({"job", "tp = 2"}),
                .step = Seconds(size(2)),
                .rows = {},
                .memory_label = "memory of rank 0",
                .memory = {},
                .capacity = Bytes(maybe() ? 80e9 : 0)};
        const double step = g.step.si();
        for (int rank = 0; rank < 3; ++rank) {
            GanttRow row{.label = "rank " + std::to_string(rank), .boxes = {}};
            for (int i = 0; i < 8; ++i)
                row.boxes.push_back({static_cast<GanttKind>(i),
                                     Seconds(step * (0.12 * i + 0.01 * rank)),
                                     Seconds(step * (0.12 * i + 0.1)), i < 5 ? i : -1});
            g.rows.push_back(row);
        }
        for (int i = 0; i < 5; ++i)
            g.memory.emplace_back(Seconds(0.2 * step * i), Bytes(size(60e9)));
        return g;
    }

private:
    bool maybe() { return random_.one_in(2); }
    double size(double around) { return around * (0.5 + random_.fraction()); }
    template <class T>
    T one_of(std::initializer_list<T> values) {
        return values.begin()[random_.below(static_cast<int>(values.size()))];
    }
    static Interval spread(double p50, bool spreads) {
        return {Seconds(1.01 * p50), Seconds(p50 * (spreads ? 0.875 : 1)), Seconds(p50),
                Seconds(p50 * (spreads ? 1.25 : 1))};
    }
    MemoryUse memory() {
        MemoryUse m{Bytes(),
                    Bytes(size(9e9)),
                    Bytes(size(8e9)),
                    Bytes(size(3e10)),
                    Bytes(size(2e10)),
                    Bytes(size(1e9)),
                    Bytes(0),
                    true,
                    0,
                    Bytes(maybe() ? 80e9 : 0),
                    Bytes(maybe() ? 2e9 : 0)};
        m.peak = m.weights + m.gradients + m.optimizer + m.activations + m.buffers;
        m.fits = m.capacity <= Bytes(0) || m.peak + m.overheads <= m.capacity;
        return m;
    }
    ErrorAttribution attribution(double measured) {
        return {Seconds(size(measured)),
                Seconds(size(measured)),
                Seconds(measured),
                {{"gemm", Phase::backward, Seconds(size(measured)), Seconds(size(measured)),
                  Seconds(size(0.2 * measured))},
                 {"all_reduce", Phase::gradient_sync, Seconds(0), Seconds(0.01),
                  Seconds(-size(0.1 * measured))}}};
    }
    Comparison comparison(int i) {
        const double measured = size(0.1) * (1 << (i % 5)),
                     predicted = measured * (0.8 + 0.4 * random_.fraction());
        // one after the other: compilers differ in the order of arguments
        const auto series = one_of({"dense", "moe", "mix \"19\""});
        const auto name =
            one_of({"short", "a_case_of_a_name_that_is_longer_than_its_column_is", "case"});
        Comparison c =
            compared(name + std::string("-") + std::to_string(i), series, 1e3 * measured, 1, 1, 1);
        c.what.source = one_of({"own.csv", "executed", "pytorch"});
        c.what.x = maybe() ? 0 : 1 << random_.below(6);
        Experiment& e = c.what.experiment;
        e.workload.name = one_of({"gpt", "llama"});
        e.workload.seq = one_of({1024, 4096});
        if (maybe()) e.cluster = fitted_cluster();
        e.cluster.gpus_per_node = 8;
        e.framework.name = one_of({"", "megatron", "own"});
        e.parallelism.tp = 1 << random_.below(4);
        e.parallelism.micro_batch = 1 + random_.below(2);
        if (maybe()) c.what.assumptions = {one_of({"routing assumed", "fp16 assumed"})};
        if (i % 5 == 4) {
            c.forecast.reset();
            if (maybe()) c.what.measured_step = Seconds(0);
            c.refused_because =
                "the model named here is not one of those that are known, and its columns do not "
                "say what it is made of; expected layers, hidden, heads";
            return c;
        }
        c.forecast = forecast(predicted);
        c.forecast->experiment = c.what.case_id;
        if (maybe()) c.what.measured_forward = Seconds(size(0.3 * measured));
        if (maybe()) c.what.measured_backward = Seconds(size(0.5 * measured));
        if (maybe()) c.what.measured_mean = Seconds(1.02 * measured);
        if (maybe())
            c.what.measured_phases = {{"gradient_sync", -1, Seconds(size(0.1 * measured))},
                                      {"gemm", 2, Seconds(size(0.1 * measured))},
                                      {"optimizer", -1, Seconds(0)}};
        for (int n = one_of({0, 9, 10, 12}), k = 0; k < n; ++k)
            c.what.recorded_steps.push_back(Seconds(size(measured)));
        if (maybe()) c.what.measured_peak = Bytes(size(7e10));
        if (maybe()) c.what.evidence = one_of({Evidence::fitted, Evidence::seen, Evidence::unseen});
        if (random_.one_in(3)) c.attribution = attribution(measured);
        return c;
    }
    KernelComparison kernel() {
        KernelComparison k;
        k.kind = one_of({"gemm", "attention", "all_reduce", "all_to_all"});
        k.device = one_of({"GPU A", "GPU B"});
        k.cluster = k.device == "GPU A" ? "dgx" : "pcie";
        const bool exchange = k.kind.starts_with("all");
        k.dtype = exchange ? "" : one_of({"bf16", "fp8"});
        k.name = "8x" + std::to_string(random_.below(100));
        k.bytes = Bytes(size(1e8) / (1 << random_.below(16)));
        if (exchange) {
            k.ranks = 2 << random_.below(3);
            k.bus_factor = 1.75;
        } else {
            k.work = Flops(size(1e12));
            k.peak = FlopsPerSecond(k.dtype == "fp8" ? 2e15 : 1e15);
            k.bandwidth = BytesPerSecond(3e12);
        }
        k.measured = Seconds(size(1e-3) / (1 << random_.below(8)));
        k.predicted = size(1.0) * k.measured;
        k.p10 = k.p90 = k.predicted;
        if (maybe()) k.p10 = 0.75 * k.predicted, k.p90 = 1.5 * k.predicted;
        k.evidence = one_of({Evidence::fitted, Evidence::seen, Evidence::unseen});
        return k;
    }
    SweepRow row(double step, int ranks, int number) {
        SweepRow r;
        r.settings = {{"cluster", number % 2 ? "dgx" : "pcie"},
                      {"parallelism.tp", std::to_string(1 << number)},
                      {"parallelism.recompute", one_of({"none", "full"})}};
        r.step = Seconds(step);
        r.lower = Seconds(maybe() ? 0.97 * step : 0);
        r.estimate = Seconds(r.lower > Seconds(0) ? 1.01 * step : 0);
        r.peak = Bytes(size(6e10));
        r.tokens_per_second = 4096 / step;
        r.cost_per_token = maybe() ? size(1e-6) : 0;
        r.ranks = ranks;
        r.forecast = forecast(step);
        if (trains_) r.campaign = campaign();
        if (number > 0 && maybe())
            r.behind = Behind{-0.02 + 0.03 * random_.fraction(), 0.03, 0.08, maybe()};
        return r;
    }

    graphs::RandomSource random_;
    bool trains_ = false;  // rows of a sweep: all or none
};

}  // namespace stepcast::samples
