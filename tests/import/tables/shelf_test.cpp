#include "import/tables/shelf.h"
#include "model/transformer/counts.h"

#include "tests/model/files.h"

using namespace stepcast;

namespace {

Workload architecture(const std::string& model) {
    return family_of(model, read_families()).architecture;
}

Framework framework(const std::string& source, const std::string& case_and_notes) {
    CaseRow row;
    row.cells = {{"source", source}, {"notes", case_and_notes}};
    return Shelf().framework_of(row);
}

}  // namespace

TEST_CASE("a model's family is what its name begins with, the longer name first") {
    const auto families = read_families();
    const auto of = [&](const char* model) { return family_of(model, families).architecture; };
    CHECK(of("llama3.1-405b").gated);
    CHECK(of("Llama-3-8B").norm == Norm::rmsnorm);
    CHECK(of("gpt3-175b") == [] {
        Workload w;
        w.kind = Workload::Kind::transformer;
        return w;
    }());
    CHECK(of("gpt-oss-120b").head_dim == 64);
    CHECK(of("megatron-22B").positions == Positions::learned);
    CHECK_FALSE(of("bert-large").causal);
    CHECK(of("grok1-314b").tied);
    CHECK_FALSE(of("nemotron4-15b").gated);
    CHECK_FALSE(of("nemotron4-15b").linear_bias);
    CHECK(of("qwen3-30b-a3b").head_dim == 128);
    CHECK(of("deepseek-v2-lite").mla.q_rank == 0);
    CHECK(of("deepseek-v2").mla.q_rank == 1536);
    CHECK(of("deepseek-v3").moe.dense_layers == 3);
    CHECK(of("transformer-xl-base").positions == Positions::relative);
    CHECK(of("llama4-maverick-400b").moe.interval == 2);
    CHECK(of("llama4-scout").moe.interval == 1);
    CHECK(of("nemotron-h-56b").mamba.state == 256);
    CHECK(of("nemotron_3_nano").mamba.heads == 64);
    CHECK(of("qwen3-next-80b").delta.value_heads == 32);
    CHECK(of("deepseek-v3.2").indexer.heads == 64);
    CHECK(of("deepseek-v3").indexer.heads == 0);
    std::string words;
    (void)family_of("mixtral-8x7b", families, &words);
    CHECK(words == "mixtral: gated feed-forward, rmsnorm, rotary positions, untied, no biases");
    CHECK(
        complaint([] { architecture("deepseek-v4-pro"); }) ==
        "model: \"deepseek-v4-pro\" is not modelled: sparse attention over compressed keys, whose "
        "sizes no table states");
    const auto unknown = complaint([] { architecture("resnet"); });
    CHECK(unknown.starts_with("model: \"resnet\" is of no known family"));
    CHECK(unknown.find("nemotron-h") != std::string::npos);
    CHECK(unknown.find("write model/presets/families/NAME.toml") != std::string::npos);
}

// GLM-4.5-Air, published as 106 B: attention 4096 (2 x 12,288 + 2,048) = 109 M in 46 layers, a
// dense feed-forward of 3 x 4096 x 10,944 = 134 M, 129 experts of 3 x 4096 x 1408 = 17.3 M in 45
// layers, two tables of 151,552 x 4096.
TEST_CASE("a table's sizes on a family give the published number of parameters") {
    Workload w = architecture("glm4.5-air");
    w.layers = 46, w.hidden = 4096, w.heads = 96, w.kv_heads = 8, w.vocab = 151552;
    w.moe.experts = 128, w.moe.top_k = 8, w.moe.ffn = 1408;
    CHECK(count_parameters(w).total() == Approx(106.85e9).epsilon(1e-3));
    CHECK(architecture("glm-4.6").moe.dense_layers == 3);
    CHECK(architecture("gemma3-12b").tied);
    CHECK(architecture("phi3-mini") == architecture("llama3-8b"));
}

namespace {

// What the framework sets the key to in every step; "" if nothing.
std::string rule(const std::string& source, const std::string& words, const char* key) {
    const Framework found = framework(source, words);
    const std::string* const value = ruled_value(found, key);
    return value ? *value : "";
}

}  // namespace

