// Does every op on a GPU do its work? Exit code 0 when all is right, 1 when something is wrong, 77
// (skipped, with the reason) without a GPU. `--without-times` leaves out what only compares speeds.
// With several GPUs the collectives run between them, with one they are its own.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <set>
#include <thread>

#include "exec/cuda/attention.h"
#include "exec/cuda/check.h"
#include "exec/cuda/communicator.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_rank.h"
#include "exec/execute.h"
#include "measured/medians.h"
#include "tests/exec/all_ops.h"
#include "tests/exec/cuda/gpu_passes.h"
#include "tests/exec/cuda/gpu_values.h"

using namespace stepcast;

namespace {

// Rounding of operands is shared with the reference; what is left is the result's own and the order
// of sums.
double tolerance(Dtype dtype) {
    switch (dtype) {
        case Dtype::fp32: return 1e-5;
        case Dtype::tf32: return 2e-3;
        case Dtype::fp16: return 1e-3;
        case Dtype::bf16:
        case Dtype::fp8: return 1e-2;
        case Dtype::fp4: break;
    }
    return 0;
}

// `batch` times C = op(A) op(B) for operands as Product lays them.
Doubles reference(const Product& p, const Doubles& a, const Doubles& b, Doubles c) {
    for (long h = 0; h < p.batch; ++h)
        for (long i = 0; i < p.m; ++i)
            for (long j = 0; j < p.n; ++j) {
                double sum = 0;
                for (long x = 0; x < p.k; ++x)
                    sum += a[static_cast<std::size_t>(
                               h * p.m * p.k + (p.a_transposed ? x * p.m + i : i * p.k + x))] *
                           b[static_cast<std::size_t>(
                               h * p.k * p.n + (p.b_transposed ? j * p.k + x : x * p.n + j))];
                double& at = c[static_cast<std::size_t>((h * p.m + i) * p.n + j)];
                at = (p.accumulate ? at : 0) + sum;
            }
    return c;
}

struct Bench {
    Products products;
    CudaBlock workspace{workspace_bytes};
};

void test_products(Bench& bench, Dtype dtype) {
    std::uint64_t seed = 1 + 100 * static_cast<std::uint64_t>(dtype);
    for (const bool accumulate : {false, true}) {
        const Product p = product_of(
            Gemm{48, 80, 64, accumulate || dtype == Dtype::fp8 ? 1 : 2, dtype, accumulate});
        const auto size = [&](long x, long y) { return static_cast<std::size_t>(p.batch * x * y); };
        const Element result = accumulate ? Element::fp32 : result_of(dtype);
        const Values a = random_values(element_of(dtype), size(p.m, p.k), seed++);
        const Values b = random_values(element_of(dtype), size(p.k, p.n), seed++);
        const Values c = random_values(result, size(p.m, p.n), seed++);
        bench.products.run(
            p, {a.block.data(), b.block.data(), c.block.data(), bench.workspace.data()}, nullptr);
        check(cudaDeviceSynchronize());
        const double off = distance(download(c.block.data(), result, c.values.size()),
                                    reference(p, a.values, b.values, c.values));
        expect(off < tolerance(dtype), "gemm " + std::string(to_string(dtype)) +
                                           (accumulate ? " added to fp32" : "") + ": off by " +
                                           std::to_string(off));
    }
}

// Groups one after another: the same product for each, on its part of the operands.
void test_groups(Bench& bench, bool fp8) {
    const std::vector<long> rows{24, 0, 40, 8};
    constexpr long n = 48, k = 32;
    for (const Dtype dtype : {Dtype::fp32, Dtype::fp16, Dtype::bf16, Dtype::fp8})
        for (const auto& [gradient, kernels] :
             {std::pair(false, 0), {true, 0}, {false, 1}, {true, 2}}) {
            if (dtype == Dtype::fp8 && !fp8) continue;
            const GroupedGemm op{rows, n, k, dtype, gradient, kernels};
            const Element element = element_of(dtype), result = result_of(dtype);
            // One place, at the begin of the buffers: the second operand lies behind the first.
            const Need need = need_of(op, 0, 1);
            CudaPlan plan{.output = 1 << 16};
            plan.inputs[static_cast<std::size_t>(element)] = 1 << 16;
            CudaMemory memory(plan, 1, 11, nullptr);
            const char* const in = memory.input(element).data();
            const std::size_t a_size = static_cast<std::size_t>(need.bytes.inputs[0]),
                              b_size = static_cast<std::size_t>(need.bytes.inputs[1]);
            const Doubles a = download(in, element, a_size / size_of(element));
            const Doubles b = download(in + (a_size + alignment - 1) / alignment * alignment,
                                       element, b_size / size_of(element));
            GroupedProducts grouped(bench.products);
            grouped.prepare(op, memory, Bytes(0), nullptr);
            Doubles expected;
            std::size_t at_a = 0, at_b = 0;
            for (const long group : rows) {
                if (group == 0) continue;
                const long r = stored_rows(op, group);
                const bool inside = dtype == Dtype::fp8;  // the rows of a weight gradient
                const Product p = gradient ? Product{k, n, r, 1, dtype, !inside, inside}
                                           : Product{r, n, k, 1, dtype, false, true};
                const Doubles one =
                    reference(p, Doubles(a.begin() + static_cast<long>(at_a), a.end()),
                              Doubles(b.begin() + static_cast<long>(at_b), b.end()),
                              Doubles(static_cast<std::size_t>(p.m * p.n)));
                expected.insert(expected.end(), one.begin(), one.end());
                at_a += static_cast<std::size_t>(r * k);
                at_b += static_cast<std::size_t>((gradient ? r : k) * n);
            }
            std::set<std::string> ways;
            for (const auto way : {GroupedProducts::Way::together, GroupedProducts::Way::each,
                                   GroupedProducts::Way::spread}) {
                grouped.choose(op, way);
                if (!ways.insert(grouped.ran(op)).second) continue;
                check(cudaMemset(memory.output.data(), 0xee, memory.output.size()));
                grouped.run(op, bench.workspace.data(), nullptr);
                check(cudaDeviceSynchronize());
                const double off =
                    distance(download(memory.output.data(), result, expected.size()), expected);
                expect(off < tolerance(dtype), "grouped gemm " + std::string(to_string(dtype)) +
                                                   (gradient ? " weight gradient, " : ", ") +
                                                   grouped.ran(op) + ": off by " +
                                                   std::to_string(off));
            }
            // fp8 has no call over all groups, and the graph may ask for one after another
            expect(ways.size() == (kernels > 0           ? 1
                                   : dtype == Dtype::fp8 ? 2
                                                         : 3),
                   "grouped gemm " + std::string(to_string(dtype)) + ": " +
                       std::to_string(ways.size()) + " ways");
        }
}

// The definition, in double precision: P, then O or the gradients. Groups of heads share keys and
// values; the first heads, as many as the share of windows says, see only a window.
struct AttentionReference {
    Doubles p, out, log_sums, d_q, d_k, d_v;
};
AttentionReference attention_reference(const Attention& op, const Doubles& q, const Doubles& k,
                                       const Doubles& v, const Doubles& d_out) {
    const long heads = op.batch * op.heads, d = op.head_dim,
               e = op.value_dim > 0 ? op.value_dim : d,
               group = op.kv_heads > 0 ? op.heads / op.kv_heads : 1;
    AttentionReference all{Doubles(static_cast<std::size_t>(heads * op.seq_q * op.seq_k)),
                           Doubles(d_out.size()),
                           Doubles(static_cast<std::size_t>(heads * op.seq_q)),
                           Doubles(q.size()),
                           Doubles(k.size()),
                           Doubles(v.size())};
    const auto at = [](long x) { return static_cast<std::size_t>(x); };
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    const auto windowed = static_cast<double>(heads) * op.window_share;
    for (long h = 0; h < heads; ++h)
        for (long i = 0; i < op.seq_q; ++i) {
            long first = 0, last = op.seq_k;  // keys that the query sees
            if (op.causal) last = std::clamp(i + op.seq_k - op.seq_q + 1, 0L, op.seq_k);
            if (op.window > 0 && static_cast<double>(h) < windowed) {
                if (op.causal)
                    first = std::max(0L, i + op.seq_k - op.seq_q + 1 - op.window);
                else
                    first = std::clamp(i * op.seq_k / op.seq_q - op.window / 2, 0L,
                                       std::max(0L, op.seq_k - op.window)),
                    last = std::min(op.seq_k, first + op.window);
            }
            double* p = all.p.data() + (h * op.seq_q + i) * op.seq_k;
            const long query = (h * op.seq_q + i) * d, result = (h * op.seq_q + i) * e;
            const auto key = [&](long j) { return (h / group * op.seq_k + j) * d; };
            const auto value = [&](long j) { return (h / group * op.seq_k + j) * e; };
            double sum = 0;
            for (long j = first; j < last; ++j) {
                double score = 0;
                for (long x = 0; x < d; ++x) score += q[at(query + x)] * k[at(key(j) + x)];
                sum += p[j] = std::exp(scale * score);
            }
            all.log_sums[at(h * op.seq_q + i)] = sum > 0 ? std::log(sum) : INFINITY;
            for (long j = first; j < last; ++j) p[j] /= sum;
            double dot = 0;
            Doubles d_p(at(op.seq_k));
            for (long j = first; j < last; ++j) {
                for (long x = 0; x < e; ++x) {
                    all.out[at(result + x)] += p[j] * v[at(value(j) + x)];
                    all.d_v[at(value(j) + x)] += p[j] * d_out[at(result + x)];
                    d_p[at(j)] += d_out[at(result + x)] * v[at(value(j) + x)];
                }
                dot += p[j] * d_p[at(j)];
            }
            for (long j = first; j < last; ++j)
                for (long x = 0; x < d; ++x) {
                    const double d_s = scale * p[j] * (d_p[at(j)] - dot);
                    all.d_q[at(query + x)] += d_s * k[at(key(j) + x)];
                    all.d_k[at(key(j) + x)] += d_s * q[at(query + x)];
                }
        }
    return all;
}

// One kernel for forward and backward, on one rank's operands: the own one, or another.
struct FusedResults {
    Doubles out, log_sums, d_q, d_k, d_v;
};
using Attend = std::function<void(const Attention&, const CudaOperands&, cudaStream_t)>;
FusedResults run_fused_attention(Attention op, const CudaBlock& q, const CudaBlock& k,
                                 const CudaBlock& v, const CudaBlock& d_out,
                                 const Attend& attend = attend_fused) {
    const Element element = score_element(op.dtype);
    const auto rows = static_cast<std::size_t>(op.batch * op.heads * op.seq_q);
    const CudaBlock out(d_out.size()), log_sums(4 * rows), dots(4 * rows), d_q(q.size()),
        d_k(k.size()), d_v(v.size());
    attend(op, {{q.data(), k.data(), v.data()}, {out.data(), log_sums.data()}}, nullptr);
    op.backward = true;
    attend(op,
           {{q.data(), k.data(), v.data(), out.data(), d_out.data(), log_sums.data()},
            {dots.data(), d_q.data(), d_k.data(), d_v.data()}},
           nullptr);
    check(cudaDeviceSynchronize());
    const auto values = [&](const CudaBlock& block) {
        return download(block.data(), element, block.size() / size_of(element));
    };
    return {values(out), download(log_sums.data(), Element::fp32, rows), values(d_q), values(d_k),
            values(d_v)};
}

// Two queries and two keys of one element: q = (5, ln 3), k = (0, 1), v = (1, 3), d_out = (1, 2).
// Causal, the first query sees one key: out 1, log of the sum 0, no gradient of scores. The second
// has weights exp(0) and exp(ln 3) over 4: out (1 + 3 * 3) / 4 = 2.5, log of the sum ln 4. d_v = 1
// + 2 / 4, 2 * 3 / 4. d_p = 2 v = (2, 6), dot = 2 * 2.5 = 5, d_s = (1/4 (2 - 5), 3/4 (6 - 5)), so
// d_q = 0 - 3/4 * 0 + 3/4 * 1 and d_k = d_s ln 3. A second head of queries that is equal shares the
// key: d_k and d_v double. Through a window of one key, each query has its own key's value, and
// d_v = d_out.
void test_fused_by_hand() {
    const float ln3 = std::log(3.0f);
    const auto near = [](const Doubles& found, const Doubles& wanted) {
        bool right = found.size() == wanted.size();
        for (std::size_t i = 0; right && i < found.size(); ++i)
            right = std::abs(found[i] - wanted[i]) < 1e-5;
        return right;
    };
    for (const long heads : {1L, 2L}) {
        Attention op{1, heads, 2, 2, 1, true, false, Dtype::fp32, true};
        op.kv_heads = 1;
        const auto each = [&](std::vector<double> values) {
            for (std::size_t i = 0, size = values.size(); heads == 2 && i < size; ++i)
                values.push_back(values[i]);
            return values;
        };
        const auto block = [&](const std::vector<double>& values) {
            return block_of({values.begin(), values.end()});
        };
        const CudaBlock q = block(each({5, ln3})), k = block({0, 1}), v = block({1, 3}),
                        d_out = block(each({1, 2}));
        const auto n = static_cast<double>(heads);
        const std::string what =
            "fused attention by hand, " + std::to_string(heads) + " heads of one key";
        const FusedResults found = run_fused_attention(op, q, k, v, d_out);
        expect(near(found.out, each({1, 2.5})) && near(found.log_sums, each({0, std::log(4.0)})),
               what + ": result");
        expect(near(found.d_q, each({0, 0.75})) &&
                   near(found.d_k, {n * -0.75 * ln3, n * 0.75 * ln3}) &&
                   near(found.d_v, {n * 1.5, n * 1.5}),
               what + ": gradients");
        op.window = 1;
        const FusedResults own = run_fused_attention(op, q, k, v, d_out);
        expect(near(own.out, each({1, 3})) && near(own.d_q, each({0, 0})) &&
                   near(own.d_k, {0, 0}) && near(own.d_v, {n, n * 2}),
               what + ": a window of one key");
    }
    // the first query of three sees nothing of one key: no result, no gradient, no weight for it
    const Attention none{1, 1, 3, 1, 1, true, false, Dtype::fp32, true};
    const FusedResults found = run_fused_attention(none, block_of({1, 1, 1}), block_of({1}),
                                                   block_of({4}), block_of({1, 1, 1}));
    expect(near(found.out, {0, 0, 4}) && near(found.d_q, {0, 0, 0}) && near(found.d_v, {1}),
           "fused attention of queries that see nothing");
}

// Lengths that are no whole tiles, groups of heads, windows, values of another width, every width
// that a kernel is compiled for.
void test_fused_attention() {
    struct Shape {
        const char* name;
        Dtype dtype;
        long heads, kv_heads, seq_q, seq_k, width, values;
        bool causal;
        long window;
        double share;
    };
    const Shape shapes[] = {
        {"plain", Dtype::fp32, 2, 0, 40, 48, 16, 0, false, 0, 1},
        {"causal", Dtype::bf16, 2, 0, 70, 70, 64, 0, true, 0, 1},
        {"causal, more keys", Dtype::fp16, 2, 0, 40, 75, 80, 0, true, 0, 1},
        {"causal, fewer keys", Dtype::fp32, 2, 0, 70, 33, 32, 0, true, 0, 1},
        {"groups", Dtype::bf16, 6, 2, 50, 50, 128, 0, true, 0, 1},
        {"one key head", Dtype::fp32, 4, 1, 33, 65, 100, 0, false, 0, 1},
        {"window", Dtype::fp32, 2, 0, 100, 100, 16, 0, true, 7, 1},
        {"window of half the heads", Dtype::bf16, 4, 2, 100, 100, 64, 0, true, 40, 0.5},
        {"window without a mask", Dtype::fp16, 2, 0, 60, 90, 64, 0, false, 33, 1},
        {"wider keys", Dtype::bf16, 2, 0, 40, 40, 192, 128, true, 0, 1},
        {"256 wide", Dtype::bf16, 2, 1, 40, 40, 256, 0, true, 0, 1},
    };
    std::uint64_t seed = 60;
    CudnnAttention cudnn;
    for (const Shape& s : shapes) {
        Attention op{2, s.heads, s.seq_q, s.seq_k, s.width, s.causal, false, s.dtype, true};
        op.value_dim = s.values;
        op.kv_heads = s.kv_heads;
        op.window = s.window;
        op.window_share = s.share;
        const Element element = element_of(s.dtype);
        const long kv = s.kv_heads > 0 ? s.kv_heads : s.heads,
                   e = s.values > 0 ? s.values : s.width;
        const auto random = [&](long heads, long rows, long columns) {
            return random_values(element, static_cast<std::size_t>(2 * heads * rows * columns),
                                 seed++);
        };
        const Values q = random(s.heads, s.seq_q, s.width), k = random(kv, s.seq_k, s.width),
                     v = random(kv, s.seq_k, e), d_out = random(s.heads, s.seq_q, e);
        const AttentionReference expected =
            attention_reference(op, q.values, k.values, v.values, d_out.values);
        const double most = s.dtype == Dtype::fp32 ? 1e-5 : s.dtype == Dtype::fp16 ? 2e-3 : 1e-2;
        const auto check_by = [&](const std::string& by, const Attend& attend) {
            const FusedResults found =
                run_fused_attention(op, q.block, k.block, v.block, d_out.block, attend);
            const auto compare = [&](const char* what, Doubles one, Doubles wanted) {
                for (std::size_t i = 0; i < wanted.size(); ++i)
                    if (std::isinf(wanted[i]) && one[i] == wanted[i]) one[i] = wanted[i] = 0;
                const double off = distance(one, wanted);
                expect(off < most, "fused attention by " + by + ", " + s.name + ", " +
                                       std::string(to_string(s.dtype)) + " " + what + ": off by " +
                                       std::to_string(off));
            };
            compare("result", found.out, expected.out);
            compare("log_sums", found.log_sums, expected.log_sums);
            compare("d_q", found.d_q, expected.d_q);
            compare("d_k", found.d_k, expected.d_k);
            compare("d_v", found.d_v, expected.d_v);
        };
        check_by("the own kernel", attend_fused);
        Attention back = op;
        back.backward = true;
        std::string why = cudnn.prepare(op, nullptr);
        if (why.empty()) why = cudnn.prepare(back, nullptr);
        if (why.empty())
            check_by(cudnn.version(), [&](const Attention& one, const CudaOperands& at,
                                          cudaStream_t stream) { cudnn.run(one, at, stream); });
        else
            std::printf("      cuDNN does not serve %s, %s: %s\n", s.name,
                        std::string(to_string(s.dtype)).c_str(), why.c_str());
    }
}

void test_attention(Bench& bench) {
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16})
        // 45: no whole packs
        for (const auto& [causal, keys] : {std::pair{false, 48L}, {true, 48L}, {true, 45L}}) {
            const Attention op{2, 3, 40, keys, 16, causal, false, dtype};
            const Element element = element_of(dtype);
            const auto size = [&](long seq, long width) {
                return static_cast<std::size_t>(6 * seq * width);
            };
            const Values q = random_values(element, size(40, 16), 21),
                         k = random_values(element, size(keys, 16), 22);
            const Values v = random_values(element, size(keys, 16), 23),
                         d_out = random_values(element, size(40, 16), 24);
            const Values out = random_values(element, size(40, 16), 25),
                         p = random_values(element, size(40, keys), 26);
            const AttentionReference expected =
                attention_reference(op, q.values, k.values, v.values, d_out.values);
            attend(bench.products, op,
                   {{q.block.data(), k.block.data(), v.block.data()},
                    {p.block.data(), out.block.data()}},
                   bench.workspace.data(), nullptr);
            const Values d_q = random_values(element, size(40, 16), 27),
                         d_k = random_values(element, size(keys, 16), 28);
            const Values d_v = random_values(element, size(keys, 16), 29),
                         d_p = random_values(element, size(40, keys), 30);
            Attention back = op;
            back.backward = true;
            attend(bench.products, back,
                   {{q.block.data(), k.block.data(), v.block.data(), p.block.data(),
                     d_out.block.data()},
                    {d_p.block.data(), d_q.block.data(), d_k.block.data(), d_v.block.data()}},
                   bench.workspace.data(), nullptr);
            check(cudaDeviceSynchronize());
            const double most = dtype == Dtype::fp32 ? 1e-4 : 3e-2;
            const auto compare = [&](const char* what, const Values& found, const Doubles& wanted) {
                const double off =
                    distance(download(found.block.data(), element, wanted.size()), wanted);
                expect(off < most, std::string("attention ") + std::string(to_string(dtype)) +
                                       (causal ? " causal " : " ") + std::to_string(keys) +
                                       " keys " + what + ": off by " + std::to_string(off));
            };
            compare("softmax", p, expected.p);
            compare("result", out, expected.out);
            compare("d_q", d_q, expected.d_q);
            compare("d_k", d_k, expected.d_k);
            compare("d_v", d_v, expected.d_v);
        }
}

