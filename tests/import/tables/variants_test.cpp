// Rows as tables write them: each variant of a cell is made by hand, and must become the experiment
// that it means.

#include <algorithm>
#include <tuple>

#include <catch2/catch.hpp>

#include "import/tables/case_of.h"
#include "import/tables/cases.h"
#include "model/base/errors.h"
#include "model/runtime_rules.h"

using namespace stepcast;

namespace {

// A row of eight Llama blocks, with some cells replaced.
using Changes = std::vector<std::pair<std::string, std::string>>;

Case case_with(const Changes& changes) {
    CaseRow row{"c.csv", 2, {}};
    const Changes cells{{"source", "megatron_bridge_perf"},
                        {"case_id", "a"},
                        {"model", "llama3-8b"},
                        {"layers", "32"},
                        {"hidden", "4096"},
                        {"heads", "32"},
                        {"kv_heads", "8"},
                        {"ffn", "14336"},
                        {"vocab", "128256"},
                        {"seq", "8192"},
                        {"gpus", "8"},
                        {"gpu", "H100"},
                        {"tp", "1"},
                        {"pp", "1"},
                        {"dp", "8"},
                        {"cp", "1"},
                        {"zero", "0/1 (DDP, distributed optimizer by default)"},
                        {"mbs", "1"},
                        {"gbs", "128"},
                        {"recompute", "none"},
                        {"precision", "BF16"},
                        {"step_s", "1"}};
    for (const auto& [column, text] : cells) row.cells[column] = text;
    for (const auto& [column, text] : changes) row.cells[column] = text;
    return case_of(row, "");
}
Experiment with(const Changes& changes) { return case_with(changes).experiment; }
std::string refused(const Changes& changes) {
    try {
        case_with(changes);
    } catch (const ConfigError& e) {
        return e.what();
    }
    return "";
}

}  // namespace

TEST_CASE("every device of the published tables has a cluster") {
    const auto name = [](const std::string& gpu) {
        return with({{"gpu", gpu}, {"precision", "fp16"}}).cluster.name;
    };
    CHECK(name("V100-16GB-SXM") == "dgx-v100");
    CHECK(name("V100-32GB-SXM3") == "dgx2-v100");
    CHECK(name("V100-32GB (DGX-2)") == "dgx2-v100");
    CHECK(name("A100 (memory size not stated)") == "dgx-a100");
    CHECK(name("A100-80GB-PCIe") == "dgx-a100-pcie");
    CHECK(name("NVIDIA H100 SXM") == "dgx-h100");
    CHECK(name("DGX H100") == "dgx-h100");
    CHECK(name("H200-141GB") == "dgx-h200");
    CHECK(name("B200") == "b200-x8");
    CHECK(name("B300") == "b300-x8");
    CHECK(name("GB200") == "gb200-nvl72");
    CHECK(name("DGX-GB300") == "gb300-nvl72");
    CHECK(refused({{"gpu", "TPU v4"}}).find("no cluster is known for \"TPU v4\"") !=
          std::string::npos);
    // Nobody measured these: a cluster of the datasheet.
    CHECK(name("V100-16GB-PCIe") == "v100-pcie-x8");
    CHECK(name("H100-PCIe-80GB") == "h100-pcie-x8");
    CHECK(name("H100 NVL") == "h100-nvl-x8");
    CHECK(name("8x H20-96GB") == "h20-x8");
    CHECK(name("H800") == "h800-x8");
    CHECK(name("MI300X") == "mi300x-x8");
    CHECK(name("GeForce RTX 4090") == "rtx-4090-x8");
    CHECK(name("RTX4090") == "rtx-4090-x8");
    // A row may say so beside its links.
    const auto linked = [](const std::string& gpu, const std::string& interconnect) {
        return with({{"gpu", gpu}, {"interconnect", interconnect}}).cluster.name;
    };
    CHECK(linked("A100-80GB", "PCIe inside the node; HDR InfiniBand") == "dgx-a100-pcie");
    CHECK(linked("A100-80GB", "one node, no NVLink") == "dgx-a100-pcie");
    CHECK(linked("A100-80GB", "NVLink in the node") == "dgx-a100");
    CHECK(linked("A800", "PCIe inside the node") == "a800-x8");  // no form of it is known
}

