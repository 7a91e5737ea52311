// Few measured steps of a known machine: the rows are predicted with one constant changed, and the
// fit must find that constant.

#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "calibrate/few_shot.h"
#include "calibrate/fit.h"
#include "calibrate/fit_parameter.h"
#include "calibrate/left_out.h"
#include "calibrate/step_constants.h"
#include "calibrate/step_fit.h"
#include "calibrate/step_model.h"
#include "import/tables/case_files.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Contains;

namespace {

constexpr const char* columns =
    "source,case_id,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,experts,topk,gpus,gpu,"
    "interconnect,tp,pp,vp,dp,ep,cp,sp,zero,mbs,gbs,"
    "recompute,precision,metric,value,unit,step_s,ref,notes\n";

constexpr const char* base = "nemo-2";  // fused passes, so nothing of eager ones can be fitted

struct Row {
    const char *id, *model;
    int hidden, micro_batch;
    double seconds = 1;
    const char *device = "A100-80GB", *notes = "";
    int layers = 2;
};

std::string line(const Row& r) {
    return fmt::format(
        "own,{},{},{},{},16,16,{},32000,1024,,,8,{},,1,1,1,8,,1,,0,{},{},none,BF16,,,,{:.9g},,{}\n",
        r.id, r.model, r.layers, r.hidden, 4 * r.hidden, r.device, r.micro_batch, 8 * r.micro_batch,
        r.seconds, r.notes);
}

std::string table(const std::vector<Row>& rows) {
    std::string text = columns;
    for (const Row& r : rows) text += line(r);
    return text;
}

// The rows with the steps of a DGX A100 whose products in training reach 0.8 of the efficiency.
std::vector<Row> slower_machine(const TestFolder& folder) {
    std::vector<Row> rows{{"a", "gpt-narrow", 2048, 1}, {"b", "gpt-narrow", 2048, 4},
                          {"c", "gpt-middle", 4096, 1}, {"d", "gpt-middle", 4096, 4},
                          {"e", "gpt-wide", 8192, 1},   {"f", "gpt-wide", 8192, 2}};
    const auto cases = read_comparisons(folder.write("plain.csv", table(rows)), "dgx-a100", base);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        REQUIRE(cases[i].refused_because == "");
        rows[i].seconds =
            step_with_slopes(cases[i].what, {"kernel.training_gemm"}, {0.8}).step.si();
    }
    return rows;
}

CalibrationRequest request(const TestFolder& folder, const std::vector<Row>& rows) {
    return {{folder.write("steps.csv", table(rows))},
            "dgx-a100",
            base,
            folder.path() + "/fitted.toml",
            "2026-01-01"};
}

Case row_of(const TestFolder& folder, const Row& row) {
    auto read = read_comparisons(folder.write("row.csv", table({row})), "dgx-a100", base);
    REQUIRE(read.front().refused_because == "");
    return read.front().what;
}

std::vector<std::string> keys(const std::vector<StepConstant>& constants) {
    std::vector<std::string> found;
    for (const StepConstant& c : constants) found.push_back(c.key);
    return found;
}

}  // namespace

