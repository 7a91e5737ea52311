#include "sim/interval.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "measured/priors.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "sim/predict.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

constexpr double p90_z = p90_of_normal;
double log_of(Seconds time) { return std::log(time.si()); }

}  // namespace

// Squares add: sqrt(0.03^2 + (1.2816 x 0.03122)^2) = sqrt(0.0009 + 0.0016) = 0.05 below, and above
// sqrt(0.12^2 + 0.04^2 + 0.03^2) = 0.13.
TEST_CASE("the parts of an interval add up as squares, to either side by themselves") {
    Doubts d;
    d.constants = 0.04 / p90_z;
    d.faster = 0.03;
    d.slower = 0.12;
    d.draws_slower = 0.03;
    const Interval i = predictive_interval(Seconds(1), Seconds(1.1), d);
    CHECK(log_of(i.p10) == Approx(-0.05));
    CHECK(log_of(i.p90) == Approx(0.13));
    CHECK(i.p50 == Seconds(1));
    CHECK(i.mean == Seconds(1.1));
}

// Constants of 0.05 to p90, of which 0.03 shortens no step: sqrt(0.0025 - 0.0009) = 0.04 to p10.
TEST_CASE("what is hidden of the constants' doubt reaches p90 alone") {
    Doubts d;
    d.constants = 0.05 / p90_z;
    d.hidden = 0.03 / p90_z;
    const Interval i = predictive_interval(Seconds(1), Seconds(1), d);
    CHECK(log_of(i.p10) == Approx(-0.04));
    CHECK(log_of(i.p90) == Approx(0.05));
}

// An error of 0.5 whose p10 shortens a step by 0.3 of these standard deviations hides
// sqrt(0.25 - 0.09) = 0.4; one that the step follows whole hides nothing, one that it does not
// follow at all is hidden whole.
TEST_CASE("hosts' doubt is hidden where the step with fast hosts is no shorter") {
    CHECK(hidden_of_hosts(0.5, Seconds(std::exp(0.3 * p90_z)), Seconds(1)) == Approx(0.4));
    CHECK(hidden_of_hosts(0.5, Seconds(std::exp(0.6 * p90_z)), Seconds(1)) == 0);
    CHECK(hidden_of_hosts(0.5, Seconds(1), Seconds(1)) == Approx(0.5));
}

// Two equally likely readings without doubt, one twice as long: p10 is the first, p90 the second.
// With a narrow doubt of 0.01 to p90, the upper tenth of the mixture is the upper fifth of the
// second reading: 0.8416 / 1.2816 x 0.01 above it.
TEST_CASE("of two readings p10 and p90 are the quantiles of their mixture") {
    Doubts d;
    d.readings = {{"recompute", 2}};
    const Interval bare = predictive_interval(Seconds(1), Seconds(1), d);
    CHECK(bare.p10.si() == Approx(1));
    CHECK(bare.p90.si() == Approx(2));
    d.faster = d.slower = 0.01;
    CHECK(log_of(predictive_interval(Seconds(1), Seconds(1), d).p90) - std::log(2) ==
          Approx(0.8416 / p90_z * 0.01).epsilon(1e-3));
}

// The lower tenth of the mixture is the lower fifth of the shorter reading, the upper tenth is the
// upper fifth of the longer; each uses the width of its own side. For readings of 1/2, 1 and 4
// without doubt p10 is the shortest; with five readings a tenth lies in the outermost.
TEST_CASE("readings shorter than the median and widths of both sides") {
    Doubts d;
    d.readings = {{"recompute", 2}};
    d.faster = 0.02;
    d.slower = 0.01;
    const Interval i = predictive_interval(Seconds(3), Seconds(5), d);
    CHECK(log_of(i.p10) == Approx(std::log(3) - 0.8416 / p90_z * 0.02).epsilon(1e-4));
    CHECK(log_of(i.p90) == Approx(std::log(6) + 0.8416 / p90_z * 0.01).epsilon(1e-4));
    CHECK(i.p50 == Seconds(3));
    CHECK(i.mean == Seconds(5));
    d = {};
    d.readings = {{"faster", 0.5}, {"slower", 4}};
    const Interval three = predictive_interval(Seconds(1), Seconds(1), d);
    CHECK(three.p10.si() == Approx(0.5));
    CHECK(three.p90.si() == Approx(4));
}

