#include "import/tables/transformer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "import/tables/case_of.h"
#include "import/tables/cluster.h"
#include "import/tables/row_parts.h"
#include "import/tables/split.h"
#include "import/tables/stated_value.h"
#include "import/tables/unstated_batch.h"
#include "measured/read.h"
#include "model/base/characters.h"
#include "model/base/csv.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/input/check_experiment.h"
#include "model/input/presets.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

using Assumptions = std::vector<std::string>;

std::optional<double> number_in(const CaseRow& row, const std::string& column) {
    if (!states(row, column)) return std::nullopt;
    return at_place(column, [&] { return csv_number(row.cell(column)); });
}

// The sizes that a model's name stands for, and what states them.
struct KnownSizes {
    Workload sizes;  // 0: not stated
    std::string stated_by;
};

// Whether `name` is the model of a [[size]], perhaps with more words: "internlm-7b-chat", but not
// "starcoderbase" for "starcoder", nor a model of another size ("starcoder-7b").
bool is_model(std::string_view name, const SourceRow& size) {
    const std::string& model = size.at("model");
    if (!name.starts_with(model)) return false;
    const std::string_view rest = name.substr(model.size());
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    if (rest.empty() || size.at("layers").empty()) return true;
    const auto billions = rest.find("b", 1);
    return rest.front() == '-' && (billions == rest.npos || !digit(rest[billions - 1]));
}

// "deepseek-v2-lite" of "deepseek-v2-lite-16b-chat", but not of "deepseek-v2-lite-v3" or another
// preset with more of the name; "" if none.
std::string workload_preset(const std::string& model) {
    std::string longest;
    for (const std::string& name : preset_names(PresetKind::workload)) {
        if (!model.starts_with(name) || name.size() <= longest.size()) continue;
        const std::string rest = model.substr(name.size());
        const bool more = rest.empty() || rest.starts_with("-chat") || rest.starts_with("-base") ||
                          rest.starts_with("-instruct") ||
                          (rest.front() == '-' && rest.ends_with('b') && is_digit(rest[1]));
        if (more) longest = name;
    }
    return longest;
}

// The workload preset of the model's name, else the longest [[size]] of
// model/presets/sources.toml that is this model.
KnownSizes known_sizes(const CaseRow& row, Shelf& shelf) {
    Workload sizes;
    sizes.layers = sizes.hidden = sizes.heads = sizes.seq = sizes.ffn = sizes.vocab = 0;
    auto name = lower_case(row.cell("model"));
    std::replace(name.begin(), name.end(), '_', '-');
    if (const std::string preset = workload_preset(name); !preset.empty()) {
        Experiment e;
        set_key(e, {"workload.preset", preset});
        e.workload.name = name;
        return {e.workload, "preset " + preset};
    }
    const SourceRow* found = nullptr;
    for (const SourceRow& size : shelf.sources("size"))
        if (is_model(name, size) && (!found || size.at("model").size() > found->at("model").size()))
            found = &size;
    if (!found) return {sizes, ""};
    for (const auto& [column, field] :
         {std::pair("layers", &sizes.layers), std::pair("hidden", &sizes.hidden),
          std::pair("heads", &sizes.heads), std::pair("kv_heads", &sizes.kv_heads),
          std::pair("ffn", &sizes.ffn), std::pair("vocab", &sizes.vocab)})
        if (!found->at(column).empty()) *field = std::stoi(found->at(column));
    const std::string& source = found->at("source");
    return {sizes, fmt::format("{} by {}", found->at("model"),
                               source.empty() ? "memory, unchecked" : source)};
}

int size_of(const CaseRow& row, const std::string& column, int known, const std::string& stated_by,
            Assumptions& assumptions) {
    if (const auto stated = count_in(row, column)) return *stated;
    if (known <= 0) throw ConfigError(column + ": missing; expected a count");
    assumptions.push_back(fmt::format("{} not stated: {} of {}", column, known, stated_by));
    return known;
}

// How many heads of a width near the usual one the hidden width has, so many for each of tp ranks:
// 64 in models narrower than 2,048 (BERT, GPT-2), 128 in others, as in most published families. 0:
// none.
int usual_heads(int hidden, int tp) {
    const double usual = hidden < 2048 ? 64 : 128;
    const auto off = [&](int heads) { return std::abs(std::log(hidden / (usual * heads))); };
    int best = 0;
    for (int heads = tp; heads <= hidden; heads += tp)
        if (hidden % heads == 0 && (best == 0 || off(heads) < off(best))) best = heads;
    return best;
}

