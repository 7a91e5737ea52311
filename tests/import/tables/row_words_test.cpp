// What the words of a row say of its split: shards, recompute, stages, experts and positions.

#include "model/runtime_rules.h"
#include "tests/import/tables/cases_home.h"
#include "tests/import/tables/transformer_rows.h"

using namespace stepcast;

TEST_CASE("ZeRO stages are read from the words that tables use") {
    const CasesHome home;
    const auto zero = [](const std::string& text, const std::string& notes = "") {
        const Parallelism p =
            gpt_case_with(
                {{"zero", text}, {"notes", notes}, {"tp", "1"}, {"pp", "1"}, {"dp", "64"}})
                .experiment.parallelism;
        return std::pair{p.zero, p.shard};
    };
    CHECK(zero("2") == std::pair{2, 0});
    CHECK(zero("1 (distributed optimizer)") == std::pair{1, 0});
    CHECK(zero("distributed optimizer (Megatron default in these recipes)") == std::pair{1, 0});
    CHECK(zero("0/1 (DDP, distributed optimizer by default)") == std::pair{1, 0});
    CHECK(zero("3") == std::pair{3, 0});
    CHECK(zero("3 hybrid (shard in node)") == std::pair{3, 8});
    CHECK(zero("FSDP group 16") == std::pair{3, 16});
    CHECK(zero("3", "JAX MaxText; FSDP group 128 (or all GPUs when fewer)") == std::pair{3, 0});
    CHECK(zero("3", "JAX MaxText; FSDP group 32 (or all GPUs when fewer)") == std::pair{3, 32});
    CHECK(zero("FSDP2 fully_shard") == std::pair{3, 0});
    // 3.6 billion weights over tp 2 and pp 2 fit 80 GB with all states: zero 0
    const Case other = gpt_case_with({{"zero", "offload"}});
    CHECK(other.experiment.parallelism.zero == 0);
    CHECK(takes_for_granted(other,
                            "zero: \"offload\" is not understood (expected 0, 1, 2 or 3): taken as "
                            "not stated"));
    // ZeRO 3 gathers ahead in every framework
    CHECK(overlaps_gradients(gpt_case_with({{"zero", "3"}}).experiment));
}

// Rows train with Adam unless they say otherwise; a word within another is none.
TEST_CASE("optimizers and what the host keeps are read from a row's notes") {
    const CasesHome home;
    const auto of = [](const std::string& notes) {
        return gpt_case_with({{"source", "deepspeed"},
                              {"zero", "3"},
                              {"pp", "1"},
                              {"dp", "32"},
                              {"mbs", "1"},
                              {"gbs", "32"},
                              {"notes", notes}})
            .experiment;
    };
    CHECK(of("seconds a step").workload.optimizer == Optimizer::adam);
    CHECK(of("routing balanced; Muon optimizer; MLA").workload.optimizer == Optimizer::muon);
    CHECK(of("with paged_adamw_8bit").workload.optimizer == Optimizer::adam8bit);
    CHECK(of("8-bit Adam, batch 4").workload.optimizer == Optimizer::adam8bit);
    CHECK(of("Adafactor").workload.optimizer == Optimizer::adafactor);
    CHECK(of("no 8-bit Adam").workload.optimizer == Optimizer::adam);
    CHECK(of("with paged_adamw_8bit").run.paged_optimizer);
    CHECK_FALSE(of("8-bit Adam, batch 4").run.paged_optimizer);
    CHECK(of("seconds a step").runtime.optimizer.master_weights);
    CHECK_FALSE(of("lightning, bf16-true").runtime.optimizer.master_weights);
    CHECK(of("seconds a step").runtime.optimizer.fused);
    CHECK_FALSE(of("adamw-foreach").runtime.optimizer.fused);
    const auto host = [&](const std::string& notes) {
        const Run run = of(notes).run;
        return std::pair{run.offload_optimizer, run.offload_parameters};
    };
    CHECK(host("seconds a step") == std::pair{false, false});
    CHECK(host("optimizer offload") == std::pair{true, false});
    CHECK(host("optimizer and parameters offloaded to CPU") == std::pair{true, true});
    CHECK(host("parameters offloaded to CPU (2.1x)") == std::pair{true, true});
    CHECK(host("FSDP with CPU offload of parameters and optimizer") == std::pair{true, true});
    CHECK(host("fsdp_cpu_offload: true") == std::pair{true, true});
    CHECK(host("CPU offload of the optimizer") == std::pair{true, false});
    CHECK(host("activation offloading") == std::pair{false, false});
}