// Of readings 1 and 2 with widths of 0.01 down and 0.4 up, the fast one alone reaches p10: its
// lower fifth, 0.8416 / 1.2816 x 0.01 below it. Its slow tail says nothing of p10, however long.
TEST_CASE("a slow tail does not lift p10 above the fast reading") {
    Doubts d;
    d.readings = {{"recompute", 2}};
    d.faster = 0.01;
    for (const double slower : {0.01, 0.4, 2.0}) {
        d.slower = slower;
        CHECK(log_of(predictive_interval(Seconds(1), Seconds(1), d).p10) ==
              Approx(-0.8416 / p90_z * 0.01).epsilon(1e-3));
    }
}

// Draws of 80, 90, .. 180 % of 100 ms: quantiles 90 and 170.
TEST_CASE("draws of a routing reach from their lower tenth to their upper") {
    std::vector<double> values;
    for (int v = 80; v <= 180; v += 10) values.push_back(v);
    Doubts d;
    reach_of_draws(values, 100, d);
    CHECK(d.draws_faster == Approx(std::log(100 / 90.0)));
    CHECK(d.draws_slower == Approx(std::log(170 / 100.0)));
    reach_of_draws(values, 85, d);  // no draw is far below it
    CHECK(d.draws_faster == 0);
    Doubts none;
    reach_of_draws(values, 0, none);
    CHECK(none == Doubts{});
}

// What a framework's fit determined is no longer assumed, whoever measured the rest: 0.4 x 0.2 from
// the framework's fit. The other share, 0.6, is of latencies, which are times: error 0.5.
TEST_CASE("what a framework's fit determined is not assumed") {
    Experiment e;
    e.workload.kind = Workload::Kind::transformer;
    e.framework.fitted.emplace();
    e.framework.fitted->parameters = {{"host.layer", "1 ms", "1 ms", 0.2, true}};
    const std::vector<CostBasis> basis{{"host", "host.layer", false, 0.4},
                                       {"intra", "link.intra.latency", false, 0.6}};
    CHECK(doubts_of(e, basis).constants == Approx(std::hypot(0.4 * 0.2, 0.6 * 0.5)));
    e.framework.fitted->parameters[0].determined = false;
    CHECK(doubts_of(e, basis).constants == Approx(std::hypot(0.4 * 0.5, 0.6 * 0.5)));
    e.framework.fitted->parameters.push_back({"link.intra.latency", "1 us", "1 us", 0.1, true});
    e.framework.fitted->parameters[0].determined = true;
    e.framework.fitted->correlation = {1, 0.5};  // not the size for two parameters: ignored
    CHECK(doubts_of(e, basis).constants == Approx(std::hypot(0.08, 0.06)));
}

// Four users' hosts updated weights at 35, 41, 56 and 120 GB/s, the prior is 50: logarithms of -0.4
// to 0.9, so 0.5 as of a time. The link is a share of its datasheet's rate: 0.15.
TEST_CASE("a host's optimizer may be off by a factor, its link by a share") {
    Experiment e;
    e.workload.kind = Workload::Kind::transformer;
    CHECK(doubts_of(e, {{"host", "host_memory.update", false, 0.6}}).constants ==
          Approx(0.6 * 0.5));
    CHECK(doubts_of(e, {{"host", "host_memory.link", false, 0.6}}).constants == Approx(0.6 * 0.15));
}

// Kernels that were measured nowhere may be off by a factor e^0.5, whatever the machine's fit: 0.2
// x 0.5. The other 0.8 are products whose rate is fitted to 4 %: 0.8 x 0.04.
TEST_CASE("kernels that no fit has seen widen a step by half of their share") {
    Experiment e;
    e.workload.kind = Workload::Kind::transformer;
    e.cluster.fitted.emplace();
    e.cluster.fitted->parameters = {{"kernel.gemm_efficiency", "0.7", "0.7", 0.04, true}};
    const std::vector<CostBasis> basis{{"GEMM", "kernel.gemm_efficiency", true, 0.8},
                                       {"gated delta rule", "workload.delta", false, 0.2}};
    CHECK(doubts_of(e, basis).constants == Approx(std::hypot(0.2 * 0.5, 0.8 * 0.04)));
}