// Nothing follows from the width of families whose heads together are not as wide as the model.
int heads_of(const CaseRow& row, const Workload& sized, const KnownSizes& known,
             Assumptions& assumptions) {
    const bool asked = states(row, "heads") || known.sizes.heads > 0 || sized.head_dim > 0;
    const int heads = asked ? 0 : usual_heads(sized.hidden, count_in(row, "tp", 1));
    if (heads == 0) return size_of(row, "heads", known.sizes.heads, known.stated_by, assumptions);
    assumptions.push_back(
        fmt::format("heads not stated: {}, each {} wide", heads, sized.hidden / heads));
    return heads;
}

// The column is the width of one expert where the family also has dense layers of another width.
int ffn_of(const CaseRow& row, const Workload& family, const KnownSizes& known,
           Assumptions& assumptions) {
    const int of_model = family.ffn > 0 ? known.sizes.moe.ffn : known.sizes.ffn;
    if (family.ffn > 0 && of_model == 0 && row.cell("ffn").empty())
        throw ConfigError("ffn: missing; expected the width of one expert");
    return size_of(row, "ffn", of_model, known.stated_by, assumptions);
}

Dtype dtype_of(const CaseRow& row, Assumptions& assumptions) {
    if (states(row, "precision")) return dtype_in(row);
    const auto usual = states(row, "usual_precision")
                           ? parse_name<Dtype>(row.cell("usual_precision"))
                           : Dtype::bf16;
    assumptions.push_back("precision not stated: " + std::string(to_string(usual)));
    return usual;
}

int top_k_of(const CaseRow& row, int experts, const Moe& preset, const Moe& of_name,
             Assumptions& assumptions) {
    if (const auto stated = count_in(row, "topk")) return *stated;
    if (preset.experts == 0 && of_name.experts == 0)
        throw ConfigError(fmt::format("topk: missing, but there are {} experts", experts));
    const int top_k = preset.experts > 0 ? preset.top_k : of_name.top_k;
    assumptions.push_back(fmt::format("topk not stated: {} of the model's name", top_k));
    return top_k;
}

void set_experts(const CaseRow& row, int ffn, const Moe& preset, Workload& w,
                 Assumptions& assumptions) {
    const auto experts = count_in(row, "experts");
    const auto known = preset.experts > 0 && !experts ? std::optional(preset.experts) : experts;
    if (!known) {
        if (w.ffn > 0) throw ConfigError("experts: missing; the model has expert layers");
        w.ffn = ffn;
        return;
    }
    w.moe.top_k = top_k_of(row, *known, preset, w.moe, assumptions);
    w.moe.experts = *known;
    if (w.ffn == 0)
        w.ffn = ffn;
    else if (w.moe.ffn == 0)  // otherwise the family states both widths
        w.moe.ffn = ffn;
    w.moe.dense_layers = count_in(row, "dense_layers", w.moe.dense_layers);
    if (w.moe.ffn == 0 && states(row, "dense_ffn")) w.moe.ffn = ffn;
    w.ffn = count_in(row, "dense_ffn", w.ffn);
    w.moe.shared_ffn = count_in(row, "shared_ffn", w.moe.shared_ffn);
    w.moe.interval = count_in(row, "moe_interval", w.moe.interval);
    if (shared_ffn(w) == 0) w.moe.shared_experts = count_in(row, "shared_experts", 0);
}

// Of families whose heads' width follows from the model's. GPT's with learned positions have no
// other, so that a width in a row's notes is of another model ("2.7B uses head dim 128").
void read_head_width(const CaseRow& row, Workload& w, Assumptions& assumptions) {
    const auto stated = count_in(row, "head_dim");
    if (!stated || w.head_dim > 0 || *stated * w.heads == w.hidden) return;
    if (w.positions == Positions::learned) return;
    w.head_dim = *stated;
    assumptions.push_back(fmt::format("heads {} wide, as stated", w.head_dim));
}

