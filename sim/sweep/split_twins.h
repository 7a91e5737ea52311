// Switches that change nothing in a split, so that a search simulates splits that do the same only once.
#pragma once

#include "model/experiment.h"

namespace stepcast {

// The split of an experiment with every switch that its graph and memory do not depend on as in Parallelism{}: how a tp of
// 1, a stage without neighbours or a lone replica overlaps what it never exchanges. Splits of one workload and cluster that
// are equal after it have the same step and peak, to the last digit. Other workloads than transformers: as it is. Throws
// ConfigError as rank_groups() does.
Parallelism without_idle_switches(const Experiment& experiment);

}  // namespace stepcast