// Of 8 rows one is of an H100 and one of other work. Two sizes of the micro-batch and three models
// distinguish products from memory, so the efficiency is found. The priors draw it back within what
// a scatter of some percent leaves open.
TEST_CASE("few steps of a machine with slower products lead back to it") {
    const TestFolder folder;
    std::vector<Row> rows = slower_machine(folder);
    rows.push_back({"g", "gpt-wide", 8192, 1, 1, "H100"});
    rows.push_back({"h", "gpt-wide", 8192, 1, 1, "A100-80GB", "GRPO"});
    const CalibrationRequest what = request(folder, rows);
    const std::string text = calibrate_few_shot(what);
    CHECK_THAT(text, Contains("6 measured steps; passed over: 1 of other devices, 1 that cannot be "
                              "predicted\n  1 cannot be predicted: "));
    CHECK_THAT(text, Contains("cluster written to " + what.out) && !Contains("framework written"));
    // all rows have 8 ranks
    CHECK_THAT(text, Contains("left out by model") && !Contains("left out by ranks"));
    CHECK_THAT(text, !Contains("contradict") && !Contains("far from the others") &&
                         !Contains("interrupted"));
    const Cluster start = read_cluster("dgx-a100"), fitted = read_cluster(what.out);
    CHECK(fitted.kernel.training_gemm == Approx(0.8 * start.kernel.training_gemm).epsilon(0.08));
    CHECK(fitted.gpu == start.gpu);
    REQUIRE(fitted.fitted);
    CHECK(fitted.fitted->samples == 6);
    CHECK(fitted.fitted->date == "2026-01-01");
    CHECK(fitted.fitted->sources.front() == "steps.csv");
    CHECK(fitted.fitted->parameters.front().key == "kernel.training_gemm");
    CHECK(fitted.fitted->parameters.front().determined);
    CHECK(fitted.fitted->parameters.front().prior ==
          fmt::format("{:.5g}", start.kernel.training_gemm));
    CHECK(fitted.fitted->measured == std::vector<std::string>{"step"});
    // Constants that were fitted only before stay.
    CHECK(fitted.fitted->parameters.size() >= start.fitted->parameters.size());
    REQUIRE(fitted.fitted->errors.size() >= 2);
    CHECK(fitted.fitted->errors[0].method == "left out by model (3)");
    CHECK(fitted.fitted->errors[0].samples == 6);
    CHECK(fitted.fitted->errors[0].median < 0.05);
    CHECK(fitted.fitted->errors[1].method == "fitted");
    CHECK(fitted.fitted->errors[1].median < 0.02);
}

// "g" is "a" again and takes twice as long: log 2 = 0.69 exceeds the limit of 0.25.
TEST_CASE("a row that contradicts its like is named and has little weight") {
    const TestFolder folder;
    std::vector<Row> rows = slower_machine(folder);
    rows.push_back({"g", "gpt-narrow", 2048, 1, 2 * rows[0].seconds});
    const CalibrationRequest what = request(folder, rows);
    const std::string text = calibrate_few_shot(what);
    CHECK_THAT(text, Contains("rows contradict each other: a took ") &&
                         Contains(", g of the same configuration "));
    CHECK_THAT(text, Contains("far from the others, of little weight: g, ") &&
                         !Contains("little weight: a"));
    CHECK(read_cluster(what.out).kernel.training_gemm ==
          Approx(0.8 * read_cluster("dgx-a100").kernel.training_gemm).epsilon(0.1));
    std::swap(rows.front(), rows.back());  // the first row as well as the last
    CHECK_THAT(calibrate_few_shot(request(folder, rows)),
               Contains("rows contradict each other: g took ") && Contains("little weight: g, "));
}

// One configuration, with steps too short for any cost of the framework: no constant is determined,
// and all errors but two are equal.
TEST_CASE("rows that contradict each other are named where they determine nothing, too") {
    const TestFolder folder;
    const double once = slower_machine(folder)[0].seconds;
    std::vector<Row> rows;
    for (const auto& [id, times] :
         {std::pair{"a", 0.5}, {"b", 0.505}, {"c", 0.4975}, {"d", 1.5}, {"e", 0.125}})
        rows.push_back({id, "gpt-narrow", 2048, 1, times * once});
    CalibrationRequest what = request(folder, rows);
    what.target = FitTarget::framework;
    CHECK_THAT(complaint([&] { calibrate_few_shot(what); }),
               Contains("determine none of") && Contains("rows contradict each other: a took ") &&
                   Contains(", d of the same"));
}

// Rows alternately a tenth above and below the law scatter by 0.1. Five times that exceeds log(4/3)
// = 0.29, by which "a" and the row like it differ, although this is above 0.25.
TEST_CASE("rows that scatter as much as they differ contradict nothing") {
    const TestFolder folder;
    std::vector<Row> rows = slower_machine(folder);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].seconds *= i % 2 == 0 ? 0.9 : 1.1;
    rows.push_back({"g", "gpt-narrow", 2048, 1, 4.0 / 3 * rows[0].seconds});
    CHECK_THAT(calibrate_few_shot(request(folder, rows)),
               !Contains("contradict") && !Contains("far from the others"));
}