// Rows may state the parameter count. If learned positions and biases do not give that count, the
// model may instead use attention biases (ALiBi) or layers without biases (arXiv 2108.12409; MPT's
// model card).
void match_stated_parameters(const CaseRow& row, Workload& w, Assumptions& assumptions) {
    const auto stated = number_in(row, "parameters");
    if (!stated || count_parameters(w).total() == *stated) return;
    for (const auto positions : {Positions::learned, Positions::none})
        for (const bool biases : {true, false}) {
            Workload other = w;
            other.positions = positions;
            other.linear_bias = other.qkv_bias = biases;
            // one weight per element, like a layernorm without biases
            if (!biases) other.norm = Norm::rmsnorm;
            if (count_parameters(other).total() != *stated) continue;
            assumptions.push_back(fmt::format("parameters as stated: positions {}, {} biases",
                                              to_string(positions), biases ? "with" : "no"));
            w = other;
            return;
        }
    assumptions.push_back(fmt::format("parameters stated: {:.0f}, counted {:.0f}", *stated,
                                      count_parameters(w).total()));
}

// The trainer gathers the masked positions and makes the logits of these alone, as the model's own
// code does. Megatron (megatron-core 0.16.1, bert_model.py) and Transformers (4.57,
// modeling_bert.py) make the logits of all, so software with a name keeps its own unless the row
// counts them.
void read_masked_positions(const CaseRow& row, const Framework& framework, double usual,
                           Workload& w, Assumptions& assumptions) {
    if (w.causal) return;
    const auto masked = number_in(row, "masked");
    if (masked && *masked < w.seq) {
        w.head_share = *masked / w.seq;
        assumptions.push_back(fmt::format(
            "logits of the {:.0f} masked positions of {} alone, as stated", *masked, w.seq));
    } else if (!masked && usual > 0 && framework.name == default_framework) {
        w.head_share = usual;
        assumptions.push_back(
            fmt::format("logits of the masked {:.0f} % alone, as the model's own code makes them",
                        100 * usual));
    }
}

bool is_of_word(char c) { return is_letter_or_digit(c) || c == '-'; }

// True if `word` is a whole word of the text: "b200" does not match "gb200".
bool has_word(const std::string& text, const std::string& word) {
    const auto part_of_one = [&](std::size_t i) { return i < text.size() && is_of_word(text[i]); };
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        if ((at == 0 || !part_of_one(at - 1)) && !part_of_one(at + word.size())) return true;
    return false;
}

// The workload with the framework's settings applied.
Workload adopted(const Workload& workload, const Framework& framework, const Overlay& overlay) {
    Experiment e;
    e.overlay = overlay;
    e.workload = workload;
    e.framework = framework;
    apply_framework(e);
    return e.workload;
}

bool has_sizes(const CaseRow& row) {
    return std::ranges::all_of(std::array{"layers", "hidden", "ffn", "vocab"},
                               [&](const char* column) { return states(row, column); });
}

// A decoder whose name nobody knows is of the shape that its sizes have: two matrices of four times
// the width are GPT's; other widths, grouped heads and experts came with the gated feed-forward
// (ModelFamily::unnamed).
const ModelFamily& family_of_row(const CaseRow& row, Shelf& shelf, std::string& known_as) {
    const auto& families = shelf.families();
    const auto& model = row.cell("model");
    if (knows_family(model, families) || !has_sizes(row))
        return family_of(model, families, &known_as);
    const bool gated =
        states(row, "experts") || count_in(row, "ffn") != 4 * *count_in(row, "hidden") ||
        (states(row, "kv_heads") && count_in(row, "kv_heads") != count_in(row, "heads"));
    const auto* wanted = gated ? "gated" : "two-matrix";
    const auto found = std::ranges::find(families, wanted, &ModelFamily::unnamed);
    if (found == families.end()) return family_of(model, families, &known_as);
    known_as = fmt::format("not known by name; a decoder of the stated sizes: {}", found->about);
    return *found;
}