// torchtitan has zero 0, 2 and 3; DeepSpeed's rows state what they mean.
TEST_CASE("FSDP in a pipeline keeps its weights gathered, unless the row says that it reshards") {
    const CasesHome home;
    const auto zero = [](const std::string& source, const std::string& pp,
                         const std::string& notes = "") {
        return gpt_case_with({{"source", source},
                              {"zero", "3"},
                              {"pp", pp},
                              {"dp", pp == "2" ? "16" : "32"},
                              {"recompute", "full"},
                              {"notes", notes}})
            .experiment.parallelism.zero;
    };
    CHECK(zero("torchtitan", "2") == 2);
    CHECK(zero("torchtitan", "1") == 3);
    CHECK(zero("torchtitan", "2", "FSDP2 reshard after forward") == 3);
    CHECK(zero("vtrain_multi", "2") == 3);
}

// Until 2024 torchtitan cut the 32 sequences of each of 16 replicas into as many micro-batches as
// there are stages: two of 16. 0.1.0 of 2025 has micro-batches of one sequence, and so has all
// other software here.
TEST_CASE("micro-batches that a row leaves open are those of its software's year") {
    const CasesHome home;
    const auto batch = [](const std::string& source, const std::string& ref) {
        return gpt_case_with({{"source", source},
                              {"ref", ref},
                              {"pp", "2"},
                              {"dp", "16"},
                              {"gbs", "512"},
                              {"mbs", ""},
                              {"recompute", "full"}})
            .experiment.parallelism.micro_batch;
    };
    CHECK(batch("torchtitan", "benchmarks/llama3_h100_202412_torchtitan.md") == 16);
    CHECK(batch("torchtitan", "benchmarks/llama3_h100_202506_torchtitan.md") == 1);
    CHECK(batch("vtrain_multi", "llama3_h100_202412_torchtitan.md") == 1);
}

// llm.c has an attention of its own where cuDNN's is not built in; "with" says nothing.
TEST_CASE("a row that ran without a fused attention says so in its notes") {
    const CasesHome home;
    const auto attention = [](const std::string& notes) {
        return gpt_case_with({{"source", "llm.c"}, {"notes", notes}}).experiment.runtime.attention;
    };
    CHECK(attention("without cuDNN attention; 249k tokens/s") == AttentionKind::plain);
    CHECK(attention("with cuDNN attention") == attention(""));
    CHECK(attention("") != AttentionKind::plain);
}

// NeMo 2 runs experts whole, unless a row states otherwise. GPT's have biases, which Megatron-Core
// refuses of split ones, so that a row that ran with these had none.
TEST_CASE("a row states over how many tensor-parallel ranks an expert is split") {
    const CasesHome home;
    const auto split = [](const std::string& notes) {
        const Case c = gpt_case_with({{"framework", "nemo-2"},
                                      {"experts", "8"},
                                      {"topk", "2"},
                                      {"ep", "8"},
                                      {"pp", "1"},
                                      {"dp", "32"},
                                      {"sp", "on"},
                                      {"recompute", "full"},
                                      {"notes", notes}});
        const ExpertSplit how = c.experiment.runtime.experts.tensor_parallel;
        CHECK(c.experiment.workload.linear_bias == (how == ExpertSplit::none));
        return how;
    };
    CHECK(split("") == ExpertSplit::none);
    CHECK(split("pretrain; expert tensor parallel 2") == ExpertSplit::all);
    CHECK(split("Expert tensor parallel = tp (Megatron default)") == ExpertSplit::all);
    CHECK(split("expert tensor parallel not set (= tp)") == ExpertSplit::all);
    CHECK(split("expert tensor parallel 1") == ExpertSplit::none);
    CHECK(split("expert tensor parallel 4") == ExpertSplit::none);  // tp is 2: the framework's
}

