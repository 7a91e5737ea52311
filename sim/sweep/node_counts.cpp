#include "sim/sweep/node_counts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/joined.h"
#include "sim/predict.h"

namespace stepcast {
namespace {

constexpr int most_nodes = 1 << 17;

// At the datasheet's peak and without failures.
double nodes_at_peak(const Training& training, const Experiment& e, Seconds within) {
    const double tokens = tokens_per_step(e),
                 steps = training.steps > 0 ? training.steps : training.tokens / tokens;
    const Flops all = steps * model_flops(e, tokens);
    return all / (peak(e.cluster.gpu, e.workload.dtype) * within) / e.cluster.gpus_per_node;
}

int significant(int number) {
    int unit = 1;
    while (number / unit >= 16) unit *= 2;
    return number / unit * unit;
}

}  // namespace

void add_node_counts(SweepQuestion& q) {
    if (!q.within) return;
    if (!q.training)
        throw ConfigError(
            "--within: of which training? expected --tokens 15T or --steps 100000 as well");
    double fewest = std::numeric_limits<double>::infinity(), most = 0;
    std::vector<std::string> clusters;
    for (const Axis& axis : q.axes) {
        if (axis.key == "cluster.nodes" || axis.key == "cluster.gpus_per_node" ||
            axis.key == "machines")
            return;
        if (axis.key == "cluster.preset") clusters = axis.values;
    }
    const auto count = [&](const Experiment& e) {
        const double nodes = nodes_at_peak(*q.training, e, *q.within);
        fewest = std::min(fewest, nodes), most = std::max(most, nodes);
    };
    if (clusters.empty()) count(q.experiment);
    for (const std::string& cluster : clusters) {
        Experiment e = q.experiment;
        set_varied(e, "cluster.preset", cluster, q.stated);
        // a machine without a peak is counted as illegal later
        if (e.cluster.gpu.peaks[e.workload.dtype] > FlopsPerSecond(0)) count(e);
    }
    if (most == 0)
        throw ConfigError(
            fmt::format("--within: none of {} states a peak of {}; expected one that does, or "
                        "another --set dtype",
                        joined(clusters, ", "), to_string(q.experiment.workload.dtype)));
    constexpr double room = 16;
    const int first =
                  std::max(1, static_cast<int>(std::min<double>(most_nodes, std::ceil(fewest)))),
              last = static_cast<int>(std::min<double>(most_nodes, std::ceil(room * most)));
    Axis nodes{"cluster.nodes", {}};
    for (int n = first; n <= last; ++n)
        if (significant(n) == n) nodes.values.push_back(std::to_string(n));
    if (nodes.values.empty()) nodes.values.push_back(std::to_string(last));
    q.axes.push_back(nodes);
}

}  // namespace stepcast