std::vector<std::uint32_t> words_of(const CudaBlock& block) {
    std::vector<std::uint32_t> words(block.size() / 4);
    check(cudaMemcpy(words.data(), block.data(), block.size(), cudaMemcpyDeviceToHost));
    return words;
}

void test_memory() {
    constexpr std::size_t matrix = std::size_t{4} << 20, tail = 4096 * 5 + 16;
    const CudaBlock source(2 * matrix + tail), sink(alignment);
    check(fill_random(source.data(), Element::bf16, source.size() / 2, 31, nullptr));
    const std::vector<std::uint32_t> in = words_of(source);
    using Pass = cudaError_t(const Traffic&, cudaStream_t);
    const auto passes = [&](Pass* pass, std::size_t read, std::size_t written) {
        CudaBlock target(written);
        check(cudaMemset(target.data(), 0xee, written));
        check(pass({source.data(), read, target.data(), written, sink.data()}, nullptr));
        check(cudaDeviceSynchronize());
        return words_of(target);
    };
    for (const auto& [name, pass] : {std::pair<const char*, Pass*>{"stream", stream_memory},
                                     {"optimizer", optimizer_memory}}) {
        for (const std::size_t read : {tail, matrix, matrix + tail}) {
            const std::vector<std::uint32_t> out = passes(pass, read, matrix);
            bool right = true;
            for (std::size_t i = 0; i < out.size(); ++i)
                right = right && out[i] == (4 * i < read ? in[i] ^ 1U : 1U);
            expect(right, std::string(name) + " of " + std::to_string(read) + " bytes into " +
                              std::to_string(matrix));
        }
    }
    const std::vector<std::uint32_t> out = passes(transpose_memory, source.size(), source.size());
    bool right = true;
    for (std::size_t i = 0; i < out.size(); ++i) {
        const std::size_t base = i >> 20 << 20, row = i >> 10 & 1023, column = i & 1023;
        right =
            right && out[i] == (i < 2 * matrix / 4 ? in[base + column * 1024 + row] : in[i] ^ 1U);
    }
    expect(right, "transpose of two matrices and a rest");
}

