#include <functional>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/experiment.h"
#include "model/input/check_experiment.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {
// Four ranks, 64 experts, everything allowed.
Experiment valid_moe_layer() {
    const TestHome home;
    return read_experiment("moe_layer_alltoall");
}
std::string told(const std::function<void(Experiment&)>& change) {
    auto e = valid_moe_layer();
    change(e);
    return complaint([&] { check_experiment(e); });
}
}  // namespace

TEST_CASE("the valid experiment is accepted") {
    CHECK(told([](Experiment&) {}).empty());
}

// 2 x 8 = 16 ranks against 2 nodes of 4.
TEST_CASE("the ranks of the split are the ranks of the cluster") {
    CHECK(told([](Experiment& e) {
              e.parallelism.dp = 16;
              e.cluster.nodes = 2;
          }) ==
          "parallelism: pipeline 1 x data 16 x tensor 1 x context 1 = 16 ranks, but cluster has 8; "
          "dp=8 uses all");
}

TEST_CASE("expert ranks divide the data-parallel ones and experts divide by them") {
    CHECK(told([](Experiment& e) { e.parallelism.ep = 3; }) ==
          "parallelism.ep: 3 does not divide dp x cp = 4");
    CHECK(told([](Experiment& e) { e.parallelism.ep = 2; }) ==
          "parallelism.ep: 2, but alltoall spreads its experts over all 4 ranks");
    CHECK(told([](Experiment& e) { e.workload.moe.experts = 66; }) ==
          "workload.moe.experts: 66 cannot be spread over parallelism.ep = 4 ranks; expected a "
          "multiple");
    CHECK(told([](Experiment& e) { e.workload.moe.experts = 0; }) ==
          "workload.moe.experts: missing; expected the experts of a layer over all ranks");
}

// The layer benchmark is no transformer; a small GPT on 4 ranks is.
TEST_CASE("weights and activations go to the host where something brings them back") {
    const auto of = [](std::vector<Override> keys) {
        for (const char* own : {"run.offload_optimizer", "run.offload_parameters"})
            keys.push_back({own, "true"});
        keys.insert(keys.begin(), {{"cluster.preset", "dgx-h100"}, {"cluster.nodes", "1"}});
        return complaint([&] { check_experiment(read_unchecked_experiment("llama3-8b", keys)); });
    };
    CHECK(of({{"parallelism.zero", "3"}, {"parallelism.dp", "8"}}).empty());
    CHECK_THAT(of({{"parallelism.zero", "2"}, {"parallelism.dp", "8"}}),
               Catch::Contains("run.offload_parameters: of transformers"));
    CHECK_THAT(of({{"parallelism.zero", "3"}, {"parallelism.dp", "4"}, {"parallelism.pp", "2"}}),
               Catch::Contains("one pipeline stage"));
    for (const char* recompute : {"none", "selective", "full"})
        CHECK(of({{"parallelism.zero", "3"},
                  {"parallelism.dp", "8"},
                  {"run.offload_activations", "blocking"},
                  {"parallelism.recompute", recompute}})
                  .empty());
    CHECK_THAT(of({{"parallelism.zero", "3"},
                   {"parallelism.dp", "8"},
                   {"run.offload_activations", "blocking"},
                   {"parallelism.recompute", "alternate"}}),
               Catch::Contains("run.offload_activations: blocking, but"));
    CHECK_THAT(
        of({{"parallelism.zero", "3"}, {"parallelism.dp", "8"}, {"run.paged_optimizer", "true"}}),
        Catch::Contains("run.paged_optimizer: of transformers"));
    CHECK_THAT(
        told([](Experiment& e) { e.run.offload_activations = ActivationOffload::overlapped; }),
        Catch::Contains("run.offload_activations: overlapped"));
}

TEST_CASE("a token goes to at most all experts") {
    CHECK(told([](Experiment& e) { e.workload.moe.top_k = 64; }).empty());
    CHECK(told([](Experiment& e) { e.workload.moe.top_k = 65; }) ==
          "workload.moe.top_k: 65 is above the 64 experts that there are");
}

TEST_CASE("required sizes are there") {
    CHECK(told([](Experiment& e) { e.workload.hidden = 0; }) ==
          "workload.hidden: missing; expected model width");
    CHECK(told([](Experiment& e) { e.workload.seq = 0; }) ==
          "workload.seq: missing; expected tokens of one sequence");
    CHECK(told([](Experiment& e) { e.cluster.gpu.memory_bandwidth = {}; }) ==
          "cluster.gpu.memory_bandwidth: missing; expected memory bandwidth, datasheet");
}

TEST_CASE("the global batch is a multiple of what the replicas take at once") {
    CHECK(told([](Experiment& e) { e.parallelism.global_batch = 8; }).empty());
    CHECK(told([](Experiment& e) { e.parallelism.global_batch = 6; }) ==
          "parallelism.global_batch: 6 is no multiple of dp x micro_batch = 4");
}