// Small layers on a host that needs 2 ms for each, ten times as much as the device. Models of 2 and
// of 8 layers distinguish that from what the host needs per micro-batch.
TEST_CASE("few steps that a slow host holds up lead back to its time a layer") {
    const TestFolder folder;
    std::vector<Row> rows{{"a", "gpt-flat", 1024, 1},
                          {"b", "gpt-flat", 1024, 2},
                          {"c", "gpt-deep", 1024, 1},
                          {"d", "gpt-deep", 1024, 2}};
    rows[2].layers = rows[3].layers = 8;
    auto cases = read_comparisons(folder.write("plain.csv", table(rows)), "dgx-a100", base);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        cases[i].what.experiment.cluster.host.layer = Seconds(2e-3);
        rows[i].seconds = step_with_slopes(cases[i].what, {}, {}).step.si();
    }
    CalibrationRequest what = request(folder, rows);
    what.target = FitTarget::framework;
    CHECK_THAT(calibrate_few_shot(what),
               Contains("framework written to " + what.out) && !Contains("cluster written"));
    const Framework fitted = read_framework(what.out);
    REQUIRE(fitted.fitted);
    CHECK(fitted.name == "fitted");
    CHECK(fitted.fitted->parameters[0].key == "host.layer");
    CHECK(fitted.fitted->parameters[0].determined);
    CHECK(fitted.fitted->parameters.size() == 2);
    // the lower triangle, row by row, rounded to three places
    REQUIRE(fitted.fitted->correlation.size() == 3);
    CHECK((fitted.fitted->correlation[0] == 1 && fitted.fitted->correlation[2] == 1 &&
           fitted.fitted->correlation[1] < 0));
    CHECK(std::abs(std::remainder(fitted.fitted->correlation[1], 0.001)) < 1e-12);
    CHECK(value_in_si("host.layer", fitted.fitted->parameters[0].value) ==
          Approx(2e-3).epsilon(0.15));
    what.target = FitTarget::both;
    std::filesystem::remove(what.out);  // steps that wait for the host say nothing about the device
    CHECK_THAT(calibrate_few_shot(what),
               Contains("framework written to " + folder.path() + "/fitted.framework.toml") &&
                   Contains("no cluster is written"));
    CHECK(read_framework(folder.path() + "/fitted.framework.toml").name == "fitted");
    CHECK_FALSE(std::filesystem::exists(what.out));
}

// The same host, and large layers on a device whose products run at 0.7 of their rate: each file
// gets its own constants.
TEST_CASE("steps of a slow host and a slow device lead to a framework and a cluster") {
    const TestFolder folder;
    std::vector<Row> rows{{"a", "gpt-flat", 1024, 1}, {"b", "gpt-flat", 1024, 2},
                          {"c", "gpt-deep", 1024, 1}, {"d", "gpt-wide", 8192, 4},
                          {"e", "gpt-wide", 8192, 8}, {"f", "gpt-wider", 12288, 4}};
    rows[2].layers = 8;
    auto cases = read_comparisons(folder.write("plain.csv", table(rows)), "dgx-a100", base);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        cases[i].what.experiment.cluster.host.layer = Seconds(2e-3);
        cases[i].what.experiment.cluster.kernel.training_gemm *= 0.7;
        rows[i].seconds = step_with_slopes(cases[i].what, {}, {}).step.si();
    }
    CalibrationRequest what = request(folder, rows);
    what.target = FitTarget::both;
    CHECK_THAT(calibrate_few_shot(what),
               Contains("framework written to ") && Contains("cluster written to " + what.out));
    const Cluster own = read_cluster(what.out);
    for (const FittedParameter& p : own.fitted->parameters)
        CHECK((p.key != "host.layer" && p.key != "host.micro_batch"));
    CHECK(own.kernel.training_gemm < 0.8 * read_cluster("dgx-a100").kernel.training_gemm);
}

