// The recorded Llama pipeline: which modules are on which stage and what crosses each cut, counted
// by hand.

#include <functional>
#include <set>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/input/check_experiment.h"
#include "model/recorded/opt_prime/modules.h"
#include "model/transformer/counts.h"
#include "model/transformer/hops.h"
#include "model/transformer/step.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

Experiment recorded() { return read_experiment("llama_1b_pp8"); }

struct Parts {
    Experiment e = recorded();
    Routing routing;
    LayerContext context{e, rank_shape(e), rank_groups(e.parallelism), routing};
    Path path = chunks_of(e.workload, e.parallelism);
};

std::string complaint_of(const std::function<void(Experiment&)>& change) {
    Experiment e = recorded();
    change(e);
    try {
        check_experiment(e);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

// A small model: two gated layers per stage, cut by modules. 4 layers are 34 modules, so 17 per
// stage cut between layers; 11 per stage would not.
Experiment small_gated() {
    Experiment e = small_gpt();
    e.workload.gated = true;
    e.runtime.fused_projections = false;
    e.parallelism.pp = 2;
    e.parallelism.global_batch = 4;
    e.cluster.gpus_per_node = 2;
    return e;
}

double flops_of_pipeline(const TaskGraph& graph) {
    double sum = 0;
    for (TaskId t = 0; t < graph.size(); ++t) sum += flops_of(graph.op(t)).si();
    return sum;
}

}  // namespace

// Attention 2048 x (2048 + 512 + 512 + 2048), block 3 x 2048 x 8192, two norms of 2048: 60,821,504
// a layer; embedding 128,256 x 2048 = 262,668,288, tied; final norm 2048. The log prints the sum.
TEST_CASE("Llama 3.2 1B has the parameters that the run printed") {
    CHECK(layer_parameters(recorded().workload, 0).total() == 60821504);
    CHECK(count_parameters(recorded().workload).total() == 1235814400);
}

// 130 modules: embedding, 16 layers of 8, logits; 16 per stage. Stage 0: embedding, layer 0, seven
// modules of layer 1. Stage s: the eighth of layer 2s - 1, layer 2s, seven of layer 2s + 1. The
// last stage takes the remaining 18.
TEST_CASE("cut by modules every cut of the Llama pipeline falls behind an up projection") {
    const Parts p;
    CHECK(module_count(p.e.workload) == 130);
    REQUIRE(p.path.size() == 8);
    CHECK(
        p.path[0] ==
        Chunk{
            .stage = 0, .first = 0, .last = 2, .again = 2, .embedding = true, .ends_inside = true});
    for (int s = 1; s < 7; ++s)
        CHECK(p.path[static_cast<std::size_t>(s)] == Chunk{.stage = s,
                                                           .position = s,
                                                           .first = 2 * s,
                                                           .last = 2 * s + 2,
                                                           .again = 2 * s + 2,
                                                           .begins_inside = true,
                                                           .ends_inside = true});
    CHECK(p.path[7] == Chunk{.stage = 7,
                             .position = 7,
                             .first = 14,
                             .last = 16,
                             .again = 16,
                             .head = true,
                             .begins_inside = true});
}

// A down projection has 8192 x 2048 = 16,777,216 weights. An interior stage holds one, a whole
// layer, and a layer without one.
TEST_CASE(
    "stages cut inside layers hold the weights of their modules, together the model's and the "
    "logits' copy") {
    Parts p;
    CHECK(rest_weights(p.context).dense == 16777216);
    CHECK(opened_weights(p.context, 1).dense == 60821504 - 16777216);
    TaskGraph graph(8);
    const LayerPlans plans = layer_plans(graph, p.context);
    const DataFlow flow(p.context.experiment.workload, p.context.experiment.parallelism);
    const Stages stages = make_stages(graph, p.context, plans, flow, StageRanks::one);
    CHECK(stages[0]->data.total().dense == 262668288 + 60821504 + 44044288);
    for (std::size_t s = 1; s < 7; ++s)
        CHECK(stages[s]->data.total().dense == 16777216 + 60821504 + 44044288);
    CHECK(stages[7]->data.total().dense == 16777216 + 2 * 60821504 + 2048 + 262668288);
}

// 116 tokens in fp32. At a cut gate and up [116, 8192] and the residual [116, 2048] are sent:
// 18,432 x 116 x 4 = 8,552,448 bytes; with them mask [116, 116], cosine and sine [116, 64]: 113,216
// bytes. The first hop has 6 tensors in a tuple: 2 + 6 x 5 messages. Later hops have their own 3
// and these 6 again: 2 x 2 + 9 x 5; back 7 x 5.
TEST_CASE("hops of the Llama pipeline take 32, 49 and 35 messages") {
    const Parts p;
    const StageMessages& split = p.e.runtime.pipeline;
    const HopLoad first = hop_load(p.context, p.path, 0, false),
                  later = hop_load(p.context, p.path, 3, false);
    const HopLoad back = hop_load(p.context, p.path, 3, true);
    CHECK(first == HopLoad{6, 1, Bytes(8552448 + 113216)});
    CHECK(later == HopLoad{9, 2, Bytes(2 * 8552448 + 113216)});
    CHECK(back == HopLoad{7, 0, Bytes(8552448)});
    CHECK(messages_of(first, split) == 32);
    CHECK(messages_of(later, split) == 49);
    CHECK(messages_of(back, split) == 35);
}

// An interior stage handles 49 in, 49 out, 35 in, 35 out; the last one 49 and 35; the second one 32
// in.
TEST_CASE("each stage handles its messages once a micro-batch, its host held") {
    const Experiment e = recorded();
    const TaskGraph graph = build_transformer_step(e, {});
    std::vector<int> handled(8);
    for (TaskId t = 0; t < graph.size(); ++t) {
        const auto* hop = std::get_if<SendRecv>(&graph.op(t));
        if (!hop) continue;
        CHECK(hop->blocking);
        for (const Place& place : graph.places(t)) {
            CHECK(place.lane() == Lane::host);
            handled[static_cast<std::size_t>(place.rank())] += hop->messages;
        }
    }
    CHECK(handled == std::vector<int>{32 * 67, 32 * 151, 32 * 168, 32 * 168, 32 * 168, 32 * 168,
                                      32 * 168, 32 * 84});
}

// A hop carries the gradients of the cut back; forward it carries one tensor if the cut is between
// layers.
TEST_CASE("a hop between layers carries the hidden state alone") {
    Experiment e = small_gpt();
    e.parallelism.pp = 4;
    const Routing routing;
    const LayerContext c{e, rank_shape(e), rank_groups(e.parallelism), routing};
    const Path path = chunks_of(e.workload, e.parallelism);
    const Bytes hidden(128 * 64 * 2);
    for (const bool back : {false, true}) CHECK(hop_load(c, path, 1, back).bytes == hidden);
    CHECK(messages_of(hop_load(c, path, 1, false), e.runtime.pipeline) == 1);
}

// Four layers of eight modules, embedding and logits: on two stages 17 modules each, with the cut
// between layers 1 and 2; on four stages 8 each and 10, with cuts behind the up projections of
// layers 0, 1, 2. Cuts move work but do not add or remove any.
TEST_CASE("the products of a step are the same whether stages are cut by layers or by modules") {
    for (const int stages : {2, 4}) {
        Experiment e = small_gated();
        e.parallelism.pp = e.cluster.gpus_per_node = stages;
        const double by_layers = flops_of_pipeline(build_transformer_step(e, {}));
        e.parallelism.cut = StageCut::modules;
        check_experiment(e);
        CHECK(flops_of_pipeline(build_transformer_step(e, {})) == Approx(by_layers).epsilon(1e-12));
        CHECK(by_layers == Approx(model_flops(e.workload, 4).si()));
        CHECK(chunks_of(e.workload, e.parallelism)[1].begins_inside == (stages == 4));
    }
}

TEST_CASE("products of gate, up, query, key and value apart are as many operations as together") {
    Experiment e = small_gated();
    const double apart = flops_of_pipeline(build_transformer_step(e, {}));
    e.runtime.fused_projections = true;
    CHECK(flops_of_pipeline(build_transformer_step(e, {})) == Approx(apart).epsilon(1e-12));
}

// 129 modules on the first eight of nine stages: the cuts stay where they were.
TEST_CASE("with the head apart the last stage holds the logits alone") {
    Parts p;
    p.e.parallelism.pp = 9;
    p.e.parallelism.head_apart = true;
    const Path path = chunks_of(p.e.workload, p.e.parallelism);
    CHECK(path[7] == Chunk{.stage = 7,
                           .position = 7,
                           .first = 14,
                           .last = 16,
                           .again = 16,
                           .begins_inside = true});
    CHECK(path[8] ==
          Chunk{.stage = 8, .position = 8, .first = 16, .last = 16, .again = 16, .head = true});
}

// 130 / 5 = 26 modules: stage 1 would begin with module 25 of the layers, the second of layer 3.
TEST_CASE("cuts and messages that are not modelled are refused") {
    CHECK(complaint_of([](Experiment&) {}).empty());
    CHECK(complaint_of([](Experiment& e) {
              e.parallelism.pp = e.cluster.gpus_per_node = 5;
              e.cluster.gpu.rank_rates.clear();
          }) ==
          "parallelism.pp: 5 stages of 130 modules cut layer 3 behind q_proj; a cut is modelled "
          "between layers and "
          "behind up_proj");
    CHECK_THAT(complaint_of([](Experiment& e) { e.parallelism.schedule = Schedule::zb_h1; }),
               Catch::Contains("runtime.pipeline.blocking: true, but schedule zb-h1 with vp = 1 "
                               "would wait for itself"));
    CHECK_THAT(complaint_of([](Experiment& e) { e.runtime.fused_projections = true; }),
               Catch::Contains("parallelism.cut: modules, but the workload's layers"));
    CHECK_THAT(
        complaint_of([](Experiment& e) { e.parallelism.stage_layers = {2, 2, 2, 2, 2, 2, 2, 2}; }),
        Catch::Contains("without stage_layers") || Catch::Contains("stage_layers"));
    CHECK_THAT(complaint_of([](Experiment& e) {
                   e.parallelism.cut = StageCut::layers;
                   e.parallelism.head_apart = true;
               }),
               Catch::Contains("parallelism.head_apart: true, but stages are cut by layers"));
    CHECK_THAT(complaint_of([](Experiment& e) { e.cluster.gpu.rank_rates.pop_back(); }),
               Catch::Contains("cluster.gpu.rank_rates: 7 rates, but cluster has 8 ranks"));
}

// Four layers on four stages, cut behind the up projections of layers 0, 1, 2: stage s begins with
// the end of layer s - 1.
TEST_CASE("what a stage cut inside layers writes is of the layers that it holds parts of") {
    Experiment e = small_gated();
    e.parallelism.pp = e.cluster.gpus_per_node = 4;
    e.parallelism.cut = StageCut::modules;
    const TaskGraph graph = build_transformer_step(e, {});
    std::vector<std::set<int>> layers(4);
    for (TaskId t = 0; t < graph.size(); ++t)
        if (const TaskLabel& label = graph.label(t); label.layer >= 0)
            layers[static_cast<std::size_t>(label.stage)].insert(label.layer);
    CHECK(layers == std::vector<std::set<int>>{{0}, {0, 1}, {1, 2}, {2, 3}});
}

// Clipping reads and writes gradients (8 bytes), Adam's operations move 72: 12 elements of four
// bytes read and 8 written.
TEST_CASE("an optimizer that is not fused moves 80 bytes a weight, each stage clips by itself") {
    const TaskGraph graph = build_transformer_step(recorded(), {});
    int optimizers = 0;
    for (TaskId t = 0; t < graph.size(); ++t) {
        CHECK(graph.name(t) != "norm_all_reduce");
        CHECK(graph.name(t) != "embedding_all_reduce");
        if (graph.name(t) != "optimizer") continue;
        const auto& pass = std::get<MemoryPass>(graph.op(t));
        if (graph.places(t).front().rank() == 3)
            CHECK((pass.read + pass.written).si() == Approx(80.0 * 121643008));
        ++optimizers;
    }
    CHECK(optimizers == 8);
}