// Host work with an error of 0.5 is half of the step: 0.25. GEMMs and attention have 0.15 each and
// independent errors: 0.3 x 0.15 and 0.2 x 0.15. A GEMM rate fitted to 4 %, 0.3 of the step, counts
// 0.012; with host calls at 10 % and a correlation of -0.5: 0.012^2 + 0.05^2 - 2 x 0.5 x 0.012 x
// 0.05.
TEST_CASE("constants widen a step by their errors times the shares of the step that they price") {
    Experiment e;
    e.workload.kind = Workload::Kind::transformer;
    std::vector<CostBasis> basis{{"host", "host.call", false, 0.5},
                                 {"GEMM", "kernel.gemm_efficiency", false, 0.3},
                                 {"attention", "kernel.attention_efficiency", false, 0.2}};
    CHECK(doubts_of(e, basis).constants == Approx(std::hypot(0.25, 0.045, 0.03)));
    e.cluster.fitted.emplace();
    e.cluster.fitted->parameters = {{"kernel.gemm_efficiency", "0.7", "0.7", 0.04, true},
                                    {"host.call", "5 us", "5 us", 0.1, true}};
    basis[0].measured = basis[1].measured = basis[2].measured = true;
    CHECK(doubts_of(e, basis).constants == Approx(std::hypot(0.012, 0.05)));
    e.cluster.fitted->correlation = {1, -0.5, 1};
    CHECK(doubts_of(e, basis).constants ==
          Approx(std::sqrt(0.012 * 0.012 + 0.05 * 0.05 - 0.012 * 0.05)));
    // The bytes of eager passes, fitted to 10 %, are moved by memory passes: an error of 0.1 of a
    // share of 0.1 on top.
    basis.push_back({"memory-bound kernels", "kernel.memory_efficiency", true, 0.1});
    e.framework.fitted.emplace();
    e.framework.fitted->parameters = {{"eager_traffic", "2", "2", 0.1, true}};
    CHECK(doubts_of(e, basis).constants ==
          Approx(std::sqrt(0.012 * 0.012 + 0.05 * 0.05 - 0.012 * 0.05 + 0.01 * 0.01)));
}

// Prior belief: 0.1 from the device's noise, and unfitted frameworks are 0.24 slower: 0.26
// together. Two blocks at 0.02 weigh as much as the belief: sqrt((0.02^2 + 0.26^2) / 2).
TEST_CASE("a framework's own blocks narrow what is believed of frameworks nobody fitted") {
    ScatterTable table;
    table.frameworks = {0, 0.24};
    Cluster cluster;
    cluster.gpu.name = "A100";
    cluster.noise.step = 0.1 / p90_z;
    Framework framework;
    // no framework: the experiment states every key itself
    CHECK(scatter_of(table, framework, cluster).slower == Approx(0.1));
    framework.name = "trainer";
    CHECK(scatter_of(table, framework, cluster).slower == Approx(0.26));
    CHECK(scatter_of(table, framework, cluster).faster == Approx(0.1));
    table.groups = {{"trainer", "A100", 30, 2, {0.02, 0.02}}};
    CHECK(scatter_of(table, framework, cluster).slower ==
          Approx(std::sqrt((0.02 * 0.02 + 0.26 * 0.26) / 2)));
    table.groups = {{"trainer", "A100", 30, 2, {0.02, 0.5}}};  // never below its own errors
    CHECK(scatter_of(table, framework, cluster).slower == Approx(0.5));
}

