// Which splits are legal, rule by rule: once for check_experiment(), which says what is wrong, and
// for sweeps, which ask millions of times.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/experiment.h"
#include "model/input/split_keys.h"

namespace stepcast {

// Throws ConfigError, as text that begins with the key to change, for the first of these rules that
// the experiment breaks. Those of transformers need heads that are not 0.
enum class RuleOf { ranks, any_workload, transformers };
void refuse_split(const Experiment& experiment, RuleOf which);

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
    Framework framework_;
    long ranks_;
    bool splits_experts_;
    AttentionKind kernel_;
    bool once_;
};

}  // namespace stepcast
