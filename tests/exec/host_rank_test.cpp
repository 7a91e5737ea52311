// Which operands an op takes from a rank's buffers, one after the other on lines of 16 floats, and
// what it leaves.
#include "exec/host_rank.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <thread>

#include "exec/host_ops.h"

using namespace stepcast;

namespace {

struct Ran {
    explicit Ran(const Op& op) {
        rank.prepare({1024, 1024}, 2);
        rank.attach(1);
        rank.compute(op);
        next = rank.memory().output.take(1).data() - output(0);
    }
    float* input(std::ptrdiff_t at) { return rank.memory().input.all().data() + at; }
    float* output(std::ptrdiff_t at) { return rank.memory().output.all().data() + at; }

    HostRank rank;
    std::ptrdiff_t next = 0;  // where the next result would lie
};

std::vector<float> copy(const float* begin, std::size_t count) { return {begin, begin + count}; }

}  // namespace

// Two of 2 x 4 by 4 x 3: 16 floats, then 24; results of 12 floats take a line.
// fp32 on the host, so that only attention differs from its graph.
TEST_CASE("the host says how attention that it has no kernel for ran") {
    TaskGraph graph(1);
    Attention op{1, 1, 8, 8, 16, true, false, Dtype::fp32, false};
    graph.add("a", Phase::forward, op, {Place(0, Lane::compute)}, {});
    CHECK(host_doubts(graph, 1, 1).empty());
    op.flash = true;
    op.window = 4;
    op.value_dim = 8;
    graph.add("b", Phase::forward, op, {Place(0, Lane::compute)}, {});
    graph.add("c", Phase::forward, op, {Place(0, Lane::compute)}, {});
    CHECK(host_doubts(graph, 1, 1) ==
          std::vector<std::string>{"flash attention ran as GEMMs over the scores of one head after "
                                   "another: no fused kernel here",
                                   "attention over a window ran over all keys",
                                   "attention ran with values as wide as its keys"});
}

TEST_CASE("a rank multiplies what lies in its input") {
    Ran ran(Gemm{2, 3, 4, 2, Dtype::fp32});
    CHECK(ran.next == 16);
    for (int b = 0; b < 2; ++b)
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 3; ++j) {
                double sum = 0;
                for (int l = 0; l < 4; ++l)
                    sum += ran.input(0)[b * 8 + i * 4 + l] * ran.input(16)[b * 12 + l * 3 + j];
                CHECK(ran.output(0)[b * 6 + i * 3 + j] == Approx(sum).margin(1e-6));
            }
}

// 2 and 3 rows of 4, and none between: 20 floats on two lines, then two groups' weights of 4 x 3.
// Gradients of weights: the rows' gradients of 3 there.
TEST_CASE("a rank multiplies groups of rows, forward and for their weights") {
    Ran forward(GroupedGemm{{2, 0, 3}, 3, 4, Dtype::fp32, false});
    CHECK(forward.next == 16);
    for (int row = 0; row < 5; ++row)
        for (int j = 0; j < 3; ++j) {
            double sum = 0;
            for (int l = 0; l < 4; ++l)
                sum += forward.input(0)[row * 4 + l] *
                       forward.input(32)[(row < 2 ? 0 : 12) + l * 3 + j];
            CHECK(forward.output(0)[row * 3 + j] == Approx(sum).margin(1e-6));
        }
    Ran weights(GroupedGemm{{2, 0, 3}, 3, 4, Dtype::fp32, true});
    CHECK(weights.next == 32);
    for (int group = 0; group < 2; ++group)
        for (int l = 0; l < 4; ++l)
            for (int j = 0; j < 3; ++j) {
                double sum = 0;
                for (int row = group == 0 ? 0 : 2; row < (group == 0 ? 2 : 5); ++row)
                    sum += weights.input(0)[row * 4 + l] * weights.input(32)[row * 3 + j];
                CHECK(weights.output(0)[group * 12 + l * 3 + j] == Approx(sum).margin(1e-6));
            }
    // One row is a group as well: two gradients of 12 lie on two lines.
    CHECK(Ran(GroupedGemm{{1, 0, 1}, 3, 4, Dtype::fp32, true}).next == 32);
}

// Two sequences of two heads, 4 queries and 6 keys of 3: 48 floats of queries, 72 of keys on 80, 72
// of values, then 48 of the gradient that comes.
TEST_CASE("a rank attends with what lies in its input, forward and backward") {
    Attention op{2, 2, 4, 6, 3, false, false, Dtype::fp32};
    Ran forward(op);
    CHECK(forward.next == 48 + 32);  // results, then 24 scores
    std::vector<float> q = copy(forward.input(0), 48), k = copy(forward.input(48), 72),
                       v = copy(forward.input(128), 72);
    std::vector<float> result(48), scores(24);
    attend(op, {q, k, v}, result, scores);
    CHECK(copy(forward.output(0), 48) == result);
    op.backward = true;
    Ran backward(op);
    std::vector<float> d_out = copy(backward.input(208), 48), dq(48), dk(72), dv(72), both(48);
    attend_backward(op, {q, k, v}, d_out, {dq, dk, dv}, both);
    CHECK(copy(backward.output(0), 48) == dq);
    CHECK(copy(backward.output(48), 72) == dk);
    CHECK(copy(backward.output(128), 72) == dv);
    CHECK(backward.next == 208 + 48);
}

TEST_CASE("a rank passes over as many bytes as are read and written") {
    for (const auto access : {MemoryPass::Access::stream, MemoryPass::Access::transpose}) {
        Ran ran(MemoryPass{Bytes(4 * 36), Bytes(4 * 20), access});
        CHECK(ran.next == 32);
        std::vector<float> source = copy(ran.input(0), 36), target(20);
        access == MemoryPass::Access::stream ? stream(source, target)
                                             : stream_transposed(source, target);
        CHECK(copy(ran.output(0), 20) == target);
    }
}

TEST_CASE("a rank leaves exchanges to its device, and needs no buffers to work for its host") {
    for (const Op& op :
         {Op(HostWork{HostWork::Kind::layer, 1}), Op(AllReduce{Bytes(64)}), Op(FusedGemm{})})
        CHECK(Ran(op).next == 0);
}

// Asleep, a thread has no core.
TEST_CASE(
    "a rank knows what share of a step its thread had a core, and when its tasks began and ended") {
    HostRank rank;
    rank.prepare({16, 16}, 3);
    rank.begin_step();
    rank.record(2, Edge::start);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    rank.record(2, Edge::finish);
    rank.end_step();
    CHECK(rank.cpu_share() < 0.9);
    CHECK(rank.begin() <= rank.elapsed(2, Edge::start));
    CHECK((rank.elapsed(2, Edge::finish) - rank.elapsed(2, Edge::start)).si() >= 0.02);
    CHECK(rank.elapsed(1, Edge::start) == Seconds(0));
}
