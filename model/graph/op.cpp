#include "model/graph/op.h"

#include <cmath>
#include <numeric>

#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
    using Cases::operator()...;
};

Bytes off_diagonal(const AllToAll& op) {
    const auto n = as_index(std::lround(std::sqrt(real(op.bytes.size()))));
    Bytes sum;
    for (const std::size_t i : indices_of(op.bytes))
        if (i / n != i % n) sum += op.bytes[i];
    return sum;
}

// Checks at compile time that a new op is either local or an exchange.
template <class... Ops>
constexpr bool is_one_kind(std::variant<Ops...>*) {
    return ((LocalOp<Ops> != ExchangeOp<Ops>)&&...);
}
static_assert(is_one_kind(static_cast<Op*>(nullptr)));

double product(long a, long b, long c) { return real(a) * real(b) * real(c); }

}  // namespace

std::string_view kind_name(const Op& op) {
    // Same order as the variant.
    constexpr std::string_view names[] = {
        "gemm",       "grouped_gemm", "fused_gemm",     "attention",  "memory_pass",
        "all_reduce", "all_gather",   "reduce_scatter", "all_to_all", "broadcast",
        "reduce",     "send_recv",    "barrier",        "host_work"};
    static_assert(std::size(names) == std::variant_size_v<Op>);
    return names[op.index()];
}

// Query i of Q sees min(i + 1 + K - Q, window) of K keys, thus all earlier keys until the window is
// full.
double seen_share(const Attention& op) {
    const auto queries = real(op.seq_q), keys = real(op.seq_k);
    const double all = op.causal ? std::max((keys - (queries - 1) / 2) / keys, 0.5 / keys) : 1.0;
    if (op.window == 0) return all;
    const double window = std::min(real(op.window), keys), first = keys - queries + 1;
    const double growing = op.causal ? std::clamp(window - (keys - queries), 0.0, queries) : 0;
    const double seen = growing * (first + (growing - 1) / 2) + (queries - growing) * window;
    return op.window_share * seen / (queries * keys) + (1 - op.window_share) * all;
}

bool is_compute(const Op& op) {
    return std::visit([]<class T>(const T&) { return ComputeOp<T>; }, op);
}
bool is_collective(const Op& op) {
    return std::visit([]<class T>(const T&) { return ExchangeOp<T>; }, op);
}
Unmeasured unmeasured(const Op& op) {
    return std::visit(
        []<class T>(const T& of) {
            if constexpr (OneOf<T, Gemm, Attention>)
                return of.unmeasured;
            else
                return Unmeasured::no;
        },
        op);
}
std::optional<Dtype> dtype_of(const Op& op) {
    return std::visit(
        []<class T>(const T& of) -> std::optional<Dtype> {
            if constexpr (ComputeOp<T>)
                return of.dtype;
            else
                return std::nullopt;
        },
        op);
}

Flops flops_of(const Op& op) {
    return Flops(std::visit(
        Overloaded{
            [](const Gemm& g) { return 2.0 * product(g.m, g.n, g.k) * real(g.batch); },
            [](const GroupedGemm& g) {
                return 2.0 * product(std::reduce(g.rows.begin(), g.rows.end()), g.n, g.k);
            },
            [](const FusedGemm& g) { return 2.0 * product(g.blocks * g.rows_per_block, g.n, g.k); },
            [](const Attention& a) {
                // Products over query/key width, and over value width; a flash backward computes
                // the scores again.
                const double wide = !a.backward ? 1 : a.flash ? 3 : 2, deep = a.backward ? 2 : 1;
                const double seen = a.window > 0 ? seen_share(a) : a.causal ? 0.5 : 1.0;
                const long values = a.value_dim > 0 ? a.value_dim : a.head_dim;
                return seen * 2.0 * real(a.batch * a.heads) *
                       (wide * product(a.seq_q, a.seq_k, a.head_dim) +
                        deep * product(a.seq_q, a.seq_k, values));
            },
            [](const MemoryPass&) { return 0.0; }, [](const HostWork&) { return 0.0; },
            [](const ExchangeOp auto&) { return 0.0; }},
        op));
}

Bytes bytes_moved(const Op& op) {
    return std::visit(Overloaded{[](const OneOf<AllReduce, AllGather, ReduceScatter, Broadcast,
                                                Reduce, SendRecv> auto& c) { return c.bytes; },
                                 [](const AllToAll& c) { return off_diagonal(c); },
                                 [](const Barrier&) { return Bytes(0); },
                                 [](const LocalOp auto&) { return Bytes(0); }},
                      op);
}

}  // namespace stepcast
