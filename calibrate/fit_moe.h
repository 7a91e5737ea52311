// Fits a cluster to imported medians of MoE layers: which cases and which free parameters.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "calibrate/fit.h"
#include "model/experiment.h"
#include "model/graph/task_graph.h"
#include "model/records/measurements.h"
#include "model/routing.h"

namespace stepcast {

using MoeKernel = std::tuple<std::string, Phase, int>;  // name, phase, rank

struct MoeRunTimes {
    struct Part {
        Seconds time;        // median over draws
        double scatter = 0;  // half of the distance p16..p84 of the logarithm
        friend bool operator==(const Part&, const Part&) = default;
    };
    Part step, forward, backward;
    std::map<MoeKernel, Seconds> kernels;  // only with known routing
    // throws std::logic_error when the graph has none
    [[nodiscard]] Seconds kernel(const MoeKernel& key) const;
    friend bool operator==(const MoeRunTimes&, const MoeRunTimes&) = default;
};

// Draws of the random gate, the same in every evaluation, so that times change smoothly with the
// cluster.
inline constexpr int gate_draws = 31;

// One recorded run as a function of the cluster. Its graphs are built once, then priced and
// simulated for every cluster that a fit tries.
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

// The cases of each run: step, forward and backward; with recorded block totals also the fused
// kernels of each rank, the weight gradient and the wait for the host's assignment. A run without
// recorded routing is predicted by the median over random-gate draws. Uses the rows with step = -1;
// runs without any are summarised first. Throws ConfigError naming the run.
std::vector<FitCase> moe_cases(const std::vector<Sample>& rows, const Cluster& cluster);

FitResult fit_moe(const Cluster& start, const std::vector<Sample>& rows,
                  const Progress& progress = {});

}  // namespace stepcast