// A second copy of the rows, under another name or the same, does not count as a second
// measurement.
TEST_CASE("rows that stand in two files count once") {
    const TestFolder folder;
    CalibrationRequest what = request(folder, slower_machine(folder));
    const std::string once = calibrate_few_shot(what);
    const std::string steps = what.measurements[0], copy = folder.path() + "/copy.csv";
    std::filesystem::copy_file(steps, copy);
    what.measurements = {steps, copy, steps};
    const std::string thrice = calibrate_few_shot(what);
    CHECK_THAT(thrice, Contains("the same row is in another file, too"));
    CHECK(thrice.substr(0, thrice.find(" measured")) == once.substr(0, once.find(" measured")));
    CHECK(thrice.substr(thrice.find("  constant")) == once.substr(once.find("  constant")));
}

// Steps of Megatron-LM of 2021, with plain attention and without fused losses and accumulations,
// are fitted from recipes that fuse them: no host cost turns one into the other. From its own
// recipe there is no better base.
TEST_CASE("a base that the rows contradict is told, with a better one") {
    const TestFolder folder;
    std::vector<Row> rows{{"a", "gpt-narrow", 1024, 2},
                          {"b", "gpt-narrow", 1024, 8},
                          {"c", "gpt-middle", 2048, 4},
                          {"d", "gpt-deep", 2048, 8, 1, "A100-80GB", "", 24}};
    const auto cases =
        read_comparisons(folder.write("plain.csv", table(rows)), "dgx-a100", "megatron-lm-2021");
    for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i].seconds = step_with_slopes(cases[i].what, {}, {}).step.si();
    rows[0].seconds *= 1.3;  // a single disturbed row must not decide
    CalibrationRequest what = request(folder, rows);
    what.target = FitTarget::framework;
    const auto told = [&](const std::string& begun_at) {
        what.framework = begun_at;
        try {
            return calibrate_few_shot(what);
        } catch (const ConfigError& e) {
            return std::string(e.what());
        }
    };
    const std::string wrong = told("nemo-2");
    CHECK_THAT(wrong,
               Contains("nemo-2 may be the wrong base") && Contains("megatron-lm-2021 0.0 %"));
    const std::string fitted = "fitted: median ", from = "; fitted from nemo-2: ";
    REQUIRE((wrong.find(fitted) != std::string::npos && wrong.find(from) != std::string::npos));
    const auto percent_after = [&](const std::string& words) {
        return wrong.substr(wrong.find(words) + words.size(),
                            wrong.find(" %", wrong.find(words)) - wrong.find(words) - words.size());
    };
    CHECK(percent_after(fitted) == percent_after(from));
    rows[0].seconds /= 1.3;
    what = request(folder, rows);
    what.target = FitTarget::framework;
    CHECK_THAT(told("megatron-lm-2021"), !Contains("wrong base"));
}

TEST_CASE("rows of other devices alone are refused, and nothing is written") {
    const TestFolder folder;
    const CalibrationRequest what = request(folder, {{"g", "gpt-wide", 8192, 1, 1, "H100"}});
    CHECK_THROWS_WITH(
        calibrate_few_shot(what),
        Contains("no row can be predicted on dgx-a100: 1 of other devices, 0 refused"));
    CHECK_FALSE(std::filesystem::exists(what.out));
}

TEST_CASE("blocks are left out by name, and one block alone cannot be") {
    const TestFolder folder;
    const CalibrationRequest what = request(folder, slower_machine(folder));
    const std::string text = cross_validate(what, LeftOut::model);
    CHECK_THAT(text, Contains("left out by model") && Contains("gpt-middle") &&
                         Contains("gpt-narrow") && Contains("gpt-wide"));
    CHECK_THAT(complaint([&] { cross_validate(what, LeftOut::device); }),
               Contains("--cross-validate device: the rows have one device only"));
    CHECK_FALSE(std::filesystem::exists(what.out));
}

