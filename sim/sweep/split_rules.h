// Which splits of a transformer are legal, rule by rule and without exceptions: a
// check_experiment() that is fast enough for millions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/experiment.h"
#include "sim/sweep/split_keys.h"

namespace stepcast {

// What the experiment's split asks of its framework and that cannot run (framework.can), a sentence
// each.
std::vector<std::string> beyond_framework(const Experiment& experiment);

// For the workload and cluster of an experiment. `once` also refuses what the framework lacks, and
// splits that do the same as another (schedules and chunks without a pipeline, sequence_parallel
// without tp, zero on a lone replica), and selective recompute that only costs time.
class SplitRules {
public:
    SplitRules(const Experiment& experiment, bool once);

    // A rule about `key`, or a key before it in SplitKey, that this split breaks, as text that
    // lives as long as this object; "" if none.
    [[nodiscard]] std::string_view broken_by(SplitKey key, const Parallelism& split) const;

private:
    Workload workload_;
    std::string not_in_framework_;
    FrameworkAbilities can_;
    long ranks_;
    bool splits_experts_;
    bool once_;
};

}  // namespace stepcast
