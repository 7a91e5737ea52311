#include "exec/host_ops.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <tuple>

#include "exec/host_device.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

// Five blocks of two rows of 4, times 4 x 3; the first three move 12 bytes each, two blocks are
// done at once.
FusedGemm five_blocks(FusedGemm::Transfer transfer) {
    FusedGemm op{};
    op.blocks = 5;
    op.remote_blocks = 3;
    op.blocks_per_thread_block = 2;
    op.rows_per_block = 2;
    op.n = 3;
    op.k = 4;
    op.remote_bytes_per_block = 12_B;
    op.transfer = transfer;
    op.dtype = Dtype::fp32;
    return op;
}

using Moved = std::vector<std::tuple<int, std::size_t, std::vector<float>>>;  // peer, offset, rows

}  // namespace

// Rank 1 of 4 has its blocks from the ranks after it in turn: 2, 3, 0. Operands lie at the begin of
// the input, the second on its own line of 16: 40 floats, then from 48 on; the product at the begin
// of the output.
TEST_CASE(
    "a fused product multiplies all its rows and moves the remote blocks from or to the other "
    "ranks in turn") {
    for (const auto transfer : {FusedGemm::Transfer::gather, FusedGemm::Transfer::scatter}) {
        HostMemory memory = allocate({80, 64}, 0);
        Moved fetched, delivered;
        const auto fetch = [&](int peer, std::size_t offset, std::span<float> rows) {
            std::ranges::fill(rows, static_cast<float>(peer));
            fetched.emplace_back(peer, offset, std::vector<float>(rows.begin(), rows.end()));
        };
        const auto deliver = [&](int peer, std::span<const float> rows) {
            delivered.emplace_back(peer, 0, std::vector<float>(rows.begin(), rows.end()));
        };
        run_fused(five_blocks(transfer), 1, 4, take(memory, five_blocks(transfer), 0, 1),
                  {fetch, deliver});
        const std::span<float> a = memory.input.all(), b = a.subspan(48), c = memory.output.all();
        std::vector<float> product(30);
        for (std::size_t row = 0; row < 10; ++row)
            for (std::size_t column = 0; column < 3; ++column)
                for (std::size_t l = 0; l < 4; ++l)
                    product[row * 3 + column] += a[row * 4 + l] * b[l * 3 + column];
        for (std::size_t i = 0; i < 30; ++i) CHECK(c[i] == Approx(product[i]).margin(1e-6));
        if (transfer == FusedGemm::Transfer::gather) {
            CHECK(fetched == Moved{{2, 0, {2, 2, 2}}, {3, 3, {3, 3, 3}}, {0, 6, {0, 0, 0}}});
            CHECK(delivered.empty());
            CHECK(c[32] == 2);  // staged behind the product, on its own line
            CHECK(c[35] == 3);
        } else {
            CHECK(fetched.empty());
            CHECK(delivered == Moved{{2, 0, {c[0], c[1], c[2]}},
                                     {3, 0, {c[6], c[7], c[8]}},
                                     {0, 0, {c[12], c[13], c[14]}}});
        }
    }
}

// More bytes than a block has results: all its six results.
TEST_CASE("a rank alone moves its remote blocks to itself, and no more than a block has") {
    HostMemory memory = allocate({80, 64}, 0);
    FusedGemm op = five_blocks(FusedGemm::Transfer::scatter);
    op.remote_bytes_per_block = 400_B;
    std::vector<std::pair<int, std::size_t>> delivered;
    const auto fetch = [](int, std::size_t, std::span<float>) {};
    const auto deliver = [&](int peer, std::span<const float> rows) {
        delivered.emplace_back(peer, rows.size());
    };
    run_fused(op, 0, 1, take(memory, op, 0, 1), {fetch, deliver});
    CHECK(delivered == std::vector<std::pair<int, std::size_t>>(3, {0, 6}));
}

// Of a graph the largest that is scattered: 41 bytes are 11 floats; what is gathered has no window.
TEST_CASE("windows are as large as the largest block that is scattered") {
    TaskGraph graph(1);
    const auto add = [&](FusedGemm::Transfer transfer, Bytes bytes) {
        FusedGemm op = five_blocks(transfer);
        op.remote_bytes_per_block = bytes;
        graph.add("fused", Phase::forward, op, {Place(0, Lane::compute)}, {});
    };
    CHECK(scattered_floats(graph) == 0);
    add(FusedGemm::Transfer::scatter, 41_B);
    add(FusedGemm::Transfer::scatter, 8_B);
    add(FusedGemm::Transfer::gather, 400_B);
    CHECK(scattered_floats(graph) == 11);
}

// A launcher's processes are one rank each; a lone one holds all of them as threads.
TEST_CASE(
    "the host's device is one of threads unless a launcher started as many processes as there are "
    "ranks") {
    CHECK(open_host_device(3)->rank_count() == 3);
    CHECK(open_host_device(3)->local_ranks() == std::vector<int>{0, 1, 2});
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    CHECK(open_host_device(3)->rank_count() == 3);
    setenv("PMI_SIZE", "2", 1);
    CHECK_THROWS_WITH(open_host_device(3),
                      Catch::Contains("started as 2 processes, but the experiment has 3 ranks"));
    unsetenv("PMI_SIZE");
    unsetenv("SLURM_STEP_NUM_TASKS");
}

TEST_CASE(
    "a host device says what it is, refuses another number of ranks and names what it runs "
    "otherwise") {
    const auto device = open_host_device(2);
    CHECK_THAT(device->description(), Catch::StartsWith("host, 2 ranks as threads on "));
    CHECK(device->reports());
    CHECK_THROWS_AS(device->prepare(TaskGraph(3), 1_s), std::logic_error);
    TaskGraph graph(2, true);
    for (int r = 0; r < 2; ++r) {
        graph.add("half", Phase::forward, Gemm{8, 8, 8, 1, Dtype::fp16}, {Place(r, Lane::compute)},
                  {});
        graph.add("half", Phase::forward, Gemm{4, 8, 8, 1, Dtype::fp16}, {Place(r, Lane::compute)},
                  {});
        graph.add("whole", Phase::forward, Gemm{8, 8, 8, 1, Dtype::fp32}, {Place(r, Lane::compute)},
                  {});
    }
    const std::vector<std::string> doubts = device->prepare(graph, 1_s);
    CHECK(std::ranges::count(doubts, "gemm tasks ran as fp32: the host has no fp16 kernels") == 1);
}