TEST_CASE("a framework is known by its source, and by the case where a source has several") {
    CHECK(rule("vtrain_multi", "", "runtime.attention") == "plain");
    CHECK(rule("nanogpt", "nanogpt_124m_1a100_compile", "runtime.attention") == "plain");
    CHECK(rule("nanogpt", "ours_124m", "runtime.attention") == "flash");
    CHECK(rule("megatron_sc21_table1", "", "runtime.exchanges.gradients") == "zero3");
    CHECK(rule("megatron_sc21_table1", "", "runtime.exchanges.weight_gradient") == "false");
    CHECK(rule("korthikanti2022_table5", "", "runtime.exchanges.weight_gradient") == "true");
    CHECK(rule("megatron_core_h100_table", "", "runtime.gradients.type").empty());  // fp32
    CHECK(framework("megatron_core_h100_table", "").unstated.tied == false);
    CHECK(rule("mlperf_training", "", "runtime.gradients.type") == "training");
    CHECK(rule("nemo_docs_2407", "", "runtime.exchanges.tensor") == "split_sequence");
    CHECK(rule("simumax_b200", "", "runtime.exchanges.sends") == "false");
    CHECK(
        framework("dgxc_benchmarking", "dgxc_maxtext_llama2-70b JAX MaxText").unstated.recompute ==
        Recompute::none);
    CHECK_FALSE(framework("dgxc_benchmarking", "dgxc_llama3-8b").unstated.recompute);
    CHECK(rule("dgxc_benchmarking", "dgxc_24.11.1_pretrain_grok1",
               "runtime.experts.tensor_parallel") == "wide");
    CHECK(rule("dgxc_benchmarking", "dgxc_25.05_pretrain_grok1",
               "runtime.experts.tensor_parallel") == "none");
    CHECK(rule("dgxc_benchmarking", "dgxc_25.02_pretrain_paxml_gpt3", "runtime.attention") ==
          "plain");
    CHECK(rule("megatron_bridge_perf", "", "runtime.experts.dispatch") == "once_dropless");
    CHECK(rule("megatron_bridge_perf", "NeMo container 26.04.01; pretrain",
               "runtime.experts.products") == "each");
    CHECK(framework("megatron_bridge_perf", "NeMo container 26.06.01; pretrain").name ==
          "megatron-bridge-26.06");
    CHECK(rule("megatron_bridge_perf", "NeMo container 26.06; Muon optimizer",
               "runtime.experts.products") == "each");
    // gpt-oss on B300 does not ask for the grouped MLP, on GB300 it does (perf_recipes)
    CHECK(rule("megatron_bridge_perf", "gpt-oss-120b_B300_64_MXFP8 NeMo container 26.06; pretrain",
               "runtime.experts.products") == "each");
    CHECK(framework("megatron_bridge_perf",
                    "gpt-oss-120b_GB300_64_MXFP8 NeMo container 26.06; pretrain")
              .name == "megatron-bridge-26.06");
    CHECK(rule("nemo_docs", "", "runtime.experts.dispatch").empty());
    CHECK(rule("mosaic_mpt", "mixed-precision mode DEFAULT", "runtime.gradients.type") == "fp32");
    CHECK(rule("mosaic_mpt", "mixed-precision mode PURE", "runtime.gradients.type") == "training");
    CHECK(rule("deeplearningexamples_bert", "", "workload.optimizer") == "lamb");
    CHECK(framework("torchtitan", "FSDP+TP+PP+AsyncTP").name == "torchtitan-async");
    CHECK(framework("torchtitan", "asynctp_vanilla; compile").name == "torchtitan");
    CHECK(framework("torchtitan", "FSDP2; compile off").name == "torchtitan-eager");
    CHECK(framework("fms-fsdp", "eager (compile off), dummy data").name == "fsdp-eager");
    CHECK(framework("fms-fsdp", "torch.compile on").name == "fsdp");
    CHECK(framework("nemo_automodel", "Transformer Engine linears/attention").name == "torchtitan");
    CHECK(framework("nemo_automodel", "LoRA").name == "nemo-automodel");
    CHECK(framework("torchtune", "dataset packed, torch.compile").name == "torchtune");
    CHECK(framework("torchtune", "").name == "torchtune-eager");
    CHECK(framework("my_cluster", "").name == "default");
}

TEST_CASE(
    "a column or the command line name the framework of a row; what is not known lists what is") {
    CaseRow row;
    row.cells = {{"source", "vtrain_multi"}, {"framework", "torchtitan"}};
    CHECK(Shelf().framework_of(row).name == "torchtitan");
    CHECK(Shelf("pax").framework_of(row).name == "pax");
    row.cells["framework"] = "megatron-cor";
    const auto told = complaint([&] { (void)Shelf().framework_of(row); });
    CHECK(told.starts_with(
        "framework: \"megatron-cor\" is no preset framework, did you mean \"megatron-core\"?"));
    CHECK(told.find("torchtitan-eager") != std::string::npos);
    CHECK(told.find("to write one") != std::string::npos);
}