void test_random() {
    for (const Element element : {Element::fp32, Element::fp16, Element::bf16, Element::fp8}) {
        constexpr std::size_t count = 1 << 16;
        const Doubles values = random_values(element, count, 41).values;
        double sum = 0, squares = 0, largest = 0;
        for (const double x : values) {
            sum += x;
            squares += x * x;
            largest = std::max(largest, std::abs(x));
        }
        // Uniform in [-1, 1): mean 0 +- 0.6 / 256, mean square 1/3.
        expect(largest <= 1 && std::abs(sum / count) < 0.02 &&
                   std::abs(squares / count - 1.0 / 3) < 0.02,
               "random values of " + std::to_string(8 * size_of(element)) + " bits");
    }
}

// Rank r of n holds r + 1 in the sums; a row from s to t is all 16 s + t, and there are s + t + 1
// of them.
void test_collectives(int rank, int ranks, const ncclUniqueId& id) {
    check(cudaSetDevice(rank));
    const Watch watch = [] {};
    Communicator world(id, ranks, rank, watch);
    std::array<std::vector<int>, 2> halves;  // even ranks, odd ranks
    for (int r = 0; r < ranks; ++r) halves[static_cast<std::size_t>(r % 2)].push_back(r);
    Communicator even = world.split(halves[0], rank, watch),
                 odd = world.split(halves[1], rank, watch);
    expect((rank % 2 == 0 ? odd : even).empty(), "no communicator for who is none of its members");
    constexpr std::size_t count = 1000;
    const auto upload = [](const std::vector<float>& values) {
        CudaBlock block(values.size() * 4);
        check(cudaMemcpy(block.data(), values.data(), block.size(), cudaMemcpyHostToDevice));
        return block;
    };
    const auto n = static_cast<std::size_t>(ranks);
    const auto own = static_cast<float>(rank + 1);
    const double sum = 0.5 * ranks * (ranks + 1);
    const CudaBlock in = upload(std::vector<float>(count * n, own)),
                    out = upload(std::vector<float>(count * n, -1));
    const auto is = [&](const char* what, std::size_t size,
                        const std::function<double(std::size_t)>& wanted) {
        check(cudaDeviceSynchronize());
        const Doubles found = download(out.data(), Element::fp32, size);
        bool right = true;
        for (std::size_t i = 0; i < size; ++i) right = right && found[i] == wanted(i);
        expect(right, std::string(what) + " on rank " + std::to_string(rank) + " of " +
                          std::to_string(ranks));
    };
    const auto run = [&](Communicator& group, const Op& op) {
        group.run(op, {{in.data()}, {out.data()}}, nullptr, watch);
    };
    const Bytes part(4 * count), whole(4.0 * static_cast<double>(count * n));
    run(world, AllReduce{part});
    is("all_reduce", count, [&](std::size_t) { return sum; });
    run(world, AllGather{whole});
    is("all_gather", count * n, [&](std::size_t i) { return static_cast<double>(i / count + 1); });
    run(world, ReduceScatter{whole});
    is("reduce_scatter", count, [&](std::size_t) { return sum; });
    run(world, Broadcast{part, ranks - 1});
    is("broadcast", count, [&](std::size_t) { return static_cast<double>(ranks); });
    run(world, Reduce{part, 0});
    if (rank == 0) is("reduce", count, [&](std::size_t) { return sum; });
    run(rank % 2 == 0 ? even : odd, AllReduce{part});
    double half_sum = 0;
    for (int r = rank % 2; r < ranks; r += 2) half_sum += r + 1;
    is("all_reduce of half the ranks", count, [&](std::size_t) { return half_sum; });

    std::vector<float> rows, wanted;
    AllToAll exchange;
    for (int source = 0; source < ranks; ++source)
        for (int target = 0; target < ranks; ++target) {
            const auto size = static_cast<std::size_t>(source + target + 1);
            exchange.bytes.emplace_back(4.0 * static_cast<double>(size));
            if (source == target) continue;  // what a rank keeps stays where it is
            if (source == rank)
                rows.insert(rows.end(), size, static_cast<float>(16 * source + target));
            if (target == rank)
                wanted.insert(wanted.end(), size, static_cast<float>(16 * source + target));
        }
    const CudaBlock sent = upload(rows);
    world.run(exchange, {{sent.data()}, {out.data()}}, nullptr, watch);
    is("all_to_all", wanted.size(), [&](std::size_t i) { return static_cast<double>(wanted[i]); });
    run(world, Barrier{});
    if (ranks > 1 && rank < 2) {
        run(world, SendRecv{part, 3});
        if (rank == 1) is("send and receive", count, [](std::size_t) { return 1.0; });
        check(cudaDeviceSynchronize());
    }
}

