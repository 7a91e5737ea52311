// What the CUDA device decides before it touches a GPU.
#include <catch2/catch.hpp>
#include <cmath>

#include "exec/cuda/attention.h"
#include "exec/cuda/check.h"
#include "exec/cuda/check_graph.h"
#include "exec/cuda/cuda_memory.h"
#include "exec/cuda/gemm.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/step.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::literals;

TEST_CASE("each way of having no CUDA device has words of its own") {
    CHECK(missing_device(cudaErrorInsufficientDriver, 0, 13000, 7) == "driver not found");
    CHECK(missing_device(cudaErrorInsufficientDriver, 12040, 13000, 0) ==
          "the driver is older than the toolkit: it serves CUDA 12.4, this program needs 13.0; "
          "update it");
    CHECK(missing_device(cudaErrorNoDevice, 13000, 13000, 0) ==
          "a driver, but no GPU (or CUDA_VISIBLE_DEVICES hides all)");
    CHECK(missing_device(cudaSuccess, 13000, 13000, 0) ==
          "a driver, but no GPU (or CUDA_VISIBLE_DEVICES hides all)");
    CHECK(missing_device(cudaErrorUnknown, 13000, 13000, 0).substr(0, 20) ==
          "CUDA error 999, cuda");
    CHECK(missing_device(cudaSuccess, 13000, 13000, 1).empty());
}

TEST_CASE("a failed call says where, which code and what it means") {
    CHECK_NOTHROW(check(cudaSuccess));
    CHECK_THROWS_WITH(check(cudaErrorMemoryAllocation),
                      Catch::StartsWith("cuda_parts_test.cpp:") &&
                          Catch::Contains("CUDA error 2, cudaErrorMemoryAllocation"));
    CHECK_THROWS_AS(check(ncclSystemError), DeviceError);
}

TEST_CASE("an op needs its operands in its own element type") {
    // 4 x 8 times 8 x 16 in two batches: 2 * 32 and 2 * 128 elements in, 2 * 64 out.
    CHECK(need_of(Gemm{4, 16, 8, 2, Dtype::bf16}, 0, 1) ==
          Need{Element::bf16, {{128, 512}, {256}}});
    CHECK(need_of(Gemm{4, 16, 8, 2, Dtype::bf16, true}, 0, 1) ==
          Need{Element::bf16, {{128, 512}, {512}}});
    CHECK(need_of(Gemm{4, 16, 8, 2, Dtype::fp8}, 0, 1) == Need{Element::fp8, {{64, 256}, {256}}});
    CHECK(need_of(Gemm{4, 16, 8, 1, Dtype::tf32}, 0, 1) ==
          Need{Element::fp32, {{128, 512}, {256}}});
    // Groups of 2 and 3 rows of 7, with weights of 7 x 5 each.
    CHECK(need_of(GroupedGemm{{2, 0, 3}, 5, 7, Dtype::bf16}, 0, 1) ==
          Need{Element::bf16, {{2 * 35, 2 * 70}, {2 * 25}}});
    CHECK(need_of(GroupedGemm{{2, 0, 3}, 5, 7, Dtype::bf16, true}, 0, 1) ==
          Need{Element::bf16, {{2 * 35, 2 * 25}, {2 * 70}}});
    // 6 heads of 4 queries and 8 keys, 16 wide: Q 384, K and V 768 elements, O 384, scores 192.
    CHECK(need_of(Attention{2, 3, 4, 8, 16, false, false, Dtype::fp16}, 0, 1) ==
          Need{Element::fp16, {{2 * 384, 2 * 768, 2 * 768}, {2 * 192, 2 * 384}}});
    CHECK(need_of(Attention{2, 3, 4, 8, 16, false, true, Dtype::fp16}, 0, 1) ==
          Need{Element::fp16,
               {{2 * 384, 2 * 768, 2 * 768, 2 * 192, 2 * 384},
                {2 * 192, 2 * 384, 2 * 768, 2 * 768}}});
    // Four blocks of 2 rows of 7, by 7 x 5; three blocks of 100 bytes are moved, more than operands
    // or result have.
    CHECK(need_of(FusedGemm{4, 3, 2, 1, 5, 7, 100_B, FusedGemm::Transfer::gather, Dtype::bf16}, 0,
                  1) == Need{Element::bf16, {{112, 188}, {300, 300}}});
    // 10 bytes gathered from 3 ranks are 2.5 floats: one float each.
    CHECK(need_of(AllGather{10_B}, 0, 3) == Need{{}, {{4}, {12}}});
    CHECK(need_of(Broadcast{10_B, 1}, 0, 3) == Need{{}, {{12}, {12}}});
    CHECK(need_of(SendRecv{10_B, 1}, 0, 2) == Need{{}, {{12}, {}}});
    CHECK(need_of(SendRecv{10_B, 1}, 1, 2) == Need{{}, {{}, {12}}});
}

