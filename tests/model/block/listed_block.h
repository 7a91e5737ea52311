// A block as the lines of its plans.
#pragma once

#include "model/block/kernels.h"
#include "model/rank_groups.h"
#include "tests/model/block/plan_lines.h"

namespace stepcast {

struct ListedBlock {
    std::vector<std::string> forward, backward;
};
inline ListedBlock listed_block(const Experiment& e, const Block& block,
                                KernelStyle style = KernelStyle::fused) {
    TaskGraph graph(1, false);
    const Routing balanced;
    const LayerContext c{e, rank_shape(e), rank_groups(e.parallelism), balanced};
    Planner ahead(graph), back(graph);
    const BackwardPlanners both{back, back};
    plan_block({&ahead, nullptr}, c, block, style);
    plan_block({nullptr, &both}, c, block, style);
    return {lines_of(graph, ahead.take()), lines_of(graph, back.take())};
}

}  // namespace stepcast
