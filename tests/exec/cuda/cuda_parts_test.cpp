// What the CUDA device decides before it touches a GPU.
#include <catch2/catch.hpp>

#include "exec/cuda/check.h"
#include "exec/cuda/cuda_memory.h"
#include "exec/cuda/gemm.h"
#include "model/errors.h"

using namespace stepcast;
using namespace stepcast::literals;

TEST_CASE("each way of having no CUDA device has words of its own") {
    CHECK(missing_device(cudaErrorInsufficientDriver, 0, 13000, 7) == "driver not found");
    CHECK(missing_device(cudaErrorInsufficientDriver, 12040, 13000, 0) ==
          "the driver is older than the toolkit: it serves CUDA 12.4, this program needs 13.0; update it");
    CHECK(missing_device(cudaErrorNoDevice, 13000, 13000, 0) ==
          "a driver, but no GPU (or CUDA_VISIBLE_DEVICES hides all)");
    CHECK(missing_device(cudaSuccess, 13000, 13000, 0) == "a driver, but no GPU (or CUDA_VISIBLE_DEVICES hides all)");
    CHECK(missing_device(cudaErrorUnknown, 13000, 13000, 0).substr(0, 20) == "CUDA error 999, cuda");
    CHECK(missing_device(cudaSuccess, 13000, 13000, 1).empty());
}

TEST_CASE("a failed call says where, which code and what it means") {
    CHECK_NOTHROW(check(cudaSuccess));
    CHECK_THROWS_WITH(check(cudaErrorMemoryAllocation), Catch::StartsWith("cuda_parts_test.cpp:") &&
                                                            Catch::Contains("CUDA error 2, cudaErrorMemoryAllocation"));
    CHECK_THROWS_AS(check(ncclSystemError), DeviceError);
}

TEST_CASE("an op needs its operands in its own element type") {
    // 4 x 8 times 8 x 16 in two batches: 2 (32 + 128) elements in, 2 * 64 out.
    CHECK(need_of(Gemm{4, 16, 8, 2, Dtype::bf16}, 0, 1) == Need{Element::bf16, 640, 256});
    CHECK(need_of(Gemm{4, 16, 8, 2, Dtype::bf16, true}, 0, 1) == Need{Element::bf16, 640, 512});
    CHECK(need_of(Gemm{4, 16, 8, 2, Dtype::fp8}, 0, 1) == Need{Element::fp8, 320, 256});
    CHECK(need_of(Gemm{4, 16, 8, 1, Dtype::tf32}, 0, 1) == Need{Element::fp32, 640, 256});
    // 6 heads of 4 queries and 8 keys, 16 wide: Q 384, K and V 768 elements, O 384, scores 192.
    CHECK(need_of(Attention{2, 3, 4, 8, 16, false, false, Dtype::fp16}, 0, 1) ==
          Need{Element::fp16, 2 * (384 + 768 + 768), 2 * (384 + 192)});
    CHECK(need_of(Attention{2, 3, 4, 8, 16, false, true, Dtype::fp16}, 0, 1) ==
          Need{Element::fp16, 2 * (384 + 768 + 768 + 384 + 192), 2 * (384 + 768 + 768 + 192)});
    // 10 bytes gathered from 3 ranks are 2.5 floats: one float each.
    CHECK(need_of(AllGather{10_B}, 0, 3) == Need{{}, 4, 12});
}

TEST_CASE("the plan covers the largest op, the cache and a workspace a lane, and refuses what does not fit") {
    TaskGraph graph(1);
    graph.add("large", Phase::forward, Gemm{1024, 1024, 1024, 1, Dtype::bf16}, {Place(0, Lane::compute)}, {});
    graph.add("pass", Phase::forward, MemoryPass{100_B, 300_B}, {Place(0, Lane::data)}, {});
    const CudaPlan plan = plan_cuda_memory(graph, 0, Bytes(1 << 20), Bytes(1 << 30), Bytes(1 << 30));
    CHECK(plan.common == Element::bf16);
    CHECK(plan.workspaces == workspace_bytes);
    CHECK(plan.inputs[static_cast<std::size_t>(Element::bf16)] == (4 << 20) + 16 * alignment);
    CHECK(plan.inputs[static_cast<std::size_t>(Element::fp32)] == 0);
    CHECK(plan.output == (2 << 20) + 16 * alignment);
    // In: 4 MiB, out: 2 MiB, workspace 32 MiB, and some alignment.
    CHECK_THROWS_WITH(plan_cuda_memory(graph, 0, Bytes(1 << 20), Bytes(32 << 20), Bytes(64 << 20)),
                      Catch::StartsWith("execute: rank 0 needs 39.8") && Catch::Contains("the GPU has 32 MiB free of 64 MiB") &&
                          Catch::Contains("task 0 \"large\""));
}

TEST_CASE("a forward product takes weights as frameworks keep them, a weight gradient sums over the outer dimension") {
    const Product forward = product_of(Gemm{4, 16, 8, 1, Dtype::bf16});
    CHECK((!forward.a_transposed && forward.b_transposed && !forward.accumulate));
    const Product gradient = product_of(Gemm{4, 16, 8, 1, Dtype::bf16, true});
    CHECK((gradient.a_transposed && !gradient.b_transposed && gradient.accumulate));
}
