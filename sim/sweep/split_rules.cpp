#include "sim/sweep/split_rules.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "model/errors.h"
#include "model/pipeline/schedule.h"
#include "model/rank_groups.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

using Broken = std::optional<SplitRule>;

constexpr std::array<std::string_view, split_rule_count> texts{
    "tp x cp x pp x dp is not the number of ranks",
    "tp does not divide workload.heads",
    "tp neither divides workload.kv_heads nor is a multiple",
    "tp does not divide the width of a feed-forward block",
    "cp does not divide workload.seq",
    "more stage chunks than layers",
    "parallelism.stage_layers does not fit the stage chunks",
    "ep does not divide workload.moe.experts",
    "ep does not divide its ranks into regular groups",
    "tp does not divide the tokens that sequence_parallel splits",
    "dp x micro_batch does not divide global_batch",
    "more than 1e9 slots on a rank",
    "vp is not what the schedule runs",
    "dualpipe with an odd number of stages",
    "interleaved 1f1b whose micro-batches are no multiple of pp",
    "recompute_layers without full recompute, or above workload.layers",
    "parallelism.shard without zero = 3, or of one rank",
    "a schedule other than 1f1b without a pipeline",
    "vp above 1 without a pipeline",
    "sequence_parallel with tp = 1 (does nothing)",
    "zero on a lone replica (does nothing)",
    "selective recompute without attention scores (does nothing)",
    "vp = 2 under a schedule that implies it (does nothing)",
    "not in the framework"};

bool has_two_chunks(Schedule schedule) { return traits(schedule).chunks == StageChunks::there_and_back; }

Broken when(bool broken, SplitRule rule) { return broken ? Broken(rule) : std::nullopt; }

}  // namespace

std::string_view to_string(SplitRule rule) { return texts[static_cast<std::size_t>(rule)]; }

SplitRules::SplitRules(const Experiment& experiment, bool once)
    : workload_(experiment.workload),
      not_in_framework_("not in " + experiment.framework.name),
      can_(experiment.framework.can),
      ranks_(rank_count(experiment.cluster)), once_(once) {}

Broken SplitRules::check_tensor(const Parallelism& p) const {
    const Workload& w = workload_;
    if (ranks_ % p.tp != 0) return SplitRule::ranks;
    if (w.heads % p.tp != 0) return SplitRule::heads;
    if (const int kv = kv_heads(w); w.attention != AttentionKind::mla && kv % p.tp != 0 && p.tp % kv != 0)
        return SplitRule::kv_heads;
    const bool all_experts = w.moe.experts > 0 && w.moe.dense_layers == 0 && w.moe.interval == 1;
    const bool divides = (all_experts || w.ffn % p.tp == 0) &&
                         (w.moe.experts == 0 || ((!p.expert_tensor_parallel || expert_ffn(w) % p.tp == 0) &&
                                                 (w.moe.shared_experts == 0 || shared_ffn(w) % p.tp == 0)));
    return when(!divides, SplitRule::ffn);
}

Broken SplitRules::check_experts(const Parallelism& p) const {
    const int experts = workload_.moe.experts;
    return when(experts == 0 ? p.ep != 1 : experts % p.ep != 0, SplitRule::experts);
}

Broken SplitRules::check_replicas(const Parallelism& p) const {
    if (static_cast<long>(p.tp) * p.cp * p.pp * p.dp != ranks_) return SplitRule::ranks;
    if (p.global_batch % (static_cast<long>(p.dp) * p.micro_batch) != 0) return SplitRule::batch;
    if (p.ep == 1 && p.shard == 0) return std::nullopt;
    try {
        (void)rank_groups(p);
    } catch (const ConfigError&) {
        return SplitRule::expert_groups;
    }
    return std::nullopt;
}

Broken SplitRules::check_batch(const Parallelism& p) const {
    if (p.global_batch % p.micro_batch != 0) return SplitRule::batch;
    return when(static_cast<double>(p.micro_batch) * workload_.seq * workload_.moe.top_k > 1e9, SplitRule::slots);
}

