// Shapes of published models by their presets, and what their layers exchange.
#include <catch2/catch.hpp>

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

// Four ranks on two nodes of two, four experts, two a token: of T tokens a rank sends T / 2 slots to each. A token wants a
// given expert with 1 - 3/4 * 2/3 = 1/2, one of a node's two with 1 - 2/4 * 1/3 = 5/6. Sent once, a rank receives from four
// sources T / 2 tokens each, those of the other node by the neighbour: T over the one link inside. Between nodes 5/6 T
// are spread over two ranks.
TEST_CASE("tokens that go once cross to a node and to a rank once") {
    Experiment e = small_gpt();
    e.cluster.nodes = 2;
    e.cluster.gpus_per_node = 2;
    e.workload.moe.experts = 4;
    e.workload.moe.top_k = 2;
    e.parallelism = {};
    e.parallelism.dp = e.parallelism.ep = 4;
    e.parallelism.dispatch_once = true;
    const TaskGraph graph = build_step(e, {});
    const double tokens = static_cast<double>(e.workload.seq) * e.workload.hidden * 2;  // bytes of a rank's tokens
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

// LoRA of rank 2 beside 3 h x h of the projections and h x h of the output: 2 (h + 3 h + h + h) weights a layer are
// trained, and no gradient of another matrix is made.
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
