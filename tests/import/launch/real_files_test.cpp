// Published files of other tools, which lie beside the project.

#include <filesystem>

#include <catch2/catch.hpp>

#include "import/launch/translate.h"
#include "measured/read.h"
#include "tests/import/launch/shared_configs.h"
#include "tests/import/launch/told.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

TEST_CASE("real files of other tools read as their tables say") {
    if (configs_are_absent()) return;
    const auto configs = shared_configs();
    using Pairs = std::vector<std::pair<std::string, std::string>>;
    const auto check = [&](const std::string& file, const Pairs& expected,
                           const TranslateOptions& options = {}) {
        check_values(translate(configs + "/" + file, options), expected);
    };
    check("megatron-lm/mixtral_8x7b_release_model_config.yaml",
          {{"workload.layers", "32"},
           {"workload.ffn", "14336"},
           {"workload.kv_heads", "8"},
           {"workload.gated", "true"},
           {"workload.moe.experts", "8"},
           {"workload.moe.top_k", "2"},
           {"parallelism.tp", "2"},
           {"parallelism.pp", "4"},
           {"parallelism.cp", "1"},
           {"parallelism.ep", "8"},
           {"parallelism.vp", "8"},
           {"parallelism.sequence_parallel", "true"},
           {"runtime.experts.tensor_parallel", "none"},
           {"parallelism.micro_batch", "1"},
           {"parallelism.global_batch", "256"},
           {"workload.dtype", "bf16"},
           {"runtime.gradients.type", "fp32"},
           {"parallelism.zero", "1"},
           {"runtime.exchanges.gradients", "always"},
           {"parallelism.recompute", "none"},
           {"workload.seq", "4096"},
           {"workload.dropout", "0"}});
    check("nemo-launcher/gpt3_175b.yaml", {{"workload.layers", "96"},
                                           {"workload.ffn", "49152"},
                                           {"workload.kv_heads", ""},
                                           {"workload.seq", "2048"},
                                           {"parallelism.tp", "4"},
                                           {"parallelism.pp", "8"},
                                           {"parallelism.vp", "6"},
                                           {"parallelism.dp", "32"},
                                           {"parallelism.global_batch", "2048"},
                                           {"workload.gated", "false"},
                                           {"workload.norm", "layernorm"},
                                           {"workload.positions", "learned"},
                                           {"workload.dtype", "bf16"},
                                           {"parallelism.zero", "1"},
                                           {"runtime.gradients.bucket", "220 MB"},
                                           {"parallelism.sequence_parallel", "true"},
                                           {"runtime.exchanges.tensor", "never"},
                                           {"workload.dropout", "0.1"},
                                           {"cluster.nodes", "128"},
                                           {"cluster.gpus_per_node", "8"}});
    check("nemo-launcher/mixtral_8x7b.yaml", {{"parallelism.tp", "1"},
                                              {"parallelism.pp", "4"},
                                              {"parallelism.vp", "8"},
                                              {"parallelism.ep", "8"},
                                              {"parallelism.dp", "16"},
                                              {"workload.moe.capacity_factor", "1.0"},
                                              {"runtime.gradients.type", "bf16"},
                                              {"workload.max_positions", "32768"},
                                              {"workload.tied", "false"},
                                              {"workload.gated", "true"},
                                              {"parallelism.sequence_parallel", ""}});
    TranslateOptions bridge;
    bridge.model = "llama3-70b";
    bridge.variant = "h100,64,bf16";
    check("megatron-bridge/llama3_70b_llm_pretrain.yaml",
          {{"parallelism.tp", "4"},
           {"parallelism.pp", "4"},
           {"parallelism.cp", "2"},
           {"parallelism.vp", "5"},
           {"parallelism.dp", "2"},
           {"parallelism.micro_batch", "1"},
           {"parallelism.global_batch", "128"},
           {"workload.seq", "8192"},
           {"workload.dtype", "bf16"}},
          bridge);
    bridge.variant = "b200,64,fp8_ds";
    check("megatron-bridge/llama3_70b_llm_pretrain.yaml",
          {{"parallelism.tp", "1"},
           {"parallelism.pp", "1"},
           {"parallelism.dp", "64"},
           {"parallelism.zero", "3"},
           {"parallelism.recompute", "full"},
           {"parallelism.recompute_layers", "5"},
           {"workload.dtype", "fp8"}},
          bridge);
    bridge.variant = "gb200,64,fp8_cs";
    check("megatron-bridge/llama3_70b_llm_pretrain.yaml",
          {{"parallelism.micro_batch", "2"}, {"cluster.gpus_per_node", "4"}}, bridge);
    check("megatron-bridge/llama32_1b_pretrain.yaml", {{"workload.seq", "4096"},
                                                       {"parallelism.micro_batch", "1"},
                                                       {"parallelism.global_batch", "8"},
                                                       {"parallelism.tp", "1"}});
    check("torchtitan/llama3_8b.toml", {{"workload.preset", "llama3-8b"},
                                        {"workload.seq", "8192"},
                                        {"parallelism.tp", "1"},
                                        {"parallelism.zero", "3"},
                                        {"parallelism.micro_batch", "1"},
                                        {"parallelism.recompute", "alternate"},
                                        {"runtime.gradients.type", "fp32"}});
    check("torchtitan/llama3_70b.toml", {{"workload.preset", "llama3-70b"},
                                         {"parallelism.tp", "8"},
                                         {"parallelism.micro_batch", "8"},
                                         {"parallelism.recompute", "full"},
                                         {"parallelism.sequence_parallel", "true"}});
    check("torchtitan/deepseek_v3_16b.toml", {{"workload.preset", "deepseek-v2-lite"},
                                              {"parallelism.ep", "8"},
                                              {"parallelism.micro_batch", "4"},
                                              {"workload.seq", "4096"}});
    check("deepspeed/deepspeed_bsz64k_lamb_config_seq128.json",
          {{"parallelism.global_batch", "65536"},
           {"parallelism.micro_batch", "64"},
           {"parallelism.zero", "0"},
           {"workload.dtype", "fp16"},
           {"workload.optimizer", "lamb"}});
    check("deepspeed/ds_config_func_bs8_zero2_gas3.json",
          {{"parallelism.micro_batch", "8"},
           {"parallelism.zero", "2"},
           {"runtime.gradients.bucket", "7000000 weights"},
           {"workload.dtype", "fp16"}});
    check("deepspeed/ds_config_autotp_auto.json", {{"parallelism.tp", "4"},
                                                   {"parallelism.zero", "2"},
                                                   {"workload.optimizer", "adam"},
                                                   {"parallelism.micro_batch", ""}});
}