// Data parallel on one node of eight GPUs: no row tells of exchanges in tensor groups or between
// nodes. On two nodes with tp = 2, four groups per node and eight replicas make rings that use only
// part of a node's ports.
TEST_CASE("the constants that a fit may move are those that its rows exercise") {
    const TestFolder folder;
    Case row = row_of(folder, {"a", "gpt-narrow", 2048, 1});
    const std::vector<std::string> replicas{"kernel.training_gemm", "kernel.memory_efficiency",
                                            "kernel.attention_efficiency",
                                            "interference.compute_slowdown"};
    CHECK(keys(step_constants(FitTarget::hardware, {row})) == replicas);
    CHECK(keys(step_constants(FitTarget::framework, {row})) ==
          std::vector<std::string>{"host.layer", "host.micro_batch"});
    Case tensor = row;
    tensor.experiment.cluster.nodes = 2;
    tensor.experiment.parallelism.tp = 2;
    CHECK(keys(step_constants(FitTarget::both, {tensor})) ==
          std::vector<std::string>{"host.layer", "host.micro_batch", "host.exchange",
                                   "kernel.training_gemm", "kernel.memory_efficiency",
                                   "kernel.attention_efficiency", "interference.compute_slowdown",
                                   "network.partial_ring", "link.intra.training",
                                   "link.inter.training"});
    Case alone = row;
    alone.experiment.parallelism.dp = 1;
    alone.experiment.runtime.attention = AttentionKind::plain;
    alone.experiment.workload.dtype = Dtype::fp8;
    CHECK(keys(step_constants(FitTarget::hardware, {alone})) ==
          std::vector<std::string>{"kernel.training_gemm", "kernel.training_fp8",
                                   "kernel.memory_efficiency"});
    // One row that exercises a constant is enough.
    CHECK(keys(step_constants(FitTarget::hardware, {alone, row})).size() == replicas.size() + 1);
    // Priors begin at the cluster's value and keep it within bounds: products in training from 0.3
    // to 1.5 of their rate alone.
    const StepConstant gemm = step_constants(FitTarget::hardware, {row}).front();
    CHECK(gemm.start == row.experiment.cluster.kernel.training_gemm);
    CHECK(gemm.prior.lower == Approx(std::log(0.3 / gemm.start)));
    CHECK(gemm.prior.upper == Approx(std::log(1.5 / gemm.start)));
    CHECK(gemm.prior.sigma >= 0.1);
    row.experiment.cluster.host.layer = Seconds(0);
    const StepConstant layer = step_constants(FitTarget::framework, {row}).front();
    CHECK(layer.start > 1e-6);  // the usual value of others, so that it can be scaled
    CHECK(layer.prior.sigma >= 1);
}

// Predicted 10 % too long, 20 % too short and 1 % too long.
TEST_CASE("errors of a block are summed up with their sign, size and worst") {
    const std::vector<double> errors{std::log(1.1), std::log(0.8), std::log(1.01)};
    const HeldOutError sum = summary_of(errors, "m");
    CHECK(sum.mape == Approx(0.31 / 3));
    CHECK(sum.bias == Approx(-0.09 / 3));
    CHECK(sum.median == Approx(0.1));
    CHECK(sum.worst == Approx(-0.2));
    CHECK(sum.samples == 3);
    const std::string text =
        block_table({{"one", errors, 2}, {"two", {std::log(1.31)}, 0}}, LeftOut::ranks);
    CHECK_THAT(text, Contains("  one                                    3   10.0 %   10.3 %   -3.0 "
                              "%   -20.0 %     67 %\n"));
    CHECK_THAT(text, Contains("  two                                    1   31.0 %   31.0 %  +31.0 "
                              "%   +31.0 %      0 %\n"));
    CHECK_THAT(text, Contains("  all                                    4   15.0 %   15.5 %   +5.5 "
                              "%   +31.0 %     50 %\n"));
}

TEST_CASE("words of --fit and --cross-validate") {
    CHECK(parse_fit_target("both") == FitTarget::both);
    CHECK(parse_block("device") == LeftOut::device);
    CHECK_THAT(complaint([] { parse_fit_target("all"); }),
               Contains("expected framework, hardware, both, scatter or few-shot"));
    CHECK_THAT(complaint([] { parse_block("row"); }), Contains("expected model, ranks, framework, "
                                                               "device or source"));
    CHECK_THAT(complaint([] { parse_block("fold"); }),
               Contains("--cross-validate fold: is of tables of kernels"));
    Case c;
    c.experiment.cluster.nodes = 2;
    c.experiment.cluster.gpus_per_node = 4;
    c.experiment.framework.name = "own";
    CHECK(block_of(c, LeftOut::ranks) == "8 ranks");
    CHECK(block_of(c, LeftOut::framework) == "own");
}