// 61035 x 8192 x 2 = 999,997,440 slots; one sequence more makes 1,000,013,824.
TEST_CASE("the slots of a rank stay countable") {
    CHECK(told([](Experiment& e) { e.parallelism.micro_batch = 61035; }).empty());
    CHECK(told([](Experiment& e) { e.parallelism.micro_batch = 61036; }) ==
          "parallelism.micro_batch: 61036 x seq 8192 x top_k 2 is above 1e9 slots on a rank");
}

TEST_CASE("what nothing models yet is refused by its key") {
    const auto kind = ", but workload.kind moe_layer does not model it; expected ";
    CHECK(told([](Experiment& e) { e.parallelism.tp = 2; }) ==
          "parallelism.tp: 2" + (kind + std::string("1")));
    CHECK(told([](Experiment& e) { e.parallelism.pp = 2; }) ==
          "parallelism.pp: 2" + (kind + std::string("1")));
    CHECK(told([](Experiment& e) { e.parallelism.vp = 2; }) ==
          "parallelism.vp: 2" + (kind + std::string("1")));
    CHECK(told([](Experiment& e) { e.parallelism.cp = 2; }) ==
          "parallelism.cp: 2" + (kind + std::string("1")));
    CHECK(told([](Experiment& e) { e.runtime.gather_copies = true; }) ==
          "runtime.gather_copies: true" + (kind + std::string("false")));
    CHECK(told([](Experiment& e) { e.runtime.fused_gate = true; }) ==
          "runtime.fused_gate: true" + (kind + std::string("false")));
    CHECK(told([](Experiment& e) { e.runtime.row_scales = true; }) ==
          "runtime.row_scales: true" + (kind + std::string("false")));
    CHECK(told([](Experiment& e) { e.workload.adapter_rank = 8; }) ==
          "workload.adapter_rank: 8" + (kind + std::string("0")));
    CHECK(told([](Experiment& e) { e.workload.moe.ffn = 8; }) ==
          "workload.moe.ffn: 8" + (kind + std::string("0")));
    CHECK(told([](Experiment& e) { e.parallelism.zero = 1; }) ==
          "parallelism.zero: 1" + (kind + std::string("0")));
    CHECK(told([](Experiment& e) { e.parallelism.sequence_parallel = true; }) ==
          "parallelism.sequence_parallel: true" + (kind + std::string("false")));
    CHECK(told([](Experiment& e) { e.parallelism.recompute = Recompute::full; }) ==
          "parallelism.recompute: full" + (kind + std::string("none")));
    CHECK(told([](Experiment& e) { e.parallelism.stage_layers = {1}; }) ==
          "parallelism.stage_layers: [1]" + (kind + std::string("[]")));
    CHECK(told([](Experiment& e) { e.parallelism.schedule = Schedule::zb_v; }) ==
          "parallelism.schedule: zb-v" + (kind + std::string("1f1b")));
    CHECK(told([](Experiment& e) { e.workload.gated = true; }) ==
          "workload.gated: true" + (kind + std::string("false")));
    CHECK(told([](Experiment& e) { e.workload.optimizer = Optimizer::adam; }) ==
          "workload.optimizer: adam" + (kind + std::string("none")));
}

TEST_CASE("a dense workload has no experts") {
    const auto dense = [](Experiment& e) {
        e.workload.kind = Workload::Kind::mlp;
        e.workload.moe.experts = 0;
        e.parallelism.ep = 1;
    };
    CHECK(told(dense).empty());
    CHECK(told([&](Experiment& e) { dense(e), e.workload.optimizer = Optimizer::adam; }).empty());
    CHECK(told([&](Experiment& e) { dense(e), e.parallelism.ep = 2; }) ==
          "parallelism.ep: 2, but workload.kind mlp has no experts; expected 1");
    CHECK(told([&](Experiment& e) { dense(e), e.workload.moe.experts = 8; }) ==
          "workload.moe.experts: 8, but workload.kind mlp is dense; expected 0");
}

TEST_CASE(
    "every system spreads experts over all ranks, and the recorded ones have no overlapping "
    "chunks") {
    for (const auto system : {MoeSystem::fast_moe, MoeSystem::faster_moe, MoeSystem::mix_moe}) {
        const std::string name(to_string(system));
        CHECK(told([&](Experiment& e) { e.parallelism.moe_system = system; }).empty());
        CHECK(told([&](Experiment& e) {
                  e.parallelism.moe_system = system, e.parallelism.ep = 2;
              }) == "parallelism.ep: 2, but " + name + " spreads its experts over all 4 ranks");
        CHECK(told([&](Experiment& e) {
                  e.parallelism.moe_system = system, e.parallelism.overlap_chunks = 2;
              }) == "parallelism.overlap_chunks: 2, but " + name +
                        " has no overlapping chunks; expected 1");
    }
    CHECK(told([](Experiment& e) { e.parallelism.overlap_chunks = 2; }).empty());
    const auto unfused = [](MoeSystem system, int chunks) {
        return told([&](Experiment& e) {
            e.runtime.kernels = KernelStyle::operations, e.parallelism.moe_system = system,
            e.parallelism.overlap_chunks = chunks;
        });
    };
    CHECK(unfused(MoeSystem::alltoall, 1).empty());
    for (const auto& refused : {unfused(MoeSystem::alltoall, 2), unfused(MoeSystem::fast_moe, 1)})
        CHECK(refused ==
              "runtime.kernels: operations, which of a moe_layer is modelled for alltoall without "
              "overlap_chunks; expected fused");
}

