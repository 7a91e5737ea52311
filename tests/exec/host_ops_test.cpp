#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/host_memory.h"
#include "exec/host_ops.h"

using namespace stepcast;

namespace {

using Floats = std::vector<float>;

Floats random_floats(long count, std::uint64_t seed) {
    Floats values(static_cast<std::size_t>(count));
    fill_random(values, seed);
    return values;
}

float& at(Floats& m, long columns, long i, long j) {
    return m[static_cast<std::size_t>(i * columns + j)];
}
float at(std::span<const float> m, long columns, long i, long j) {
    return m[static_cast<std::size_t>(i * columns + j)];
}

// The definition: c[i,j] = sum over l of a[i,l] b[l,j].
Floats reference_product(std::span<const float> a, std::span<const float> b, long m, long n,
                         long k) {
    Floats c(static_cast<std::size_t>(m * n));
    for (long i = 0; i < m; ++i)
        for (long j = 0; j < n; ++j)
            for (long l = 0; l < k; ++l) at(c, n, i, j) += at(a, k, i, l) * at(b, n, l, j);
    return c;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
    REQUIRE(a.size() == b.size());
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        largest =
            std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    return largest;
}

// One head by the definition; query i sees the keys up to i + seq_k - seq_q when causal, and of a
// window its last.
Floats reference_attention(const Attention& s, std::span<const float> q, std::span<const float> k,
                           std::span<const float> v) {
    Floats out(static_cast<std::size_t>(s.seq_q * s.head_dim));
    for (long i = 0; i < s.seq_q; ++i) {
        const long seen = s.causal ? i + s.seq_k - s.seq_q + 1 : s.seq_k;
        const long first = s.window > 0 ? std::max(0L, seen - s.window) : 0;
        std::vector<double> weight(static_cast<std::size_t>(seen));
        double sum = 0;
        for (long j = first; j < seen; ++j) {
            double dot = 0;
            for (long l = 0; l < s.head_dim; ++l)
                dot += static_cast<double>(at(q, s.head_dim, i, l)) *
                       static_cast<double>(at(k, s.head_dim, j, l));
            sum += weight[static_cast<std::size_t>(j)] =
                std::exp(dot / std::sqrt(static_cast<double>(s.head_dim)));
        }
        for (long l = 0; l < s.head_dim; ++l)
            for (long j = 0; j < seen; ++j)
                at(out, s.head_dim, i, l) +=
                    static_cast<float>(weight[static_cast<std::size_t>(j)] / sum) *
                    at(v, s.head_dim, j, l);
    }
    return out;
}

}  // namespace

TEST_CASE("a product equals the triple loop, each batch on its own operands") {
    const Floats a = random_floats(2 * 7 * 5, 1), b = random_floats(2 * 5 * 6, 2);
    Floats c(2 * 7 * 6);
    multiply({7, 6, 5, 2}, a, b, c);
    CHECK(largest_difference(std::span(c).first(42), reference_product(a, b, 7, 6, 5)) < 1e-5);
    CHECK(largest_difference(
              std::span(c).last(42),
              reference_product(std::span(a).last(35), std::span(b).last(30), 7, 6, 5)) < 1e-5);
}

TEST_CASE(
    "a grouped product multiplies each group by its own weights and skips groups without rows") {
    const GroupedGemm op{{2, 0, 3}, 4, 6, Dtype::fp32};
    const Floats a = random_floats(5 * 6, 3), b = random_floats(2 * 6 * 4, 4);
    Floats c(5 * 4);
    multiply_groups(op, a, b, c);
    CHECK(largest_difference(std::span(c).first(8), reference_product(a, b, 2, 4, 6)) < 1e-5);
    CHECK(largest_difference(
              std::span(c).last(12),
              reference_product(std::span(a).last(18), std::span(b).last(24), 3, 4, 6)) < 1e-5);
}