void test_all_ranks(int gpus) {
    const ncclUniqueId id = make_unique_id();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < gpus; ++rank)
        threads.emplace_back([&, rank] {
            try {
                test_collectives(rank, gpus, id);
            } catch (const std::exception& error) {
                expect(false, std::string("collectives: ") + error.what());
                if (gpus > 1) std::exit(1);  // the others wait for this rank
            }
        });
    for (std::thread& thread : threads) thread.join();
}

// Passes that kernels of training libraries run, beside the products that say how long their rows
// are: 64 tokens of 96, heads of 32, 256 words; and one with rows that no kernel takes.
void add_library_passes(TaskGraph& graph) {
    const Place compute(0, Lane::compute);
    const auto pass = [&](std::string_view name, double read, double written) {
        graph.add(name, name.ends_with("_backward") ? Phase::backward : Phase::forward,
                  MemoryPass{Bytes(read), Bytes(written)}, {compute}, {});
    };
    const auto product = [&](long n, long k) {
        graph.add("gemm", Phase::forward, Gemm{64, n, k, 1, Dtype::bf16}, {compute}, {});
    };
    const double x = 64 * 96 * 2, logits = 64 * 256;
    pass("attention_norm", x, x);
    product(288, 96);
    pass("rotary", 3 * x, 3 * x);
    product(64, 32);
    pass("residual", 2 * x, x);
    pass("dropout", x, 1.5 * x);
    pass("activation", 2 * x, x);
    product(96, 96);
    product(256, 96);
    pass("loss", 6 * logits, 4 * logits);
    pass("loss_backward", 4 * logits, 2 * logits);
    pass("activation_backward", 3 * x, 2 * x);
    pass("dropout_backward", 1.5 * x, x);
    pass("residual_backward", 2 * x, x);
    pass("rotary_backward", 3 * x, 3 * x);
    pass("attention_norm_backward", 2 * x, x);
    pass("final_norm", 2 * 20000, 2 * 20000);
    product(8, 20000);
    pass("cast", 4 * 4096, 2 * 4096);
    pass("optimizer", 16 * 70000, 14 * 70000);
    pass("gradient_norm", 4 * 70000, 0);
}