TEST_CASE("config.json of real models read as their tables say") {
    if (configs_are_absent()) return;
    const auto configs = shared_configs();
    const auto read = [&](const std::string& name) {
        Experiment e;
        set_key(e, {"workload.preset", configs + "/huggingface/" + name + ".json"});
        return e.workload;
    };
    const auto llama = read("llama-3.1-8b"), mixtral = read("mixtral-8x7b"),
               deepseek = read("deepseek-v3"), qwen = read("qwen3-30b-a3b");
    CHECK(std::tuple(llama.layers, llama.ffn, llama.kv_heads, llama.vocab, llama.tied) ==
          std::tuple(32, 14336, 8, 128256, false));
    CHECK(std::tuple(mixtral.moe.experts, mixtral.moe.top_k, mixtral.ffn, mixtral.vocab) ==
          std::tuple(8, 2, 14336, 32000));
    CHECK(std::tuple(deepseek.layers, deepseek.moe.experts, deepseek.moe.ffn,
                     deepseek.moe.dense_layers, deepseek.moe.groups, deepseek.moe.top_groups,
                     deepseek.moe.router_bias) == std::tuple(61, 256, 2048, 3, 8, 4, true));
    CHECK(deepseek.mla == Mla{1536, 512, 128, 64, 128});
    CHECK(std::tuple(qwen.head_dim, qwen.moe.experts, qwen.moe.top_k, qwen.moe.ffn,
                     qwen.moe.dense_layers) == std::tuple(128, 128, 8, 768, 0));
}
