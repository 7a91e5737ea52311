#include "import/tables/split.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <string_view>

#include <fmt/format.h>

#include "import/tables/memory_choices.h"
#include "import/tables/row_parts.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/names.h"
#include "model/base/numbers.h"
#include "model/base/text_search.h"
#include "model/runtime_rules.h"
#include "model/transformer/chunks.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

using Assumptions = std::vector<std::string>;

// Megatron-Core overlaps sends between stages only if stages are interleaved (overlap_p2p_comm).
// The default is chunks of four layers, or of the next larger number that divides a stage's layers.
int chunks_unstated(const CaseRow& row, const Framework& f, const Workload& w,
                    const Parallelism& p) {
    const long batches =
        count_in(row, "gbs", 0) / (static_cast<long>(p.dp) * count_in(row, "mbs", 1));
    if (!f.unstated.chunks || w.layers % p.pp != 0 || batches % p.pp != 0) return 1;
    const int layers = w.layers / p.pp;
    for (int each = 4; each < layers; ++each)
        if (layers % each == 0) return layers / each;
    return 1;
}

void set_degrees(const CaseRow& row, int ranks, Experiment& e, Assumptions& assumptions) {
    const Framework& f = e.framework;
    const Workload& w = e.workload;
    Parallelism& p = e.parallelism;
    p.tp = count_in(row, "tp", 1);
    p.pp = count_in(row, "pp", 1);
    p.cp = count_in(row, "cp", 1);
    p.ep = count_in(row, "ep", 1);
    p.dp = count_in(row, "dp", as_int(std::max(1L, ranks / ranks_of_replica(p))));
    if (row.cell("dp").empty())
        assumptions.push_back(fmt::format("dp not stated: {} = gpus / (tp x pp x cp)", p.dp));
    p.vp = count_in(row, "vp", 1);
    if (!states(row, "vp") && p.pp > 1) {
        p.vp = chunks_unstated(row, f, w, p);
        assumptions.push_back(fmt::format("vp not stated: {}", p.vp));
    }
    if (p.pp == 1 && p.vp > 1) {
        assumptions.push_back(fmt::format("vp {} without pipeline stages: 1", p.vp));
        p.vp = 1;
    }
    p.sequence_parallel = is_on(row, "sp") && p.tp > 1;
    if (states(row, "sp") || p.tp == 1) return;
    p.sequence_parallel = w.moe.experts > 0 && !f.can.experts_without_sequence;
    assumptions.push_back(p.sequence_parallel ? "sp not stated: on, " + f.name +
                                                    " runs experts over tp no other way"
                                              : "sp not stated: off");
}

void set_zero(const CaseRow& row, int node, Parallelism& p, Assumptions& assumptions) {
    const auto& stage = row.cell("zero");
    if (stage.empty()) return;     // choose_zero()
    p.zero = stage.front() - '0';  // forget_unread_words()
    if (p.zero != 3 || !states(row, "shard")) return;
    p.shard = row.cell("shard") == "node" ? node : *count_in(row, "shard");
    if (p.shard >= ranks_of_weights(p)) p.shard = 0;
    if (p.shard > 0)
        assumptions.push_back(
            fmt::format("zero 3 within {} ranks, replicated over the others", p.shard));
}

// A step that ran fits.
void choose_zero(const CaseRow& row, const Experiment& e, Parallelism& p,
                 Assumptions& assumptions) {
    if (!row.cell("zero").empty()) return;
    Experiment chosen = e;
    chosen.parallelism = p;
    if (ranks_of_weights(p) == 1 || e.framework.can.zero.empty()) {
        assumptions.emplace_back("zero not stated: 0");
        return;
    }
    const std::optional<int> least = fitting_zero(chosen);
    p.zero = least.value_or(e.framework.can.zero.back());
    assumptions.push_back(fmt::format(
        "zero not stated: {}, {}", p.zero,
        least ? "the least that fits" : "the framework's most, as by the forecast none fits"));
}

// Tables write 3 for FSDP. Where a framework can leave weights gathered (zero 2), it does so by
// default in a pipeline, so that micro-batches need not gather them again: torchtitan 0.2.0
// (models/llama3/infra/parallelize.py: "default" is reshard_after_forward = not pp_enabled) and
// NeMo AutoModel 0.2.0 (a stage's layers are a ModuleDict, of which
// apply_fsdp2_sharding_recursively wraps none, so the chunk is one unit with
// reshard_after_forward = False). In both a backward reshards nothing before the last one.
void keep_gathered(const CaseRow& row, const Framework& f, Parallelism& p,
                   Assumptions& assumptions) {
    if (p.zero != 3 || p.pp == 1 || p.shard > 0 || std::ranges::count(f.can.zero, 2) == 0 ||
        has(lower_case(row.cell("notes")), "reshard after forward"))
        return;
    p.zero = 2;
    assumptions.push_back("FSDP in a pipeline keeps weights gathered after a forward: zero 2");
}