// Every kind of op that one rank has, through the executor: issued, and replayed as a CUDA graph.
TaskGraph one_rank_graph() {
    TaskGraph graph(1);
    const Place compute(0, Lane::compute), data(0, Lane::data), host(0, Lane::host);
    const TaskId gemm =
        graph.add("gemm", Phase::forward, Gemm{256, 256, 256, 2, Dtype::bf16}, {compute}, {});
    const TaskId pass = graph.add("pass", Phase::forward,
                                  MemoryPass{Bytes(1 << 20), Bytes(1 << 19)}, {data}, {gemm});
    graph.add("groups", Phase::forward, GroupedGemm{{24, 0, 40}, 64, 64, Dtype::bf16}, {compute},
              {pass});
    graph.add("wgrad", Phase::backward, GroupedGemm{{24, 0, 40}, 64, 64, Dtype::bf16, true},
              {compute}, {});
    graph.add("attention", Phase::forward, Attention{1, 2, 64, 64, 32, true, false, Dtype::bf16},
              {compute}, {});
    graph.add("attention", Phase::backward, Attention{1, 2, 64, 64, 32, true, true, Dtype::bf16},
              {compute}, {});
    Attention flash{1, 4, 64, 64, 32, true, false, Dtype::bf16, true};
    flash.kv_heads = 2;
    graph.add("flash", Phase::forward, flash, {compute}, {});
    flash.backward = true;
    graph.add("flash", Phase::backward, flash, {compute}, {});
    graph.add("fused", Phase::forward,
              FusedGemm{4, 0, 64, 2, 64, 64, Bytes(256), FusedGemm::Transfer::gather, Dtype::bf16},
              {compute, data}, {});
    graph.add("host", Phase::backward, HostWork{}, {host}, {});
    graph.add("transpose", Phase::backward,
              MemoryPass{Bytes(1 << 23), Bytes(1 << 23), MemoryPass::Access::transpose}, {compute},
              {});
    graph.add("optimizer", Phase::optimizer,
              MemoryPass{Bytes(1 << 22), Bytes(1 << 22), MemoryPass::Access::optimizer}, {compute},
              {});
    add_library_passes(graph);
    return graph;
}