TEST_CASE("a domain of 72 is used in the largest part that divides the job") {
    const auto size = [](const std::string& gpus) {
        const Cluster c =
            with({{"gpu", "GB200"}, {"gpus", gpus}, {"dp", gpus}, {"gbs", "4608"}}).cluster;
        return std::pair{c.nodes, c.gpus_per_node};
    };
    CHECK(size("8") == std::pair{1, 8});
    CHECK(size("64") == std::pair{1, 64});
    CHECK(size("256") == std::pair{4, 64});
    CHECK(size("144") == std::pair{2, 72});
}

TEST_CASE("words of precision name the operands of matrix products") {
    const auto dtype = [](const std::string& precision) {
        return with({{"gpu", "GB300"}, {"precision", precision}}).workload.dtype;
    };
    for (const char* fp8 :
         {"FP8", "FP8-CS", "FP8-MX", "mxfp8", "fp8 current scaling", "float8 (linears)"})
        CHECK(dtype(fp8) == Dtype::fp8);
    for (const char* fp4 : {"NVFP4", "nvfp4", "mxfp4"}) CHECK(dtype(fp4) == Dtype::fp4);
    CHECK(dtype("BF16") == Dtype::bf16);
    CHECK(dtype("fp16 mixed") == Dtype::fp16);
    CHECK(dtype("amp") == Dtype::fp16);
    CHECK(dtype("tf32") == Dtype::tf32);
    CHECK(dtype("fp32 (TF32 state unknown)") == Dtype::tf32);
    CHECK(dtype("fp32") == Dtype::fp32);
    CHECK(dtype("") == Dtype::bf16);
    CHECK(with({{"gpu", "V100"}, {"precision", ""}}).workload.dtype == Dtype::fp16);
    CHECK(refused({{"gpu", "V100"}, {"precision", "bf16"}}).find("has no such rate") !=
          std::string::npos);
}

TEST_CASE("words of zero, sequence parallelism and recompute are read as tables write them") {
    const auto zero = [](const std::string& text) {
        return with({{"zero", text}}).parallelism.zero;
    };
    for (const char* text : {"0", "none", "DDP", "ZeRO-0"}) CHECK(zero(text) == 0);
    // Not stated: 8 G parameters of 16 bytes are 128 GB, more than a rank's 80; with the states of
    // 12 bytes cut among eight they are 44.
    CHECK(zero("") == 1);
    for (const char* text : {"1", "zero 1", "distributed optimizer"}) CHECK(zero(text) == 1);
    for (const char* text :
         {"3", "ZeRO-3", "FSDP", "FSDP group 8", "3 hybrid (shard in node)", "HSDP"})
        CHECK(zero(text) == 3);
    const auto sp = [](const std::string& text) {
        return with({{"tp", "2"}, {"dp", "4"}, {"sp", text}}).parallelism.sequence_parallel;
    };
    for (const char* text : {"on", "on (assumed with TP>1)", "yes", "True"}) CHECK(sp(text));
    for (const char* text : {"off", "no", "", "n/a"}) CHECK_FALSE(sp(text));
    const auto recompute = [](const std::string& text) {
        const Parallelism p = with({{"recompute", text}}).parallelism;
        return std::pair{p.recompute, p.recompute_layers};
    };
    for (const char* text : {"none", "norm, act", "moe_act", "layernorm,moe_act", "mla_up_proj",
                             "minimal (flash policy)"})
        CHECK(recompute(text) == std::pair{Recompute::none, 0});
    CHECK(recompute("full") == std::pair{Recompute::full, 0});
    using enum RecomputedModule;
    const auto modules = [](const std::string& text) {
        const Parallelism p = with({{"recompute", text}}).parallelism;
        CHECK(p.recompute == Recompute::selective);
        return p.recompute_modules;
    };
    CHECK(modules("mlp") == std::vector{mlp});
    CHECK(modules("mlp+core_attn") == std::vector{mlp, core_attn});
    CHECK(modules("moe, mlp, norm") == std::vector{mlp});  // what a dense model has
    CHECK(recompute("core_attn selective (baseline)").first == Recompute::selective);
}