// The sizes that the row states, else those that the model's name stands for.
void read_sizes(const CaseRow& row, const ModelFamily& family, const KnownSizes& known, Workload& w,
                Assumptions& assumptions) {
    const Workload& preset = known.sizes;
    const auto size = [&](const std::string& column, int of_model) {
        return size_of(row, column, of_model, known.stated_by, assumptions);
    };
    w.layers = size("layers", preset.layers);
    if (states(row, "layers") && family.blocks_a_layer > 1)
        w.layers = std::max(1, as_int(std::lround(w.layers / family.blocks_a_layer)));
    w.hidden = size("hidden", preset.hidden);
    w.heads = heads_of(row, w, known, assumptions);
    read_head_width(row, w, assumptions);
    w.kv_heads = count_in(row, "kv_heads", preset.hidden == w.hidden ? preset.kv_heads : 0);
    if (w.vocab == 0) w.vocab = size("vocab", preset.vocab);
    w.seq = size("seq", preset.seq);
    set_experts(row, ffn_of(row, w, known, assumptions), preset.moe, w, assumptions);
    if (w.head_dim == 0 && w.hidden % w.heads != 0)
        throw ConfigError(
            fmt::format("heads: {} do not divide the hidden width {}", w.heads, w.hidden));
}

void read_tied(const CaseRow& row, Workload& w, Assumptions& assumptions) {
    const bool tied = row.cell("tied") == "yes";
    if (!states(row, "tied") || tied == w.tied) return;
    w.tied = tied;
    assumptions.emplace_back(tied ? "embedding and logits share their weights, as stated"
                                  : "untied, as stated");
}

// Trainers that batch sequences of like length run sequences of the mean length.
void read_mean_sequence(const Framework& framework, Workload& w, Assumptions& assumptions) {
    const int mean = framework.unstated.mean_sequence;
    if (mean <= 0 || w.seq <= mean) return;
    assumptions.push_back(fmt::format(
        "sequences of up to {} tokens: {} in the mean, batches hold those of like length", w.seq,
        mean));
    w.seq = mean;
}

Workload workload_of(const CaseRow& row, const Framework& framework, const Overlay& overlay,
                     Shelf& shelf, Assumptions& assumptions) {
    std::string known_as;
    const ModelFamily& family = family_of_row(row, shelf, known_as);
    Workload w = family.architecture;
    assumptions.push_back("model family " + known_as);
    w.name = row.cell("model");
    read_sizes(row, family, known_sizes(row, shelf), w, assumptions);
    w.dtype = dtype_of(row, assumptions);
    w.optimizer =
        states(row, "optimizer") ? parse_name<Optimizer>(row.cell("optimizer")) : Optimizer::adam;
    w = adopted(w, framework, overlay);
    read_tied(row, w, assumptions);
    read_mean_sequence(framework, w, assumptions);
    read_masked_positions(row, framework, family.masked, w, assumptions);
    if (w.positions == Positions::relative) w.memory = w.seq;
    if (w.moe.experts > 0) w.moe.capacity_factor = number_in(row, "capacity_factor").value_or(0);
    if (w.moe.capacity_factor > 0)
        assumptions.push_back(
            fmt::format("tokens beyond a capacity of {} are dropped", w.moe.capacity_factor));
    match_stated_parameters(row, w, assumptions);
    return w;
}

// CUDA graphs around the experts take the calls of router and dispatch off the host.
void set_graphs(const CaseRow& row, Experiment& e, Assumptions& assumptions) {
    constexpr const char* key = "cluster.host.expert_layer";
    const bool by_framework = std::ranges::count(e.overlay.under, key, &Override::key) > 0;
    if (e.workload.moe.experts == 0 || (e.cluster.host.expert_layer == Seconds(0) && !by_framework))
        return;
    if (states(row, "graphs"))
        set_key(e, {key, "0 s"});
    else if (e.cluster.host.expert_layer == Seconds(0))
        assumptions.emplace_back(
            "CUDA graphs not stated: of router and dispatch, the recipe's on this device");
}

int ranks_of(const CaseRow& row, Assumptions& assumptions) {
    if (const auto gpus = count_in(row, "gpus")) return *gpus;
    const auto of = [&](const char* column) { return static_cast<long>(count_in(row, column, 1)); };
    const auto product = of("tp") * of("pp") * of("dp") * of("cp");
    assumptions.push_back(
        fmt::format("gpus not stated: {}, the product of the parallel degrees", product));
    return as_int(product);
}