TEST_CASE("recompute is read from the words that tables use") {
    const CasesHome home;
    const auto kind = [](const std::string& text) {
        return gpt_case_with({{"recompute", text}}).experiment.parallelism.recompute;
    };
    CHECK(kind("none (config default)") == Recompute::none);
    CHECK(kind("selective attention") == Recompute::selective);
    CHECK(kind("core_attn selective (baseline)") == Recompute::selective);
    CHECK(kind("minimal (flash policy)") == Recompute::none);
    CHECK(kind("norm, act") == Recompute::none);
    CHECK(kind("moe_act") == Recompute::none);
    CHECK(kind("save_nothing") == Recompute::full);
    for (const char* full :
         {"1", "uniform 1", "block", "unsloth", "all layers", "True", "activation_checkpointing"})
        CHECK(kind(full) == Recompute::full);
    CHECK(kind("0") == Recompute::none);
}

// 30 layers on two stages: 4 of a stage's 15, and all where more are asked for.
TEST_CASE("recompute of so many layers is read") {
    const CasesHome home;
    const auto layers = [](const std::string& text) {
        const Parallelism p = gpt_case_with({{"recompute", text}}).experiment.parallelism;
        CHECK(p.recompute == Recompute::full);
        return p.recompute_layers;
    };
    CHECK(layers("4 layers") == 4);
    CHECK(layers("15 layers") == 0);
    CHECK(layers("full (uniform, 5 layers)") == 0);
}

// The row is forecast as one that says nothing of it, with the same readings besides.
TEST_CASE("words that nobody knows are said to be taken as not stated") {
    const CasesHome home;
    const Case silent = gpt_case_with({{"recompute", ""}, {"sp", ""}}),
               other = gpt_case_with({{"recompute", "often"}, {"sp", "Ulysses"}});
    CHECK(other.experiment == silent.experiment);
    CHECK(
        takes_for_granted(other,
                          "recompute: \"often\" is not understood (expected none, selective, full "
                          "or modules of Megatron-Core): taken as not stated"));
    CHECK(takes_for_granted(
        other, "sp: \"Ulysses\" is not understood (expected on or off): taken as not stated"));
}

