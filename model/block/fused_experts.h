// Router, permutation of the slots by expert, all-to-all to the experts' ranks, experts as grouped
// products, all-to-all back, weighted sum: the same in every style. Each rank sends `tokens x
// top_k` slots (times the capacity factor, if any); with balanced routing it receives as many. An
// expert that is split over tensor-parallel ranks needs the slots of all of them: they are
// all-gathered after the all-to-all, and reduce-scattered before the all-to-all back. Without
// sequence parallelism these ranks hold the same tokens. Experts split over them then leave partial
// sums, which are all-reduced once the slots of a token are summed, in the backward for the
// gradient of the input; whole experts get each rank's part of the tokens, and the parts are
// all-gathered there. This is the least that is moved; DeepSpeed moves the slots
// (moe/sharded_moe.py: drop_tokens, gather_tokens), torchtitan the sums. dispatch_once: a token is
// sent once to each node and there once to each rank. The receiving rank copies it for its experts
// and sums their results before it sends them back (shares: expert_rows.cpp). Fused products
// include the activation (fused.h) and all casts except that of what arrives; the kernels of the
// all-to-all then sort the slots.
#pragma once

#include <set>

#include "model/base/numbers.h"
#include "model/block/block_pass.h"
#include "model/block/composed.h"
#include "model/block/expert_rows.h"
#include "model/machine/generation.h"
#include "model/recorded/moe/layer.h"

namespace stepcast {

struct FusedExperts : BlockPass {
    const ExpertRows& x;

    // Softmax or sigmoid reads and writes the fp32 scores; top-k reads them again.
    void operator()(const Route&) const {
        const Bytes choices = real(s.routed_tokens * w.moe.experts) * Bytes(4);
        forward("router_choice", MemoryPass{2.0 * choices, choices}, 6);
        backward("router_choice_backward", MemoryPass{2.0 * choices, choices}, 4);
    }

    void operator()(const ToExperts&) const {
        if (ahead != nullptr) {
            counts();
            permute("permute", permute_ahead, {slots(), slots()}, 4);
            return to_experts();
        }
        from_experts();
        permute("permute_backward", permute_back, {slots(), slots()}, 3);
        join_ranks();
    }

    void operator()(const FromExperts&) const {
        if (ahead != nullptr) {
            from_experts();
            permute("unpermute", unpermute_ahead,
                    {slots(), tensor(number(s.routed_tokens * s.hidden))}, 3);
            return join_ranks();
        }
        permute("unpermute_backward", unpermute_back, {2.0 * slots(), slots()}, 3);
        counts();
        to_experts();
    }

    // The weight gradients of both matrices have shape [hidden, inner]. Automatic casting casts the
    // weights of all local experts.
    void operator()(const GroupedLinear& op) const {
        const bool up = op.split == Split::column;
        if (casts())
            cast(real(x.rows.front().size()) * real(op.in.rank) * real(op.out.rank),
                 w.adapter_rank == 0);
        if (ahead != nullptr) {
            product(op.name, op.out.rank, op.in.rank, up);
            if (!up) output_bias();
            return;
        }
        if (!up) output_bias();
        product(op.name, op.in.rank, op.out.rank, !up);
        if (w.adapter_rank == 0)
            grouped(back->weights, op.weight_gradient, up ? op.out.rank : op.in.rank,
                    up ? op.in.rank : op.out.rank, true);
    }

    void operator()(const AddShared&) const {
        forward("add_shared", MemoryPass{2.0 * tensor(outer()), tensor(outer())});
    }

private:
    [[nodiscard]] bool is_fused() const { return r.experts.products == ExpertProducts::fused; }
    [[nodiscard]] bool once() const { return sends_once(c.experiment); }
    [[nodiscard]] Bytes rows() const { return tensor(real(x.most() * s.hidden)); }
    [[nodiscard]] Bytes slots() const { return tensor(real(x.slots * s.hidden)); }
    // Megatron-Core adds the bias of an expert's second product outside of it (TEGroupedMLP,
    // _apply_bias): for each expert bias times probability and their sum, then all are joined and
    // cast. Probabilities that were sent once a token are fp32, and so is all of it. The backward
    // multiplies and sums for the gradients of bias and probabilities.
    void output_bias() const {
        if (!w.linear_bias || r.experts.products != ExpertProducts::each) return;
        const auto local = static_cast<float>(x.rows.front().size());
        const bool wide = once() && s.element() < Bytes(4);
        const Bytes own = rows(), kept = wide ? own * (4 / s.element().si()) : own;
        const Bytes casts = wide ? own + kept : Bytes(0);
        forward("expert_bias",
                MemoryPass{own + 2.0 * kept + (wide ? kept : Bytes(0)),
                           3.0 * kept + (wide ? own : Bytes(0))},
                2 * local + (wide ? 2 : 1));
        backward("expert_bias_backward",
                 MemoryPass{own + 4.0 * kept + casts, own + 2.0 * kept + casts},
                 (wide ? 5 : 4) * local + (wide ? 2 : 1));
    }
    // One pass, or the steps of which a library composes it. Kernels that send each token once read
    // and write the tokens in place, so no permutation is needed.
    void permute(std::string_view name, const Composition& steps, const MemoryPass& pass,
                 float kernels) const {
        if (once() && p.ep > 1) return;
        const bool by_steps = composes(*this, Composed::experts);
        planner().compute(name, by_steps ? moved(steps, slots()) : pass,
                          by_steps ? steps.kernels : kernels);
    }

