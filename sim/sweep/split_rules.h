// Which splits of a transformer are legal, rule by rule and without exceptions: check_experiment() for millions of them.
#pragma once

#include <string>
#include <string_view>

#include "model/experiment.h"
#include "sim/sweep/split_keys.h"

namespace stepcast {

// For the workload and cluster of an experiment. `once`: also refuses what does the same as another split (schedules and
// chunks without a pipeline, sequence_parallel without tp, zero on a lone replica, selective recompute without scores), and
// what the experiment's framework has not.
class SplitRules {
public:
    SplitRules(const Experiment& experiment, bool once);

    // In words, the rule that this split breaks, of those about `key` and keys before it in SplitKey; "" where it breaks none.
    // Lives as long as this.
    [[nodiscard]] std::string_view broken_by(SplitKey key, const Parallelism& split) const;

private:
    Workload workload_;
    std::string not_in_framework_;
    FrameworkAbilities can_;
    long ranks_;
    bool once_;
};

}  // namespace stepcast