TEST_CASE(
    "torchtitan's operator policy, row-wise fp8 and asynchronous tensor parallelism are read") {
    const CasesHome home;
    const Case c = gpt_case_with({{"source", "torchtitan"},
                                  {"model", "llama3-8b"},
                                  {"layers", "32"},
                                  {"hidden", "4096"},
                                  {"kv_heads", "8"},
                                  {"ffn", "14336"},
                                  {"gpus", "8"},
                                  {"gpu", "H100"},
                                  {"tp", "1"},
                                  {"pp", "1"},
                                  {"dp", "8"},
                                  {"gbs", "64"},
                                  {"zero", "3"},
                                  {"recompute", "selective (op)"},
                                  {"precision", "float8 (linears)"}});
    CHECK(c.experiment.parallelism.recompute == Recompute::alternate);
    CHECK(c.experiment.workload.dtype == Dtype::fp8);
    CHECK_FALSE(c.experiment.runtime.row_scales);
    CHECK(gradient_type(c.experiment) == Dtype::fp32);
    CHECK(takes_for_granted(c,
                            "recompute selective (op): every second matrix product of each layer"));
    CHECK(gpt_case_with({{"source", "torchtitan"},
                         {"gpus", "8"},
                         {"tp", "1"},
                         {"pp", "1"},
                         {"dp", "8"},
                         {"recompute", "selective per op"}})
              .experiment.parallelism.recompute == Recompute::alternate);
    const Case second = gpt_case_with({{"source", "torchtitan"},
                                       {"gpus", "8"},
                                       {"tp", "1"},
                                       {"pp", "1"},
                                       {"dp", "8"},
                                       {"recompute", "selective (every 2nd layer)"}});
    CHECK(second.experiment.parallelism.recompute == Recompute::full);
    CHECK(second.experiment.parallelism.recompute_layers == second.experiment.workload.layers / 2);
    // torchtitan's words of its report on A100, and its bare default: it has no recompute of the
    // scores alone. Megatron's "selective" stays that.
    for (const auto& [words, source, layers, kind] :
         {std::tuple("selective op", "torchtitan", 0, Recompute::alternate),
          {"selective, every other layer (option not printed)", "torchtitan", 15, Recompute::full},
          {"selective (default of the file)", "torchtitan", 0, Recompute::alternate},
          {"selective (core attention)", "vtrain", 0, Recompute::selective}}) {
        CAPTURE(words);
        const Parallelism p = gpt_case_with({{"source", source},
                                             {"gpus", "8"},
                                             {"tp", "1"},
                                             {"pp", "1"},
                                             {"dp", "8"},
                                             {"recompute", words}})
                                  .experiment.parallelism;
        CHECK(p.recompute == kind);
        CHECK(p.recompute_layers == layers);
    }
    const Case rows = gpt_case_with({{"source", "torchtitan"},
                                     {"gpus", "8"},
                                     {"gpu", "H100"},
                                     {"tp", "8"},
                                     {"pp", "1"},
                                     {"dp", "1"},
                                     {"sp", "on"},
                                     {"precision", "float8 rowwise"},
                                     {"notes", "async TP; compile"}});
    CHECK(rows.experiment.runtime.row_scales);
    CHECK(overlaps_tensor(rows.experiment));
    CHECK_FALSE(rows.experiment.runtime.fused_projections);
}

// nanotron's blocks by matrix products (models/base.py, build_model), 16 layers of 67.1 million and
// logits of 268.4 million, as much as 4 layers: 20 units. pp 4, 5 a stage: layers 1 to 5, to 10, to
// 15, then one and the logits; pp 2: 10 and 6; pp 8, 2.5 a stage: full after layers 3, 5, 8, 10, 13
// and 15, and the last holds the logits alone.
TEST_CASE("stages balanced by matrix products may leave the last to the logits") {
    const CasesHome home;
    const auto stages = [](const std::string& pp) {
        return gpt_case_with({{"framework", "nanotron"},
                              {"layers", "16"},
                              {"hidden", "2048"},
                              {"heads", "32"},
                              {"kv_heads", "32"},
                              {"ffn", "8192"},
                              {"vocab", "131072"},
                              {"model", "llama-1.3b"},
                              {"gpus", "8"},
                              {"tp", "1"},
                              {"pp", pp},
                              {"dp", std::to_string(8 / std::stoi(pp))}})
            .experiment.parallelism.stage_layers;
    };
    CHECK(stages("2") == std::vector{10, 6});
    CHECK(stages("4") == std::vector{5, 5, 5, 1});
    CHECK(stages("8") == std::vector{3, 2, 3, 2, 3, 2, 1, 0});
}

// 126 layers over 8 stages of 8 chunks: 128 = 64 x 2, so the first and last chunk hold one.
TEST_CASE("layers that do not divide leave room beside embedding and logits where that divides") {
    const CasesHome home;
    const auto chunks = [](const std::string& layers) {
        return gpt_case_with({{"layers", layers},
                              {"gpus", "64"},
                              {"tp", "1"},
                              {"pp", "8"},
                              {"vp", "8"},
                              {"dp", "8"}})
            .experiment.parallelism.stage_layers;
    };
    REQUIRE(chunks("126").size() == 64);
    CHECK(chunks("126").front() == 1);
    CHECK(chunks("126").back() == 1);
    CHECK(chunks("126")[1] == 2);
    CHECK(chunks("128").empty());
    CHECK(chunks("100").empty());
}

