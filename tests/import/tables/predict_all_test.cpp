#include <catch2/catch.hpp>

#include "measured/read.h"
#include "sim/predict_all.h"

using namespace stepcast;

TEST_CASE("a refused case does not stop the others") {
    std::vector<Comparison> comparisons(2);
    comparisons[0].what.experiment = comparisons[1].what.experiment =
        read_experiment("one_gpu_gpt2_124m");
    Gpu& gpu = comparisons[0].what.experiment.cluster.gpu;
    gpu.peaks[Dtype::fp16] = gpu.peaks[Dtype::bf16] = FlopsPerSecond(0);  // no such arithmetic
    predict_all(comparisons);
    CHECK_FALSE(comparisons[0].forecast);
    CHECK_FALSE(comparisons[0].refused_because.empty());
    CHECK(comparisons[1].forecast);
}

// FSDP's two layers over two nodes of a user: measured as if the network reached what half of the
// users' do (scatter.toml, [network]: 25 GB/s), no rate explains a step that no network makes so
// short, and what the network does not decide is not explained by it.
TEST_CASE("a step over an unstated network is told the rate that would explain it") {
    Comparison c;
    Experiment& e = c.what.experiment;
    e = read_experiment("llama3_8b_h100_fsdp",
                        std::vector<Override>{{"framework.preset", "fsdp"},
                                              {"workload.layers", "2"},
                                              {"cluster.nodes", "2"},
                                              {"parallelism.dp", "16"},
                                              {"parallelism.global_batch", "32"}});
    c.what.circumstances = {.by = RunBy::thread, .network_stated = false};
    const auto told = [&](Seconds measured) {
        std::vector<Comparison> rows{c};
        rows[0].what.measured_step = measured;
        predict_all(rows);
        REQUIRE(rows[0].forecast);
        std::string found;
        for (const std::string& line : rows[0].what.assumptions)
            if (line.ends_with("would explain the measured step")) found += line;
        return std::pair(found, rows[0].forecast->step.p50);
    };
    const Seconds at_prior = told(Seconds(1e-6)).second;
    CHECK(told(Seconds(1e-6)).first.empty());
    CHECK(told(at_prior).first == "a network of 25 GB/s a node would explain the measured step");
    c.what.circumstances.network_stated = true;
    CHECK(told(at_prior).first.empty());
}