    // `arrived`: the input came from other ranks, so even fused products need its cast.
    void product(std::string_view name, long n, long k, bool arrived) const {
        if (arrived || !is_fused()) plan_cast(planner(), x.most(), k, s.matrix);
        grouped(planner(), name, n, k, false);
    }
    void grouped(Planner& planner, std::string_view name, long n, long k,
                 bool weight_gradient) const {
        std::vector<Op> ops;
        for (const auto& of_rank : x.rows)
            ops.push_back(GroupedGemm{of_rank, n, k, s.matrix, weight_gradient,
                                      kernels_of_each(weight_gradient)});
        planner.compute_by_expert_rank(name, std::move(ops), 2);
    }
    // Kernels per expert: the product; for narrow types the cast of its input (a weight gradient
    // finds both operands already cast); with block scales (Blackwell) one kernel per operand that
    // reorders the scales (Transformer Engine's GroupedLinear).
    [[nodiscard]] int kernels_of_each(bool weight_gradient) const {
        if (r.experts.products != ExpertProducts::each) return 0;
        if (!is_narrow(s.matrix)) return 1;
        return 1 + (weight_gradient ? 0 : 1) + (is_blackwell(c.experiment.cluster.gpu) ? 2 : 0);
    }

    // The host sets up the all-to-all, in the backward again. Before it, the host reads how many
    // slots each expert has if routing is dropless (sizes depend on data); with a capacity
    // Megatron-Core's dispatcher knows the sizes and reads nothing. A framework that runs experts
    // one after another reads the sizes on any split, and states what an expert costs its host.
    // Shared experts add two linear layers of host work, unless CUDA graphs hold the router and
    // them.
    void counts() const {
        Planner& out = planner();
        if (w.moe.shared_experts > 0 && c.experiment.cluster.host.expert_layer > Seconds(0))
            out.host("shared_modules", HostWork{HostWork::Kind::module, 2}, false);
        if (r.experts.one_by_one && !once()) {
            const auto experts = real(x.rows.front().size());
            out.host("experts", HostWork{HostWork::Kind::expert_layer, experts}, ahead != nullptr);
            if (p.zero == 3 && r.module_hooks)
                out.host("hooks", HostWork{HostWork::Kind::module, experts * modules_of_each()},
                         false);
        }
        if (p.ep == 1) return;
        if (!once())
            return out.host("exchange_setup", HostWork{HostWork::Kind::exchange_setup, 1},
                            w.moe.capacity_factor == 0);
        out.host("expert_layer", HostWork{HostWork::Kind::expert_layer, 1}, false);
        if (ahead != nullptr) out.host("exchange_counts", HostWork{HostWork::Kind::read, 1}, true);
    }

    // Of an expert that is a module of its own: its products, its activation and itself, each with
    // hooks where weights are gathered module by module (layer_plans.cpp).
    [[nodiscard]] double modules_of_each() const { return w.gated ? 5 : 4; }

    // Brings the slots to their experts, together with those of the tensor-parallel ranks that
    // share the experts.
    void to_experts() const {
        all_to_all(false);
        planner().collective("tp_all_gather", AllGather{rows()}, x.tensor);
        sort(false);
    }
    void from_experts() const {
        sort(true);
        planner().collective("tp_reduce_scatter", ReduceScatter{rows()}, x.tensor);
        all_to_all(true);
    }

    // Makes the tokens whole on every tensor-parallel rank, where sequence parallelism does not
    // leave each its own.
    void join_ranks() const {
        if (p.sequence_parallel) return;
        const Bytes tokens = tensor(outer());
        splits_experts(c.experiment)
            ? planner().collective("tp_all_reduce", AllReduce{tokens}, c.groups.tensor)
            : planner().collective("tp_all_gather", AllGather{tokens}, c.groups.tensor);
    }

    // Rows arrive by source but are computed by expert. A token that arrived once is copied for
    // each of its experts.
    void sort(bool home) const {
        const bool once = this->once();
        if (p.ep == 1 || is_fused() || (x.rows.front().size() == 1 && !once)) return;
        if (!once) return planner().compute("sort_by_expert", MemoryPass{rows(), rows()});
        const Bytes tokens = once_over_slots(w.moe, p.ep) * rows();
        planner().compute("sort_by_expert",
                          MemoryPass{home ? rows() : tokens, home ? tokens : rows()}, 2);
    }

    void all_to_all(bool home) const {
        if (p.ep == 1) return;
        const Bytes slot = real(s.hidden) * s.element();
        const auto slots = [&](int source, int owner) {
            return x.balanced ? real(x.slots) / p.ep
                              : real(slots_between(c.routing, source, owner));
        };
        AllToAll op = stepcast::all_to_all(p.ep, [&](int from, int to) {
            return slots(home ? to : from, home ? from : to) * slot;
        });
        if (once()) send_once(op);
        planner().collective("ep_all_to_all", op, c.groups.expert);
    }

    void send_once(AllToAll& op) const {
        op.row = real(s.hidden) * s.element();
        op.tokens = real(s.routed_tokens);
        const std::vector<int> ranks = members(c.groups.expert, c.groups.expert.first);
        const auto node = [&](std::size_t i) {
            return ranks[i] / c.experiment.cluster.gpus_per_node;
        };
        std::set<int> reached;
        for (std::size_t i = 0; i < ranks.size(); ++i) reached.insert(node(i));
        const auto nodes = static_cast<long>(reached.size());
        const double inside = once_over_slots(w.moe, p.ep) * real(nodes),
                     between = once_over_slots(w.moe, nodes);
        for (std::size_t i = 0; i < ranks.size(); ++i)
            for (std::size_t j = 0; j < ranks.size(); ++j)
                op.bytes[i * ranks.size() + j] *= i == j               ? inside / real(nodes)
                                                  : node(i) == node(j) ? inside
                                                                       : between;
    }
};

}  // namespace stepcast
