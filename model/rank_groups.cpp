#include "model/rank_groups.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <string_view>

#include "model/base/lists.h"
#include "model/base/refuse.h"
#include "model/runtime_rules.h"

namespace stepcast {
namespace {

// One direction of walking over rank numbers: `size` ranks, `stride` apart.
struct Axis {
    int size = 1, stride = 1;
};
struct Axes {
    Axis tp, cp, dp, pp;
};

Axes axes_of(const Parallelism& p) {
    struct Named {
        std::string_view name;
        int size;
        Axis Axes::*axis;
        bool met = false;
    };
    std::array<Named, 4> all{{{"tp", p.tp, &Axes::tp},
                              {"cp", p.cp, &Axes::cp},
                              {"dp", p.dp, &Axes::dp},
                              {"pp", p.pp, &Axes::pp}}};
    const auto refused = [&] {
        refuse(
            "parallelism.rank_order: found \"{}\"; expected tp, cp, dp and pp once each, innermost "
            "first, for example "
            "\"tp-cp-dp-pp\"",
            p.rank_order);
    };
    Axes axes;
    int stride = 1;
    for (const auto word : std::views::split(std::string_view(p.rank_order), '-')) {
        const auto found =
            first_with(all, std::string_view(word.begin(), word.end()), &Named::name);
        if (!found || found->met) refused();
        found->met = true;
        axes.*found->axis = {found->size, stride};
        stride *= found->size;
    }
    if (!std::ranges::all_of(all, &Named::met)) refused();
    return axes;
}

Group group_of(Axis inner, Axis outer = {}) {
    if (inner.size == 1) std::swap(inner, outer);
    if (inner.size == 1) return {};
    if (outer.size == 1) return {inner.size, inner.stride};
    return {inner.size, inner.stride, outer.size, outer.stride};
}

// The ranks of several axes, walked innermost first. Only pp can lie between them, so at most one
// gap is left after neighbours are joined.
Group grid_of(std::vector<Axis> axes) {
    std::ranges::sort(axes, {}, &Axis::stride);
    Axis inner, outer;
    for (const Axis axis : axes) {
        if (axis.size == 1) continue;
        if (inner.size == 1)
            inner = axis;
        else if (outer.size == 1 && axis.stride == inner.size * inner.stride)
            inner.size *= axis.size;
        else if (outer.size == 1)
            outer = axis;
        else
            outer.size *= axis.size;
    }
    return group_of(inner, outer);
}

struct NearAndFar {
    Group near, far;
};

// near: the first `count` ranks of a pool; far: the ranks with the same position in all such
// groups.
NearAndFar split(const Group& pool, int count, std::string_view key, std::string_view of) {
    if (count < 1 || pool.size() % count != 0)
        refuse("parallelism.{}: {} does not divide {} = {}", key, count, of, pool.size());
    const Axis inner{pool.ranks, pool.stride}, outer{pool.outer_ranks, pool.outer_stride};
    if (inner.size % count == 0)
        return {group_of({count, inner.stride}),
                group_of({inner.size / count, inner.stride * count}, outer)};
    const int outer_count = count / inner.size;
    if (count % inner.size != 0 || outer.size % outer_count != 0)
        refuse(
            "parallelism.{}: groups of {} ranks would straddle the {} neighbouring ranks of {}; "
            "expected a divisor or a multiple of {}, or "
            "another rank_order",
            key, count, inner.size, of, inner.size);
    return {group_of(inner, {outer_count, outer.stride}),
            group_of({outer.size / outer_count, outer.stride * outer_count})};
}

// near: the replicas of an expert inside one copy of the parameters, which share the expert; far:
// the others. If a copy has fewer ranks than the experts are spread over, each rank holds its
// experts whole.
NearAndFar shards_of_experts(const Parallelism& p, const Group& replicas, int copies) {
    if (copies == 1 || replicas.size() == 1) return {replicas, {}};
    if (copies % replicas.size() == 0) return {{}, replicas};
    if (replicas.size() % copies != 0)
        refuse(
            "parallelism.shard: {}: the {} replicas of an expert do not divide over {} copies of "
            "the model; expected a multiple or a "
            "divisor of ep = {}",
            p.shard, replicas.size(), copies, p.ep);
    return split(replicas, replicas.size() / copies, "shard", "the replicas of an expert");
}

}  // namespace

RankGroups rank_groups(const Experiment& e) {
    return rank_groups(e.parallelism, splits_experts(e));
}

RankGroups rank_groups(const Parallelism& p, bool splits_experts) {
    const Axes axes = axes_of(p);
    const Group data_context = grid_of({axes.dp, axes.cp});
    const auto experts =
        splits_experts ? split(data_context, p.ep, "ep", "dp x cp")
                       : split(grid_of({axes.tp, axes.dp, axes.cp}), p.ep, "ep", "dp x cp x tp");
    const auto shards =
        split(data_context, p.shard == 0 ? data_context.size() : p.shard, "shard", "dp x cp");
    const auto expert_shards = shards_of_experts(p, experts.far, shards.far.size());
    RankGroups groups{.tensor = group_of(axes.tp),
                      .context = group_of(axes.cp),
                      .data = group_of(axes.dp),
                      .data_context = data_context,
                      .expert = experts.near,
                      .expert_data = experts.far,
                      .shard = shards.near,
                      .shard_replicas = shards.far,
                      .expert_shard = expert_shards.near,
                      .expert_shard_replicas = expert_shards.far,
                      .pipeline_neighbour = {},
                      .embedding = {}};
    if (p.pp > 1) {
        const int block = p.pp * axes.pp.stride;
        groups.pipeline_neighbour = {.ranks = 2, .stride = axes.pp.stride, .block = block};
        groups.embedding = {.ranks = 2, .stride = (p.pp - 1) * axes.pp.stride, .block = block};
    }
    return groups;
}

int rank_of(const Parallelism& p, int tp, int cp, int dp, int pp) {
    const Axes axes = axes_of(p);
    return tp * axes.tp.stride + cp * axes.cp.stride + dp * axes.dp.stride + pp * axes.pp.stride;
}

std::vector<int> members(const Group& group, int first) {
    std::vector<int> ranks;
    for (int j = 0; j < group.outer_ranks; ++j)
        for (int i = 0; i < group.ranks; ++i)
            ranks.push_back(first + i * group.stride + j * group.outer_stride);
    return ranks;
}

// A step that divides the node size or is a multiple of it reaches the same places of every node.
bool lies_alike(const Group& group, int ranks_per_node) {
    const auto even = [&](int step) {
        return step % ranks_per_node == 0 || ranks_per_node % step == 0;
    };
    const auto walks_evenly = [&](int ranks, int stride) {
        return ranks == 1 || (even(stride) && (group.block > 0 || even(ranks * stride)));
    };
    return walks_evenly(group.ranks, group.stride) &&
           walks_evenly(group.outer_ranks, group.outer_stride);
}

}  // namespace stepcast