// Without a framework of others, six runs that were each left out of a device's fit, 0.2 off: (1 -
// 1/36) 0.04 each beside two degrees of the belief, 0.1 / t2; the quantile is that of 8
// degrees, 1.3968. A framework's steps are judged by its own.
TEST_CASE("a device that was fitted to runs is as doubtful as they were when left out") {
    ScatterTable table;
    Cluster cluster;
    cluster.noise.step = 0.1 / p90_z;
    cluster.fitted.emplace();
    cluster.fitted->errors = {{"forward", "leave-one-out", 6, 0, 9}, {"step", "leave-one-out", 6}};
    cluster.fitted->errors[1].mape = 0.2 / 1.2533;
    const double believed = 0.1 / 1.8856;
    Framework framework;
    for (const char* own : {"", "native"}) {
        framework.name = own;
        CHECK(scatter_of(table, framework, cluster).faster ==
              Approx(1.3968 * std::sqrt((6 * 0.04 * 35 / 36 + 2 * believed * believed) / 8))
                  .epsilon(1e-3));
    }
    framework.name = "trainer";
    CHECK(scatter_of(table, framework, cluster).faster == Approx(0.1));
}

// Student's t at 0.9, from tables.
TEST_CASE("the ends of Student's t") {
    CHECK(student_p90(2) == Approx(1.885618083).epsilon(1e-9));
    CHECK(student_p90(4) == Approx(1.533206274).epsilon(1e-9));
    CHECK(student_p90(10) == Approx(1.372183641).epsilon(1e-9));
    CHECK(student_p90(1e9) == Approx(p90_z));
}

namespace {

// Prior belief: 0.26 slower, as above.
struct FittedTrainer {
    ScatterTable table;
    Cluster cluster;
    Framework framework;
    FittedTrainer() {
        table.frameworks = {0, 0.24};
        cluster.noise.step = 0.1 / p90_z;
        cluster.gpus_per_node = 8;
        cluster.gpu.name = "A100";
        framework.name = "trainer";
        framework.fitted.emplace();
    }
    double slower() const { return scatter_of(table, framework, cluster).slower; }
};

// A normal error of this standard deviation, which is sqrt(pi / 2) times the mean absolute error.
HeldOutError step_error(const std::string& method, double deviation) {
    HeldOutError e{"step", method, 6};
    e.mape = deviation / 1.2533;
    return e;
}

constexpr double t2 = 1.8856, t4 = 1.5332, t5 = 1.4759;  // Student's t at 0.9

}  // namespace

// Three left-out models with a deviation of 0.03 count (1 - 1/9) 0.0009 = 0.0008 each, beside two
// degrees of the belief, 0.26 / t2 each; the quantile is that of 5 degrees of freedom. Two left-out
// rank counts with 0.1 count (1 - 1/4) 0.01 = 0.0075, with 4 degrees, and give the wider end. An
// exact fit keeps the rest of the belief.
TEST_CASE("blocks left out of a framework's fit narrow what is believed, few of them little") {
    FittedTrainer t;
    const double believed = 2 * (0.26 / t2) * (0.26 / t2),
                 models = t5 * std::sqrt((3 * 0.0008 + believed) / 5),
                 ranks = t4 * std::sqrt((2 * 0.0075 + believed) / 4);
    REQUIRE(ranks > models);
    t.framework.fitted->errors = {step_error(left_out_by("model", 3), 0.03),
                                  step_error("fitted", 0.02)};
    CHECK(t.slower() == Approx(models).epsilon(2e-3));
    t.framework.fitted->errors.push_back(step_error(left_out_by("ranks", 2), 0.1));
    CHECK(t.slower() == Approx(ranks).epsilon(2e-3));
    t.framework.fitted->errors = {step_error(left_out_by("model", 3), 0)};
    CHECK(t.slower() == Approx(t5 * std::sqrt(believed / 5)).epsilon(2e-3));
    // many blocks: the quantile of a normal error, whatever the belief
    t.framework.fitted->errors = {step_error(left_out_by("model", 4000), 0.03)};
    CHECK(t.slower() == Approx(p90_z * 0.03).epsilon(1e-2));
}