TEST_CASE("links that the split crosses have a bandwidth") {
    CHECK(told([](Experiment& e) { e.cluster.intra.bandwidth = {}; }) ==
          "cluster.link.intra.bandwidth: missing; a node has 4 ranks");
    CHECK(told([](Experiment& e) {
              e.cluster.nodes = 4, e.cluster.gpus_per_node = 1, e.cluster.inter.bandwidth = {};
          }) == "cluster.link.inter.bandwidth: missing; there are 4 nodes");
}

TEST_CASE("the device has a rate for the dtype") {
    CHECK(told([](Experiment& e) { e.workload.dtype = Dtype::bf16; }) ==
          "cluster.gpu.peak.bf16: device \"X100\" has no such rate, which begins at compute "
          "capability 80; it has fp32, fp16; set this key or choose another "
          "workload.dtype");
}

TEST_CASE("a routing file is named when it is asked for") {
    CHECK(told([](Experiment& e) { e.routing.kind = RoutingSpec::Kind::file; }) ==
          "routing.file: missing; routing.kind is file");
}

// Six layers over four stages; four micro-batches.
TEST_CASE("the layers of a pipeline are divided over its pieces without remainder") {
    const auto piped = [](const std::function<void(Experiment&)>& change) {
        return told([&](Experiment& e) {
            e.workload.kind = Workload::Kind::transformer;
            e.workload.moe = {};
            e.workload.layers = 6;
            e.workload.heads = 8;
            e.workload.vocab = 1000;
            e.parallelism.ep = e.parallelism.dp = 1;
            e.parallelism.pp = 4;
            e.parallelism.global_batch = 4;
            change(e);
        });
    };
    CHECK(piped([](Experiment&) {}).empty());
    CHECK(piped([](Experiment& e) { e.workload.layers = 3; }) ==
          "parallelism.pp: 4 stage chunks are more than workload.layers = 3; expected fewer, or "
          "parallelism.stage_layers");
    CHECK(piped([](Experiment& e) { e.parallelism.stage_layers = {1, 2, 2, 1}; }).empty());
    CHECK(piped([](Experiment& e) {
              e.parallelism.stage_layers = {3, 3};
          }) == "parallelism.stage_layers: 2 entries, but there are 4 stage chunks");
    CHECK(piped([](Experiment& e) {
              e.parallelism.stage_layers = {2, 2, 2, 2};
          }) == "parallelism.stage_layers: 8 layers in all, but workload.layers is 6");
    CHECK(piped([](Experiment& e) {
              e.parallelism.stage_layers = {4, 4, -1, -1};
          }) == "parallelism.stage_layers: -1 is no number of layers");
    CHECK(piped([](Experiment& e) { e.parallelism.vp = 2; }) ==
          "parallelism.vp: 8 stage chunks are more than workload.layers = 6; expected fewer, or "
          "parallelism.stage_layers");
    CHECK(piped([](Experiment& e) {
              e.parallelism.schedule = Schedule::zb_h1;
              e.parallelism.vp = 2;
          }) ==
          "parallelism.schedule: zb-h1 has one chunk a stage, but parallelism.vp is 2; expected "
          "1f1b or "
          "parallelism.vp = 1");
    CHECK(piped([](Experiment& e) {
              e.parallelism.vp = 2;
              e.parallelism.global_batch = 6;
          }) ==
          "parallelism.global_batch: makes 6 micro-batches, but interleaved 1f1b (parallelism.vp = "
          "2) runs them "
          "in rounds of parallelism.pp = 4; expected a multiple");
}

// 1024 x 1024 = 2^20 is the largest number of ranks.
TEST_CASE("so many ranks are the most") {
    CHECK(told([](Experiment& e) {
              e.cluster.nodes = e.cluster.gpus_per_node = 1024;
          }).substr(0, 21) == "parallelism: pipeline");
    CHECK(told([](Experiment& e) { e.cluster.nodes = 1025, e.cluster.gpus_per_node = 1024; }) ==
          "cluster.nodes: 1025 x gpus_per_node 1024 = 1049600 ranks; expected at most 1048576");
    CHECK(told([](Experiment& e) { e.routing.kind = RoutingSpec::Kind::file; }) ==
          "routing.file: missing; routing.kind is file");
}