TEST_CASE(
    "the plan covers the largest op, the cache and a workspace a lane, and refuses what does not "
    "fit") {
    TaskGraph graph(1);
    graph.add("large", Phase::forward, Gemm{1024, 1024, 1024, 1, Dtype::bf16},
              {Place(0, Lane::compute)}, {});
    graph.add("pass", Phase::forward, MemoryPass{100_B, 300_B}, {Place(0, Lane::data)}, {});
    const CudaPlan plan =
        plan_cuda_memory(graph, 0, Bytes(1 << 20), Bytes(1 << 30), Bytes(1 << 30));
    CHECK(plan.common == Element::bf16);
    CHECK(plan.workspaces == workspace_bytes);
    TaskGraph beside = graph;
    beside.add("other", Phase::forward, Gemm{64, 64, 64, 1, Dtype::bf16},
               {Place(0, Lane::collective)}, {});
    CHECK(plan_cuda_memory(beside, 0, Bytes(1 << 20), Bytes(1 << 30), Bytes(1 << 30)).workspaces ==
          2 * workspace_bytes);
    CHECK(plan.inputs[static_cast<std::size_t>(Element::bf16)] == (4 << 20) + 16 * alignment);
    CHECK(plan.inputs[static_cast<std::size_t>(Element::fp32)] == 0);
    CHECK(plan.output == (2 << 20) + 16 * alignment);
    // In: 4 MiB, out: 2 MiB, workspace 32 MiB, and some alignment.
    CHECK_THROWS_WITH(plan_cuda_memory(graph, 0, Bytes(1 << 20), Bytes(32 << 20), Bytes(64 << 20)),
                      Catch::StartsWith("execute: rank 0 needs 39.8") &&
                          Catch::Contains("the GPU has 32 MiB free of 64 MiB") &&
                          Catch::Contains("task 0 \"large\""));
}

TEST_CASE(
    "a forward product takes weights as frameworks keep them, a weight gradient sums over the "
    "outer dimension") {
    const Product forward = product_of(Gemm{4, 16, 8, 1, Dtype::bf16});
    CHECK((!forward.a_transposed && forward.b_transposed && !forward.accumulate));
    const Product gradient = product_of(Gemm{4, 16, 8, 1, Dtype::bf16, true});
    CHECK((gradient.a_transposed && !gradient.b_transposed && gradient.accumulate));
}

namespace {

const CudaGpu ampere{"A100", 108, 80, Bytes(8e10), Bytes(4e7), {}};
const CudaGpu hopper{"H100", 132, 90, Bytes(8e10), Bytes(5e7), {}};

}  // namespace

TEST_CASE(
    "a task that waits for another rank outside any collective needs both in one process, issued") {
    TaskGraph graph(2);
    const TaskId here =
        graph.add("here", Phase::forward, MemoryPass{4_B, 4_B}, {Place(0, Lane::compute)}, {});
    const TaskId send = graph.add("send", Phase::forward, SendRecv{4_B, 1},
                                  {Place(0, Lane::send_up), Place(1, Lane::receive_up)}, {here});
    graph.add("next", Phase::forward, MemoryPass{4_B, 4_B}, {Place(1, Lane::compute)}, {send});
    CHECK_NOTHROW(check_edges(graph, true, true));  // the message is the wait
    graph.add("there", Phase::forward, MemoryPass{4_B, 4_B}, {Place(1, Lane::compute)}, {here});
    CHECK_NOTHROW(check_edges(graph, false, false));
    CHECK_THROWS_WITH(check_edges(graph, true, false),
                      Catch::Contains("task 3 \"there\" waits for task 0 of another"));
    CHECK_THROWS_WITH(check_edges(graph, false, true), Catch::Contains("run.cuda_graph = false"));
}