void set_routing(const CaseRow& row, Experiment& e, Assumptions& assumptions) {
    if (e.workload.moe.experts == 0) return;
    if (row.cell("routing").empty()) {
        // benchmarks balance their experts
        e.routing.kind = RoutingSpec::Kind::uniform;
        e.overlay.stated.emplace_back("routing.kind");
        assumptions.push_back("routing not stated: uniform");
    } else {
        e.routing.kind = parse_name<RoutingSpec::Kind>(row.cell("routing"));
    }
}

// A module under its own checkpoint is called by the host once more in the backward pass, and its
// random state is saved and restored around both calls.
void set_calls_again(const CaseRow& row, Experiment& e, Shelf& shelf, Assumptions& assumptions) {
    const double modules = calls_again(row, shelf);
    if (modules == 0) return;
    // half in each of the two passes
    e.cluster.host.layer += modules / 2 * e.cluster.host.module_backward;
    e.overlay.stated.emplace_back("cluster.host.layer");
    assumptions.push_back(fmt::format(
        "{:.0f} modules of a layer computed again by themselves: {:.1f} ms of the host each",
        modules, 1e3 * e.cluster.host.module_backward.si()));
}

// Fills cells that the recipe of a published row states but its table does not
// (model/presets/sources.toml).
CaseRow completed(const CaseRow& stated, Shelf& shelf, Assumptions& assumptions) {
    CaseRow row = stated;
    const auto cell = [&](const char* column) { return lower_case(row.cell(column)); };
    for (const SourceRow& recipe : shelf.sources("recipe")) {
        if (!cell("source").starts_with(recipe.at("source")) ||
            !cell("model").starts_with(recipe.at("model")) ||
            !(recipe.at("device").empty() || has_word(cell("gpu"), recipe.at("device"))) ||
            (!recipe.at("precision").empty() &&
             !has_word(recipe.at("precision"), cell("stated_precision"))) ||
            row.cell("container") < recipe.at("since"))  // versions compare as text
            continue;
        for (const char* column : {"recompute", "dispatch", "overlap_experts"})
            if (!recipe.at(column).empty() && !states(row, column)) {
                row.cells[column] = recipe.at(column);
                assumptions.push_back(
                    fmt::format("{} not stated: {}, the recipe's", column, recipe.at(column)));
            }
    }
    complete_batch(row, assumptions);
    forget_unread_words(row, shelf, assumptions);
    return row;
}

// A row without `ref` is the user's own.
Circumstances circumstances_of(const CaseRow& row, Shelf& shelf) {
    const auto source = lower_case(row.cell("source"));
    Circumstances c;
    c.network_stated = states(row, "network") && row.cell("network") != "unstated";
    c.software_named = shelf.names_software(row);
    c.evidence = row.cell("evidence") != "no";
    const auto is_source = [&](const char* of) {
        return std::ranges::any_of(shelf.sources(of),
                                   [&](const auto& s) { return source == s.at("source"); });
    };
    if (states(row, "issue"))
        c.by = row.cell("by") == "complaint" ? RunBy::complaint : RunBy::thread;
    else if (is_source("measured"))
        c.by = RunBy::recipe;
    else if (!row.cell("ref").empty())
        c.by = is_source("met") ? RunBy::anyone : RunBy::stranger;
    return c;
}

// Plain attention is the workload's, whatever software ran it. A flash kernel is news only of
// software that comes without one; which one other software has its own file says.
void set_attention(const CaseRow& row, Experiment& e, Assumptions& said) {
    if (!states(row, "attention")) return;
    constexpr std::string_view key = "runtime.attention";
    const std::string& stated = row.cell("attention");
    const std::string_view plain = to_string(AttentionKind::plain);
    if (stated == plain) return set_key(e, {"workload.attention", stated});
    const std::string* const usual = ruled_value(e.framework, key);
    if (!usual || *usual != plain) return;
    set_rule(e.framework, std::string(key), stated);
    said.emplace_back("flash attention, as the notes say");
}