// What Megatron-Core's words name ([[module]] of table_words.toml): the modules that run again, and
// how many of them the host calls for little work.
struct NamedModules {
    std::vector<RecomputedModule> again;
    double calls = 0;
};

// Empty if the text has any other word.
std::optional<NamedModules> named_modules(const std::string& stated, Shelf& shelf) {
    const std::string text = lower_case(stated.substr(0, stated.find('(')));
    NamedModules named;
    for (const std::string& word : words_of(text, ", +;")) {
        const auto& modules = shelf.sources("module");
        const auto found = std::ranges::find_if(
            modules, [&](const SourceRow& module) { return module.at("name") == word; });
        if (found == modules.end()) return std::nullopt;
        if (const std::string& runs = found->at("runs"); !runs.empty())
            named.again.push_back(parse_name<RecomputedModule>(runs));
        if (!found->at("calls").empty()) named.calls += std::stoi(found->at("calls"));
    }
    return named;
}

void choose_recompute(Experiment& e, double room, Assumptions& assumptions) {
    const ChosenRecompute least = fitting_recompute(e, room);
    Parallelism& p = e.parallelism;
    p.recompute = least.kind;
    p.recompute_layers = least.layers;
    const auto layers =
        least.layers > 0 ? fmt::format(" of {} layers a stage", least.layers) : std::string();
    assumptions.push_back(fmt::format("recompute not stated: {}{}, the least that fits",
                                      to_string(least.kind), layers));
}

// True of frameworks whose selective recompute chooses among operators (torchtitan): none
// recomputes the scores alone.
bool selects_by_operator(const Framework& f) {
    const auto& modes = f.can.recompute;
    return contains(modes, Recompute::alternate) && !contains(modes, Recompute::selective);
}

void set_recompute(const CaseRow& row, Experiment& e, double room, Shelf& shelf,
                   Assumptions& assumptions) {
    const Framework& f = e.framework;
    Parallelism& p = e.parallelism;
    const auto& stated = row.cell("recompute");
    if (stated == "some") return choose_recompute(e, 1, assumptions);
    if (stated.empty()) {
        if (!f.unstated.recompute) return choose_recompute(e, room, assumptions);
        p.recompute = *f.unstated.recompute;
        assumptions.push_back(
            fmt::format("recompute not stated: {}, the framework's", to_string(p.recompute)));
        return;
    }
    const auto& kinds = name_list<Recompute>;
    if (const auto kind = std::ranges::find(kinds, stated); kind != kinds.end()) {
        p.recompute = static_cast<Recompute>(kind - kinds.begin());
        const int of_stage = std::max(1, e.workload.layers / p.pp);
        if (row.cell("recompute_layers") == "half")
            p.recompute_layers = std::max(1, of_stage / 2);
        else if (const int layers = count_in(row, "recompute_layers", 0); layers < of_stage)
            p.recompute_layers = layers;  // 0: all
        if (p.recompute != Recompute::selective || !selects_by_operator(f)) return;
        p.recompute = Recompute::alternate;
        assumptions.push_back(fmt::format("recompute {}: every second matrix product of each layer",
                                          row.cell("stated_recompute")));
        return;
    }
    const NamedModules named = named_modules(stated, shelf).value();  // forget_unread_words()
    p.recompute_modules = modules_of(e.workload, named.again);
    p.recompute = p.recompute_modules.empty() ? Recompute::none : Recompute::selective;
}

// Assigns layers to stages by matrix products: a stage takes layers until its share
// of all matrix products is reached (a layer counts 4 h^2 + 3 h ffn, the logits h x vocabulary). A
// share that is reached exactly counts as full: for 16 such layers and logits worth four layers,
// measured stage times match 10 and 6, and 5, 5, 5 and 1. Only the last stage may have no layer
// (logits alone).
std::vector<int> balanced_stages(const Workload& w, int stages) {
    const double layer = 4.0 * w.hidden * w.hidden + (w.gated ? 3.0 : 2.0) * w.hidden * w.ffn;
    const double whole = w.layers * layer + real(w.hidden) * w.vocab;
    std::vector<int> layers(as_index(stages), 0);
    std::size_t stage = 0;
    for (int l = 1; l <= w.layers; ++l) {
        ++layers[stage];
        const bool full = l * layer >= whole * real(stage + 1) / stages;
        // leaves one layer for each later stage except the last
        const bool needed = w.layers - l <= stages - as_int(stage) - 2;
        if ((full || needed) && stage + 1 < layers.size()) ++stage;
    }
    return layers;
}

