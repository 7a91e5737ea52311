#include "model/cases/conventions.h"

#include "tests/model/files.h"

using namespace stepcast;

TEST_CASE("a model's family is what its name begins with, the longer name first") {
    CHECK(family_of("llama3.1-405b").architecture.gated);
    CHECK(family_of("Llama-3-8B").architecture.norm == Norm::rmsnorm);
    CHECK(family_of("gpt3-175b").architecture == [] {
        Workload w;
        w.kind = Workload::Kind::transformer;
        return w;
    }());
    CHECK(family_of("gpt-oss-120b").architecture.head_dim == 64);
    CHECK(family_of("megatron-22B").architecture.positions == Positions::learned);
    CHECK_FALSE(family_of("bert-large").architecture.causal);
    CHECK(family_of("grok1-314b").architecture.tied);
    CHECK_FALSE(family_of("nemotron4-15b").architecture.gated);
    CHECK_FALSE(family_of("nemotron4-15b").architecture.linear_bias);
    CHECK(family_of("qwen3-30b-a3b").architecture.head_dim == 128);
    CHECK(family_of("deepseek-v2-lite").architecture.mla.q_rank == 0);
    CHECK(family_of("deepseek-v2").architecture.mla.q_rank == 1536);
    CHECK(family_of("deepseek-v3").architecture.moe.dense_layers == 3);
    CHECK(family_of("mixtral-8x7b").words ==
          "mixtral: gated feed-forward, rmsnorm, rotary positions, untied, no biases");
    CHECK(family_of("transformer-xl-base").architecture.positions == Positions::relative);
    CHECK(family_of("llama4-maverick-400b").architecture.moe.interval == 2);
    CHECK(family_of("llama4-scout").architecture.moe.interval == 1);
    CHECK(family_of("nemotron-h-56b").architecture.mamba.state == 256);
    CHECK(family_of("nemotron_3_nano").architecture.mamba.heads == 64);
    CHECK(complaint([] { family_of("qwen3-next-80b"); }) ==
          "model: \"qwen3-next-80b\" is not modelled: a hybrid of linear and full attention");
    CHECK(complaint([] { family_of("resnet"); }).starts_with("model: \"resnet\" is of no known family"));
}

TEST_CASE("a framework is known by its source, and by the case where a source has several") {
    CHECK(framework_of("vtrain_multi", "").attention == AttentionKind::plain);
    CHECK_FALSE(framework_of("megatron_sc21_table1", "").overlap);
    CHECK_FALSE(framework_of("megatron_sc21_table1", "").overlap_weight_gradient);
    CHECK(framework_of("korthikanti2022_table5", "").overlap_weight_gradient);
    CHECK(framework_of("megatron_core_h100_table", "").gradients == Dtype::fp32);
    CHECK_FALSE(framework_of("megatron_core_h100_table", "").tied_gpt);
    CHECK_FALSE(framework_of("mlperf_training", "").gradients);
    CHECK(framework_of("nemo_docs_2407", "").overlap_tp);
    CHECK_FALSE(framework_of("simumax_b200", "").overlap_p2p);
    CHECK(framework_of("dgxc_benchmarking", "dgxc_maxtext_llama2-70b JAX MaxText").recompute == Recompute::none);
    CHECK_FALSE(framework_of("dgxc_benchmarking", "dgxc_llama3-8b").recompute);
    CHECK_FALSE(framework_of("dgxc_benchmarking", "dgxc_24.11.1_pretrain_grok1").split_experts);
    CHECK(framework_of("dgxc_benchmarking", "dgxc_25.05_pretrain_grok1").split_experts == false);
    CHECK(framework_of("dgxc_benchmarking", "dgxc_25.02_pretrain_paxml_gpt3").attention == AttentionKind::plain);
    CHECK(framework_of("megatron_bridge_perf", "").dropless_once);
    CHECK_FALSE(framework_of("nemo_docs", "").dropless_once);
    CHECK(framework_of("mosaic_mpt", "mixed-precision mode DEFAULT").gradients == Dtype::fp32);
    CHECK_FALSE(framework_of("mosaic_mpt", "mixed-precision mode PURE").gradients);
    CHECK(framework_of("deeplearningexamples_bert", "").optimizer == Optimizer::lamb);
    CHECK(
        framework_of("my_cluster", "").words.starts_with("framework not known from source \"my_cluster\", taken as "));
}