// Adapters beside frozen weights (LoRA, PEFT) train on packed sequences. Fine-tuning of all weights
// counts as pretraining on them.
void set_other_work(const CaseRow& row, Workload& w, Assumptions& assumptions) {
    constexpr int usual_rank = 16;  // of MLPerf's benchmark; NeMo's default rank costs the same
    const auto& work = row.cell("work");
    if (work == "adapters") {
        w.adapter_rank = count_in(row, "adapter_rank", usual_rank);
        if (states(row, "adapter_on")) w.adapter_on = parse_name<Adapted>(row.cell("adapter_on"));
        if (states(row, "frozen")) w.frozen = parse_name<FrozenWeights>(row.cell("frozen"));
        const auto* where =
            w.adapter_on == Adapted::linear ? "all linear layers" : "the attention's";
        assumptions.push_back(fmt::format(
            "LoRA: weights frozen{}, adapters of rank {} next to {}, packed sequences",
            w.frozen == FrozenWeights::stored ? "" : fmt::format(" ({})", to_string(w.frozen)),
            w.adapter_rank, where));
    } else if (!work.empty()) {
        assumptions.emplace_back(
            "fine-tuning of all weights on packed sequences: the work of pretraining");
    }
}

void set_offload(const CaseRow& row, Experiment& e, Assumptions& said) {
    if (!states(row, "offload")) return;
    e.run.offload_optimizer = true;
    said.emplace_back("the optimizer's states and update on the host");
    if (row.cell("offload") != "parameters") return;
    e.run.offload_parameters = e.parallelism.zero == 3 && e.parallelism.pp == 1;
    said.emplace_back(e.run.offload_parameters ? "weights on the host"
                                               : "weights stay on the device: zero is not 3");
}

// Switches that its framework leaves to who runs it.
void set_switches(const CaseRow& row, Experiment& e) {
    constexpr std::pair<const char*, const char*> switches[] = {
        {"experts_one_by_one", "runtime.experts.one_by_one"},
        {"fused_accumulation", "runtime.gradients.fused_accumulation"},
        {"gradient_bucket", "runtime.gradients.bucket"},
        {"overlap_gradients", "runtime.exchanges.gradients"},
        {"overlap_parameters", "runtime.exchanges.parameters"}};
    for (const auto& [cell, key] : switches) {
        if (!states(row, cell)) continue;
        set_key(e, {key, row.cell(cell)});
        if (!is_stated(e, key)) e.overlay.stated.emplace_back(key);
    }
}

// After the framework's rules, which these rows contradict.
void set_optimizer(const CaseRow& row, Experiment& e) {
    e.run.paged_optimizer = states(row, "paged");
    if (states(row, "foreach")) e.runtime.optimizer.fused = false;
    if (!states(row, "states")) return;
    e.runtime.optimizer.master_weights = e.runtime.autocast = e.runtime.wide_weights = false;
    e.runtime.gradients.type = GradientType::training;
}

}  // namespace

Case transformer_case(const CaseRow& table_row, const std::string& named, Shelf& shelf) {
    Case result;
    const CaseRow row = completed(table_row, shelf, result.assumptions);
    name_after(row, result);
    auto& said = result.assumptions;
    Experiment& e = result.experiment;
    e.name = result.case_id;
    std::string why;
    e.framework = shelf.framework_of(row, &why);
    if (states(row, "tied")) e.overlay.stated.emplace_back("workload.tied");
    e.workload = workload_of(row, e.framework, e.overlay, shelf, said);
    set_attention(row, e, said);
    said.push_back("framework " + e.framework.name + ": " + e.framework.about);
    if (!why.empty()) said.push_back(why);
    result.circumstances = circumstances_of(row, shelf);
    e.runtime.row_scales = is_narrow(e.workload.dtype) && states(row, "row_scales");
    set_other_work(row, e.workload, said);
    const int ranks = ranks_of(row, said);
    e.cluster = cluster_of_row(row, ranks, named, shelf, said);
    set_switches(row, e);
    if (states(row, "dispatch")) e.overlay.stated.emplace_back("runtime.experts.dispatch");
    const double room = result.circumstances.by == RunBy::recipe ? recipe_room : 1;
    set_split(row, {ranks, room}, e, shelf, said);
    set_offload(row, e, said);
    set_graphs(row, e, said);
    apply_framework(e);
    set_optimizer(row, e);
    set_calls_again(row, e, shelf, said);
    set_routing(row, e, said);
    e.readings = readings_of_row(row, e, room);
    check_experiment(e);
    take_measured(row, result);
    check_rate(row, e, result.measured_step);
    if (const auto wrong = above_peak(row, e, result.measured_step); !wrong.empty()) {
        said.push_back(wrong);
        result.circumstances.evidence = false;
    }
    take_peak(row, result);
    return result;
}

}  // namespace stepcast