TEST_CASE("a CUDA graph holds no wait of the host for the GPU") {
    TaskGraph graph(1);
    const TaskId pass =
        graph.add("pass", Phase::forward, MemoryPass{4_B, 4_B}, {Place(0, Lane::compute)}, {});
    graph.add("free", Phase::forward, HostWork{}, {Place(0, Lane::host)}, {});
    CHECK_NOTHROW(check_edges(graph, false, true));
    graph.add("read", Phase::forward, HostWork{}, {Place(0, Lane::host)}, {pass});
    CHECK_THROWS_WITH(check_edges(graph, false, true),
                      Catch::StartsWith("run.cuda_graph: task 2 \"read\""));
    TaskGraph blocking(1, true);
    CHECK_THROWS_WITH(check_edges(blocking, false, true), Catch::Contains("launch_blocking"));
}

TEST_CASE("what the GPU or the library lacks is refused before anything runs") {
    TaskGraph graph(2);
    graph.add("gemm", Phase::forward, Gemm{16, 16, 16, 1, Dtype::fp8}, {Place(0, Lane::compute)},
              {});
    CHECK_NOTHROW(check_ops(graph, hopper, false));
    CHECK_THROWS_WITH(check_ops(graph, ampere, false),
                      "execute: gemm in fp8, which A100 has not (compute capability 8.0, "
                      "expected 8.9)");
    TaskGraph fused(2);
    fused.add("gather", Phase::forward, FusedGemm{4, 2, 64, 2, 8, 8, 256_B},
              {Place(0, Lane::compute)}, {});
    CHECK_NOTHROW(check_ops(fused, ampere, false));
    CHECK_THROWS_AS(check_ops(fused, ampere, true), ConfigError);
}

// fp8 kernels sum over whole sixteens: groups of 1, 0 and 17 rows lie as 16, 0 and 32 of k + n = 48
// bytes; the weight gradients of the two that have rows are 16 x 32 in bf16.
TEST_CASE(
    "the weight gradient of groups in fp8 has padded rows, and runs as a product for each group") {
    const GroupedGemm op{{1, 0, 17}, 32, 16, Dtype::fp8, true};
    CHECK(need_of(op, 0, 1) == Need{Element::fp8, {{48 * 16, 48 * 32}, {2 * 16 * 32 * 2}}});
    CHECK(stored_rows(op, 17) == 32);
    CHECK(stored_rows(GroupedGemm{{17}, 32, 16, Dtype::bf16, true}, 17) == 17);
    TaskGraph graph(1);
    graph.add("experts", Phase::backward, op, {Place(0, Lane::compute)}, {});
    CHECK_NOTHROW(check_ops(graph, hopper, false));
    CHECK(execution_doubts(graph).empty());  // the table of kernels says by which way
}

// Six heads of 4 queries, 16 wide: Q and O 384 elements; two heads of 8 keys: K and V 256; one fp32
// number a row: 24. Through memory, every head has keys of its own: 768, and 192 scores.
TEST_CASE("one kernel for attention needs no scores, and keys only once for a group of heads") {
    Attention op{1, 6, 4, 8, 16, true, false, Dtype::bf16, true};
    op.kv_heads = 2;
    CHECK(need_of(op, 0, 1) == Need{Element::bf16, {{2 * 384, 2 * 256, 2 * 256}, {2 * 384, 96}}});
    op.backward = true;
    CHECK(need_of(op, 0, 1) ==
          Need{Element::bf16,
               {{2 * 384, 2 * 256, 2 * 256, 2 * 384, 2 * 384, 96}, {96, 2 * 384, 2 * 256, 512}}});
    op.flash = op.backward = false;
    CHECK(need_of(op, 0, 1) ==
          Need{Element::bf16, {{2 * 384, 2 * 768, 2 * 768}, {2 * 192, 2 * 384}}});
}

// 256 elements fit in 16 bits, 128 in fp32; fp8 runs as bf16. Values count as keys do.
TEST_CASE("what no kernel serves is named, and goes through memory") {
    const auto because = [](long width, long values, Dtype dtype, long heads = 4, long kv = 0) {
        Attention op{1, heads, 8, 8, width, true, false, dtype, true};
        op.value_dim = values;
        op.kv_heads = kv;
        CHECK(runs_fused(op) == unfused_because(op).empty());
        return unfused_because(op);
    };
    CHECK(because(256, 0, Dtype::bf16).empty());
    CHECK(because(256, 0, Dtype::fp8).empty());
    CHECK(because(257, 0, Dtype::fp16) ==
          "heads of 257 elements are wider than the 256 that the kernel takes");
    CHECK(because(128, 0, Dtype::fp32).empty());
    CHECK(because(64, 129, Dtype::tf32) ==
          "heads of 129 elements are wider than the 128 that the kernel takes in fp32");
    CHECK(because(64, 0, Dtype::bf16, 6, 4) == "6 heads of queries cannot share 4 of keys");
    TaskGraph graph(1);
    const Attention wide{1, 1, 8, 8, 576, true, false, Dtype::bf16, true};
    graph.add("a", Phase::forward, wide, {Place(0, Lane::compute)}, {});
    graph.add("b", Phase::forward, wide, {Place(0, Lane::compute)}, {});
    CHECK(
        execution_doubts(graph) ==
        std::vector<std::string>{"flash attention ran as GEMMs and a softmax through memory: heads "
                                 "of 576 elements are wider than the 256 that the kernel takes"});
}