// A task of two lanes holds both until it ends: what stands behind it on the second starts after
// it, with no edge between.
TaskGraph two_lanes() {
    TaskGraph graph(1);
    const Place compute(0, Lane::compute), data(0, Lane::data);
    for (int i = 0; i < 4; ++i) {
        graph.add("fused", Phase::forward,
                  FusedGemm{64, 0, 64, 2, 512, 512, Bytes(1 << 16), FusedGemm::Transfer::gather,
                            Dtype::bf16},
                  {compute, data}, {});
        graph.add("behind", Phase::forward, MemoryPass{Bytes(1 << 10), Bytes(1 << 10)}, {data}, {});
    }
    return graph;
}

void test_two_lanes(bool replay) {
    const auto device = make_cuda_device({.ranks = 1, .graph = replay}, {}, 1).device;
    const TaskGraph graph = two_lanes();
    ExecuteOptions options;
    options.steps = 3;
    options.check_idle = false;
    options.retry.extra_steps = 0;
    const Measurement measurement = execute(graph, *device, options);
    bool held = true;
    for (const Trace& trace : measurement.traces) {
        std::vector<Seconds> start(graph.size()), finish(graph.size());
        for (const Span& span : trace.spans) {
            start[span.task] = span.start;
            finish[span.task] = std::max(finish[span.task], span.finish);
        }
        for (TaskId task = 1; task < graph.size(); ++task)
            held = held && start[task] >= finish[task - 1] - Seconds(1e-6);
    }
    expect(held, std::string("a task holds both of its lanes") + (replay ? ", replayed" : ""));
}