// The years in model/presets/sources.toml: V100 2017, A100 2020, H100 2022. A date in the notes
// counts more than the device's.
TEST_CASE("a framework's name means software of its time") {
    const auto read_as = [](const std::string& source, const std::string& gpu,
                            const std::string& notes, std::string* why = nullptr) {
        CaseRow row;
        row.cells = {{"source", source}, {"gpu", gpu}, {"notes", notes}};
        return Shelf().framework_of(row, why).name;
    };
    CHECK(read_as("megatron-lm", "V100-SXM2-32GB", "") == "megatron-lm-2021");
    CHECK(read_as("megatron-lm", "V100-SXM2-32GB", "of 2024-03-01") == "megatron-lm-untuned");
    CHECK(read_as("megatron_sc21_table1", "A100", "") == "megatron-lm-2021");
    CHECK(read_as("ours-megatron", "A100", "") == "megatron-lm-untuned");
    CHECK(read_as("megatronic", "B200", "") != "megatron-lm-untuned");
    CHECK(read_as("megatron-bridge", "B200", "") == "megatron-bridge");
    CHECK(read_as("fms-fsdp", "A100", "") == "fsdp");
    CHECK(read_as("transformer-engine", "H100", "") == "transformer-engine");
    CHECK(read_as("te-pytorch-someone", "H100", "") == "transformer-engine");
    CHECK(read_as("latent", "H100", "") == "default");
    CHECK(read_as("lit-gpt", "A100", "") == "litgpt");
    CHECK(read_as("litgpt", "A100", "pretraining") == "fsdp");
    CHECK(read_as("litgpt", "A100", "finetune_full") == "litgpt");
    CHECK(read_as("litgpt", "A100", "QLoRA") == "litgpt");
    CHECK(read_as("swift", "A100", "") == "transformers-trainer");
    CHECK(read_as("peft", "A100", "") == "transformers");
    CHECK(read_as("huggingface-lora", "A100", "") == "transformers");
    CHECK(read_as("llama-recipes", "A100", "") == "transformers");
    CHECK(read_as("composer", "A100", "") == "llm-foundry");
    CHECK(read_as("xtuner-megatron", "H800", "") == "megatron-lm-untuned");
    CHECK(read_as("ms-swift-megatron", "A100", "") == "megatron-lm-untuned");
    CHECK(read_as("swiftly", "A100", "") == "default");
    std::string why;
    CHECK(read_as("megatron-lm", "H100-80GB", "", &why) == "megatron-lm-untuned");
    CHECK(why ==
          "\"megatron-lm\" is read as megatron-lm-untuned, software of 2022 (the year of its "
          "device, h100)");
}

// The rules of sources.toml without a source: of a loop that shards its weights, torch.compile and
// FSDP say what it is made of. modalities and OLMo-core compile if told (their packages).
TEST_CASE("software that nobody knows is what its row says that it is made of") {
    const auto read_as = [](const std::string& source, const std::string& zero,
                            const std::string& notes) {
        CaseRow row;
        row.cells = {{"source", source}, {"zero", zero}, {"gpu", "A100"}, {"notes", notes}};
        return Shelf().framework_of(row).name;
    };
    const auto has_name = [](const std::string& source, const std::string& framework) {
        CaseRow row;
        row.cells = {{"source", source},
                     {"framework", framework},
                     {"zero", "3"},
                     {"gpu", "A100"},
                     {"notes", "FSDP"}};
        return Shelf().names_software(row);
    };
    CHECK_FALSE(has_name("someone", ""));  // forecast as fsdp-eager, as wide as the unnamed
    CHECK(has_name("modalities", ""));
    CHECK(has_name("vtrain_multi", ""));
    CHECK(has_name("someone", "fsdp"));
    CHECK(read_as("someone", "3", "PyTorch FSDP") == "fsdp-eager");
    CHECK(read_as("someone", "3 hybrid", "FSDP2, torch.compile") == "fsdp");
    CHECK(read_as("someone", "3", "FSDP2; compile off") == "fsdp-eager");
    CHECK(read_as("someone", "3", "FSDP, without torch.compile") == "fsdp-eager");
    CHECK(read_as("someone", "0", "torch.compile") == "default");
    CHECK(read_as("someone", "3", "") == "default");
    CHECK(read_as("modalities", "3", "") == "fsdp-eager");
    CHECK(read_as("olmo-core", "3", "torch.compile") == "fsdp");
    CHECK(read_as("vtrain_multi", "3", "FSDP") == "megatron-deepspeed");
}

