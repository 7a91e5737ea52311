#include "sim/sweep/search.h"

#include "model/rank_groups.h"

namespace stepcast {
namespace {

// Whether gradients or parameters, of dense units or of experts, have another rank to go to.
bool exchanges_data(const Experiment& e) {
    const RankGroups groups = rank_groups(e.parallelism);
    return groups.data_context.size() > 1 || (e.workload.moe.experts > 0 && groups.expert_data.size() > 1);
}

}  // namespace

// Where each switch is read: model/block/split_linear.h, model/transformer/{hops.h,data_parallel.cpp,step.cpp}.
Parallelism without_idle_switches(const Experiment& e) {
    Parallelism p = e.parallelism;
    if (e.workload.kind != Workload::Kind::transformer) return p;
    const Parallelism usual;
    if (p.tp == 1) {
        p.overlap_tp = usual.overlap_tp;
        p.overlap_weight_gradient = usual.overlap_weight_gradient;
    }
    if (p.pp == 1) p.overlap_p2p = usual.overlap_p2p;
    if (p.pp == 1 || p.tp == 1 || p.sequence_parallel) p.scatter_p2p = usual.scatter_p2p;
    const bool exchanges = exchanges_data(e);
    if (!exchanges) p.overlap = usual.overlap;
    if (!exchanges || p.zero == 0 || p.zero == 3) p.overlap_params = usual.overlap_params;
    return p;
}

}  // namespace stepcast