// Megatron's script runs experts one after the other without --moe-grouped-gemm. The row itself is
// read with it.
TEST_CASE("a switch that some users of a framework turn is a reading where a row does not say") {
    const auto switched = [](const std::string& framework, const std::string& model,
                             const std::string& notes) {
        const Case found = case_with({{"framework", framework},
                                      {"model", model},
                                      {"experts", model == "llama3-8b" ? "" : "8"},
                                      {"topk", model == "llama3-8b" ? "" : "2"},
                                      {"recompute", "none"},
                                      {"notes", notes}});
        CHECK_FALSE(found.experiment.runtime.experts.one_by_one);
        std::vector<std::vector<Override>> keys;
        for (const Reading& one : found.experiment.readings) keys.push_back(one.keys);
        return keys;
    };
    using Keys = std::vector<std::vector<Override>>;
    CHECK(switched("megatron-lm-untuned", "mixtral-8x7b", "") ==
          Keys{{{"runtime.experts.one_by_one", "true"}, {"cluster.host.expert_layer", "234 us"}}});
    CHECK(switched("megatron-lm-untuned", "mixtral-8x7b", "moe grouped gemm").empty());
    CHECK(switched("megatron-lm-untuned", "llama3-8b", "").empty());
    CHECK(switched("megatron-core", "mixtral-8x7b", "").empty());
}

// Nemotron 3 Nano in Megatron-Bridge.
TEST_CASE("what a recipe states and its table does not is taken from it, on its device alone") {
    const auto nano = [](const std::string& gpu, const std::string& recompute) {
        return case_with({{"model", "nemotron_3_nano"},
                          {"layers", ""},
                          {"hidden", ""},
                          {"heads", ""},
                          {"kv_heads", ""},
                          {"ffn", ""},
                          {"vocab", ""},
                          {"ep", "8"},
                          {"gpu", gpu},
                          {"recompute", recompute}});
    };
    const Case found = nano("H100", "not stated (recipe dependent)");
    CHECK(found.experiment.parallelism.recompute == Recompute::selective);
    CHECK(found.experiment.parallelism.recompute_modules ==
          std::vector{RecomputedModule::moe, RecomputedModule::layernorm});
    CHECK(std::ranges::count(found.assumptions,
                             "recompute not stated: moe, layernorm, the recipe's") == 1);
    CHECK(found.experiment.readings.empty());
    CHECK(nano("H100", "none").experiment.parallelism.recompute == Recompute::none);
    CHECK(nano("GB200", "").experiment.parallelism.recompute == Recompute::none);

    const auto once = [](const std::string& gpu, const std::string& dispatch,
                         const std::string& source = "megatron_bridge_perf") {
        return sends_once(with({{"source", source},
                                {"model", "gpt-oss-120b"},
                                {"layers", ""},
                                {"hidden", ""},
                                {"heads", ""},
                                {"kv_heads", ""},
                                {"ffn", ""},
                                {"vocab", ""},
                                {"ep", "8"},
                                {"gpu", gpu},
                                {"dispatch", dispatch}}));
    };
    CHECK_FALSE(once("H100", ""));
    CHECK(once("H100", "once"));
    CHECK(once("B300", ""));
    CHECK_FALSE(once("B300", "all-to-all"));
    CHECK_FALSE(once("B200", ""));
    CHECK_FALSE(once("GB200", ""));  // in bf16; what is said of B200 is not of GB200
    CHECK(once("H100", "once", "nemo_docs"));
    CHECK(refused({{"model", "gpt-oss-120b"},
                   {"layers", ""},
                   {"hidden", ""},
                   {"heads", ""},
                   {"kv_heads", ""},
                   {"ffn", ""},
                   {"vocab", ""},
                   {"ep", "8"},
                   {"dispatch", "twice"}}) ==
          "c.csv:2: dispatch: \"twice\" is neither all-to-all nor once");
}