TEST_CASE("a grouped weight gradient sums over the rows of each group") {
    // C_g[i,j] = sum over the group's rows r of A[r,i] B[r,j]
    const GroupedGemm op{{2, 0, 3}, 4, 6, Dtype::fp32, true};
    const Floats a = random_floats(5 * 6, 5), b = random_floats(5 * 4, 6);
    Floats c(2 * 6 * 4), expected(2 * 6 * 4);
    multiply_groups(op, a, b, c);
    for (long r = 0; r < 5; ++r)
        for (long i = 0; i < 6; ++i)
            for (long j = 0; j < 4; ++j)
                at(expected, 4, (r < 2 ? 0 : 6) + i, j) += at(a, 6, r, i) * at(b, 4, r, j);
    CHECK(largest_difference(c, expected) < 1e-5);
}

TEST_CASE("attention equals its definition, for every head, causal and not, over a window") {
    for (const auto& [causal, window] : {std::pair(false, 0L), {true, 0L}, {true, 2L}}) {
        Attention shape{2, 1, 3, 5, 4, causal, false, Dtype::fp32};
        shape.window = window;
        const Floats q = random_floats(2 * 12, 7), k = random_floats(2 * 20, 8),
                     v = random_floats(2 * 20, 9);
        Floats out(2 * 12), scores(15);
        attend(shape, {q, k, v}, out, scores);
        CHECK(largest_difference(std::span(out).first(12), reference_attention(shape, q, k, v)) <
              1e-5);
        CHECK(largest_difference(
                  std::span(out).last(12),
                  reference_attention(shape, std::span(q).last(12), std::span(k).last(20),
                                      std::span(v).last(20))) < 1e-5);
    }
}

TEST_CASE("attention's gradients equal difference quotients of its definition") {
    // With loss = sum of d_out * attention(q, k, v): d loss / d x = (loss(x + h) - loss(x - h)) /
    // 2h, h = 0.01. Two heads, one after the other in every tensor.
    const Attention shape{1, 2, 3, 4, 2, true, true, Dtype::fp32};
    const Floats q = random_floats(2 * 6, 10), k = random_floats(2 * 8, 11),
                 v = random_floats(2 * 8, 12), d_out = random_floats(2 * 6, 13);
    Floats d_q(2 * 6), d_k(2 * 8), d_v(2 * 8), scores(2 * 12);
    attend_backward(shape, {q, k, v}, d_out, {d_q, d_k, d_v}, scores);
    std::vector<Floats> inputs{q, k, v};
    const auto loss = [&] {
        double sum = 0;
        for (std::size_t head = 0; head < 2; ++head) {
            const auto of = [&](std::size_t which, std::size_t size) {
                return std::span(inputs[which]).subspan(head * size, size);
            };
            const Floats out = reference_attention(shape, of(0, 6), of(1, 8), of(2, 8));
            for (std::size_t i = 0; i < out.size(); ++i)
                sum += static_cast<double>(out[i]) * static_cast<double>(d_out[head * 6 + i]);
        }
        return sum;
    };
    const std::vector<Floats> gradients{d_q, d_k, d_v};
    for (std::size_t which = 0; which < 3; ++which)
        for (std::size_t i = 0; i < inputs[which].size(); ++i) {
            const float value = inputs[which][i];
            inputs[which][i] = value + 0.01f;
            const double above = loss();
            inputs[which][i] = value - 0.01f;
            const double below = loss();
            inputs[which][i] = value;
            CHECK(static_cast<double>(gradients[which][i]) ==
                  Approx((above - below) / 0.02).margin(2e-3));
        }
}

TEST_CASE("a memory pass writes every element of its target from its source") {
    const Floats source{1, 2, 3};
    Floats target(5, -1);
    CHECK(stream(source, target) == 0);
    CHECK(target == Floats{2, 3, 4, 1, 1});
}

TEST_CASE("a memory pass reads what its target has no room for") {
    // The first 2 of 40 are copied; the sum of the others is 3 + .. + 40 = 817.
    Floats source(40), target(2);
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i + 1);
    CHECK(stream(source, target) == 817);
    CHECK(target == Floats{2, 3});
}

TEST_CASE("a transposing pass puts columns of the source into rows of the target") {
    // 2 rows of 64: element (row 1, column 3) moves from 67 to 3 * 2 + 1; one float is left over on
    // each side.
    Floats source(129), target(129);
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i);
    CHECK(stream_transposed(source, target) == 0);
    CHECK(target[7] == 68);
    CHECK(target[2] == 2);
    CHECK(target[128] == 129);
}