// What runs flash attention depends on the machine: the own kernel where cuDNN cannot, with a
// warning that says so, or cuDNN in a version that it takes, without one.
void check_flash_answer(const Measurement& measurement) {
    std::vector<std::string> answers;
    for (const std::string& line : measurement.kernels)
        if (line.starts_with("flash attention, ")) answers.push_back(line);
    const bool warned = std::ranges::any_of(measurement.warnings, [](const std::string& warning) {
        return warning.starts_with("flash attention ran by stepcast's own kernel");
    });
    const std::string own = "flash attention, 2 tasks: own fused kernel, without tensor cores";
    int major = 0, minor = 0, patch = 0;
    const bool right =
        answers.size() == 1 &&
        (warned ? answers[0] == own
                : std::sscanf(answers[0].c_str(), "flash attention, 2 tasks: cuDNN %d.%d.%d",
                              &major, &minor, &patch) == 3 &&
                      major >= 9);
    expect(right, "a run says what ran flash attention" +
                      (answers.empty() ? std::string() : ": " + answers[0]));
}

void test_execution(bool replay) {
    const auto device = make_cuda_device({.ranks = 1, .graph = replay}, {}, 1).device;
    const TaskGraph graph = one_rank_graph();
    ExecuteOptions options;
    options.steps = 5;
    options.check_idle = false;
    options.retry.extra_steps = 0;
    const Measurement measurement = execute(graph, *device, options);
    bool right = measurement.steps.size() == 5;
    for (const Trace& trace : measurement.traces) {
        check_trace(graph, trace, Seconds(1e-4));
        // clocks agree; how long it takes is no matter here
        right = right && step_end(trace) > Seconds(0) && step_end(trace) < Seconds(60);
    }
    const auto ran = [&](const std::string& line) {
        return std::ranges::find(measurement.kernels, line) != measurement.kernels.end();
    };
    expect(ran("gemm, 6 tasks: cuBLASLt") &&
               ran("attention, 2 tasks: through memory: products by cuBLASLt, own softmax") &&
               ran("host_work, 1 task: nothing: no framework here"),
           "a run says what ran each kind of task");
    check_flash_answer(measurement);
    for (const char* line :
         {"own kernel for norms, rows of 96", "own kernel for norms and their weights, rows of 96",
          "own AdamW over a flat buffer", "own cast",
          "as many bytes, by own streaming kernel: rows of 20000 elements are wider than the 16384 "
          "that the kernel for norms takes"})
        expect(ran(std::string("memory_pass, 1 task: ") + line), line);
    for (const char* line :
         {"own gated activation", "own rotary kernel, heads of 32", "own dropout by Philox",
          "own sum", "own cross entropy in steps, 256 columns"})
        expect(ran(std::string("memory_pass, 2 tasks: ") + line), line);
    expect(right, std::string("a step of all ops ") +
                      (replay ? "replayed as a CUDA graph" : "issued task by task") + " takes " +
                      to_string(median_times(measurement).step));
}

// And every kind that two ranks have together, as threads.
void test_two_ranks(int gpus) {
    const auto device = make_cuda_device({.ranks = 2}, {}, gpus).device;
    const TaskGraph graph = all_ops(2);
    ExecuteOptions options;
    options.steps = 3;
    options.check_idle = false;
    options.retry.extra_steps = 0;
    const Measurement measurement = execute(graph, *device, options);  // checks its traces
    expect(measurement.steps.size() == 3, "a step of all ops on two ranks");
}

