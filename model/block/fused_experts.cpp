// Router, permutation of the slots by expert, all-to-all to the expert's rank, experts as grouped products, all-to-all back,
// weighted sum. Each rank sends `tokens x top_k` slots, times the capacity factor if there is one; with balanced routing it
// receives as many. An expert that is split over the tensor-parallel ranks needs the slots of all of them: gathered after the
// all-to-all, reduce-scattered before it.
// dispatch_once: a token crosses to each node, and there to each rank, once; the rank that it comes to copies it for its
// experts, and sums their results before they go back (expert_rows.cpp has the shares). Fused products hold the activation
// (fused.cpp) and all casts but that of what arrives; the all-to-all's kernels then sort.
#include <map>

#include "model/block/fused.h"
#include "model/block/linear.h"
#include "model/machine/generation.h"

namespace stepcast {
namespace {

bool goes_once(const LayerContext& c) { return c.experiment.parallelism.dispatch_once; }

bool is_fused(const LayerContext& c) { return c.experiment.parallelism.expert_products == ExpertProducts::fused; }

// Expert by expert: the product; in narrow types the cast of its input (a weight gradient finds both operands cast); where
// scales go with blocks, a kernel for each operand that puts them in the product's order (Transformer Engine's GroupedLinear).
int kernels_of_each(const LayerContext& c, bool weight_gradient) {
    if (c.experiment.parallelism.expert_products != ExpertProducts::each) return 0;
    if (!is_narrow(c.shape.matrix)) return 1;
    return 1 + (weight_gradient ? 0 : 1) + (is_blackwell(c.experiment.cluster.gpu) ? 2 : 0);
}

void send_once(AllToAll& op, const LayerContext& c, const ExpertRows& x) {
    const Moe& moe = c.experiment.workload.moe;
    op.row = static_cast<double>(c.shape.hidden) * c.shape.element();
    op.tokens = static_cast<double>(x.tokens);
    const std::vector<int> ranks = members(x.all_to_all, x.all_to_all.first);
    std::map<int, int> in_node;
    const auto node = [&](std::size_t i) { return ranks[i] / c.experiment.cluster.gpus_per_node; };
    for (std::size_t i = 0; i < ranks.size(); ++i) ++in_node[node(i)];
    const auto nodes = static_cast<long>(in_node.size());
    const double inside = once_over_slots(moe, x.ranks) * static_cast<double>(nodes), between = once_over_slots(moe, nodes);
    for (std::size_t i = 0; i < ranks.size(); ++i)
        for (std::size_t j = 0; j < ranks.size(); ++j)
            op.bytes[i * ranks.size() + j] *=
                i == j ? inside / static_cast<double>(nodes) : node(i) == node(j) ? inside : between;
}

AllToAll all_slots(const LayerContext& c, const ExpertRows& x, bool back) {
    const auto n = static_cast<std::size_t>(x.ranks);
    const Bytes slot = static_cast<double>(c.shape.hidden) * c.shape.element();
    AllToAll op{std::vector<Bytes>(n * n, static_cast<double>(x.slots) / static_cast<double>(n) * slot)};
    if (x.balanced) return op;
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

}  // namespace

Bytes Fused::rows(long width) const { return tensor(static_cast<double>(experts_->most() * width)); }
Bytes Fused::slots() const { return tensor(static_cast<double>(experts_->slots * c_.shape.hidden)); }

void Fused::all_to_all(Planner& planner, bool back) const {
    if (experts_->ranks == 1) return;
    AllToAll op = all_slots(c_, *experts_, back);
    if (goes_once(c_)) send_once(op, c_, *experts_);
    planner.collective("ep_all_to_all", op, experts_->all_to_all);
}

// Rows arrive by source and are computed by expert; a token that came once is copied for each of them.
void Fused::sort(Planner& planner, bool back) const {
    const bool once = goes_once(c_);
    if (experts_->ranks == 1 || is_fused(c_) || (experts_->rows.front().size() == 1 && !once)) return;
    const Bytes all = rows(c_.shape.hidden);
    if (!once) return planner.compute("sort_by_expert", MemoryPass{all, all});
    const Bytes tokens = once_over_slots(workload().moe, experts_->ranks) * all;
    planner.compute("sort_by_expert", MemoryPass{back ? all : tokens, back ? tokens : all}, 2);
}

// The host reads how many slots every expert has before it can issue the all-to-all (dropless: sizes are data; with a capacity it
// knows them, and Megatron-Core's dispatcher reads nothing), and sets it up; the backward's all-to-all is set up again.
// A framework that runs its experts one after the other reads them on any split, and says what an expert costs it.
// Shared experts are two linear layers more, but for CUDA graphs, which hold the router and them.
void Fused::counts(Planner& planner, bool back) const {
    if (workload().moe.shared_experts > 0 && c_.experiment.cluster.host.expert_layer > Seconds(0))
        planner.host("shared_modules", HostWork{HostWork::Kind::module, 2}, false);
    if (c_.experiment.framework.host.expert_layer && !goes_once(c_)) {
        const auto experts = static_cast<double>(experts_->rows.front().size());
        planner.host("experts", HostWork{HostWork::Kind::experts, experts}, !back);
    }
    if (experts_->ranks == 1) return;
    if (!goes_once(c_)) return planner.host("exchange_setup", HostWork{HostWork::Kind::exchange_setup, 1},
                                               workload().moe.capacity_factor == 0);
    planner.host("expert_layer", HostWork{HostWork::Kind::experts, 1}, false);
    if (!back) planner.host("exchange_counts", HostWork{HostWork::Kind::read, 1}, true);
}

// Slots to where their experts are, with those of the tensor-parallel ranks that share them; and back.
void Fused::to_experts(Planner& planner) const {
    all_to_all(planner, false);
    planner.collective("tp_all_gather", AllGather{rows(c_.shape.hidden)}, experts_->tensor);
    sort(planner, false);
}
void Fused::from_experts(Planner& planner) const {
    sort(planner, true);
    planner.collective("tp_reduce_scatter", ReduceScatter{rows(c_.shape.hidden)}, experts_->tensor);
    all_to_all(planner, true);
}

// Scores in fp32.
Bytes Fused::choices() const { return static_cast<double>(experts_->tokens * workload().moe.experts) * Bytes(4); }

// Softmax or sigmoid reads and writes the scores, top-k reads them again.
void Fused::forward(Planner& planner, const Route&) const {
    planner.compute("router_choice", MemoryPass{2.0 * choices(), choices()}, 6);
}
void Fused::backward(BackwardPlanners b, const Route&) const {
    b.inputs.compute("router_choice_backward", MemoryPass{2.0 * choices(), choices()}, 4);
}

// Kernels that send a token once read and write tokens where they are.
bool Fused::permutes() const { return !goes_once(c_) || experts_->ranks == 1; }

void Fused::forward(Planner& planner, const ToExperts&) const {
    counts(planner, false);
    if (permutes()) planner.compute("permute", MemoryPass{slots(), slots()}, 4);
    to_experts(planner);
}
void Fused::backward(BackwardPlanners b, const ToExperts&) const {
    from_experts(b.inputs);
    if (permutes()) b.inputs.compute("permute_backward", MemoryPass{slots(), slots()}, 3);
}

void Fused::forward(Planner& planner, const FromExperts&) const {
    from_experts(planner);
    if (permutes())
        planner.compute("unpermute", MemoryPass{slots(), tensor(static_cast<double>(experts_->tokens * c_.shape.hidden))}, 3);
}
void Fused::backward(BackwardPlanners b, const FromExperts&) const {
    if (permutes())
        b.inputs.compute("unpermute_backward", MemoryPass{2.0 * slots(), slots()}, 3);
    counts(b.inputs, true);
    to_experts(b.inputs);
}

void Fused::forward(Planner& planner, const GroupedLinear& op) const {
    grouped(planner, op.name, op.out.rank, op.in.rank, {.arrived = op.split == Split::column});
}
void Fused::backward(BackwardPlanners b, const GroupedLinear& op) const {
    grouped(b.inputs, op.name, op.in.rank, op.out.rank, {.arrived = op.split == Split::row});
    if (workload().adapter_rank > 0) return;
    // [hidden, inner] of both matrices.
    const bool up = op.split == Split::column;
    grouped(b.weights, op.weight_gradient, up ? op.out.rank : op.in.rank, up ? op.in.rank : op.out.rank,
            {.weight_gradient = true});
}
void Fused::grouped(Planner& planner, std::string_view name, long n, long k, GroupedKind kind) const {
    if (!kind.weight_gradient && (kind.arrived || !is_fused(c_)))
        plan_cast(planner, static_cast<double>(experts_->most() * k), c_.shape.matrix);
    const int kernels = kernels_of_each(c_, kind.weight_gradient);
    std::vector<Op> ops;
    for (const auto& of_rank : experts_->rows)
        ops.push_back(GroupedGemm{of_rank, n, k, c_.shape.matrix, kind.weight_gradient, kernels});
    planner.compute_by_expert_rank(name, std::move(ops), 2);
}

void Fused::forward(Planner& planner, const AddShared&) const {
    planner.compute("add_shared", MemoryPass{2.0 * tensor(outer()), tensor(outer())});
}

}  // namespace stepcast