TEST_CASE("fine-grained experts stay whole under tensor parallelism, wide ones are split") {
    const CasesHome home;
    auto cells = deepseek_cells;
    for (const auto& [column, text] : std::vector<std::pair<std::string, std::string>>{
             {"gpus", "16"}, {"tp", "2"}, {"sp", "on"}, {"dp", "8"}, {"ep", "16"}})
        cells.emplace_back(column, text);
    CHECK_FALSE(splits_experts(gpt_case_with(cells).experiment));
    cells.emplace_back("ep", "32");
    CHECK(gpt_refusal(cells) == "c.csv:2: parallelism.ep: 32 does not divide dp x cp x tp = 16");
    const Case mixtral =
        gpt_case_with({{"model", "mixtral-8x7b"}, {"experts", "8"}, {"topk", "2"}, {"ep", "8"}});
    CHECK(splits_experts(mixtral.experiment));
}

// MPT rows state their parameters. 12 x 768^2 x 12 + 50368 x 768 = 123,617,280 without positions
// and biases; norms add 25 x 768 = 19,200 (one weight each): 123,636,480 is ALiBi without biases.
TEST_CASE("a stated parameter count decides between learned positions and attention biases") {
    const CasesHome home;
    const auto with = [](const std::string& params) {
        return gpt_case_with({{"source", "mosaic_mpt"},
                              {"model", "mpt-125m"},
                              {"layers", "12"},
                              {"hidden", "768"},
                              {"heads", "12"},
                              {"kv_heads", "12"},
                              {"ffn", "3072"},
                              {"vocab", "50368"},
                              {"notes", "mode PURE; params " + params}});
    };
    CHECK(with("125311488").experiment.workload.positions == Positions::learned);
    CHECK(gradient_type(with("125311488").experiment) == Dtype::fp16);
    const Case alibi = with("123636480");
    CHECK(alibi.experiment.workload.positions == Positions::none);
    CHECK_FALSE(alibi.experiment.workload.linear_bias);
    CHECK(takes_for_granted(alibi, "parameters as stated: positions none, no biases"));
    CHECK(takes_for_granted(with("1000"), "parameters stated: 1000, counted 125311488"));
}

// 20 of 128 positions are masked: 20 / 128 = 0.15625 of the logits are made. A causal model has no
// masked positions, and a count that no sequence has is none. Where nobody counts them BERT masks
// 0.15 of all, which Megatron and Transformers make the logits of nevertheless.
TEST_CASE("logits of masked positions alone are those that the row counts, or BERT's") {
    const CasesHome home;
    const auto share = [](const char* model, const char* notes, const char* source = "x") {
        return gpt_case_with(
                   {{"source", source}, {"model", model}, {"seq", "128"}, {"notes", notes}})
            .experiment.workload.head_share;
    };
    CHECK(share("bert-base", "sequence 128, 20 masked predictions (BERT phase 1)") == 0.15625);
    CHECK(share("bert-base", "sequence 128") == 0.15);
    CHECK(share("bert-base", "sequence 128", "megatron-lm") == 1);
    CHECK(share("bert-base", "sequence 128", "transformers") == 1);
    CHECK(share("bert-base", "200 masked predictions") == 1);
    CHECK(share("gpt-3.6B", "20 masked predictions") == 1);
    CHECK(share("gpt-3.6B", "sequence 128") == 1);
}

// Devlin et al. 2018: 0.1 on all layers, whoever trains it.
TEST_CASE("BERT drops a tenth, GPT nothing that its framework does not") {
    const CasesHome home;
    const auto dropout = [](const char* model) {
        return gpt_case_with({{"source", "x"}, {"model", model}}).experiment.workload.dropout;
    };
    CHECK(dropout("bert-large") == 0.1);
    CHECK(dropout("gpt-3.6B") == 0);
}

// FlashAttention's page prints the width of another size's heads beside these.
TEST_CASE("a width of heads in the notes is of no GPT with learned positions") {
    const CasesHome home;
    const Case c = gpt_case_with({{"notes", "sizes not printed; 2.7B uses head dim 128"}});
    REQUIRE(c.experiment.workload.positions == Positions::learned);
    CHECK(c.experiment.workload.head_dim == 0);
}
