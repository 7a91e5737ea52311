// One recorded run as a function of the cluster: its graphs are built once, then priced and simulated for every cluster
// that a fit tries.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "model/experiment.h"
#include "model/graph/task_graph.h"
#include "model/routing.h"

namespace stepcast {

using MoeKernel = std::tuple<std::string, Phase, int>;  // name, phase, rank

struct MoeRunTimes {
    Seconds step, forward, backward;  // medians over draws
    double step_scatter = 0, forward_scatter = 0,
           backward_scatter = 0;                               // over draws, half of p16..p84 of the logarithm
    std::map<MoeKernel, Seconds> kernels;                      // with known routing only
    [[nodiscard]] Seconds kernel(const MoeKernel& key) const;  // throws std::logic_error when the graph has none
    [[nodiscard]] Seconds median_kernel(const std::string& name, Phase phase, int ranks) const;
    friend bool operator==(const MoeRunTimes&, const MoeRunTimes&) = default;
};

// The same fixed draws of the random gate in every evaluation, so that times move smoothly with the cluster.
inline constexpr int gate_draws = 31;

class MoeRunModel {
public:
    MoeRunModel(Experiment experiment, const std::optional<Routing>& routing);
    const MoeRunTimes& times(const Cluster& cluster);  // remembers the last cluster asked for

private:
    std::vector<TaskGraph> graphs_;
    bool routing_known_;
    std::optional<Cluster> last_;
    MoeRunTimes times_;
};

}  // namespace stepcast
