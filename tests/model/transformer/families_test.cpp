// Shapes of published models by their presets, and what their layers exchange.
#include <array>
#include <set>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/step.h"
#include "model/transformer/counts.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

double billions(const std::string& preset) {
    Experiment e;
    set_key(e, {"workload.preset", preset});
    return count_parameters(e.workload).total() / 1e9;
}

}  // namespace

// Totals as the models' cards state them.
TEST_CASE("presets of published models have their stated numbers of weights") {
    CHECK(billions("gpt-oss-120b") == Approx(116.8).epsilon(0.01));
    CHECK(billions("moonlight-16b") == Approx(16.0).epsilon(0.01));
    CHECK(billions("kimi-k2") == Approx(1026).epsilon(0.01));
    CHECK(billions("nemotron-h-56b") == Approx(56.3).epsilon(0.02));
    CHECK(billions("nemotron-3-nano") == Approx(31.6).epsilon(0.02));
}

// Four ranks on two nodes of two, four experts, two per token: of T tokens a rank sends T / 2 slots
// to each rank. A token wants a given expert with 1 - 3/4 * 2/3 = 1/2, and one of a node's two with
// 1 - 2/4 * 1/3 = 5/6. If each token is sent once, a rank receives T / 2 tokens from each of four
// sources, those of the other node through its neighbour: T over the one link inside. Between nodes
// 5/6 T are spread over two ranks.
TEST_CASE("tokens that go once cross to a node and to a rank once") {
    Experiment e = small_gpt();
    e.cluster.nodes = 2;
    e.cluster.gpus_per_node = 2;
    e.workload.moe.experts = 4;
    e.workload.moe.top_k = 2;
    e.parallelism = {};
    e.parallelism.dp = e.parallelism.ep = 4;
    e.runtime.experts.dispatch = TokenDispatch::once;
    const TaskGraph graph = build_step(e, {});
    // bytes of a rank's tokens
    const double tokens = static_cast<double>(e.workload.seq) * e.workload.hidden * 2;
    bool found = false;
    for (const Op& op : graph.ops())
        if (const auto* exchange = std::get_if<AllToAll>(&op)) {
            found = true;
            CHECK(exchange->by_kernels());
            CHECK(exchange->bytes[1].si() == Approx(tokens));
            CHECK(exchange->bytes[2].si() == Approx(tokens * 5 / 12));
        }
    CHECK(found);
}

// For R rows and experts of width f: the activation reads and writes 2 bytes per element, its
// backward reads two and writes one: 10 R f. The casts after it and before the gradient of the
// first product each read 2 bytes per element and write two of 1: 4 R f. Fused products include all
// these; casts of incoming data stay. Run one by one, each of the four experts casts and
// multiplies; with block scales it also orders those of both operands; a weight gradient finds its
// operands cast.
TEST_CASE("experts multiply at once, one by one or with activation and casts in their products") {
    Experiment e = small_gpt();
    e.workload.moe.experts = 4;
    e.workload.moe.top_k = 2;
    e.workload.dtype = Dtype::fp8;
    e.workload.linear_bias = false;
    e.parallelism = {};
    const auto with = [&](ExpertProducts products) {
        Experiment one = e;
        one.runtime.experts.products = products;
        return one;
    };
    const auto pass_bytes = [&](ExpertProducts products) {
        double bytes = 0;
        const TaskGraph graph = build_step(with(products), {});
        for (TaskId t = 0; t < graph.size(); ++t)
            if (const auto* pass = std::get_if<MemoryPass>(&graph.op(t)))
                bytes += (pass->read + pass->written).si();
        return bytes;
    };
    // numbers for forward and input gradients, for weight gradients
    const auto kernels = [&](ExpertProducts products) {
        std::array<std::set<int>, 2> found;
        const TaskGraph graph = build_step(with(products), {});
        for (const Op& op : graph.ops())
            if (const auto* product = std::get_if<GroupedGemm>(&op))
                found[product->weight_gradient ? 1 : 0].insert(product->kernels);
        return found;
    };
    const double elements = e.workload.layers * 2.0 * e.workload.seq * e.workload.ffn;
    CHECK(pass_bytes(ExpertProducts::grouped) - pass_bytes(ExpertProducts::fused) ==
          Approx(18 * elements));
    CHECK(pass_bytes(ExpertProducts::each) == Approx(pass_bytes(ExpertProducts::grouped)));
    using Found = std::array<std::set<int>, 2>;
    CHECK(kernels(ExpertProducts::grouped) == Found{{{0}, {0}}});
    CHECK(kernels(ExpertProducts::each) == Found{{{2}, {1}}});
    e.cluster.gpu.peaks[Dtype::fp4] = FlopsPerSecond(16e12);
    CHECK(kernels(ExpertProducts::each) == Found{{{4}, {3}}});
    CHECK(kernels(ExpertProducts::fused) == Found{{{0}, {0}}});
}

// LoRA of rank 2 beside the projections 3 h x h and the output h x h: only its 2 (h + 3 h + h + h)
// weights per layer are trained, and no other matrix has a gradient.
TEST_CASE("adapters are all that is exchanged and updated") {
    Experiment e = small_gpt();
    e.workload.moe = {};
    e.workload.adapter_rank = 2;
    e.parallelism = {};
    e.parallelism.dp = 4;
    const TaskGraph graph = build_step(e, {});
    double exchanged = 0;
    for (const Op& op : graph.ops())
        if (const auto* sum = std::get_if<AllReduce>(&op); sum != nullptr && sum->bytes.si() > 8)
            exchanged = std::max(exchanged, sum->bytes.si());
    const double h = e.workload.hidden;
    CHECK(exchanged == Approx(e.workload.layers * 2 * 6 * h * 4));
}
