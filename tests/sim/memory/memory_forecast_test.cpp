// What a forecast says of memory: the replay of the allocator, and the chance to run out of it.

#include <cmath>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/input/presets.h"
#include "sim/memory/allocator_forecast.h"
#include "sim/memory/memory_use.h"
#include "sim/memory/process_memory.h"
#include "sim/predict.h"
#include "sim/scatter.h"

using namespace stepcast;

namespace {

Experiment llama(const std::vector<Override>& more = {}) {
    std::vector<Override> keys{{"cluster.preset", "dgx-h100"},
                               {"cluster.gpus", "8"},
                               {"parallelism.tp", "8"},
                               {"parallelism.global_batch", "4"},
                               {"workload.seq", "4096"}};
    keys.insert(keys.end(), more.begin(), more.end());
    return read_experiment("llama3-8b", keys);
}

}  // namespace

TEST_CASE("a forecast's memory is that of the replay") {
    const Experiment e = llama();
    const MemoryUse use = predict(e).memory;
    const AllocatorForecast shown = allocator_forecast(e);
    CHECK(use.peak == shown.allocated);
    CHECK(use.reserved == shown.reserved);
    CHECK(use.peak /
              (use.weights + use.gradients + use.optimizer + use.activations + use.buffers) ==
          Approx(1));
    CHECK(use.overheads.si() == Approx((process_memory(e) + use.reserved - use.peak).si()));
    // searches use the closed form
    CHECK(fullest_memory(e).reserved == Bytes(0));
    CHECK(use.peak / fullest_memory(e).peak == Approx(1).margin(0.08));
}

// A device with a mebibyte more than context and what is reserved fits without giving anything
// back; with nine tenths of what tensors take it cannot.
TEST_CASE("a step fits where the replay ends") {
    Experiment e = llama();
    const MemoryUse use = memory_forecast(e);
    e.cluster.gpu.memory = process_memory(e) + use.reserved + Bytes(1048576);
    CHECK(memory_forecast(e).fits);
    CHECK(memory_forecast(e).tight);
    e.cluster.gpu.memory = process_memory(e) + 0.9 * use.peak;
    CHECK_FALSE(memory_forecast(e).fits);
    e.cluster.gpu.memory = Bytes(0);
    CHECK(memory_forecast(e).fits);
    CHECK(memory_forecast(e).out_of_memory == 0);
}

// The logarithm of the true peak over the forecast is normal with the spread of the framework's
// kind: as much as is left gives a half, 1.2815515655 spreads more a tenth.
TEST_CASE("the chance to run out of memory follows the spread of measured peaks") {
    Experiment e = llama();
    const MemoryScatter& scatter = shipped_scatter().memory;
    REQUIRE(scatter.measured > 0);
    REQUIRE(scatter.other > scatter.measured);
    const Bytes held(40e9);
    for (const auto& [name, spread] :
         {std::pair(scatter.frameworks.front().c_str(), scatter.measured),
          std::pair("of nobody", scatter.other)}) {
        CAPTURE(name);
        e.framework.name = name;
        CHECK(chance_out_of_memory(e, held, held) == Approx(0.5));
        CHECK(chance_out_of_memory(e, held, std::exp(p90_of_normal * spread) * held) ==
              Approx(0.1));
        CHECK(chance_out_of_memory(e, held, std::exp(-p90_of_normal * spread) * held) ==
              Approx(0.9));
    }
    CHECK(chance_out_of_memory(e, held, Bytes(-1)) == 1);
    CHECK(predict(e).memory.out_of_memory <
          predict(llama({{"workload.seq", "32768"}})).memory.out_of_memory);
}

// What XLA plans ahead lies without gaps: tensors' own sizes, nothing rounded, nothing kept.
TEST_CASE("a region planned ahead holds what lives") {
    const Experiment cached = llama(), planned = llama({{"runtime.allocator", "arena"}});
    const MemoryUse of = memory_forecast(planned);
    CHECK(of.reserved == of.peak);
    CHECK(of.peak < memory_forecast(cached).reserved);
    CHECK(of.peak / memory_forecast(cached).peak == Approx(1).margin(0.01));
}

// Recorded kinds have no list of requests.
TEST_CASE("what is not replayed keeps the closed form") {
    const Experiment e = read_experiment("coca_zero1");
    REQUIRE_FALSE(is_replayed(e));
    CHECK(memory_forecast(e) == fullest_memory(e));
    CHECK(memory_forecast(e).reserved == Bytes(0));
}

// Llama 8B on one GPU with LoRA: its layers' linear weights are 32 x (2 x 4096 x 4096 + 2 x 4096 x
// 1024 + 3 x 4096 x 14336) = 6,979,321,856; norms (32 x 2 x 4096) count with them. In 16 bits 2 B
// each; nf4 0.5 + 4 / 64; nf4_double 0.5 + (1 + 4 / 256) / 64.
TEST_CASE("frozen weights in four bits take what bitsandbytes allocates") {
    const auto weights = [](const char* frozen) {
        const Experiment e =
            read_experiment("llama3-8b", std::vector<Override>{{"cluster.preset", "h100-x1"},
                                                               {"workload.adapter_rank", "16"},
                                                               {"workload.adapter_on", "linear"},
                                                               {"workload.frozen", frozen}});
        CHECK(memory_forecast(e).weights / memory_use(e, {}).weights == Approx(1).margin(1e-3));
        return memory_use(e, {}).weights.si();
    };
    const double packed = 6979321856.0 + 32 * 2 * 4096.0;
    CHECK(weights("stored") - weights("nf4") == Approx(packed * (2 - 0.5625)));
    CHECK(weights("nf4") - weights("nf4_double") == Approx(packed * (0.5625 - 0.515869140625)));
}