// 6 heads of 2 sequences; windows in a quarter of the layers stand for windows of 3 heads.
TEST_CASE("a window of some layers is a window of that share of the heads") {
    Attention op{2, 6, 8, 8, 64, true, false, Dtype::bf16, true};
    op.window = 4;
    op.window_share = 0.25;
    CHECK(fused_shape(op).windowed == 3);
    CHECK(fused_shape(op).kv_heads == 6);
    op.window_share = 1;
    CHECK(fused_shape(op).windowed == 12);
    op.window = 0;
    CHECK(fused_shape(op).windowed == 0);
}

TEST_CASE("what runs otherwise than the graph says is said once") {
    TaskGraph graph(1);
    Attention flash{1, 1, 8, 8, 8, false, false, Dtype::bf16, false};
    flash.window = 4;
    graph.add("a", Phase::forward, flash, {Place(0, Lane::compute)}, {});
    graph.add("b", Phase::forward, flash, {Place(0, Lane::compute)}, {});
    graph.add("c", Phase::forward, HostWork{}, {Place(0, Lane::host)}, {});
    CHECK(execution_doubts(graph) ==
          std::vector<std::string>{
              "attention over a window ran over all keys",
              "the host work of a framework took no time: there is no framework here"});
}

// What scripts/gpu-run.sh executes, on the GPU it is meant for.
TEST_CASE(
    "every step that a GPU machine is asked for fits an H200 and can be replayed or issued there") {
    const CudaGpu h200{"NVIDIA H200", 132, 90, Bytes(140 * std::pow(2.0, 30)), 60_MiB, {}};
    const Override single{"cluster.gpus_per_node", "1"}, cluster{"cluster.preset", "dgx-h200"};
    const std::pair<const char*, std::vector<Override>> list[] = {
        {"one_gpu_gpt2_124m", {}},
        {"one_gpu_gpt2_124m_pytorch", {}},
        {"one_gpu_gpt2_1.5b", {}},
        {"one_gpu_bert_large", {}},
        {"one_gpu_llama3_4_layers", {}},
        {"one_gpu_moe_layer", {{"workload.moe.experts", "4"}}},
        {"one_gpu_moe_layer", {{"workload.moe.experts", "64"}}},
        {"coca_zero1",
         {cluster, single, {"parallelism.dp", "1"}, {"parallelism.micro_batch", "128"}}},
        {"llama_1b_pp8",
         {cluster,
          single,
          {"parallelism.pp", "1"},
          {"workload.layers", "2"},
          {"workload.seq", "124"}}},
    };
    for (const auto& [name, overrides] : list) {
        INFO(name);
        const Experiment experiment = read_experiment(name, overrides);
        const TaskGraph graph = build_step(experiment, routing_of(experiment), Folding::never);
        REQUIRE(graph.rank_count() == 1);
        CHECK_NOTHROW(check_ops(graph, h200, false));
        CHECK_NOTHROW(check_edges(graph, false, std::string(name) == "one_gpu_gpt2_124m"));
        CHECK_NOTHROW(
            plan_cuda_memory(graph, 0, h200.cache, Bytes(139 * std::pow(2.0, 30)), h200.memory));
    }
}

TEST_CASE("data-parallel ranks as processes wait for each other in collectives only") {
    for (const char* ranks : {"2", "4"}) {
        const std::vector<Override> overrides{{"parallelism.dp", ranks},
                                              {"parallelism.micro_batch", "1"},
                                              {"parallelism.global_batch", ranks},
                                              {"cluster.gpus_per_node", ranks}};
        const Experiment experiment = read_experiment("one_gpu_gpt2_124m", overrides);
        const TaskGraph graph = build_step(experiment, routing_of(experiment), Folding::never);
        CHECK(graph.rank_count() == std::stoi(ranks));
        CHECK_NOTHROW(check_edges(graph, true, false));
        CHECK_NOTHROW(check_ops(graph, hopper, true));
    }
}