// A version that is not known is read by the next rule: by another version of that software, by the
// software's name, or as unnamed. A column `framework` counts as little, the caller's choice does.
TEST_CASE("a framework that nobody knows is read by the rules that stay") {
    CaseRow row;
    row.cells = {{"source", "megatron_bridge_perf"}, {"notes", "container 26.06"}, {"gpu", "B200"}};
    const auto without = [&](const std::set<std::string>& forgotten) {
        return Shelf("", forgotten).framework_of(row).name;
    };
    CHECK(without({}) == "megatron-bridge-26.06");
    CHECK(without({"megatron-bridge-26.06"}) == "megatron-bridge");
    CHECK(without({"megatron-bridge-26.06", "megatron-bridge"}) == "megatron-lm-untuned");
    CHECK(without({"megatron-bridge-26.06", "megatron-bridge", "megatron-lm-untuned"}) ==
          "default");
    row.cells = {{"source", "x"}, {"framework", "nanotron"}};
    CHECK(without({}) == "nanotron");
    CHECK(without({"nanotron"}) == "default");
    CHECK(Shelf("nanotron", {"nanotron"}).framework_of(row).name == "nanotron");
}

// Of the rules' names the longest counts, and whole words: "nemo" is no part of "nemotron", "llm.c"
// none of "llm_foundry". AutoModel is no NeMo: where nobody knows it, it has no name.
TEST_CASE("a source has the longest name of a rule that it begins with by whole words") {
    CaseRow row;
    const auto read_as = [&](const std::string& source, const std::set<std::string>& forgotten) {
        row.cells = {{"source", source}, {"gpu", "H100"}};
        return Shelf("", forgotten).framework_of(row).name;
    };
    CHECK(read_as("nemo", {}) == "nemo");
    CHECK(read_as("nemo-docs-2407", {}) == "nemo");
    CHECK(read_as("nemotron", {}) == "default");
    CHECK(read_as("llm.c", {}) == "ddp");
    CHECK(read_as("llm-trainer", {}) == "default");
    CHECK(read_as("llm-foundry", {}) == "llm-foundry");
    CHECK(read_as("nemo-automodel", {}) == "nemo-automodel");
    CHECK(read_as("nemo-automodel", {"nemo-automodel"}) == "default");
    // its mixtures are its own models, with Transformer Engine's experts or without
    row.cells["experts"] = "128";
    row.cells["topk"] = "8";
    CHECK(Shelf().framework_of(row).name == "torchtitan");
    row.cells.erase("experts");
    row.cells["notes"] = "Transformer Engine linears";
    CHECK(Shelf("", {"nemo-automodel"}).framework_of(row).name == "torchtitan");
}

// DeepSpeed's stages have numbers, FSDP's have none.
TEST_CASE("a tool around Transformers that states a ZeRO stage ran under DeepSpeed") {
    const auto read_as = [](const std::string& source, const std::string& zero,
                            const std::string& notes) {
        CaseRow row;
        row.cells = {{"source", source}, {"zero", zero}, {"notes", notes}};
        return Shelf().framework_of(row).name;
    };
    CHECK(read_as("trl", "3", "") == "deepspeed-transformers");
    CHECK(read_as("llama-factory", "2 (offload off)", "") == "deepspeed-transformers");
    CHECK(read_as("transformers", "3", "FSDP full shard") == "transformers");
    CHECK(read_as("transformers", "0", "") == "transformers");
    CHECK(read_as("transformers", "", "") == "transformers");
}

// transformers 5.0 is of 2026. A row without a date is of its device's year.
TEST_CASE("experts in a Transformers before version 5 ran one after another") {
    const auto read_as = [](const std::string& source, const std::string& zero,
                            const std::string& experts, const std::string& notes) {
        CaseRow row;
        row.cells = {{"source", source},
                     {"zero", zero},
                     {"experts", experts},
                     {"notes", notes},
                     {"gpu", "H100"}};
        return Shelf().framework_of(row).name;
    };
    CHECK(read_as("transformers", "3", "128", "") == "deepspeed-transformers-expert-loop");
    CHECK(read_as("trl", "3", "8", "FSDP") == "transformers-expert-loop");
    CHECK(read_as("llama-factory", "", "64", "2025-11-02") == "transformers-expert-loop");
    CHECK(read_as("transformers", "3", "128", "2026-03-01") == "deepspeed-transformers");
    CHECK(read_as("transformers", "3", "", "") == "deepspeed-transformers");
    CHECK(read_as("deepspeed", "3", "", "") == "deepspeed-transformers");
}