// torchtitan's own configurations, on any device: Qwen3-30B recomputes every layer, Llama 3 8B
// every second product. What a row states counts, and other sources have other recipes.
TEST_CASE("recompute that a row of torchtitan does not state is its configuration's") {
    const auto of = [](const std::string& source, const std::string& model,
                       const std::string& recompute) {
        return with({{"source", source}, {"model", model}, {"recompute", recompute}})
            .parallelism.recompute;
    };
    CHECK(of("torchtitan-deepep", "Qwen3-30B-A3B", "not stated") == Recompute::full);
    CHECK(of("torchtitan", "llama3-8b", "") == Recompute::alternate);
    CHECK(of("torchtitan", "llama3-8b", "none") == Recompute::none);
    const auto says_so = [](const std::string& source) {
        const Case found =
            case_with({{"source", source}, {"model", "Qwen3-30B-A3B"}, {"recompute", ""}});
        return std::ranges::count(found.assumptions, "recompute not stated: full, the recipe's") ==
               1;
    };
    CHECK(says_so("torchtitan-deepep"));
    CHECK_FALSE(says_so("another"));
}

// Qwen3-235B on B200 goes by all-to-all in bf16 and FP8 from container 26.06 on; in MXFP8, and in
// older containers, nothing says so.
TEST_CASE("a recipe is of its precisions, and from its first container on") {
    const auto qwen = [](const std::string& precision, const std::string& container) {
        return with({{"source", "megatron_bridge_perf"},
                     {"model", "qwen3-235b-a22b"},
                     {"layers", ""},
                     {"hidden", ""},
                     {"heads", ""},
                     {"kv_heads", ""},
                     {"ffn", ""},
                     {"vocab", ""},
                     {"ep", "8"},
                     {"gpu", "B200"},
                     {"precision", precision},
                     {"notes", "NeMo container " + container + "; pretrain"}});
    };
    CHECK_FALSE(sends_once(qwen("BF16", "26.06.01")));
    CHECK_FALSE(sends_once(qwen("FP8", "26.08")));
    CHECK(sends_once(qwen("BF16", "26.04.01")));
    CHECK(sends_once(qwen("MXFP8", "26.06")));
    CHECK_FALSE(qwen("MXFP8", "26.06").parallelism.overlap_experts);
    CHECK(with({{"overlap_experts", "true"},
                {"model", "mixtral-8x7b"},
                {"experts", "8"},
                {"topk", "2"},
                {"ep", "8"}})
              .parallelism.overlap_experts);
}

TEST_CASE("a model that presets know by name needs no sizes") {
    const auto named = [](const std::string& model) {
        Changes cells{{"model", model}, {"gpus", "64"}, {"dp", "64"},
                      {"ep", "8"},      {"zero", "1"},  {"gbs", "512"}};
        for (const char* column : {"layers", "hidden", "heads", "kv_heads", "ffn", "vocab"})
            cells.push_back({column, ""});
        return with(cells).workload;
    };
    CHECK(named("kimi_k2").moe.experts == 384);
    CHECK(named("kimi-k2").moe.dense_layers == 1);
    CHECK(named("moonlight-16b").moe.ffn == 1408);
    CHECK(named("moonlight-16b").moe.top_k == 6);
    CHECK(named("gpt-oss-120b").head_dim == 64);
    CHECK(named("deepseek-v3").ffn == 18432);
    CHECK(named("qwen3-235b-a22b").ffn == 1536);
    CHECK(named("Mixtral-8x7B").moe.experts == 8);
}

