#include "import/launch/megatron.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "import/launch/launch_flags.h"
#include "import/launch/megatron_deepspeed.h"
#include "import/launch/megatron_model.h"
#include "import/launch/megatron_source.h"
#include "import/launch/megatron_training.h"
#include "import/launch/translation.h"
#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/numbers.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

void take_context_exchange(MegatronSource& s) {
    const auto* v = s.d.find("cp_comm_type");
    if (!v) return;
    const auto says = [&](const char* word) { return has(v->value, word); };
    s.t.set("runtime.context_exchange",
            says("allgather") || says("all_gather") ? "all-gather" : "ring", v->at);
    if (says("a2a") && s.t.count("parallelism.cp", 1) > 1)
        s.t.problem(
            *v, "exchanges of heads (a2a) are not modelled; taken as a ring of keys and values");
}

// A script says that it is off, YAML may also say that it is on.
void take_fused_accumulation(MegatronSource& s) {
    if (const auto* v = s.d.on("no_gradient_accumulation_fusion"))
        s.t.set("runtime.gradients.fused_accumulation", "false", v->at);
    if (const auto* v = s.full ? nullptr : s.d.find("gradient_accumulation_fusion"))
        s.t.set("runtime.gradients.fused_accumulation", flag_text(*v), v->at);
}

void take_split(MegatronSource& s) {
    for (const char* key : {"parallelism.tp", "parallelism.pp", "parallelism.cp"})
        if (!s.t.find(key)) s.t.take_default(key, "1");
    const long tp = s.t.count("parallelism.tp", 1);
    if (const auto* v = s.d.find("sequence_parallel")) {
        if (tp > 1)
            s.t.set("parallelism.sequence_parallel", flag_text(*v), v->at);
        else if (flag_in(*v))
            s.t.ignored.push_back("sequence_parallel (" + v->at + "): no effect with tp 1");
    }
    s.t.take(
        "runtime.exchanges.tensor",
        s.d.find_any({"tp_comm_overlap", "ub_tp_comm_overlap", "comm_overlap.tp_comm_overlap"}),
        [&](const NamedValue& v) { return always(flag_in(v) && tp > 1); });
    take_context_exchange(s);
    for (const char* name : {"overlap_moe_expert_parallel_comm",
                             "comm_overlap.overlap_moe_expert_parallel_comm", "moe_a2a_overlap"})
        if (const auto* v = s.d.on(name)) s.t.set("parallelism.overlap_experts", "true", v->at);
    s.t.take("runtime.loss.fused", s.d.on("cross_entropy_loss_fusion"), flag_text);
    take_fused_accumulation(s);
    s.t.take("parallelism.rank_order", s.d.on("use_tp_pp_dp_mapping"),
             [](const NamedValue&) { return "tp-cp-pp-dp"; });
    // Megatron switches it off by itself with sequence parallelism, where other exchanges hide.
    if (const auto* v = s.d.on("no_async_tensor_model_parallel_allreduce");
        v && tp > 1 && !s.t.find("parallelism.sequence_parallel"))
        s.t.set("runtime.exchanges.weight_gradient", "false", v->at);
}

// Expands repetitions. `at` is just after an opening bracket, or 0.
std::string written_out(const NamedValue& value, std::size_t& at, int depth) {
    constexpr std::size_t longest = 20'000;
    if (depth > 8) wrong(value, "a layout of brackets in at most 8 levels");
    std::string text;
    while (at < value.value.size() && value.value[at] != ')') {
        const char c = value.value[at++];
        std::string piece(1, c);
        if (c == '(') {
            piece = written_out(value, at, depth + 1);
            if (at >= value.value.size()) wrong(value, "a closing bracket");
            ++at;
        }
        long times = 1;
        if (at < value.value.size() && value.value[at] == '*') {
            char* end = nullptr;
            times = std::strtol(value.value.c_str() + at + 1, &end, 10);
            if (end == value.value.c_str() + at + 1) wrong(value, "a number behind each *");
            at = as_index(end - value.value.c_str());
        }
        constexpr long most_times = longest;
        if (times < 0 || times > most_times ||
            text.size() + piece.size() * as_index(times) > longest)
            wrong(value, "a layout of at most 20000 letters");
        for (; times > 0; --times) text += piece;
    }
    return text;
}

}  // namespace

std::string written_out(const NamedValue& layout) {
    std::size_t at = 0;
    std::string text = written_out(layout, at, 0);
    if (at < layout.value.size()) wrong(layout, "as many opening as closing brackets");
    return text;
}