// How far the first heuristic answer is from the best of eight.
// What runs flash attention, and how long: to be set beside another library's times.
void time_attention(Bench& bench) {
    struct Shape {
        long batch, heads, kv_heads, seq, width;
        bool causal;
    };
    for (const Shape& s : {Shape{8, 12, 12, 1024, 64, true},
                           {4, 25, 25, 1024, 64, true},
                           {16, 16, 16, 512, 64, false},
                           {2, 32, 32, 2048, 128, true},
                           {2, 32, 8, 4096, 128, true},
                           {1, 32, 8, 8192, 128, true},
                           {1, 64, 8, 16384, 128, true}}) {
        Attention op{s.batch, s.heads, s.seq, s.seq, s.width, s.causal, false, Dtype::bf16, true};
        op.kv_heads = s.kv_heads;
        Attention back = op;
        back.backward = true;
        const auto rows = as_index(s.batch * s.heads * s.seq),
                   keys = as_index(s.batch * s.kv_heads * s.seq), width = as_index(s.width);
        const auto operand = [&](std::size_t count) {
            CudaBlock block(2 * count * width);
            check(fill_random(block.data(), Element::bf16, count * width, 71, nullptr));
            return block;
        };
        const CudaBlock q = operand(rows), k = operand(keys), v = operand(keys),
                        d_out = operand(rows), out = operand(rows), d_q = operand(rows),
                        d_k = operand(keys), d_v = operand(keys), log_sums(4 * rows),
                        dots(4 * rows);
        Attentions attentions(bench.products);
        attentions.prepare(op, nullptr);
        attentions.prepare(back, nullptr);
        const CudaOperands ahead{{q.data(), k.data(), v.data()}, {out.data(), log_sums.data()}};
        const CudaOperands behind{
            {q.data(), k.data(), v.data(), out.data(), d_out.data(), log_sums.data()},
            {dots.data(), d_q.data(), d_k.data(), d_v.data()}};
        const auto run = [&](const Attention& one, const CudaOperands& at) {
            return 1e6 * time_of_launch([&] { attentions.run(one, at, nullptr, nullptr); });
        };
        const double forward = run(op, ahead), backward = run(back, behind);
        std::printf(
            "      attention time: batch %ld, %ld heads, %ld of keys, %ld tokens, width %ld%s: "
            "forward %.1f us, backward %.1f us, %s\n",
            s.batch, s.heads, s.kv_heads, s.seq, s.width, s.causal ? ", causal" : "", forward,
            backward, attentions.ran(op).c_str());
    }
}

void compare_heuristics(Bench& bench) {
    for (const Product& p : {Product{8192, 768, 768, 1, Dtype::bf16, false, true},
                             Product{8192, 4096, 4096, 1, Dtype::bf16, false, true},
                             Product{4096, 14336, 4096, 1, Dtype::bf16, false, true},
                             Product{124, 8192, 2048, 1, Dtype::fp32, false, true}}) {
        const Element element = element_of(p.dtype);
        const Values a = random_values(element, static_cast<std::size_t>(p.m * p.k), 51);
        const Values b = random_values(element, static_cast<std::size_t>(p.k * p.n), 52);
        const CudaBlock c(static_cast<std::size_t>(p.m * p.n) * 4);
        double first = 0, best = INFINITY;
        for (const cublasLtMatmulAlgo_t& algorithm : bench.products.algorithms(p, 8)) {
            const double time = time_of_launch([&] {
                bench.products.run_with(
                    algorithm, p,
                    {a.block.data(), b.block.data(), c.data(), bench.workspace.data()}, nullptr);
            });
            if (first == 0) first = time;
            best = std::min(best, time);
        }
        std::printf(
            "      %ldx%ldx%ld %s: first heuristic %.1f us, best of eight %.1f us (%.1f %% "
            "slower)\n",
            p.m, p.n, p.k, std::string(to_string(p.dtype)).c_str(), 1e6 * first, 1e6 * best,
            100 * (first / best - 1));
    }
}

}  // namespace

int main(int count, char** arguments) {
    const bool times = !(count > 1 && std::strcmp(arguments[1], "--without-times") == 0);
    // a test that hangs and is killed leaves the lines before it
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    int gpus = 0, driver = 0;
    const cudaError_t code = cudaGetDeviceCount(&gpus);
    cudaDriverGetVersion(&driver);
    if (const std::string missing = missing_device(code, driver, CUDART_VERSION, gpus);
        !missing.empty()) {
        std::printf("skipped: no CUDA device: %s\n", missing.c_str());
        return 77;
    }
    int capability = 0;
    try {
        check(cudaSetDevice(0));
        const CudaGpu gpu = describe_gpu(0);
        capability = gpu.capability;
        std::printf("      %d x %s, %d SMs, %s, L2 %s, %s\n", gpus, gpu.name.c_str(),
                    gpu.multiprocessors, to_string(gpu.memory).c_str(),
                    to_string(gpu.cache).c_str(), to_string(gpu.memory_bandwidth).c_str());
    } catch (const std::exception& error) {
        expect(false, error.what());
        return 1;
    }
    // One that cannot go on leaves the others their turn; what may hang or poison the context comes
    // last.
    const auto attempt = [](const char* what, const std::function<void()>& test) {
        try {
            test();
        } catch (const std::exception& error) {
            expect(false, std::string(what) + ": " + error.what());
        }
    };
    attempt("random", test_random);
    attempt("memory", test_memory);
    constexpr int ada = 89;
    for (const Dtype dtype : {Dtype::fp32, Dtype::tf32, Dtype::fp16, Dtype::bf16, Dtype::fp8})
        if (dtype != Dtype::fp8 || capability >= ada)
            attempt("products", [&] {
                Bench bench;
                test_products(bench, dtype);
            });
    attempt("groups", [&] {
        Bench bench;
        test_groups(bench, capability >= ada);
    });
    attempt("attention", [] {
        Bench bench;
        test_attention(bench);
    });
    attempt("fused attention by hand", test_fused_by_hand);
    attempt("fused attention", test_fused_attention);
    attempt("passes of libraries", test_library_passes);
    attempt("copy rate", [&] { compare_with_copies(times); });
    attempt("execution", [] { test_execution(false); });
    attempt("two lanes", [] { test_two_lanes(false); });
    attempt("two lanes, replayed", [] { test_two_lanes(true); });
    if (times)
        attempt("times", [] {
            Bench bench;
            time_attention(bench);
            compare_heuristics(bench);
        });
    attempt("collectives", [&] { test_all_ranks(gpus); });
    if (gpus > 1) attempt("two ranks", [&] { test_two_ranks(gpus); });
    attempt("replay", [] { test_execution(true); });
    std::printf("%d wrong\n", wrong.load());
    return wrong == 0 ? 0 : 1;
}