// The spread of one model's rows is at least that of other models; left-out ranks say nothing about
// models. The errors that fits to one model made on other models count where they are wider than
// the spread of shipped frameworks, and only there.
TEST_CASE("a framework fitted to one model keeps what is believed") {
    FittedTrainer t;
    CHECK(t.slower() == Approx(0.26));
    t.framework.fitted->errors = {step_error("fitted", 0.05)};
    CHECK(t.slower() == Approx(0.26));
    t.framework.fitted->errors = {step_error(left_out_by("ranks", 3), 0.01),
                                  step_error("fitted", 0.05)};
    CHECK(t.slower() == Approx(0.26));
    t.framework.fitted->errors = {step_error("fitted", 0.4)};
    CHECK(t.slower() == Approx(0.4 * p90_z).epsilon(1e-4));
    t.table.few_shot = {0.2, 0.6};
    CHECK(t.slower() == Approx(0.6));
    CHECK(scatter_of(t.table, t.framework, t.cluster).faster == Approx(0.4 * p90_z).epsilon(1e-4));
    t.framework.fitted->errors = {step_error(left_out_by("ranks", 3), 0.01)};
    CHECK(t.slower() == Approx(0.6));
    t.framework.fitted->errors = {step_error(left_out_by("model", 3), 0.01)};
    CHECK(t.slower() < 0.2);
    t.framework.fitted->errors = {};
    CHECK(scatter_of(t.table, t.framework, t.cluster).faster == Approx(0.2));
}

// Fitted on 8 to 16 ranks: 8, 12 and 16 are known; 4 and 24 are as little known as another model is
// to a fit of one model.
TEST_CASE("ranks beyond those of the rows widen a fitted framework's interval") {
    FittedTrainer t;
    t.framework.fitted->errors = {step_error(left_out_by("model", 3), 0.03)};
    const double known = t.slower();
    REQUIRE(known < 0.2);
    t.framework.fitted->ranges = {{ranks_range, 8, 16}};
    const auto on = [&](int ranks) {
        t.cluster.gpus_per_node = ranks;
        return t.slower();
    };
    for (const int ranks : {8, 12, 16}) CHECK(on(ranks) == known);
    for (const int ranks : {4, 24}) CHECK(on(ranks) == Approx(0.26));
    t.framework.fitted->errors.push_back(step_error(left_out_by("ranks", 2), 0.03));
    CHECK(on(24) == on(8));  // the fit itself states its error on these ranks
}

TEST_CASE("a file that does not say how many blocks it left out") {
    FittedTrainer t;
    CHECK(left_out_blocks("left out by model (3)") == 3);
    CHECK(left_out_blocks("left out by model") == 2);
    CHECK(left_out_blocks("fitted") == 0);
    t.framework.fitted->errors = {step_error("left out by model", 0.03)};
    const double two = t.slower();
    t.framework.fitted->errors = {step_error("left out by model (2)", 0.03)};
    CHECK(t.slower() == two);
    // The pair's measured scatter outweighs a fit that does not count its blocks, and a fit that
    // counts them outweighs it.
    t.table.groups = {{"trainer", "A100", 30, 2, {0.02, 0.02}}};
    CHECK(t.slower() == two);
    t.framework.fitted->errors = {step_error("left out by model", 0.03)};
    CHECK(t.slower() == Approx(std::sqrt((0.02 * 0.02 + 0.26 * 0.26) / 2)));
}

// 3 % behind with a reach of 2 % (logarithms) is distinguishable, with 5 % it is not. On another
// machine each forecast has its own error: half of the logarithm of p90 over p10, here 0.3 and 0.4.
TEST_CASE("two forecasts are told apart by the error of their difference") {
    const Behind by_draws{0.03, 0.03, 0.03, true};
    CHECK(widened(by_draws, 0.02).distinguishable);
    CHECK_FALSE(widened(by_draws, 0.05).distinguishable);
    CHECK(std::log1p(widened(by_draws, 0.05).p90) == Approx(std::log1p(0.03) + 0.05));
    Forecast a, b;
    a.basis = {{"GEMM", "kernel.gemm_efficiency", true, 0.8}, {"host", "host.call", true, 0.2}};
    b.basis = {{"GEMM", "kernel.gemm_efficiency", true, 0.5}, {"host", "host.call", true, 0.5}};
    CHECK(reach_of_pair(a, a, {0.03, 0.1}) == Approx(0.03));
    CHECK(reach_of_pair(a, b, {0.03, 0.1}) == Approx(std::hypot(0.03, 0.1 * 0.3 * std::sqrt(2))));
    a.step = {Seconds(1), Seconds(1), Seconds(1), Seconds(std::exp(0.6))};
    b.step = {Seconds(1), Seconds(std::exp(-0.8)), Seconds(1), Seconds(1)};
    b.cluster = "another";
    CHECK(reach_of_pair(a, b, {0.03, 0.1}) == Approx(0.5));
}