TEST_CASE("LoRA freezes the weights, fine-tuning of all weights is pretraining's work") {
    CHECK(with({{"notes", "LoRA fine-tuning; rank 32"}}).workload.adapter_rank == 32);
    CHECK(with({{"case_id", "finetune_lora_llama2-70b"}}).workload.adapter_rank == 16);
    CHECK(with({{"notes", "fine-tuning SFT, packed"}}).workload.adapter_rank == 0);
    CHECK(with({{"notes", "QLoRA"}}).workload.adapter_rank == 16);
    CHECK(with({{"notes", "QLoRA"}}).workload.frozen == FrozenWeights::nf4);
    CHECK(with({{"notes", "QLoRA"}, {"recompute", ""}}).parallelism.recompute == Recompute::full);
    CHECK(with({{"notes", "QLoRA"}, {"recompute", "none"}}).parallelism.recompute ==
          Recompute::none);
    CHECK(with({{"notes", "LoRA on an int8 base"}}).workload.frozen == FrozenWeights::int8);
    CHECK(with({{"notes", "LoRA"}}).workload.frozen == FrozenWeights::stored);
    CHECK(with({{"notes", "8 (or 6 for LoRA) FLOP a weight"}}).workload.adapter_rank == 0);
    CHECK(with({{"notes", "LoRA; time of rank 0"}}).workload.adapter_rank == 16);
    CHECK(with({{"notes", "LoRA; 8 GPUs per rank group 64"}}).workload.adapter_rank == 16);
    CHECK(with({{"notes", "LoRA of rank 8; time of rank 0"}}).workload.adapter_rank == 8);
    CHECK(with({{"notes", "LoRA rank 16"}}).workload.adapter_on == Adapted::attention);
    for (const char* notes :
         {"LoRA rank 16 on all linear layers", "LoRA, target_modules all-linear"})
        CHECK(with({{"notes", notes}}).workload.adapter_on == Adapted::linear);
    // Ranks of a latent attention are no adapters.
    for (const char* notes : {"MLA: kv_lora_rank 512", "q_lora_rank=1536, kv-lora 512",
                              "kv lora rank 512", "exploration run"})
        CHECK(with({{"notes", notes}}).workload.adapter_rank == 0);
}

TEST_CASE("dropless expert rows of recipes dispatch once, those with a capacity by all-to-all") {
    const Changes moe{{"model", "qwen3-30b-a3b"},
                      {"layers", "48"},
                      {"hidden", "2048"},
                      {"heads", "32"},
                      {"kv_heads", "4"},
                      {"ffn", "768"},
                      {"vocab", ""},
                      {"experts", "128"},
                      {"topk", "8"},
                      {"ep", "8"}};
    auto dropless = moe, dropped = moe, other = moe;
    dropless.push_back({"notes", "routing force-balanced, dropless unless tagged tokendrop"});
    dropped.push_back(
        {"notes", "pretrain; tokendrop; routing force-balanced, dropless unless tagged tokendrop"});
    other.push_back({"source", "nemo_docs"});
    CHECK(sends_once(with(dropless)));
    CHECK(with(dropless).workload.moe.capacity_factor == 0);
    CHECK_FALSE(sends_once(with(dropped)));
    CHECK(with(dropped).workload.moe.capacity_factor == 1);
    auto of_two = moe;
    of_two.push_back({"notes", "routing NATURAL with expert capacity factor 2; DeepEP dispatcher"});
    CHECK(with(of_two).workload.moe.capacity_factor == 2);
    CHECK_FALSE(sends_once(with(other)));
    // Router and dispatch are captured on Blackwell, not on Hopper.
    CHECK(with(dropless).cluster.host.expert_layer > Seconds(0));
    dropless.push_back({"gpu", "GB200"});
    CHECK(with(dropless).cluster.host.expert_layer == Seconds(0));
}

