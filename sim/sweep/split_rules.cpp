#include "sim/sweep/split_rules.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/rank_groups.h"
#include "model/runtime_rules.h"
#include "model/transformer/chunks.h"
#include "model/transformer/counts.h"
#include "model/transformer/schedule.h"

namespace stepcast {
namespace {

struct Split {
    const Parallelism& p;
    const Workload& w;
    const FrameworkAbilities& can;
    long ranks;
    bool splits_experts;
};
using Is = bool(const Split& split);

// The rule applies as soon as `key` is set, after the keys before it. `once`: only if equivalent
// splits are wanted once.
struct Rule {
    SplitKey key;
    std::string_view text;
    Is* broken;
    bool once = false;
    std::string_view ability = {};  // of a framework: the key of [can] that the rule is about
};

// A rule of the framework; broken_by() names the framework instead of a text.
constexpr Rule framework(SplitKey key, std::string_view ability, Is* broken) {
    return {key, "", broken, true, ability};
}

template <class T>
bool lacks(const std::vector<T>& list, T value) {
    return !list.empty() && std::ranges::find(list, value) == list.end();
}

constexpr StageChunks chunks_of(const Split& s) { return traits(s.p.schedule).chunks; }
int all_chunks(const Split& s) { return model_chunks(s.p.schedule, s.p.pp, chunks_per_stage(s.p)); }

bool divides_feed_forward(const Split& s) {
    const Moe& moe = s.w.moe;
    const auto divides = [&](int width) { return width % s.p.tp == 0; };
    const bool all_experts = moe.experts > 0 && moe.dense_layers == 0 && moe.interval == 1;
    return (all_experts || divides(s.w.ffn)) &&
           (moe.experts == 0 || ((!s.splits_experts || divides(expert_ffn(s.w))) &&
                                 (moe.shared_experts == 0 || divides(shared_ffn(s.w)))));
}

bool groups_experts(const Parallelism& p, bool splits_experts) {
    if (p.ep == 1 && p.shard == 0) return true;
    try {
        (void)rank_groups(p, splits_experts);
    } catch (const ConfigError&) {
        return false;
    }
    return true;
}

bool stated_layers_fit(const Split& s) {
    const auto& stated = s.p.stage_layers;
    return stated.empty() || (static_cast<int>(stated.size()) == all_chunks(s) &&
                              std::accumulate(stated.begin(), stated.end(), 0L) == s.w.layers);
}

// An earlier layout puts the same layers on each chunk. parallelism=all walks the first ones, so no
// layout that is walked is left out for one that is not.
bool repeats_layout(const Split& s) {
    if (s.p.layout == StageLayout::even) return false;
    Parallelism earlier = s.p;
    const std::vector<int> layers = chunk_layers(s.w, s.p);
    for (int layout = 0; layout < static_cast<int>(s.p.layout); ++layout) {
        earlier.layout = static_cast<StageLayout>(layout);
        if (chunk_layers(s.w, earlier) == layers) return true;
    }
    return false;
}

constexpr std::string_view not_all_ranks = "tp x cp x pp x dp is not the number of ranks",
                           not_the_batch = "dp x micro_batch does not divide global_batch";

// In the order of the keys. The rules about chunks follow check_schedule() and check_chunks() of
// model/.
constexpr Rule rules[] = {
    framework(SplitKey::tp, "tensor", [](const Split& s) { return !s.can.tensor && s.p.tp > 1; }),
    {SplitKey::tp, not_all_ranks, [](const Split& s) { return s.ranks % s.p.tp != 0; }},
    {SplitKey::tp, "tp does not divide workload.heads",
     [](const Split& s) { return s.w.heads % s.p.tp != 0; }},
    {SplitKey::tp, "tp neither divides workload.kv_heads nor is a multiple",
     [](const Split& s) {
         const int kv = kv_heads(s.w);
         return s.w.attention != AttentionKind::mla && kv % s.p.tp != 0 && s.p.tp % kv != 0;
     }},
    {SplitKey::tp, "tp does not divide the width of a feed-forward block",
     [](const Split& s) { return !divides_feed_forward(s); }},
    {SplitKey::tp, "tp does not divide workload.delta.key_heads",
     [](const Split& s) {
         return s.w.delta.value_heads > 0 && delta_key_heads(s.w) % s.p.tp != 0;
     }},
    framework(SplitKey::cp, "context", [](const Split& s) { return !s.can.context && s.p.cp > 1; }),
    {SplitKey::cp, "cp above 1 with gated delta nets or sparse attention",
     [](const Split& s) {
         return s.p.cp > 1 && (s.w.delta.value_heads > 0 || s.w.indexer.heads > 0);
     }},
    {SplitKey::cp, "cp does not divide workload.seq",
     [](const Split& s) { return s.w.seq % s.p.cp != 0; }},
    {SplitKey::cp, not_all_ranks,
     [](const Split& s) { return s.ranks % (long{s.p.tp} * s.p.cp) != 0; }},
    {SplitKey::sequence_parallel, "sequence_parallel with tp = 1 (does nothing)",
     [](const Split& s) { return s.p.sequence_parallel && s.p.tp == 1; }, true},
    framework(SplitKey::sequence_parallel, "sequence",
              [](const Split& s) { return !s.can.sequence && s.p.sequence_parallel; }),
    {SplitKey::sequence_parallel, "",  // the framework refuses it in every verb: check_framework()
     [](const Split& s) {
         return !s.can.experts_without_sequence && s.w.moe.experts > 0 && s.p.tp > 1 &&
                !s.p.sequence_parallel;
     }},
    {SplitKey::sequence_parallel, "tp does not divide the tokens that sequence_parallel splits",
     [](const Split& s) { return s.p.sequence_parallel && s.w.seq / s.p.cp % s.p.tp != 0; }},
    {SplitKey::micro_batch, not_the_batch,
     [](const Split& s) { return s.p.global_batch % s.p.micro_batch != 0; }},
    {SplitKey::micro_batch, "more than 1e9 slots on a rank",
     [](const Split& s) {
         return static_cast<double>(s.p.micro_batch) * s.w.seq * s.w.moe.top_k > 1e9;
     }},
    {SplitKey::ep, "ep does not divide workload.moe.experts",
     [](const Split& s) {
         return s.w.moe.experts == 0 ? s.p.ep != 1 : s.w.moe.experts % s.p.ep != 0;
     }},
    {SplitKey::recompute,
     "selective recompute that leaves neither scores nor a wide copy (next to no memory)",
     [](const Split& s) {
         return s.p.recompute == Recompute::selective && s.w.attention != AttentionKind::plain &&
                !is_narrow(s.w.dtype);
     },
     true},
    framework(SplitKey::recompute, "recompute",
              [](const Split& s) { return lacks(s.can.recompute, s.p.recompute); }),
    {SplitKey::recompute_layers,
     "recompute_layers without full recompute, or above workload.layers",
     [](const Split& s) {
         return s.p.recompute_layers != 0 &&
                (s.p.recompute != Recompute::full || s.p.recompute_layers > s.w.layers);
     }},
    framework(SplitKey::pp, "pipeline",
              [](const Split& s) { return !s.can.pipeline && s.p.pp > 1; }),
    {SplitKey::pp, not_all_ranks,
     [](const Split& s) { return s.ranks % (long{s.p.tp} * s.p.cp * s.p.pp) != 0; }},
    {SplitKey::dp, not_all_ranks,
     [](const Split& s) { return long{s.p.tp} * s.p.cp * s.p.pp * s.p.dp != s.ranks; }},
    {SplitKey::dp, not_the_batch,
     [](const Split& s) { return s.p.global_batch % (long{s.p.dp} * s.p.micro_batch) != 0; }},
    {SplitKey::dp, "ep does not divide its ranks into regular groups",
     [](const Split& s) { return !groups_experts(s.p, s.splits_experts); }},
    {SplitKey::schedule, "a schedule other than 1f1b without a pipeline",
     [](const Split& s) { return s.p.pp == 1 && s.p.schedule != Parallelism{}.schedule; }, true},
    framework(SplitKey::schedule, "schedules",
              [](const Split& s) { return s.p.pp > 1 && lacks(s.can.schedules, s.p.schedule); }),
    {SplitKey::vp, "vp above 1 without a pipeline",
     [](const Split& s) { return s.p.pp == 1 && s.p.vp > 1; }, true},
    {SplitKey::vp, "vp = 2 under a schedule that implies it (does nothing)",
     [](const Split& s) { return chunks_of(s) == StageChunks::there_and_back && s.p.vp == 2; },
     true},
    framework(SplitKey::vp, "interleaved",
              [](const Split& s) {
                  return !s.can.interleaved && chunks_of(s) == StageChunks::rounds && s.p.vp > 1;
              }),
    {SplitKey::vp, "vp is not what the schedule runs",
     [](const Split& s) {
         return chunks_of(s) != StageChunks::rounds &&
                chunks_per_stage(s.p) != (chunks_of(s) == StageChunks::one ? 1 : 2);
     }},
    {SplitKey::vp, "dualpipe with an odd number of stages",
     [](const Split& s) { return s.p.pp % traits(s.p.schedule).copies != 0; }},
    {SplitKey::vp, "interleaved 1f1b whose micro-batches are no multiple of pp",
     [](const Split& s) {
         return chunks_of(s) == StageChunks::rounds && s.p.vp > 1 &&
                micro_batches(s.p) % s.p.pp != 0;
     }},
    {SplitKey::vp, "more stage chunks than layers",
     [](const Split& s) { return s.p.stage_layers.empty() && all_chunks(s) > s.w.layers; }},
    {SplitKey::vp, "parallelism.stage_layers does not fit the stage chunks",
     [](const Split& s) { return !stated_layers_fit(s); }},
    {SplitKey::layout, "a layout without a pipeline, or beside parallelism.stage_layers",
     [](const Split& s) {
         return s.p.layout != StageLayout::even && (s.p.pp == 1 || !s.p.stage_layers.empty());
     },
     true},
    {SplitKey::layout, "a layout that leaves a stage chunk without layers",
     [](const Split& s) {
         return s.p.layout != StageLayout::even && !all_hold_layers(chunk_layers(s.w, s.p));
     }},
    {SplitKey::layout, "a layout with the stages of another (does nothing)",
     [](const Split& s) { return repeats_layout(s); }, true},
    framework(SplitKey::layout, "layouts",
              [](const Split& s) { return s.p.pp > 1 && lacks(s.can.layouts, s.p.layout); }),
    {SplitKey::zero, "zero on a lone replica (does nothing)",
     [](const Split& s) { return s.p.zero > 0 && s.p.dp * s.p.cp == 1; }, true},
    framework(SplitKey::zero, "zero", [](const Split& s) { return lacks(s.can.zero, s.p.zero); }),
    {SplitKey::zero, "parallelism.shard without zero = 3, or of one rank",
     [](const Split& s) { return s.p.shard == 1 || (s.p.shard != 0 && s.p.zero != 3); }},
};
static_assert(std::ranges::is_sorted(rules, {}, &Rule::key));

}  // namespace

SplitRules::SplitRules(const Experiment& experiment, bool once)
    : workload_(experiment.workload),
      not_in_framework_("not in " + experiment.framework.name),
      can_(experiment.framework.can),
      ranks_(rank_count(experiment.cluster)),
      splits_experts_(splits_experts(experiment)),
      once_(once) {}

std::vector<std::string> beyond_framework(const Experiment& e) {
    std::vector<std::string> found;
    if (e.framework.name.empty() || e.workload.kind != Workload::Kind::transformer) return found;
    const Split split{e.parallelism, e.workload, e.framework.can, rank_count(e.cluster),
                      splits_experts(e)};
    for (const Rule& rule : rules) {
        if (rule.ability.empty() || !rule.broken(split)) continue;
        const std::string key = split_field(rule.key).key,
                          can = fmt::format("framework.can.{}", rule.ability);
        found.push_back(fmt::format("{} = {}, which framework {} cannot run ({} = {})", key,
                                    get_key(e, key), e.framework.name, can, get_key(e, can)));
    }
    return found;
}

std::string_view SplitRules::broken_by(SplitKey key, const Parallelism& p) const {
    const Split split{p, workload_, can_, ranks_, splits_experts_};
    for (const Rule& rule : std::ranges::equal_range(rules, key, {}, &Rule::key))
        if ((once_ || !rule.once) && rule.broken(split))
            return rule.text.empty() ? not_in_framework_ : rule.text;
    return "";
}

}  // namespace stepcast