namespace {

// The forecast runs multi-token prediction together with the loss. A chunk with nothing else takes
// the last layer of earlier chunks, so that it has a comparable amount of work.
void place_prediction(MegatronSource& s, const NamedValue& value, std::size_t at,
                      std::vector<long>& chunks) {
    std::string moved;
    for (std::size_t from = at; chunks[at] == 0 && from-- > 0;)
        if (chunks[from] > 1) {
            --chunks[from];
            ++chunks[at];
            moved = fmt::format("; a layer of chunk {} is in its place", from + 1);
        }
    s.t.problem(
        value,
        fmt::format(
            "multi-token prediction (m) in chunk {} of {} is forecast in the last, with the loss{}",
            at + 1, chunks.size(), moved));
}

// "Et*3|(t*4|)*6t*3mL": chunks between bars, first to last. Embedding, loss and multi-token
// prediction count as no layers.
void take_layout(MegatronSource& s, const NamedValue& value) {
    std::vector<long> chunks{0};
    std::size_t prediction = 0;  // the first chunk with some, counted from 1
    for (const char c : written_out(value))
        if (c == '|')
            chunks.push_back(0);
        else if (c == 't')
            ++chunks.back();
        else if (c == 'm')
            prediction = prediction > 0 ? prediction : chunks.size();
        else if (c != 'E' && c != 'L' && c != ',' && c != ' ' && c != '"')
            wrong(value, "a layout of E, t, m, L, | and brackets");
    const long pp = s.t.count("parallelism.pp", 1);
    if (static_cast<long>(chunks.size()) % pp != 0)
        wrong(value, fmt::format("a multiple of pp = {} chunks, found {}", pp, chunks.size()));
    if (prediction > 0 && prediction < chunks.size())
        place_prediction(s, value, prediction - 1, chunks);
    s.t.set("parallelism.vp", static_cast<long>(chunks.size()) / pp, value.at);
    s.t.set("parallelism.stage_layers", fmt::format("[{}]", joined(chunks, ", ")), value.at);
}

// What a file says of the first and the last stage: their numbers of layers, or that embedding and
// loss count as one.
struct StageEnds {
    const NamedValue *first, *last, *embedding, *loss;