TEST_CASE("a single layer is experts or the dense layer that is as wide as they are together") {
    const Changes layer{{"source", "tutel_readme_2021"},
                        {"model", "single-moe-layer"},
                        {"layers", "1"},
                        {"hidden", "2048"},
                        {"ffn", "2048"},
                        {"seq", "1024"},
                        {"gpus", "1"},
                        {"dp", "1"},
                        {"gpu", "A100-40GB"},
                        {"mbs", "8"},
                        {"gbs", "8"},
                        {"precision", "fp32 (TF32 state unknown)"},
                        {"notes", "2 local experts, fp32"}};
    auto experts = layer, deepspeed = layer;
    experts.push_back({"experts", "2"});
    experts.push_back({"topk", "2"});
    CHECK(with(experts).workload.kind == Workload::Kind::moe_layer);
    CHECK(with(layer).workload.kind == Workload::Kind::mlp);
    CHECK(with(layer).workload.ffn == 4096);
    CHECK_FALSE(runs_operations(with(experts)));
    experts.back() = {"notes", "Tutel MoE under DDP wrapper; 2 local experts"};
    experts.push_back({"topk", "2"});
    CHECK(runs_operations(with(experts)));
    deepspeed.push_back({"case_id", "tutel_deepspeed_b8"});
    CHECK(refused(deepspeed).find("one-hot masks") != std::string::npos);
}

// Megatron-Core's modules: two norms, an activation, the up-projections of a latent attention,
// scores: each 0.5 ms of the host (module_backward) on the pass back, said as half of it on each of
// two.
TEST_CASE("modules that are computed again by themselves cost the host a call") {
    const auto again = [](const std::string& recompute) {
        const Changes moonlight{{"model", "moonlight-16b"},
                                {"layers", "27"},
                                {"hidden", ""},
                                {"heads", ""},
                                {"kv_heads", ""},
                                {"ffn", ""},
                                {"vocab", ""},
                                {"tp", "2"},
                                {"dp", "4"},
                                {"ep", "8"},
                                {"gbs", "4"},
                                {"recompute", recompute}};
        return with(moonlight);
    };
    const Experiment none = again("none");
    const Seconds module = none.cluster.host.module_backward;
    const auto modules = [&](const std::string& recompute) {
        return 2 * (again(recompute).cluster.host.layer - none.cluster.host.layer) / module;
    };
    CHECK(module == Seconds(0.5e-3));
    CHECK(modules("moe_act") == Approx(1));
    CHECK(modules("layernorm+moe_act") == Approx(3));
    CHECK(modules("norm, act") == Approx(3));
    CHECK(modules("mla_up_proj+mlp") == Approx(1));
    CHECK(again("mla_up_proj+mlp").parallelism.recompute_modules ==
          std::vector{RecomputedModule::mla_up_proj, RecomputedModule::mlp});
    CHECK(modules("selective (core attention)") == Approx(1));
    CHECK(modules("core_attn selective (baseline)") == Approx(1));
    CHECK(modules("selective attention") == Approx(0).margin(1e-9));
    CHECK(modules("full") == Approx(0).margin(1e-9));
    CHECK(modules("") == Approx(0).margin(1e-9));
}

// Each word where tables have it; a row of supervised fine-tuning is a training step and stays.
TEST_CASE("rows of other work than a training step are refused by the word that says so") {
    for (const auto& [column, text, word] :
         {std::tuple{"case_id", "llama3_8b_dpo", "_dpo"},
          std::tuple{"notes", "DPO of preference pairs", "dpo "},
          std::tuple{"case_id", "qwen_GRPO_8", "grpo"},
          std::tuple{"notes", "GRPO, rollouts included", "grpo"},
          std::tuple{"notes", "RLHF", "rlhf"},
          std::tuple{"model", "llama3-8b inference", "inference"}})
        CHECK(refused({{column, text}}) ==
              "c.csv:2: notes: \"" + std::string(word) +
                  "\" is other work than the training step that is modelled");
    CHECK(refused({{"case_id", "llama3_8b_sft"}}).empty());
}