// If the layers do not divide over the chunks but two more would, the first and last chunk hold one
// layer less, beside embedding and logits (Megatron-Core, account_for_embedding_in_pipeline_split).
void set_stage_layers(const Workload& w, const Framework& f, Parallelism& p,
                      Assumptions& assumptions) {
    if (f.unstated.balanced_stages && p.pp > 1 && p.vp == 1 && p.pp <= w.layers) {
        p.stage_layers = balanced_stages(w, p.pp);
        assumptions.push_back(
            fmt::format("stages of {} layers, balanced by matrix products with the logits",
                        joined(p.stage_layers, ", ")));
        return;
    }
    const int chunks = p.pp * p.vp;
    if (p.pp == 1 || w.layers % chunks == 0 || (w.layers + 2) % chunks != 0) return;
    p.stage_layers = light_layers(w.layers, chunks, 1, 1);
    assumptions.push_back(
        fmt::format("layers of the first and last stage chunk: {} of {}, with embedding and logits",
                    p.stage_layers.front(), p.stage_layers.front() + 1));
}

// "expert tensor parallel 4" and "expert tensor parallel = tp" in the notes. 1 leaves experts
// whole.
void state_expert_split(const CaseRow& row, Experiment& e, Assumptions& assumptions) {
    const int tp = e.parallelism.tp;
    const auto text = lower_case(row.cell("notes"));
    const std::string words = "expert tensor parallel ";
    if (!has(text, words)) return;
    const auto ranks = number_after(text, words);
    if (has(text, words + "= tp") || has(text, words + "not set (= tp)") ||
        (ranks && *ranks == tp && tp > 1)) {
        set_key(e, {"runtime.experts.tensor_parallel", "all"});
        if (!e.workload.linear_bias || e.framework.can.experts_without_sequence) return;
        e.workload.linear_bias = false;
        assumptions.emplace_back("experts split over tp, as stated: without biases");
    } else if (ranks && *ranks == 1)
        set_key(e, {"runtime.experts.tensor_parallel", "none"});
    else
        assumptions.push_back(fmt::format(
            "\"{}..\" is read as the framework's: experts are split over all tp = {} or whole",
            text.substr(text.find(words), words.size() + 4), tp));
}

// The framework's settings, and the dispatch kernels that the row names.
void set_framework(const CaseRow& row, Experiment& e, Assumptions& assumptions) {
    apply_framework(e);
    Parallelism& p = e.parallelism;
    TokenDispatch& dispatch = e.runtime.experts.dispatch;
    const Workload& w = e.workload;
    if (w.moe.experts == 0) return;
    state_expert_split(row, e, assumptions);
    if (p.tp > 1 && !splits_experts(e))
        assumptions.emplace_back(expert_ffn(w) < w.hidden
                                     ? "experts narrower than the model: not split over tp"
                                     : "experts whole, the framework's: not split over tp");
    if (p.ep == 1) return;
    p.overlap_experts = lower_case(row.cell("overlap_experts")) == "true";
    if (states(row, "dispatch")) {
        const auto& word = row.cell("dispatch");
        if (word != "all-to-all" && word != "once")
            throw ConfigError("dispatch: \"" + word + "\" is neither all-to-all nor once");
        dispatch = word == "once" ? TokenDispatch::once : TokenDispatch::all_to_all;
        return;
    }
    const bool named = states(row, "dispatcher");
    if (sends_once(e) && !named)
        assumptions.emplace_back(
            "dispatch not stated: each token once to a rank and a node, as DeepEP's kernels");
    if (named) dispatch = TokenDispatch::once;
}

// With pipeline stages, larger micro-batches make larger kernels but fewer of them, so the bubble
// grows: the default there is 1, but for software that cut a batch by its stages.
void set_micro_batch(const CaseRow& row, const Experiment& experiment, Shelf& shelf, Parallelism& p,
                     Assumptions& assumptions) {
    if (const auto stated = count_in(row, "mbs")) {
        p.micro_batch = *stated;
    } else if (p.pp > 1 && p.global_batch % (p.dp * p.pp) == 0 && shelf.batches_as_stages(row)) {
        p.micro_batch = p.global_batch / (p.dp * p.pp);
        assumptions.push_back(
            fmt::format("mbs not stated: {}, as many micro-batches as stages", p.micro_batch));
    } else if (p.pp > 1) {
        p.micro_batch = 1;
        assumptions.push_back("mbs not stated: 1, with pipeline stages");
    } else {
        Experiment e = experiment;
        e.parallelism = p;
        p.micro_batch = fitting_micro_batch(e);
        assumptions.push_back(
            fmt::format("mbs not stated: {}, the largest that fits", p.micro_batch));
    }
}

}  // namespace

