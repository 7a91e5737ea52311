#include "model/input/split_rules.h"
#include "model/base/joined.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/rank_groups.h"
#include "model/runtime_rules.h"
#include "model/transformer/chunks.h"
#include "model/transformer/counts.h"
#include "model/transformer/schedule.h"

namespace stepcast {
namespace {

struct AskedSplit {
    const Parallelism& p;
    const Workload& w;
    const Framework& framework;
    long ranks;
    bool splits_experts;
    AttentionKind kernel;
    const FrameworkAbilities& can = framework.can;
};
using Is = bool(const AskedSplit& split);
using Refusal = std::string(const AskedSplit& split);

// The rule applies as soon as `key` is set, after the keys before it.
struct SplitRule {
    SplitKey key;
    std::string_view text;  // in the tables of sweeps
    Is* broken;
    bool once = false;              // only if equivalent splits are wanted once
    std::string_view ability = {};  // of a framework: the key of [can] that the rule is about
    Refusal* refusal = nullptr;     // with the values found; none of rules that are `once`
    RuleOf which = RuleOf::transformers;
};

// A rule of the framework; broken_by() names the framework instead of a text.
constexpr SplitRule framework(SplitKey key, std::string_view ability, Is* broken) {
    return {key, "", broken, true, ability};
}
// A rule that check_experiment() refuses by.
constexpr SplitRule hard(SplitKey key, std::string_view text, Is* broken, Refusal* refusal) {
    return {.key = key, .text = text, .broken = broken, .refusal = refusal};
}
constexpr SplitRule of_any(SplitKey key, std::string_view text, Is* broken, Refusal* refusal) {
    return {.key = key,
            .text = text,
            .broken = broken,
            .refusal = refusal,
            .which = RuleOf::any_workload};
}

template <class T>
bool lacks(const std::vector<T>& list, T value) {
    return !list.empty() && !contains(list, value);
}

constexpr StageChunks chunks_of(const AskedSplit& s) { return traits(s.p.schedule).chunks; }
std::string schedule_refusal(const AskedSplit& s) {
    try {
        check_schedule(s.p);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

bool runs_attention_alone(const AskedSplit& s) {
    return std::ranges::all_of(modules_of(s.w, s.p.recompute_modules), [](RecomputedModule module) {
        return module == RecomputedModule::core_attn;
    });
}

// The first width of a feed-forward block that tp does not divide; 0 if it divides all.
struct Width {
    std::string_view key;
    int value = 0;
};
Width undivided_width(const AskedSplit& s) {
    const Moe& moe = s.w.moe;
    const bool all_experts = moe.experts > 0 && moe.dense_layers == 0 && moe.interval == 1;
    const auto divides = [&](int width) { return width % s.p.tp == 0; };
    if (!all_experts && !divides(s.w.ffn)) return {"workload.ffn", s.w.ffn};
    if (moe.experts == 0) return {};
    if (s.splits_experts && !divides(expert_ffn(s.w)))
        return {moe.ffn > 0 ? "workload.moe.ffn" : "workload.ffn", expert_ffn(s.w)};
    if (moe.shared_experts > 0 && !divides(shared_ffn(s.w)))
        return {"the shared experts' width", shared_ffn(s.w)};
    return {};
}

// check_experiment() says what rank_groups() says.
bool groups_experts(const Parallelism& p, bool splits_experts) {
    if (p.ep == 1 && p.shard == 0) return true;
    try {
        (void)rank_groups(p, splits_experts);
    } catch (const ConfigError&) {
        return false;
    }
    return true;
}

// How many replicas would use the whole cluster.
std::string with_all_ranks(const AskedSplit& s) {
    const std::optional<int> replicas = replicas_on(s.p, s.ranks);
    return replicas ? fmt::format("; dp={} uses all", *replicas) : "";
}
std::string ranks_refusal(const AskedSplit& s) {
    return fmt::format(
        "parallelism: pipeline {} x data {} x tensor {} x context {} = {} ranks, but cluster has "
        "{}{}",
        s.p.pp, s.p.dp, s.p.tp, s.p.cp, ranks_of_all(s.p), s.ranks, with_all_ranks(s));
}
std::string batch_refusal(const AskedSplit& s) {
    return fmt::format("parallelism.global_batch: {} is no multiple of dp x micro_batch = {}",
                       s.p.global_batch, long{s.p.dp} * s.p.micro_batch);
}

// What is wrong with the layers that parallelism.stage_layers states. The first chunk has the
// embedding and the last the head; any other chunk without layers would only pass data on.
std::string stage_layers_refusal(const AskedSplit& s) {
    const auto& stated = s.p.stage_layers;
    if (stated.empty() || s.p.cut == StageCut::modules) return "";
    if (as_int(stated.size()) != model_chunks(s.p))
        return fmt::format("parallelism.stage_layers: {} entries, but there are {} stage chunks",
                           stated.size(), model_chunks(s.p));
    if (const int least = std::ranges::min(stated); least < 0)
        return fmt::format("parallelism.stage_layers: {} is no number of layers", least);
    for (std::size_t chunk = 1; chunk + 1 < stated.size(); ++chunk)
        if (stated[chunk] == 0)
            return fmt::format(
                "parallelism.stage_layers: entry {} of {} is 0; expected layers in all but the "
                "first and the last",
                chunk + 1, stated.size());
    if (const long sum = std::accumulate(stated.begin(), stated.end(), 0L); sum != s.w.layers)
        return fmt::format("parallelism.stage_layers: {} layers in all, but workload.layers is {}",
                           sum, s.w.layers);
    return "";
}

// An earlier layout puts the same layers on each chunk. parallelism=all walks the first ones, so no
// layout that is walked is left out for one that is not.
bool repeats_layout(const AskedSplit& s) {
    if (s.p.layout == StageLayout::even) return false;
    Parallelism earlier = s.p;
    const std::vector<int> layers = chunk_layers(s.w, s.p);
    for (int layout = 0; layout < as_int(s.p.layout); ++layout) {
        earlier.layout = static_cast<StageLayout>(layout);
        if (chunk_layers(s.w, earlier) == layers) return true;
    }
    return false;
}

constexpr std::string_view not_the_batch = "dp x micro_batch does not divide global_batch";

constexpr SplitRule of_ranks(SplitKey key, Is* broken) {
    return {.key = key,
            .text = "tp x cp x pp x dp is not the number of ranks",
            .broken = broken,
            .refusal = ranks_refusal,
            .which = RuleOf::ranks};
}

// In the order of the keys.
constexpr SplitRule split_rules[] = {
    framework(SplitKey::tp, "tensor",
              [](const AskedSplit& s) { return !s.can.tensor && s.p.tp > 1; }),
    of_ranks(SplitKey::tp, [](const AskedSplit& s) { return s.ranks % s.p.tp != 0; }),
    hard(
        SplitKey::tp, "tp does not divide workload.heads",
        [](const AskedSplit& s) { return s.w.heads % s.p.tp != 0; },
        [](const AskedSplit& s) {
            return fmt::format("parallelism.tp: {} does not divide workload.heads = {}", s.p.tp,
                               s.w.heads);
        }),
    // with fewer key and value heads than ranks, several ranks hold a copy of each head
    hard(
        SplitKey::tp, "tp neither divides workload.kv_heads nor is a multiple",
        [](const AskedSplit& s) {
            const int kv = kv_heads(s.w);
            return !is_latent(s.w) && kv % s.p.tp != 0 && s.p.tp % kv != 0;
        },
        [](const AskedSplit& s) {
            return fmt::format(
                "parallelism.tp: {} neither divides workload.kv_heads = {} nor is a multiple",
                s.p.tp, kv_heads(s.w));
        }),
    hard(
        SplitKey::tp, "tp does not divide the width of a feed-forward block",
        [](const AskedSplit& s) { return undivided_width(s).value != 0; },
        [](const AskedSplit& s) {
            const auto [key, width] = undivided_width(s);
            return fmt::format("parallelism.tp: {} does not divide {} = {}", s.p.tp, key, width);
        }),
    // Megatron-Core 0.16.1, transformer/transformer_config.py: "Bias in Moe is only supported when
    // ETP==1", of the same layer of experts as below
    hard(
        SplitKey::tp, "",
        [](const AskedSplit& s) {
            return !s.can.experts_without_sequence && s.w.moe.experts > 0 && s.w.linear_bias &&
                   s.p.tp > 1 && s.splits_experts;
        },
        [](const AskedSplit& s) {
            return fmt::format(
                "parallelism.tp: {}, but {} splits no experts with biases (workload.linear_bias); "
                "expected 1, or runtime.experts.tensor_parallel = none",
                s.p.tp, s.framework.name);
        }),
    hard(
        SplitKey::tp, "tp does not divide workload.delta.key_heads",
        [](const AskedSplit& s) {
            return s.w.delta.value_heads > 0 && delta_key_heads(s.w) % s.p.tp != 0;
        },
        [](const AskedSplit& s) {
            return fmt::format("parallelism.tp: {} does not divide workload.delta.key_heads = {}",
                               s.p.tp, delta_key_heads(s.w));
        }),
    framework(SplitKey::cp, "context",
              [](const AskedSplit& s) { return !s.can.context && s.p.cp > 1; }),
    // Megatron-Core 0.16.0 runs neither with a split context (ssm/gated_delta_net.py,
    // transformer_config.py)
    hard(
        SplitKey::cp, "cp above 1 with gated delta nets or sparse attention",
        [](const AskedSplit& s) {
            return s.p.cp > 1 && (s.w.delta.value_heads > 0 || s.w.indexer.heads > 0);
        },
        [](const AskedSplit& s) {
            return fmt::format(
                "parallelism.cp: {}, but {} modelled on whole sequences; expected 1", s.p.cp,
                s.w.delta.value_heads > 0 ? "gated delta nets are" : "sparse attention is");
        }),
    hard(
        SplitKey::cp, "cp does not divide workload.seq",
        [](const AskedSplit& s) { return s.w.seq % s.p.cp != 0; },
        [](const AskedSplit& s) {
            return fmt::format("parallelism.cp: {} does not divide workload.seq = {}", s.p.cp,
                               s.w.seq);
        }),
    of_ranks(SplitKey::cp,
             [](const AskedSplit& s) { return s.ranks % (long{s.p.tp} * s.p.cp) != 0; }),
    {SplitKey::sequence_parallel, "sequence_parallel with tp = 1 (does nothing)",
     [](const AskedSplit& s) { return s.p.sequence_parallel && s.p.tp == 1; }, true},
    framework(SplitKey::sequence_parallel, "sequence",
              [](const AskedSplit& s) { return !s.can.sequence && s.p.sequence_parallel; }),
    framework(SplitKey::sequence_parallel, "tensor_without_sequence",
              [](const AskedSplit& s) {
                  return !s.can.tensor_without_sequence && repeats_sequence(s.p);
              }),
    // the framework raises at its start, so every verb refuses it
    hard(
        SplitKey::sequence_parallel, "",
        [](const AskedSplit& s) {
            return !s.can.experts_without_sequence && s.w.moe.experts > 0 && repeats_sequence(s.p);
        },
        [](const AskedSplit& s) {
            return fmt::format(
                "parallelism.sequence_parallel: false, but {} runs experts on {} tensor-parallel "
                "ranks only with it; expected true, or tp = 1",
                s.framework.name, s.p.tp);
        }),
    hard(
        SplitKey::sequence_parallel, "tp does not divide the tokens that sequence_parallel splits",
        [](const AskedSplit& s) { return s.p.sequence_parallel && s.w.seq / s.p.cp % s.p.tp != 0; },
        [](const AskedSplit& s) {
            return fmt::format(
                "parallelism.sequence_parallel: tp = {} does not divide the {} tokens of a "
                "sequence on a rank",
                s.p.tp, s.w.seq / s.p.cp);
        }),
    of_any(
        SplitKey::micro_batch, not_the_batch,
        [](const AskedSplit& s) { return s.p.global_batch % s.p.micro_batch != 0; }, batch_refusal),
    // tokens and slots are counted as int later
    of_any(
        SplitKey::micro_batch, "more than 1e9 slots on a rank",
        [](const AskedSplit& s) { return real(s.p.micro_batch) * s.w.seq * s.w.moe.top_k > 1e9; },
        [](const AskedSplit& s) {
            return fmt::format(
                "parallelism.micro_batch: {} x seq {} x top_k {} is above 1e9 slots on a rank",
                s.p.micro_batch, s.w.seq, s.w.moe.top_k);
        }),
    of_any(
        SplitKey::ep, "ep does not divide workload.moe.experts",
        [](const AskedSplit& s) {
            return s.w.moe.experts == 0 ? s.p.ep != 1 : s.w.moe.experts % s.p.ep != 0;
        },
        [](const AskedSplit& s) {
            return s.w.moe.experts == 0
                       ? fmt::format(
                             "parallelism.ep: {}, but workload.moe.experts is 0; expected 1",
                             s.p.ep)
                       : fmt::format(
                             "workload.moe.experts: {} cannot be spread over parallelism.ep = {} "
                             "ranks; expected a multiple",
                             s.w.moe.experts, s.p.ep);
        }),
    {SplitKey::recompute,
     "selective recompute that leaves neither scores nor a wide copy (next to no memory)",
     [](const AskedSplit& s) {
         return s.p.recompute == Recompute::selective && s.kernel != AttentionKind::plain &&
                !is_narrow(s.w.dtype) && runs_attention_alone(s);
     },
     true},
    // Megatron-Core's combined forward-backward passes recompute no layer and gather no weights
    hard(
        SplitKey::recompute, "overlap_experts with layers that run again",
        [](const AskedSplit& s) { return s.p.overlap_experts && recomputes_layers(s.p); },
        [](const AskedSplit& s) {
            return fmt::format(
                "parallelism.recompute: {}, but parallelism.overlap_experts runs no layer again; "
                "expected none or selective, or overlap_experts = false",
                to_string(s.p.recompute));
        }),
    framework(SplitKey::recompute, "recompute",
              [](const AskedSplit& s) { return lacks(s.can.recompute, s.p.recompute); }),
    hard(
        SplitKey::recompute_layers,
        "recompute_layers without full recompute, or above workload.layers",
        [](const AskedSplit& s) {
            return s.p.recompute_layers != 0 &&
                   (s.p.recompute != Recompute::full || s.p.recompute_layers > s.w.layers);
        },
        [](const AskedSplit& s) {
            return s.p.recompute != Recompute::full
                       ? fmt::format(
                             "parallelism.recompute_layers: {}, but parallelism.recompute is {}; "
                             "expected 0, or recompute = full",
                             s.p.recompute_layers, to_string(s.p.recompute))
                       : fmt::format(
                             "parallelism.recompute_layers: {} is above workload.layers = {}",
                             s.p.recompute_layers, s.w.layers);
        }),
    framework(SplitKey::pp, "pipeline",
              [](const AskedSplit& s) { return !s.can.pipeline && s.p.pp > 1; }),
    hard(
        SplitKey::pp, "pp above 1 with a reference model",
        [](const AskedSplit& s) { return s.w.reference != Reference::none && s.p.pp > 1; },
        [](const AskedSplit& s) {
            return fmt::format(
                "parallelism.pp: {}, but workload.reference = {} is modelled on one stage; "
                "expected 1",
                s.p.pp, to_string(s.w.reference));
        }),
    of_ranks(SplitKey::pp, [](const AskedSplit& s) { return !replicas_on(s.p, s.ranks); }),
    of_ranks(SplitKey::dp, [](const AskedSplit& s) { return ranks_of_all(s.p) != s.ranks; }),
    of_any(
        SplitKey::dp, not_the_batch,
        [](const AskedSplit& s) {
            return s.p.global_batch % (long{s.p.dp} * s.p.micro_batch) != 0;
        },
        batch_refusal),
    {SplitKey::dp, "ep does not divide its ranks into regular groups",
     [](const AskedSplit& s) { return !groups_experts(s.p, s.splits_experts); }},
    {SplitKey::schedule, "a schedule other than 1f1b without a pipeline",
     [](const AskedSplit& s) { return s.p.pp == 1 && s.p.schedule != Parallelism{}.schedule; },
     true},
    framework(
        SplitKey::schedule, "schedules",
        [](const AskedSplit& s) { return s.p.pp > 1 && lacks(s.can.schedules, s.p.schedule); }),
    {SplitKey::vp, "vp above 1 without a pipeline",
     [](const AskedSplit& s) { return s.p.pp == 1 && s.p.vp > 1; }, true},
    {SplitKey::vp, "vp = 2 under a schedule that implies it (does nothing)",
     [](const AskedSplit& s) { return chunks_of(s) == StageChunks::there_and_back && s.p.vp == 2; },
     true},
    framework(SplitKey::vp, "interleaved",
              [](const AskedSplit& s) {
                  return !s.can.interleaved && chunks_of(s) == StageChunks::rounds && s.p.vp > 1;
              }),
    hard(
        SplitKey::vp, "vp is not what the schedule runs",
        [](const AskedSplit& s) { return schedule_fault(s.p) == ScheduleFault::chunks; },
        schedule_refusal),
    hard(
        SplitKey::vp, "overlap_experts in a pipeline that is not interleaved",
        [](const AskedSplit& s) {
            const bool turns =
                s.p.schedule == Schedule::dualpipe ||
                (s.p.schedule == Schedule::one_f_one_b && (s.p.pp == 1 || s.p.vp > 1));
            return s.p.overlap_experts && !turns;
        },
        [](const AskedSplit& s) {
            return fmt::format(
                "parallelism.schedule: {} in {} chunks a stage, but parallelism.overlap_experts "
                "needs 1f1b with vp above 1 (or pp = 1), or dualpipe; expected one of them, or "
                "overlap_experts = false",
                traits(s.p.schedule).name, chunks_per_stage(s.p));
        }),
    hard(
        SplitKey::vp, "dualpipe with an odd number of stages",
        [](const AskedSplit& s) { return schedule_fault(s.p) == ScheduleFault::odd_stages; },
        schedule_refusal),
    hard(
        SplitKey::vp, "a replica without a micro-batch",
        [](const AskedSplit& s) { return schedule_fault(s.p) == ScheduleFault::micro_batches; },
        schedule_refusal),
    hard(
        SplitKey::vp, "interleaved 1f1b whose micro-batches are no multiple of pp",
        [](const AskedSplit& s) { return schedule_fault(s.p) == ScheduleFault::rounds; },
        schedule_refusal),
    hard(
        SplitKey::vp, "more stage chunks than layers",
        [](const AskedSplit& s) {
            return s.p.stage_layers.empty() && s.p.cut == StageCut::layers &&
                   model_chunks(s.p) > s.w.layers;
        },
        [](const AskedSplit& s) {
            return fmt::format(
                "parallelism.{}: {} stage chunks are more than workload.layers = {}; expected "
                "fewer, or parallelism.stage_layers",
                s.p.vp > 1 ? "vp" : "pp", model_chunks(s.p), s.w.layers);
        }),
    hard(
        SplitKey::vp, "parallelism.stage_layers does not fit the stage chunks",
        [](const AskedSplit& s) { return !stage_layers_refusal(s).empty(); }, stage_layers_refusal),
    {SplitKey::layout, "a layout without a pipeline",
     [](const AskedSplit& s) { return s.p.layout != StageLayout::even && s.p.pp == 1; }, true},
    hard(
        SplitKey::layout, "a layout beside parallelism.stage_layers or parallelism.cut",
        [](const AskedSplit& s) {
            return s.p.layout != StageLayout::even &&
                   (!s.p.stage_layers.empty() || s.p.cut == StageCut::modules);
        },
        [](const AskedSplit& s) {
            return fmt::format(
                "parallelism.layout: {}, but {}; expected even", to_string(s.p.layout),
                s.p.stage_layers.empty() ? "parallelism.cut is modules"
                                         : "parallelism.stage_layers states the layers");
        }),
    hard(
        SplitKey::layout, "a layout that leaves a stage chunk without layers",
        [](const AskedSplit& s) {
            return s.p.layout != StageLayout::even && !all_hold_layers(chunk_layers(s.w, s.p));
        },
        [](const AskedSplit& s) {
            return fmt::format(
                "parallelism.layout: {} leaves a stage chunk of [{}] without layers; expected "
                "fewer chunks (pp, vp), or even",
                to_string(s.p.layout), joined(chunk_layers(s.w, s.p), ", "));
        }),
    {SplitKey::layout, "a layout with the stages of another (does nothing)",
     [](const AskedSplit& s) { return repeats_layout(s); }, true},
    framework(SplitKey::layout, "layouts",
              [](const AskedSplit& s) { return s.p.pp > 1 && lacks(s.can.layouts, s.p.layout); }),
    {SplitKey::zero, "zero on a lone replica (does nothing)",
     [](const AskedSplit& s) { return s.p.zero > 0 && ranks_of_weights(s.p) == 1; }, true},
    framework(SplitKey::zero, "zero",
              [](const AskedSplit& s) { return lacks(s.can.zero, s.p.zero); }),
    framework(
        SplitKey::zero, "pipeline_zero",
        [](const AskedSplit& s) { return s.p.pp > 1 && lacks(s.can.pipeline_zero, s.p.zero); }),
    framework(SplitKey::zero, "context_without_shards",
              [](const AskedSplit& s) {
                  return !s.can.context_without_shards && s.p.cp > 1 && s.p.zero == 0;
              }),
    hard(
        SplitKey::zero, "overlap_experts with zero = 3",
        [](const AskedSplit& s) { return s.p.overlap_experts && s.p.zero == 3; },
        [](const AskedSplit&) {
            return std::string(
                "parallelism.zero: 3, but parallelism.overlap_experts gathers no weights; expected "
                "0 to 2, or overlap_experts = false");
        }),
    hard(
        SplitKey::zero, "parallelism.shard without zero = 3, or of one rank",
        [](const AskedSplit& s) { return s.p.shard == 1 || (s.p.shard != 0 && s.p.zero != 3); },
        [](const AskedSplit& s) {
            return s.p.zero != 3
                       ? fmt::format(
                             "parallelism.shard: {}, but parallelism.zero is {}; expected 0, or "
                             "zero = 3",
                             s.p.shard, s.p.zero)
                       : "parallelism.shard: 1 shards nothing, each rank holds a copy of its own; "
                         "expected zero = 0, or shards of 2 ranks or more";
        }),
};
static_assert(std::ranges::is_sorted(split_rules, {}, &SplitRule::key));

}  // namespace

SplitRules::SplitRules(const Experiment& experiment, bool once)
    : workload_(experiment.workload),
      not_in_framework_("not in " + experiment.framework.name),
      framework_(experiment.framework),
      ranks_(rank_count(experiment.cluster)),
      splits_experts_(splits_experts(experiment)),
      kernel_(attention_kernel(experiment)),
      once_(once) {}

namespace {

AskedSplit split_of(const Experiment& e) {
    return {e.parallelism,         e.workload,        e.framework,
            rank_count(e.cluster), splits_experts(e), attention_kernel(e)};
}

}  // namespace

void refuse_split(const Experiment& e, RuleOf which) {
    const AskedSplit split = split_of(e);
    for (const SplitRule& rule : split_rules)
        if (rule.refusal != nullptr && rule.which == which && rule.broken(split))
            throw ConfigError(rule.refusal(split));
}

std::vector<std::string> beyond_framework(const Experiment& e) {
    std::vector<std::string> found;
    if (e.framework.name.empty() || e.workload.kind != Workload::Kind::transformer) return found;
    const AskedSplit split = split_of(e);
    for (const SplitRule& rule : split_rules) {
        if (rule.ability.empty() || !rule.broken(split)) continue;
        const std::string key = split_field(rule.key).key,
                          can = fmt::format("framework.can.{}", rule.ability);
        found.push_back(fmt::format("{} = {}, which framework {} cannot run ({} = {})", key,
                                    get_key(e, key), e.framework.name, can, get_key(e, can)));
    }
    if (is_narrow(e.workload.dtype) && !e.framework.can.narrow)
        found.push_back(
            fmt::format("workload.dtype = {}, which framework {} cannot run (framework.can.narrow "
                        "= false)",
                        to_string(e.workload.dtype), e.framework.name));
    return found;
}

std::string_view SplitRules::broken_by(SplitKey key, const Parallelism& p) const {
    const AskedSplit split{p, workload_, framework_, ranks_, splits_experts_, kernel_};
    for (const SplitRule& rule : std::ranges::equal_range(split_rules, key, {}, &SplitRule::key))
        if ((once_ || !rule.once) && rule.broken(split))
            return rule.text.empty() ? not_in_framework_ : rule.text;
    return "";
}

}  // namespace stepcast
