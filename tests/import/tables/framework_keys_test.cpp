// The law of a framework's keys: for each an experiment exists that it changes. A key without one
// fails here, so that no framework file can state what nothing reads.

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "measured/read.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"
#include "sim/predict.h"
#include "sim/sweep/axes.h"
#include "sim/sweep/sweep.h"
#include "tests/import/tables/transformer_rows.h"

using namespace stepcast;

namespace {

using Overrides = std::vector<Override>;

// A small Llama on two nodes of eight A100 under a framework that decides nothing.
const std::string llama =
    "[workload]\nkind = \"transformer\"\nlayers = 4\nhidden = 1024\nheads = 16\nffn = 4096\nvocab "
    "= 32000\nseq = 1024\ngated = true\n"
    "norm = \"rmsnorm\"\npositions = \"rotary\"\ndtype = \"bf16\"\n"
    "[parallelism]\ntp = 2\npp = 2\ndp = 4\nmicro_batch = 1\nglobal_batch = 32\nsequence_parallel "
    "= true\n"
    "[cluster]\npreset = \"dgx-a100\"\nnodes = 2\n[framework]\npreset = \"native\"\noptimizer = "
    "\"adam\"\n";

const Overrides one_rank_a_replica{{"parallelism.tp", "1"},
                                   {"parallelism.pp", "1"},
                                   {"parallelism.dp", "16"},
                                   {"parallelism.sequence_parallel", "false"}};
// As GPT-2: attention and feed-forward that every style of kernels knows.
const Overrides gpt{
    {"workload.gated", "false"}, {"workload.positions", "learned"}, {"workload.norm", "layernorm"}};
const Overrides zero_1{{"parallelism.zero", "1"}}, zero_3{{"parallelism.zero", "3"}};
const Overrides expert_cells{{"workload.moe.experts", "16"}, {"workload.moe.top_k", "2"},
                             {"workload.moe.ffn", "512"},    {"parallelism.pp", "1"},
                             {"parallelism.dp", "8"},        {"parallelism.ep", "8"}};

Overrides operator+(Overrides a, const Overrides& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

// How a key shows: in the forecast of `llama` or a preset with these keys; in the walk of a sweep;
// in the forecast of a row of a table.
struct Law {
    std::string key, value;
    Overrides with = {};
    std::string preset = {};
};

const std::vector<Law> of_forecasts{
    {"name", "another"},
    {"may_be", "[\"eager\"]"},
    {"attention", "flash"},
    {"can.odd_heads", "false", {{"framework.attention", "flash"}, {"workload.head_dim", "148"}}},
    {"dropout", "0.2"},
    {"tied", "false", gpt},
    {"optimizer", "sgd"},
    {"master_weights", "false"},
    {"clip_scales", "true"},
    {"fused_optimizer", "false"},
    {"gradients", "bf16"},
    {"gradient_copies", "[3, 3, 3, 3]"},
    {"update_copies", "[3, 3, 3, 3]"},
    {"wide_norm", "true", zero_1 + Overrides{{"framework.update_copies", "[3, 3, 3, 3]"}}},
    {"update_calls",
     "[900, 900, 900, 900]",
     {{"framework.update_copies", "[3, 3, 3, 3]"}, {"framework.optimizer_groups_a_layer", "9"}}},
    {"update_waits", "true", {{"cluster.host.read", "9 ms"}}},
    {"frees_gradients", "true"},
    {"bucket_weights", "100e6"},
    {"overlap", "false"},
    {"overlap_params", "false", zero_1},
    {"overlap_tp", "true"},
    {"overlap_p2p", "false"},
    {"overlap_weight_gradient", "false"},
    {"gather_copies", "true"},
    {"fused_projections", "false"},
    {"fused_gate", "true", {{"framework.fused_projections", "false"}}},
    {"fused_accumulation", "false"},
    {"fused_loss", "false"},
    {"eager", "true"},
    {"eager_traffic", "3", {{"framework.eager", "true"}}},
    {"composed", "[\"norms\"]"},
    {"autocast", "true", {{"framework.eager", "true"}}},
    {"shard_rate", "0.2", one_rank_a_replica + zero_3},
    {"unfused", "true", one_rank_a_replica + gpt},
    {"recompute_stops_early", "true", {{"parallelism.recompute", "full"}}},
    {"reads_loss", "true", {{"cluster.host.read", "9 ms"}}},
    {"head_share", "0.25"},
    {"vocab_multiple", "4096"},
    {"optimizer_groups_a_layer", "50", {{"cluster.host.call", "1 ms"}}},
    {"optimizer_calls",
     "90",
     {{"framework.optimizer_groups_a_layer", "9"}, {"cluster.host.call", "1 ms"}}},
    {"expert_graphs", "true",
     expert_cells + Overrides{{"cluster.preset", "b200-x8"},
                              {"cluster.nodes", "2"},
                              {"framework.host.expert_layer", "9 ms"}}},
    {"expert_products", "each", expert_cells},
    {"expert_tensor_parallel", "false", expert_cells},
    {"cuts_narrow_experts", "true",
     expert_cells + Overrides{{"framework.expert_tensor_parallel", "true"}}},
    {"blocking_p2p", "true"},
    {"launch_blocking", "true", {{"framework.host.layer", "3 ms"}}},
    {"dispatch_once", "true", expert_cells + Overrides{{"workload.moe.top_k", "6"}}},
    {"reserved", "1.25",
     one_rank_a_replica + Overrides{{"parallelism.vp", "1"},
                                    {"workload.gated", "true"},
                                    {"runtime.fused_projections", "false"},
                                    {"parallelism.cut", "modules"}}},  // others are replayed
    {"host.call", "2 ms"},
    {"host.layer", "20 ms"},
    {"host.expert_layer", "20 ms", expert_cells},
    {"host.micro_batch", "20 ms"},
    {"host.exchange", "20 ms"},
    {"host.exchange_setup", "20 ms", {}, "bert_fastermoe"},
    {"host.update", "20 ms", {}, "coca_zero1"},
    {"host.module_forward", "20 ms", one_rank_a_replica + zero_3},
    {"host.module_backward", "20 ms", one_rank_a_replica + zero_3},
};

const std::vector<Law> of_sweeps{{"can.tensor", "false"},
                                 {"can.sequence", "false"},
                                 {"can.context", "false"},
                                 {"can.pipeline", "false"},
                                 {"can.interleaved", "false"},
                                 {"can.schedules", "[\"gpipe\"]"},
                                 {"can.layouts", "[\"light_ends\"]"},
                                 {"can.zero", "[0]"},
                                 {"can.pipeline_zero", "[0]"},
                                 {"can.tensor_without_sequence", "false"},
                                 {"can.context_without_shards", "false"},
                                 {"can.recompute", "[\"full\"]"},
                                 {"can.switches", "[\"runtime.exchanges.tensor=never|always\"]"},
                                 {"can.experts_without_sequence", "false", expert_cells}};

// Of rows that leave open what the framework's key decides.
const std::vector<Law> of_rows{
    {"about", "something else"},
    {"recompute", "none", {{"recompute", ""}}},
    {"interleaves", "true", {{"vp", ""}, {"layers", "32"}, {"mbs", "1"}}},
    {"balances_stages",
     "true",
     {{"pp", "8"}, {"dp", "4"}, {"vocab", "200000"}, {"layers", "32"}, {"mbs", "1"}}},
    {"mean_sequence", "700"}};

std::string forecast_of(const std::string& preset, const Overrides& overrides) {
    Overrides all = overrides;
    if (!preset.empty()) all.push_back({"routing.draws", "1"});
    const Experiment e =
        preset.empty() ? read_experiment({"llama", llama}, all) : read_experiment(preset, all);
    const Forecast f = predict(e);
    return fmt::format("{} {} {} {} {}", f.framework, f.step.p50.si(), f.step.p10.si(),
                       f.step.p90.si(), f.memory.peak.si());
}

std::string walk_of(const Overrides& overrides) {
    SweepQuestion question;
    question.experiment = read_unchecked_experiment({"llama", llama}, overrides);
    question.axes = {parse_axis("parallelism=all")};
    question.top = 1;
    const SweepCounts counts = sweep(question, {.threads = 1}).counts;
    return fmt::format("{} of {}", counts.legal, counts.points);
}

std::string row_of(const Overrides& cells, const std::string& key_of_framework) {
    const TestFolder folder;
    const std::string file =
        folder.write("mine.toml", "preset = \"megatron-lm-2021\"\n" + key_of_framework);
    std::vector<std::pair<std::string, std::string>> changed{{"framework", file}};
    for (const Override& one : cells) changed.emplace_back(one.key, one.value);
    const Case c = gpt_case_with(changed);
    std::string text =
        fmt::format("{} {}", predict(c.experiment).step.p50.si(), c.experiment.parallelism.vp);
    for (const std::string& assumption : c.assumptions) text += assumption;
    return text;
}

}  // namespace

TEST_CASE("every key of a framework changes something") {
    std::set<std::string> proven;
    for (const Law& law : of_forecasts) {
        INFO(law.key << " = " << law.value);
        Overrides with = law.with;
        if (!law.preset.empty()) with.push_back({"framework.preset", "native"});
        const std::string key = "framework." + law.key;
        CHECK(forecast_of(law.preset, with) !=
              forecast_of(law.preset, with + Overrides{{key, law.value}}));
        proven.insert(key);
    }
    for (const Law& law : of_sweeps) {
        INFO(law.key);
        CHECK(walk_of(law.with + Overrides{{"framework." + law.key, law.value}}) !=
              walk_of(law.with));
        proven.insert("framework." + law.key);
    }
    for (const Law& law : of_rows) {
        INFO(law.key);
        const bool text = law.key == "about" || law.key == "recompute";
        CHECK(row_of(law.with, "") !=
              row_of(law.with,
                     law.key + " = " + (text ? "\"" + law.value + "\"" : law.value) + "\n"));
        proven.insert("framework." + law.key);
    }
    for (const auto& [old, now] :
         std::vector<std::pair<std::string, std::string>>{{"tied", "tied"},
                                                          {"recompute", "recompute"},
                                                          {"interleaves", "chunks"},
                                                          {"balances_stages", "balanced_stages"},
                                                          {"mean_sequence", "mean_sequence"}})
        if (proven.contains("framework." + old)) proven.insert("framework.unstated." + now);
    proven.insert("framework.script");             // the flags of levers: tests/cli/why_test.sh
    proven.insert("framework.can.narrow");         // what an unnamed one may be: as_run_test.cpp
    proven.insert("framework.unstated.switches");  // readings of rows: variants_test.cpp
    for (const Key& key : keys_of("framework.")) {
        INFO(key.path << ": no experiment here shows what it changes");
        CHECK((is_preset(key) || proven.contains(std::string(key.path))));
    }
}

namespace {

// What a step of these kinds would do with every key that a framework decides.
const Overrides decided{{"parallelism.overlap_p2p", "false"},
                        {"parallelism.overlap_weight_gradient", "false"},
                        {"parallelism.fused_accumulation", "false"},
                        {"parallelism.eager_traffic", "3"},
                        {"parallelism.recompute_stops_early", "true"},
                        {"parallelism.frees_gradients", "true"},
                        {"cluster.link.inter.training", "0.4"},
                        {"workload.vocab_multiple", "4096"},
                        {"workload.tied", "false"},
                        {"workload.clip_scales", "true"},
                        {"workload.fused_optimizer", "false"},
                        {"workload.head_share", "0.3"},
                        {"workload.optimizer_calls", "12"},
                        {"workload.reads_loss", "true"},
                        {"parallelism.expert_products", "each"},
                        {"parallelism.expert_tensor_parallel", "false"},
                        {"parallelism.dispatch_once", "true"},
                        {"cluster.host.expert_layer", "9 ms"},
                        {"cluster.host.micro_batch", "9 ms"},
                        {"cluster.host.exchange", "9 ms"},
                        {"cluster.host.exchange_setup", "9 ms"},
                        {"cluster.host.module_forward", "9 ms"},
                        {"cluster.host.module_backward", "9 ms"}};

std::string times(const Experiment& e) {
    const Forecast f = predict(e);
    return fmt::format("{} {} {}", f.step.p50.si(), f.step.p10.si(), f.step.p90.si());
}

}  // namespace

// A framework that decides nothing of a step is neither named nor does it widen the interval; one
// that does moves the step.
TEST_CASE("a named framework changes a step that is no transformer, or nothing but a note") {
    for (const std::string preset :
         {"coca_zero1", "moe_layer_alltoall", "moe_layer_mix_moe", "host_ddp"}) {
        INFO(preset);
        const Experiment bare = read_experiment(preset, Overrides{{"routing.draws", "1"}});
        const std::string before = times(bare);
        for (const Override& one : decided) {
            Experiment e = bare;
            set_key(e, one);
            INFO(one.key);
            CHECK(times(e) == before);  // so no framework needs to set it here
        }
        const Experiment native = read_experiment(
            preset, Overrides{{"routing.draws", "1"}, {"framework.preset", "native"}});
        CHECK(times(native) == before);
        const Forecast f = predict(native);
        CHECK(f.framework.empty());
        CHECK(std::ranges::any_of(f.notes, [](const Note& n) {
            return n.text.starts_with("framework native changes nothing");
        }));
        const Experiment slow = read_experiment(preset, Overrides{{"routing.draws", "1"},
                                                                  {"framework.preset", "native"},
                                                                  {"framework.host.call", "3 ms"}});
        CHECK(predict(slow).step.p50 > 1.02 * predict(bare).step.p50);
        CHECK(predict(slow).framework == "native");
    }
}
