// What a task does, as sizes without time or device. The variant is closed and visited without
// catch-alls, so that after adding an op every place that must know it fails to compile until it
// does.
#pragma once

#include <algorithm>
#include <compare>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "model/base/dtype.h"
#include "model/base/names.h"
#include "model/base/units.h"

namespace stepcast {

// Kernels that no table holds, each priced by the law of the nearest one that is known. A forecast
// names them and is less sure of their time.
enum class Unmeasured : std::uint8_t { no, delta_rule, sparse_attention };

// C[m,n] (+)= A[m,k] B[k,n], `batch` times. `accumulate`: C is fp32 and is added to, as main
// gradients are. `rows` says how the rows in memory begin: an unpadded vocabulary leaves them even
// or odd. `layout` states for A and B whether memory holds them as written (n) or transposed (t).
// For a linear layer with weights [out, in] the forward is nt, the input gradient nn, the weight
// gradient tn.
struct Gemm {
    enum class Layout : std::uint8_t { nt, nn, tn };
    // of rows: begin at multiples of 8 elements, of 2, of 1
    enum class Alignment : std::uint8_t { full, even, odd };
    long m = 0, n = 0, k = 0;
    long batch = 1;
    Dtype dtype = Dtype::fp16;
    bool accumulate = false;
    Alignment alignment = Alignment::full;
    Layout layout = Layout::nt;
    Unmeasured unmeasured = Unmeasured::no;
    friend auto operator<=>(const Gemm&, const Gemm&) = default;
};
constexpr Gemm::Alignment alignment_of(long elements) {
    return elements % 8 == 0   ? Gemm::Alignment::full
           : elements % 2 == 0 ? Gemm::Alignment::even
                               : Gemm::Alignment::odd;
}
// Of C the rows have n elements, of A k (m where it lies transposed), of B n (k where it lies
// transposed): the worst of the three.
inline Gemm::Alignment alignment_of(const Gemm& g) {
    const long a = g.layout == Gemm::Layout::tn ? g.m : g.k,
               b = g.layout == Gemm::Layout::nt ? g.k : g.n;
    return std::max({alignment_of(a), alignment_of(b), alignment_of(g.n)});
}

// Several GEMMs with one weight shape: group g is C[rows[g],n] = A[rows[g],k] B_g[k,n]. A weight
// gradient sums over the rows instead: C_g[k,n] = A[rows[g],k]^T B[rows[g],n].
struct GroupedGemm {
    std::vector<long> rows;
    long n = 0, k = 0;
    Dtype dtype = Dtype::fp16;
    bool weight_gradient = false;
    int kernels = 0;  // kernels per group, run group by group; 0 = one kernel over all
    friend bool operator==(const GroupedGemm&, const GroupedGemm&) = default;
};

// A grouped GEMM over blocks of `rows_per_block` token rows, fused with the transfer of rows that
// live on other ranks. `gather` reads its remote input rows while it computes (mix_moe's AG
// kernel); `scatter` writes its results to their owners (GA). One thread block computes
// `blocks_per_thread_block` blocks over all n columns.
struct FusedGemm {
    enum class Transfer : std::uint8_t { gather, scatter };
    long blocks = 0;         // blocks that this rank computes
    long remote_blocks = 0;  // blocks among them with rows on another rank
    long rows_per_block = 64;
    long blocks_per_thread_block = 2;
    long n = 0, k = 0;
    Bytes remote_bytes_per_block;  // moved over the links for one remote block
    Transfer transfer = Transfer::gather;
    Dtype dtype = Dtype::fp16;
    friend bool operator==(const FusedGemm&, const FusedGemm&) = default;
};

// best: the device's fastest kernel; second: FlashAttention-2; triton: Triton's kernel of 2022 and
// 2023.
enum class FlashGeneration : std::uint8_t { best, second, triton };

// softmax(Q K^T) V for `batch` sequences and `heads` heads. Causal: query i sees the keys up to i +
// seq_k - seq_q. `flash`: one kernel keeps the scores on chip and computes them again in the
// backward; otherwise they go through memory. `generation` selects the flash kernel
// (kernel.attention_v2, kernel.attention_triton). `window`: a query sees only that many keys, its
// own included, in the share `window_share` of the layers (if only some layers have windows, each
// layer is priced as the mean of both).
struct Attention {
    long batch = 0, heads = 0, seq_q = 0, seq_k = 0, head_dim = 0;
    bool causal = false;
    bool backward = false;
    Dtype dtype = Dtype::fp16;
    bool flash = false;
    FlashGeneration generation = FlashGeneration::best;
    long value_dim = 0;  // width of a value; 0 = head_dim
    long window = 0;     // 0 = all
    double window_share = 1;
    Unmeasured unmeasured = Unmeasured::no;
    long kv_heads = 0;  // of keys and values, each for as many heads of queries; 0 = heads
    friend bool operator==(const Attention&, const Attention&) = default;
};

// A pass that streams memory: permute, GELU, add, softmax-like passes. `transpose` walks one side
// with a stride, `optimizer` walks many tensors at once, `rows` reduces within rows (norms,
// softmax), `strided` accesses single elements at computed offsets (permuted copies, sums over
// columns). `host_link` crosses to the host's memory or comes from there, `host` is a pass of the
// host over its own. `operations`: arithmetic of fp32 without tensor cores, where it may take
// longer than the memory.
struct MemoryPass {
    enum class Access : std::uint8_t {
        stream,
        transpose,
        optimizer,
        rows,
        strided,
        host_link,
        host
    };
    Bytes read, written;
    Access access = Access::stream;
    double operations = 0;
    friend bool operator==(const MemoryPass&, const MemoryPass&) = default;
};

// Every participant ends with the sum of all inputs of `bytes`.
struct AllReduce {
    Bytes bytes;
    bool in_switch = true;  // a switch that can add may do it; no switch adds 8-bit integers
    friend bool operator==(const AllReduce&, const AllReduce&) = default;
};
// `bytes` is the gathered result, on every participant.
struct AllGather {
    Bytes bytes;
    friend bool operator==(const AllGather&, const AllGather&) = default;
};
// `bytes` is the input on every participant; each keeps 1/n of the sum.
struct ReduceScatter {
    Bytes bytes;
    friend bool operator==(const ReduceScatter&, const ReduceScatter&) = default;
};
// `root` is an index into the task's places.
struct Broadcast {
    Bytes bytes;
    int root = 0;
    friend bool operator==(const Broadcast&, const Broadcast&) = default;
};
struct Reduce {
    Bytes bytes;
    int root = 0;
    friend bool operator==(const Reduce&, const Reduce&) = default;
};
// All-to-all with variable sizes: bytes[source * n + target] for n participants in the order of the
// task's places. The diagonal is what a rank keeps for itself; it crosses no link.
struct AllToAll {
    std::vector<Bytes> bytes;
    // For kernels that write rows directly to their targets (DeepEP's): bytes of a row, and tokens
    // per rank. row = 0 means grouped sends and receives.
    Bytes row = {};
    double tokens = 0;
    [[nodiscard]] bool by_kernels() const { return row > Bytes(0); }
    friend bool operator==(const AllToAll&, const AllToAll&) = default;
};
// Sends from the task's first place to its second, as `messages` messages of equal size.
// `blocking`: the messages are small, only some carry the payload, and each is a call that blocks
// the host at both ends.
struct SendRecv {
    Bytes bytes;
    int messages = 1;
    bool blocking = false;
    friend bool operator==(const SendRecv&, const SendRecv&) = default;
};
// All participants wait for each other; no data moves.
struct Barrier {
    friend bool operator==(const Barrier&, const Barrier&) = default;
};

// Work of the host itself: `calls` calls of one kind. The cluster has the time per call.
struct HostWork {
    // Named like the keys of their costs (HostCosts); a module has two keys, for forward and
    // backward.
    NAMED_ENUM_IN(Kind, "a kind of host work", framework, module, layer, exchange_setup, schedule,
                  assignment, read, flatten, update, gather, input, expert_layer, micro_batch,
                  exchange, recompute);
    Kind kind = Kind::framework;
    double calls = 1;
    friend bool operator==(const HostWork&, const HostWork&) = default;
};

using Op = std::variant<Gemm, GroupedGemm, FusedGemm, Attention, MemoryPass, AllReduce, AllGather,
                        ReduceScatter, AllToAll, Broadcast, Reduce, SendRecv, Barrier, HostWork>;

// Groups of ops that visitors may treat alike. Visitors name a group instead of catching all, so a
// new op fits no visitor until someone adds it to a group here.
template <typename T, typename... Of>
concept OneOf = (std::same_as<T, Of> || ...);
template <typename T>
concept ComputeOp = OneOf<T, Gemm, GroupedGemm, FusedGemm, Attention>;
template <typename T>  // needs every participant
concept ExchangeOp =
    OneOf<T, AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Reduce, SendRecv, Barrier>;
template <typename T>  // needs no other rank
concept LocalOp = ComputeOp<T> || OneOf<T, MemoryPass, HostWork>;

// "gemm", "grouped_gemm", "all_to_all", ..: the names in files and tables
std::string_view kind_name(const Op& op);
// needs every participant: AllReduce to Barrier, and SendRecv
bool is_collective(const Op& op);
bool is_compute(const Op& op);  // Gemm, GroupedGemm, FusedGemm, Attention
Unmeasured unmeasured(const Op& op);
// operand type of a compute op; empty for ops that only move bytes or wait
std::optional<Dtype> dtype_of(const Op& op);
// The share of query-key pairs that a causal mask and a window leave.
double seen_share(const Attention& op);
Flops flops_of(const Op& op);  // executed by its matrix products; 0 for other ops
// payload of a collective (all-to-all: off-diagonal sum); 0 for other ops
Bytes bytes_moved(const Op& op);

}  // namespace stepcast