    // where the first of them stands; nullptr = none does
    [[nodiscard]] const NamedValue* stated() const {
        for (const auto* value : {first, last, embedding, loss})
            if (value) return value;
        return nullptr;
    }
    [[nodiscard]] bool counts_others() const { return !first && !last; }
    [[nodiscard]] long others() const { return (embedding ? 1 : 0) + (loss ? 1 : 0); }
};
StageEnds stage_ends(MegatronSource& s) {
    const auto* both = counts_embedding_as_layer(s) ? s.d.find("pp_partition_method") : nullptr;
    return {
        s.d.find_any({"decoder_first_pipeline_num_layers", "num_layers_in_first_pipeline_stage"}),
        s.d.find_any({"decoder_last_pipeline_num_layers", "num_layers_in_last_pipeline_stage"}),
        both ? both : s.d.on("account_for_embedding_in_pipeline_split"),
        both ? both : s.d.on("account_for_loss_in_pipeline_split")};
}

void check_even_stages(MegatronSource& s, long layers, long pp) {
    const auto* split =
        s.d.find_any({"virtual_pipeline_model_parallel_size",
                      "num_virtual_stages_per_pipeline_rank", "pipeline_model_parallel_size"});
    if (const long vp = s.t.count("parallelism.vp", 1); split && layers % (pp * vp) != 0)
        s.t.problem(*split, fmt::format("{} layers do not divide over {} stages of {} chunks",
                                        layers, pp, vp));
}

// The first and the last as stated, the others alike.
std::vector<long> layers_of_stages(const StageEnds& ends, long all, long pp) {
    long rest = all, between = pp;
    for (const auto* end : {ends.first, ends.last})
        if (end) {
            rest -= std::max(integer_in(*end), 0L);
            --between;
        }
    std::vector<long> stages(as_index(pp), between > 0 ? rest / between : 0);
    if (ends.first) stages.front() = integer_in(*ends.first);
    if (ends.last) stages.back() = integer_in(*ends.last);
    return stages;
}

// Layers of a pipeline whose first and last stage state other numbers, or whose first and last
// chunk count embedding and loss as a layer. The chunks of a stage are equal.
void take_uneven_ends(MegatronSource& s, long layers, long pp) {
    const StageEnds ends = stage_ends(s);
    if (pp < 2 || layers == 0) return;
    const auto* at = ends.stated();
    if (!at) return check_even_stages(s, layers, pp);
    const bool counted = ends.counts_others();
    const long all = layers + (counted ? ends.others() : 0), vp = s.t.count("parallelism.vp", 1);
    const std::vector<long> stages = layers_of_stages(ends, all, pp);
    const bool whole = std::ranges::all_of(stages, [&](long stage) { return stage % vp == 0; });
    if (!whole || std::accumulate(stages.begin(), stages.end(), 0L) != all || pp * vp > all) {
        s.t.problem(*at, fmt::format("{} layers{} do not divide over {} stages of {} chunks", all,
                                     counted ? " with embedding and loss"
                                             : ", at the first and the last stage as stated,",
                                     pp, vp));
        return;
    }
    std::vector<long> chunks;
    for (long chunk = 0; chunk < pp * vp; ++chunk)
        chunks.push_back(stages[as_index(chunk % pp)] / vp);
    if (counted && ends.embedding) --chunks.front();
    if (counted && ends.loss) --chunks.back();
    s.t.set("parallelism.stage_layers", fmt::format("[{}]", joined(chunks, ", ")), at->at);
}

void take_pipeline(MegatronSource& s) {
    const long layers = s.t.count("workload.layers", 0), pp = s.t.count("parallelism.pp", 1);
    if (const auto* v = s.d.find("pipeline_model_parallel_layout")) return take_layout(s, *v);
    if (const auto* v = s.d.find_any(
            {"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"})) {
        s.t.set("parallelism.vp", pp > 1 ? integer_in(*v) : 1, v->at);
    } else if (const auto* each = s.d.find("num_layers_per_virtual_pipeline_stage");
               each && layers > 0) {
        long all = layers;  // plus embedding and loss if these count as layers
        for (const char* end :
             {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"})
            all += s.d.on(end) ? 1 : 0;
        if (const long n = count_in(*each); all % (pp * n) != 0)
            s.t.problem(*each, fmt::format("{} layers do not divide over {} stages in chunks of {}",
                                           all, pp, n));
        else
            s.t.set("parallelism.vp", all / pp / n, each->at);
    }
    take_uneven_ends(s, layers, pp);
    for (const auto& [name, negated] : {std::pair{"no_overlap_p2p_communication", true},
                                        {"overlap_p2p_communication", false},
                                        {"overlap_p2p_comm", false}})
        if (const auto* v = s.d.find(name))
            s.t.set("runtime.exchanges.sends",
                    truth(flag_in(*v) != negated && s.t.count("parallelism.vp", 1) > 1), v->at);
}

// Sets the replicas, and reports what of the split cannot run on that many ranks.
void take_world(MegatronSource& s) {
    const long tp = s.t.count("parallelism.tp", 1), pp = s.t.count("parallelism.pp", 1),
               cp = s.t.count("parallelism.cp", 1), ep = s.t.count("parallelism.ep", 1);
    const long split = s.t.ranks_of_split();
    const auto* apart = s.t.find("runtime.experts.tensor_parallel");
    const long etp = apart && apart->value == "none" ? 1 : tp;
    const long least = std::lcm(split, etp * ep * pp);
    if (s.ranks > 0 && s.ranks % least == 0) {
        s.t.set("parallelism.dp", s.ranks / split,
                s.t.find("cluster.nodes") ? s.t.find("cluster.nodes")->at : "launch");
    } else if (s.ranks > 0) {
        add_line(s.t.problems,
                 "{} ranks cannot run tp {} x pp {} x cp {} x ep {}: expected a multiple of {}; "
                 "set it with --gpus",
                 s.ranks, tp, pp, cp, ep, least);
    } else {
        add_line(s.t.open, "how many GPUs: a multiple of {}; set it with --gpus", least);
    }
    if (!s.t.find("parallelism.micro_batch") && s.sized)
        s.t.problems.push_back("micro_batch_size: missing; it is required");
}

}  // namespace

namespace {

// Names of 2019 and 2020, which the numbers of today replace where both stand. In a model without
// decoder its encoder has its layers.
void take_old_names(MegatronSource& s) {
    for (const auto& [theirs, ours] : {std::pair{"model_parallel_size", "parallelism.tp"},
                                       {"batch_size", "parallelism.micro_batch"},
                                       {"encoder_num_layers", "workload.layers"}})
        if (s.lm()) s.t.take(ours, s.d.find(theirs), integer_text);
}

}  // namespace

Translation translate_megatron(Document& document, MegatronDialect dialect, long ranks, bool full) {
    MegatronSource s{document, dialect, ranks};
    s.full = full;
    s.t.path = document.path;
    s.deepspeed = s.lm() && is_of_deepspeed(s.d);
    static constexpr std::pair<const char*, const char*> tools[] = {
        {"Megatron-LM", "megatron-lm"}, {"NeMo", "nemo"}, {"Megatron-Bridge", "megatron-bridge"}};
    std::tie(s.t.format, s.t.framework) =
        s.deepspeed ? std::pair("Megatron-DeepSpeed", "megatron-deepspeed")
                    : tools[as_index(dialect)];
    if (s.deepspeed) take_deepspeed_experts(s);
    take_old_names(s);
    const bool with_experts = s.d.states("num_experts") || s.d.states("num_moe_experts") || !s.full;
    for (const auto& [ours, of_lm, of_others] : megatron_numbers)
        for (const auto theirs : {of_lm, of_others})
            if (const auto* v = s.d.find(theirs);
                with_experts || !ours.starts_with("workload.moe."))
                s.t.take(std::string(ours), v, integer_text);
    s.t.take("workload.vocab", s.d.find("padded_vocab_size"), integer_text);
    if (s.deepspeed) take_deepspeed_split(s);
    take_model(s);
    take_experts(s);
    take_split(s);
    take_pipeline(s);
    take_data_parallel(s);
    take_precision(s);
    take_recompute(s);
    take_world(s);
    if (s.lm())
        judge_flags(s.d, s.t, s.full);
    else
        leave_rest(s.d, s.t);
    return std::move(s.t);
}

}  // namespace stepcast
