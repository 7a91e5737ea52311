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
