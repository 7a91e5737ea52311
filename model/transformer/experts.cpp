// Mixture-of-experts block: norm, router, permutation of the slots by expert, all-to-all to the expert's rank, experts as
// grouped GEMMs, all-to-all back, weighted sum; shared experts run as a dense block on every token.
// Each rank sends `tokens x top_k` slots; with balanced routing it receives as many. An expert that is split over the
// tensor-parallel ranks needs the slots of all of them: gathered after the all-to-all, reduce-scattered before it.
// dispatch_once (DeepEP's kernels): a token that k of E experts want crosses to each of N nodes, and there to each of n / N
// ranks, once; the rank that it comes to copies it for its experts, and sums their results before they go back. Of L
// experts in one place a token wants at least one with P(L) = 1 - prod_{i<k} (1 - L / (E - i)). Between nodes a pair of
// ranks carries P(E/N) N / k of the slots' bytes, inside a node (also what came from other nodes) P(E/n) n N / k.
// With a capacity every expert computes capacity_factor times the balanced number of slots, padded or dropped.
#include <algorithm>
#include <cmath>
#include <map>

#include "model/transformer/counts.h"
#include "model/transformer/passes.h"
#include "model/transformer/tensor_parallel.h"

namespace stepcast {
namespace {

struct Experts {
    long ranks = 1;     // expert-parallel
    long tokens = 0;    // that this rank routes
    long slots = 0;     // tokens x top_k
    long gathered = 1;  // tensor-parallel ranks whose slots an expert sees
    long ffn = 0;       // this rank's part of an expert's width
    long hidden = 0;
    Group exchange, tensor;
    std::vector<std::vector<long>> rows;  // of each local expert, by expert-parallel rank; one entry when balanced
    [[nodiscard]] long rows_most() const {
        long most = 0;
        for (const auto& of_rank : rows) {
            long sum = 0;
            for (const long r : of_rank) sum += r;
            most = std::max(most, sum);
        }
        return most;
    }
};

std::vector<long> balanced_rows(const Moe& moe, long slots, long local_experts, double per_expert) {
    const double factor = moe.capacity_factor > 0 ? moe.capacity_factor : 1;
    if (moe.capacity_factor == 0 && slots % local_experts == 0)
        return std::vector<long>(static_cast<std::size_t>(local_experts), slots / local_experts);
    return std::vector<long>(static_cast<std::size_t>(local_experts),
                             static_cast<long>(std::ceil(factor * per_expert)));
}

Experts experts_of(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    const Parallelism& p = c.experiment.parallelism;
    const Moe& moe = w.moe;
    const long split = p.expert_tensor_parallel ? p.tp : 1, local = moe.experts / p.ep;
    Experts x;
    x.ranks = p.ep;
    x.hidden = w.hidden;
    x.tokens = p.expert_tensor_parallel ? c.shape.outer_tokens : (c.shape.tokens + p.tp - 1) / p.tp;
    x.slots = x.tokens * moe.top_k;
    x.gathered = p.sequence_parallel ? split : 1;
    x.ffn = (expert_ffn(w) + split - 1) / split;
    x.exchange = c.groups.expert;
    x.tensor = x.gathered > 1 ? c.groups.tensor : Group{};
    if (c.routing.counts.empty()) {
        x.rows = {balanced_rows(moe, x.slots * x.gathered, local,
                                static_cast<double>(x.slots * x.gathered * x.ranks) / moe.experts)};
        return x;
    }
    for (int r = 0; r < p.ep; ++r) {
        auto& rows = x.rows.emplace_back();
        for (long l = 0; l < local; ++l) {
            long sum = 0;
            for (int source = 0; source < p.ep; ++source)
                sum += c.routing.count(source, static_cast<int>(r * local + l));
            rows.push_back(sum * x.gathered);
        }
    }
    return x;
}

// Of `local` experts of one place a token wants at least one. Where routing is limited to some groups of experts and the
// place holds experts of one: the group is among them, and then those experts among its groups'.
double chance_of(const Moe& moe, double local) {
    const bool limited = moe.top_groups < moe.groups && local <= static_cast<double>(moe.experts) / moe.groups;
    const double share = limited ? static_cast<double>(moe.top_groups) / moe.groups : 1;
    double none = 1;
    for (int i = 0; i < moe.top_k; ++i) none *= std::max(0.0, 1 - local / (share * moe.experts - i));
    return share * (1 - none);
}

bool goes_once(const LayerContext& c) { return c.experiment.parallelism.dispatch_once; }

// Tokens that a rank receives when each comes once, over the slots that they stand for.
double once_over_slots(const LayerContext& c, const Experts& x) {
    const Moe& moe = c.experiment.workload.moe;
    const auto ranks = static_cast<double>(x.ranks);
    return chance_of(moe, moe.experts / ranks) * ranks / moe.top_k;
}

void send_once(AllToAll& op, const LayerContext& c, const Experts& x) {
    const Moe& moe = c.experiment.workload.moe;
    op.row = static_cast<double>(x.hidden) * c.shape.element();
    op.tokens = static_cast<double>(x.tokens);
    const std::vector<int> ranks = members(x.exchange, x.exchange.first);
    std::map<int, int> in_node;
    const auto node = [&](std::size_t i) { return ranks[i] / c.experiment.cluster.gpus_per_node; };
    for (std::size_t i = 0; i < ranks.size(); ++i) ++in_node[node(i)];
    const auto nodes = static_cast<double>(in_node.size());
    const double inside = once_over_slots(c, x) * nodes,
                 between = chance_of(moe, moe.experts / nodes) * nodes / moe.top_k;
    for (std::size_t i = 0; i < ranks.size(); ++i)
        for (std::size_t j = 0; j < ranks.size(); ++j)
            op.bytes[i * ranks.size() + j] *= i == j ? inside / nodes : node(i) == node(j) ? inside : between;
}

AllToAll all_slots(const LayerContext& c, const Experts& x, bool back) {
    const auto n = static_cast<std::size_t>(x.ranks);
    const Bytes slot = static_cast<double>(x.hidden) * c.shape.element();
    AllToAll op{std::vector<Bytes>(n * n, static_cast<double>(x.slots) / static_cast<double>(n) * slot)};
    if (c.routing.counts.empty()) return op;
    const int local = c.routing.experts_per_rank();
    for (std::size_t source = 0; source < n; ++source) {
        for (std::size_t target = 0; target < n; ++target) {
            long slots = 0;
            for (int l = 0; l < local; ++l)
                slots += c.routing.count(static_cast<int>(source), static_cast<int>(target) * local + l);
            op.bytes[back ? target * n + source : source * n + target] = static_cast<double>(slots) * slot;
        }
    }
    return op;
}

void plan_exchange(Planner& planner, const LayerContext& c, const Experts& x, bool back) {
    if (x.ranks == 1) return;
    AllToAll op = all_slots(c, x, back);
    if (goes_once(c)) send_once(op, c, x);
    planner.collective("ep_all_to_all", op, x.exchange);
}

Bytes rows_bytes(const LayerContext& c, const Experts& x, long width) {
    return static_cast<double>(x.rows_most() * width) * c.shape.element();
}
Bytes slot_bytes(const LayerContext& c, const Experts& x) {
    return static_cast<double>(x.slots * x.hidden) * c.shape.element();
}

// Rows arrive by source and are computed by expert; a token that came once is copied for each of them.
void plan_sort(Planner& planner, const LayerContext& c, const Experts& x, bool back) {
    if (x.ranks == 1 || (x.rows.front().size() == 1 && !goes_once(c))) return;
    const Bytes rows = rows_bytes(c, x, x.hidden);
    const Bytes tokens = goes_once(c) ? once_over_slots(c, x) * rows : rows;
    if (goes_once(c))
        return planner.compute("sort_by_expert", MemoryPass{back ? rows : tokens, back ? tokens : rows}, 2);
    planner.compute("sort_by_expert", MemoryPass{rows, rows});
}

void plan_grouped(Planner& planner, const LayerContext& c, const Experts& x, std::string_view name, long n, long k,
                  bool weight_gradient) {
    if (weight_gradient && c.experiment.workload.adapter_rank > 0) return;
    if (!weight_gradient) plan_cast(planner, static_cast<double>(x.rows_most() * k), c.shape.matrix);
    std::vector<Op> ops;
    for (const auto& rows : x.rows) ops.push_back(GroupedGemm{rows, n, k, c.shape.matrix, weight_gradient});
    planner.compute_by_expert_rank(name, std::move(ops), 2);
}

// The host reads how many slots every expert has before it can issue the exchange (dropless: sizes are data), and sets it
// up; the backward's exchange is set up again.
// A framework that runs its experts one after the other reads the counts on any split, and says what an expert costs it.
void plan_counts(Planner& planner, const LayerContext& c, const Experts& x, bool back) {
    if (c.experiment.framework.host.expert_layer && !goes_once(c)) {
        const auto experts = static_cast<double>(x.rows.front().size());
        planner.host("experts", HostWork{HostWork::Kind::experts, experts}, !back);
    }
    if (x.ranks == 1) return;
    if (goes_once(c)) {
        planner.host("expert_layer", HostWork{HostWork::Kind::experts, 1}, false);
        if (!back) planner.host("exchange_counts", HostWork{HostWork::Kind::read, 1}, true);
        return;
    }
    planner.host("exchange_setup", HostWork{HostWork::Kind::exchange_setup, 1}, true);
}

// Slots of the tensor-parallel ranks that share an expert, [rows, hidden].
void plan_gather(Planner& planner, const LayerContext& c, const Experts& x) {
    planner.collective("tp_all_gather", AllGather{rows_bytes(c, x, x.hidden)}, x.tensor);
}
void plan_reduce_scatter(Planner& planner, const LayerContext& c, const Experts& x) {
    planner.collective("tp_reduce_scatter", ReduceScatter{rows_bytes(c, x, x.hidden)}, x.tensor);
}

long inputs_of(const LayerContext& c) { return c.experiment.workload.gated ? 2 : 1; }

struct Shared {
    Linear up, down;
    Bytes inner;
};
Shared shared_of(const LayerContext& c) {
    const int tp = c.experiment.parallelism.tp;
    const long width = (shared_ffn(c.experiment.workload) + tp - 1) / tp;
    const RankShape& s = c.shape;
    return {{"shared_up", s.tokens, inputs_of(c) * width, s.hidden, s.matrix},
            {"shared_down", s.tokens, s.hidden, width, s.matrix},
            s.inner(width)};
}

Linear router(const LayerContext& c, const Experts& x) {
    return {"router", x.tokens, c.experiment.workload.moe.experts, x.hidden, c.shape.storage};
}
// Scores in fp32: softmax or sigmoid reads and writes them, top-k reads them again.
MemoryPass choice(const LayerContext& c, const Experts& x) {
    const Bytes scores = static_cast<double>(x.tokens * c.experiment.workload.moe.experts) * Bytes(4);
    return {2.0 * scores, scores};
}

}  // namespace

void plan_experts_forward(Planner& planner, const LayerContext& c) {
    const Experts x = experts_of(c);
    const Bytes slots = slot_bytes(c, x), inner = rows_bytes(c, x, x.ffn);
    const double inputs = static_cast<double>(inputs_of(c));
    plan_norm(planner, c, "ffn_norm");
    plan_linear(planner, router(c, x));
    planner.compute("router_choice", choice(c, x), 6);
    plan_counts(planner, c, x, false);
    const bool once = goes_once(c) && x.ranks > 1;  // its kernels read and write tokens where they are
    if (!once) planner.compute("permute", MemoryPass{slots, slots}, 4);
    plan_exchange(planner, c, x, false);
    plan_gather(planner, c, x);
    plan_sort(planner, c, x, false);
    plan_grouped(planner, c, x, "experts_up", inputs_of(c) * x.ffn, x.hidden, false);
    planner.compute("activation", MemoryPass{inputs * inner, inner});
    plan_grouped(planner, c, x, "experts_down", x.hidden, x.ffn, false);
    plan_sort(planner, c, x, true);
    plan_reduce_scatter(planner, c, x);
    plan_exchange(planner, c, x, true);
    if (!once)
        planner.compute("unpermute", MemoryPass{slots, slots / static_cast<double>(c.experiment.workload.moe.top_k)},
                        3);
    if (c.experiment.workload.moe.shared_experts > 0) {
        const Shared shared = shared_of(c);
        plan_column_forward(planner, c, shared.up);
        planner.compute("activation", MemoryPass{inputs * shared.inner, shared.inner});
        plan_row_forward(planner, c, shared.down);
        planner.compute("add_shared", MemoryPass{2.0 * c.shape.outer(), c.shape.outer()});
    }
    plan_residual(planner, c);
}

void plan_experts_backward(BackwardPlanners b, const LayerContext& c) {
    const Experts x = experts_of(c);
    const Bytes slots = slot_bytes(c, x), inner = rows_bytes(c, x, x.ffn);
    const double inputs = static_cast<double>(inputs_of(c));
    plan_residual_backward(b.inputs, c);
    if (c.experiment.workload.moe.shared_experts > 0) {
        const Shared shared = shared_of(c);
        plan_row_backward(b, c, shared.down);
        b.inputs.compute("activation_backward", MemoryPass{(inputs + 1) * shared.inner, inputs * shared.inner});
        plan_column_backward(b, c, shared.up);
    }
    const bool once = goes_once(c) && x.ranks > 1;
    if (!once) b.inputs.compute("unpermute_backward", MemoryPass{2.0 * slots, slots}, 3);
    plan_counts(b.inputs, c, x, true);
    plan_exchange(b.inputs, c, x, false);
    plan_gather(b.inputs, c, x);
    plan_sort(b.inputs, c, x, false);
    plan_grouped(b.inputs, c, x, "experts_down", x.ffn, x.hidden, false);
    plan_grouped(b.weights, c, x, "experts_down_weight", x.ffn, x.hidden, true);
    b.inputs.compute("activation_backward", MemoryPass{(inputs + 1) * inner, inputs * inner});
    plan_grouped(b.inputs, c, x, "experts_up", x.hidden, inputs_of(c) * x.ffn, false);
    plan_grouped(b.weights, c, x, "experts_up_weight", inputs_of(c) * x.ffn, x.hidden, true);
    plan_sort(b.inputs, c, x, true);
    plan_reduce_scatter(b.inputs, c, x);
    plan_exchange(b.inputs, c, x, true);
    if (!once) b.inputs.compute("permute_backward", MemoryPass{slots, slots}, 3);
    b.inputs.compute("router_choice_backward", choice(c, x), 4);
    plan_input_gradient(b.inputs, router(c, x));
    plan_weight_gradient(b.weights, router(c, x), c.experiment);
    plan_norm_backward(b.inputs, c, "ffn_norm_backward");
}

}  // namespace stepcast