// As check_schedule() and check_chunks() of model/.
Broken SplitRules::check_chunks(const Parallelism& p) const {
    const ScheduleTraits& schedule = traits(p.schedule);
    const int chunks = chunks_per_stage(p), all = model_chunks(p.schedule, p.pp, chunks);
    if ((schedule.chunks == StageChunks::one && chunks != 1) || (has_two_chunks(p.schedule) && chunks != 2)) return SplitRule::schedule_chunks;
    if (p.pp % schedule.copies != 0) return SplitRule::paired_stages;
    if (schedule.chunks == StageChunks::rounds && chunks > 1 && micro_batches(p) % p.pp != 0)
        return SplitRule::interleaved_rounds;
    if (p.stage_layers.empty()) return when(all > workload_.layers, SplitRule::stage_chunks);
    const auto& stated = p.stage_layers;
    return when(
        static_cast<int>(stated.size()) != all || std::accumulate(stated.begin(), stated.end(), 0L) != workload_.layers,
        SplitRule::stage_layers);
}

Broken SplitRules::check_once(SplitKey key, const Parallelism& p) const {
    switch (key) {
        case SplitKey::sequence_parallel: return when(p.sequence_parallel && p.tp == 1, SplitRule::sequence_alone);
        case SplitKey::schedule:
            return when(p.pp == 1 && p.schedule != Parallelism{}.schedule, SplitRule::schedule_alone);
        case SplitKey::vp:
            if (p.pp == 1 && p.vp > 1) return SplitRule::chunks_alone;
            return when(has_two_chunks(p.schedule) && p.vp == 2, SplitRule::same_chunks);
        case SplitKey::recompute:
            return when(p.recompute == Recompute::selective && workload_.attention != AttentionKind::plain,
                        SplitRule::scores);
        case SplitKey::zero: return when(p.zero > 0 && p.dp * p.cp == 1, SplitRule::zero_alone);
        default: return std::nullopt;
    }
}

template <class T>
bool has(const std::vector<T>& list, T value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

Broken SplitRules::check_framework(SplitKey key, const Parallelism& p) const {
    switch (key) {
        case SplitKey::tp: return when(!can_.tensor && p.tp > 1, SplitRule::framework);
        case SplitKey::cp: return when(!can_.context && p.cp > 1, SplitRule::framework);
        case SplitKey::pp: return when(!can_.pipeline && p.pp > 1, SplitRule::framework);
        case SplitKey::sequence_parallel: return when(!can_.sequence && p.sequence_parallel, SplitRule::framework);
        case SplitKey::schedule: return when(p.pp > 1 && !has(can_.schedules, p.schedule), SplitRule::framework);
        case SplitKey::vp:
            return when(!can_.interleaved && traits(p.schedule).chunks == StageChunks::rounds && p.vp > 1, SplitRule::framework);
        case SplitKey::zero: return when(!has(can_.zero, p.zero), SplitRule::framework);
        case SplitKey::recompute: return when(!has(can_.recompute, p.recompute), SplitRule::framework);
        default: return std::nullopt;
    }
}

std::string_view SplitRules::reason(SplitRule rule) const {
    return rule == SplitRule::framework ? std::string_view(not_in_framework_) : to_string(rule);
}

Broken SplitRules::broken_by(SplitKey key, const Parallelism& p) const {
    if (once_) {
        if (const auto broken = check_once(key, p)) return broken;
        if (const auto broken = check_framework(key, p)) return broken;
    }
    const long split = static_cast<long>(p.tp) * p.cp;
    switch (key) {
        case SplitKey::tp: return check_tensor(p);
        case SplitKey::cp:
            if (workload_.seq % p.cp != 0) return SplitRule::seq;
            return when(ranks_ % split != 0, SplitRule::ranks);
        case SplitKey::pp: return when(ranks_ % (split * p.pp) != 0, SplitRule::ranks);
        case SplitKey::dp: return check_replicas(p);
        case SplitKey::ep: return check_experts(p);
        case SplitKey::sequence_parallel:
            return when(p.sequence_parallel && workload_.seq / p.cp % p.tp != 0, SplitRule::sequence_parallel);
        case SplitKey::micro_batch: return check_batch(p);
        case SplitKey::vp: return check_chunks(p);
        case SplitKey::recompute_layers:
            return when(
                p.recompute_layers != 0 && (p.recompute != Recompute::full || p.recompute_layers > workload_.layers),
                SplitRule::recompute_layers);
        case SplitKey::zero: return when(p.shard == 1 || (p.shard != 0 && p.zero != 3), SplitRule::shard);
        default: return std::nullopt;
    }
}

}  // namespace stepcast