TEST_CASE(
    "a scatter file is read back as it was written, and a wrong key is refused with its place") {
    const TestFolder folder;
    ScatterTable table;
    table.date = "2026-01-02";
    table.sources = {"a.csv"};
    table.frameworks = {0.0625, 0.25};
    table.pairs = {0.0312, 0.5};
    table.groups = {{"trainer", "A100", 30, 2, {0.125, 0.25}}};
    table.classes = {{"named", 40, 5, {0.125, 0.5}}};
    table.traits = {{"experts", 20, 3, {0.25, 0}}};
    CHECK(read_scatter(folder.write("scatter.toml", write_scatter(table))) == table);
    CHECK_THROWS_WITH(read_scatter(folder.write("wrong.toml", "[pairs]\nnaer = 1\n")),
                      Catch::Contains("wrong.toml:2:1") && Catch::Contains("near"));
}

// Experts over two nodes: with a recipe that sends a token once to each rank, the step takes three
// quarters of that with an all-to-all. Sharded weights: no Megatron shards them, FSDP compiled
// does.
TEST_CASE(
    "nobody named a framework: the step is also read as the slow and the fast one that it may be") {
    Experiment experts = read_experiment("mixtral_8x7b_h100");
    for (const auto& [key, value] : {std::pair{"parallelism.tp", "1"},
                                     {"parallelism.dp", "16"},
                                     {"parallelism.ep", "16"},
                                     {"parallelism.sequence_parallel", "false"},
                                     {"parallelism.overlap_tp", "false"},
                                     {"workload.moe.experts", "64"},
                                     {"workload.moe.top_k", "8"}})
        set_key(experts, {key, value});
    for (const auto& [named, fast] : {std::pair{read_experiment("llama3_8b_h100_fsdp"), "fsdp"},
                                      {experts, "megatron-bridge"}}) {
        Experiment e = named;
        set_key(e, {"framework.preset", "default"});
        REQUIRE(readings_of(e).size() == 6);
        const Interval own = predict(e).step;
        for (const char* other : {"eager", fast}) {
            Experiment read = e;
            set_key(read, {"framework.preset", other});
            INFO(e.name << " in " << other);
            CHECK(own.p10 < 1.05 * predict(read).step.p50);
            CHECK(own.p90 > 0.95 * predict(read).step.p50);
        }
        set_key(e, {"framework.preset", "torchtitan"});
        CHECK(readings_of(e).empty());
    }
}

// A measured machine, known only by its datasheet and the other machines: the step of its own fit
// lies within p10 .. p90.
TEST_CASE(
    "a machine that is known by its datasheet holds the step of the fitted one in its interval") {
    for (const char* name : {"dgx-a100", "dgx-h100", "b200-x8"}) {
        Experiment e = read_experiment("llama3_8b_h100_fsdp");
        const auto on = [&](const Cluster& machine) {
            Experiment there = e;
            there.cluster = machine;
            there.cluster.nodes = e.cluster.nodes;
            return predict(there).step;
        };
        const Interval sheet = on(cluster_from_others(name)), fitted = on(read_cluster(name));
        INFO(name << ": " << sheet.p10.si() << " .. " << sheet.p90.si() << ", fitted "
                  << fitted.p50.si());
        CHECK(sheet.p10 < fitted.p50);
        CHECK(fitted.p50 < sheet.p90);
        CHECK(sheet.p90 / sheet.p10 > fitted.p90 / fitted.p10);
    }
}
