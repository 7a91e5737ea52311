#include "sim/memory/process_memory.h"

#include <algorithm>
#include <cmath>

#include "model/base/numbers.h"
#include "model/machine/capability.h"
#include "model/machine/libraries.h"
#include "sim/costs/collective_costs.h"

namespace stepcast {
namespace {

// NCCL's buffers on one rank of a communicator: a ring and a tree on each channel, in either of
// which a rank receives from one neighbour and sends to another. Within a node a connection takes
// whole granules, the receiver's with all protocols and the sender's at least one (with Simple, if
// the receiver reads there: the same sum). Between nodes either side holds LL128 and Simple, the
// receiver LL too.
class Communicators {
public:
    explicit Communicators(const Cluster& c)
        : per_node_(c.gpus_per_node),
          has_switch_(c.intra.nvls_efficiency > 0),
          buffers_(nccl_buffers()),
          channels_(nccl_channels(c.gpu, joins_gpus(c.fabric))) {
        const Bytes wide = buffers_.ll128 + buffers_.simple, granule = buffers_.granule;
        between_ = buffers_.ll + 2.0 * wide;
        within_ = granule > Bytes(0) ? (std::ceil((buffers_.ll + wide) / granule) + 1) * granule
                                     : buffers_.ll + wide;
    }

    [[nodiscard]] Bytes collectives(const Group& group, bool reduces_whole) const {
        if (group.size() == 1) return Bytes(0);
        const int local = ranks_on_node(group, per_node_);
        const bool crosses = local < group.size(),
                   trees = reduces_whole || buffers_.version < buffers_.lazy_from;
        const double channels = crosses ? channels_.nic * local : channels_.node;
        const double between = crosses ? 1.0 / local : 0;  // of a ring's ways
        const Bytes connection = (1 - between) * within_ + between * between_;
        const Bytes reduced = has_switch_ && local > most_without_nvls
                                  ? 2.0 * channels_.in_switch * local * buffers_.in_switch
                                  : Bytes(0);
        return channels * (trees ? 2.0 : 1.0) * connection + reduced;
    }

    // Sends and receives: each peer of the node has connections of its own.
    [[nodiscard]] Bytes messages(const Group& group, int peers) const {
        if (group.size() == 1) return Bytes(0);
        const int local = ranks_on_node(group, per_node_);
        const bool crosses = local < group.size();
        return real(crosses ? std::min(peers, local - 1) : peers) *
                   (crosses ? std::min(buffers_.net_peer, channels_.peer) : channels_.peer) *
                   within_ +
               (crosses ? 2.0 * buffers_.pool : Bytes(0));
    }

private:
    int per_node_;
    bool has_switch_;
    const NcclBuffers& buffers_;
    const NcclChannels& channels_;
    Bytes within_, between_;  // a connection, both ends
};

}  // namespace

int ranks_on_node(const Group& g, int ranks_per_node) {
    const auto steps = [&](int ranks, int stride) {
        return stride <= 0 ? 1 : std::clamp((ranks_per_node + stride - 1) / stride, 1, ranks);
    };
    const int inner = steps(g.ranks, g.stride), outer = steps(g.outer_ranks, g.outer_stride);
    return std::min(inner * outer, std::max(ranks_per_node, 1));
}

void for_process_parts(const Experiment& e, const RankGroups& groups, const TakePart& take) {
    const auto add = [&](std::string_view what, Bytes bytes) {
        if (bytes > Bytes(0)) take(what, bytes);
    };
    if (capability(e.cluster.gpu) == 0) return;
    add("context", context_in(e.cluster.gpu));
    const Communicators nccl(e.cluster);
    const Parallelism& p = e.parallelism;
    const bool whole = p.zero == 0;  // gradients are all-reduced
    add("tensor parallelism", nccl.collectives(groups.tensor, true));
    add("context parallelism", e.runtime.context_exchange == ContextExchange::ring
                                   ? nccl.messages(groups.context, 1)
                                   : nccl.collectives(groups.context, false));
    add("data parallelism",
        nccl.collectives(groups.shard, whole) + nccl.collectives(groups.shard_replicas, true));
    if (e.workload.moe.experts > 0) {
        if (e.runtime.experts.dispatch == TokenDispatch::all_to_all)
            add("expert parallelism", nccl.messages(groups.expert, groups.expert.size() - 1));
        add("replicas of experts", nccl.collectives(groups.expert_shard, whole) +
                                       nccl.collectives(groups.expert_shard_replicas, true));
    }
    if (p.pp > 1) {
        add("pipeline", nccl.messages(groups.pipeline_neighbour, std::min(2, p.pp - 1)));
        if (e.workload.tied) add("shared embedding", nccl.collectives(groups.embedding, true));
    }
}

Bytes process_memory(const Experiment& e, const RankGroups& groups) {
    if (const auto& stated = e.cluster.overheads.context) return *stated;
    Bytes sum;
    for_process_parts(e, groups, [&](std::string_view, Bytes bytes) { sum += bytes; });
    return sum;
}

Bytes process_memory(const Experiment& e) {
    if (const auto& stated = e.cluster.overheads.context) return *stated;
    return process_memory(e, rank_groups(e));
}

}  // namespace stepcast
