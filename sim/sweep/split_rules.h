// Which splits of a transformer are legal, rule by rule and without exceptions: check_experiment() for millions of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/experiment.h"
#include "sim/sweep/split_keys.h"

namespace stepcast {

enum class SplitRule : std::uint8_t {
    ranks,
    heads,
    kv_heads,
    ffn,
    seq,
    stage_chunks,
    stage_layers,
    experts,
    expert_groups,
    sequence_parallel,
    batch,
    slots,
    schedule_chunks,
    paired_stages,
    interleaved_rounds,
    recompute_layers,
    shard,
    schedule_alone,
    chunks_alone,
    sequence_alone,
    zero_alone,
    scores,
    same_chunks,
    framework
};
inline constexpr std::size_t split_rule_count = 24;
std::string_view to_string(SplitRule rule);

// For the workload and cluster of an experiment. `once`: also refuses what does the same as another split (schedules and
// chunks without a pipeline, sequence_parallel without tp, zero on a lone replica, selective recompute without scores), and
// what the experiment's framework has not.
class SplitRules {
public:
    SplitRules(const Experiment& experiment, bool once);

    // The rule that this split breaks, of those about `key` and keys before it in SplitKey.
    [[nodiscard]] std::optional<SplitRule> broken_by(SplitKey key, const Parallelism& split) const;
    // In words: to_string(), with the framework's name.
    [[nodiscard]] std::string_view reason(SplitRule rule) const;

private:
    [[nodiscard]] std::optional<SplitRule> check_tensor(const Parallelism& p) const;
    [[nodiscard]] std::optional<SplitRule> check_experts(const Parallelism& p) const;
    [[nodiscard]] std::optional<SplitRule> check_replicas(const Parallelism& p) const;
    [[nodiscard]] std::optional<SplitRule> check_batch(const Parallelism& p) const;
    [[nodiscard]] std::optional<SplitRule> check_chunks(const Parallelism& p) const;
    [[nodiscard]] std::optional<SplitRule> check_once(SplitKey key, const Parallelism& p) const;
    [[nodiscard]] std::optional<SplitRule> check_framework(SplitKey key, const Parallelism& p) const;

    Workload workload_;
    std::string not_in_framework_;
    FrameworkAbilities can_;
    long ranks_;
    bool once_;
};

}  // namespace stepcast