void forget_unread_words(CaseRow& row, Shelf& shelf, std::vector<std::string>& assumptions) {
    const auto forget = [&](const char* column, std::string_view expected) {
        assumptions.push_back(
            fmt::format("{}: \"{}\" is not understood (expected {}): taken as not stated", column,
                        row.cell(column), expected));
        row.cells[column].clear();
    };
    const auto unread = [&](const char* column, const auto& is_read) {
        return states(row, column) && !is_read(row.cell(column));
    };
    if (unread("zero", [](const std::string& z) { return z.size() == 1 && z >= "0" && z <= "3"; }))
        forget("zero", "0, 1, 2 or 3");
    if (unread("sp", [](const std::string& sp) { return sp == "on" || sp == "off"; }))
        forget("sp", "on or off");
    if (unread("recompute", [&](const std::string& words) {
            return words == "some" || contains(name_list<Recompute>, words) ||
                   named_modules(words, shelf);
        }))
        forget("recompute", "none, selective, full or modules of Megatron-Core");
}

double calls_again(const CaseRow& row, Shelf& shelf) {
    if (const auto calls = count_in(row, "calls_again")) return *calls;
    const auto named = named_modules(row.cell("recompute"), shelf);
    return named ? named->calls : 0;
}

std::vector<Reading> readings_of_row(const CaseRow& row, const Experiment& e, double room) {
    const Parallelism& p = e.parallelism;
    std::vector<Reading> readings;
    if (!states(row, "recompute") && !e.framework.unstated.recompute) {
        // Memory decides, so the alternatives assume that the memory forecast is 17 % too low or
        // too high.
        const double more = room * 1.17, less = room / 1.17;
        std::vector<ChosenRecompute> seen{{p.recompute, p.recompute_layers}};
        for (const double other_room : {more, less}) {
            const ChosenRecompute other = fitting_recompute(e, other_room);
            if (contains(seen, other)) continue;
            seen.push_back(other);
            readings.push_back({fmt::format("recompute {} of {} layers a stage",
                                            to_string(other.kind), other.layers),
                                {{"parallelism.recompute_layers", "0"},
                                 {"parallelism.recompute", std::string(to_string(other.kind))},
                                 {"parallelism.recompute_layers", std::to_string(other.layers)}}});
        }
    }
    if (!states(row, "vp") && p.pp > 1 && p.vp > 1 && p.stage_layers.empty())
        readings.push_back({"one chunk a stage", {{"parallelism.vp", "1"}}});
    for (const std::string& line : e.framework.unstated.switches) {
        const std::vector<Override> keys = at_place("framework.unstated.switches", [&] {
            std::vector<Override> found;
            for (const auto part : std::views::split(line, std::string_view(", ")))
                found.push_back(parse_override({part.begin(), part.end()}));
            return found;
        });
        const std::string& key = keys.front().key;
        const bool idle = key.starts_with("runtime.experts.") && e.workload.moe.experts == 0;
        if (!idle && !is_stated(e, key)) readings.push_back({line, keys});
    }
    return readings;
}

void set_split(const CaseRow& row, const RowDevices& devices, Experiment& experiment, Shelf& shelf,
               std::vector<std::string>& assumptions) {
    const Framework framework = experiment.framework;
    Parallelism& p = experiment.parallelism;
    set_degrees(row, devices.ranks, experiment, assumptions);
    set_zero(row, experiment.cluster.gpus_per_node, p, assumptions);
    keep_gathered(row, framework, p, assumptions);
    set_framework(row, experiment, assumptions);
    const auto batch = count_in(row, "gbs");
    if (!batch) throw ConfigError("gbs: missing; expected the sequences of a step");
    p.global_batch = *batch;
    const bool recompute_stated = states(row, "recompute") && row.cell("recompute") != "some";
    if (recompute_stated) set_recompute(row, experiment, devices.room, shelf, assumptions);
    set_micro_batch(row, experiment, shelf, p, assumptions);
    set_stage_layers(experiment.workload, framework, p, assumptions);
    choose_zero(row, experiment, p, assumptions);
    if (!recompute_stated) set_recompute(row, experiment, devices.room, shelf, assumptions);
}

}  // namespace stepcast
