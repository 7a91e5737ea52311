#include "cases/cases.h"
#include "tests/cases/cases_home.h"
#include "tests/truth.h"

using namespace stepcast;

namespace {

const std::vector<std::pair<std::string, std::string>> gpt_row{{"source", "vtrain_multi"},
                                                               {"case_id", "a"},
                                                               {"model", "gpt-3.6B"},
                                                               {"layers", "30"},
                                                               {"hidden", "3072"},
                                                               {"heads", "32"},
                                                               {"kv_heads", "32"},
                                                               {"ffn", "12288"},
                                                               {"vocab", "50257"},
                                                               {"seq", "2048"},
                                                               {"experts", ""},
                                                               {"topk", ""},
                                                               {"gpus", "64"},
                                                               {"gpu", "A100-80GB"},
                                                               {"interconnect", "8x HDR200 IB per node"},
                                                               {"tp", "2"},
                                                               {"pp", "2"},
                                                               {"vp", "1"},
                                                               {"dp", "16"},
                                                               {"ep", ""},
                                                               {"cp", "1"},
                                                               {"sp", "off"},
                                                               {"zero", "0"},
                                                               {"mbs", "8"},
                                                               {"gbs", "512"},
                                                               {"recompute", "full (use_checkpoint true in configs)"},
                                                               {"precision", "fp16"},
                                                               {"value", ""},
                                                               {"unit", ""},
                                                               {"step_s", "3.5"},
                                                               {"notes", ""}};

// The row with some cells replaced.
CaseRow row_with(const std::vector<std::pair<std::string, std::string>>& changes) {
    CaseRow row{"c.csv", 2, {}};
    for (const auto& [column, text] : gpt_row) row.cells[column] = text;
    for (const auto& [column, text] : changes) row.cells[column] = text;
    return row;
}

Case case_with(const std::vector<std::pair<std::string, std::string>>& changes) {
    return case_of(row_with(changes), "");
}
std::string refusal(const std::vector<std::pair<std::string, std::string>>& changes) {
    return complaint([&] { case_with(changes); });
}
bool assumes(const Case& c, const std::string& assumption) {
    return std::find(c.assumptions.begin(), c.assumptions.end(), assumption) != c.assumptions.end();
}

const std::vector<std::pair<std::string, std::string>> deepseek_cells{
    {"source", "simumax_b200"},
    {"model", "deepseek-v3"},
    {"layers", "4"},
    {"hidden", "7168"},
    {"heads", "128"},
    {"kv_heads", "128"},
    {"ffn", "2048"},
    {"vocab", "129280"},
    {"seq", "4096"},
    {"experts", "256"},
    {"topk", "8"},
    {"gpus", "8"},
    {"gpu", "B200-SXM"},
    {"tp", "1"},
    {"pp", "1"},
    {"dp", "8"},
    {"ep", "8"},
    {"zero", "1"},
    {"mbs", "1"},
    {"gbs", "32"},
    {"recompute", "none (release cases)"},
    {"precision", "bf16"},
    {"notes", "peak allocated 104.3 GiB measured; 1 dense layer of the 4 (release note)"}};

}  // namespace

TEST_CASE("a row of a transformer becomes the experiment that its columns say") {
    const CasesHome home;
    const Case c = case_with({});
    const Experiment& e = c.experiment;
    CHECK(c.series == "gpt-3.6B");
    CHECK(c.measured_step == Seconds(3.5));
    CHECK(e.workload.kind == Workload::Kind::transformer);
    CHECK(e.workload.layers == 30);
    CHECK(e.workload.hidden == 3072);
    CHECK(e.workload.ffn == 12288);
    CHECK(e.workload.tied);
    CHECK_FALSE(e.workload.gated);
    CHECK(e.workload.dtype == Dtype::fp16);
    CHECK(e.workload.attention == AttentionKind::plain);
    CHECK(e.workload.dropout == 0.1);
    CHECK(e.workload.optimizer == Optimizer::adam);
    CHECK(e.parallelism.tp == 2);
    CHECK(e.parallelism.pp == 2);
    CHECK(e.parallelism.dp == 16);
    CHECK(e.parallelism.micro_batch == 8);
    CHECK(e.parallelism.global_batch == 512);
    CHECK(e.parallelism.recompute == Recompute::full);
    CHECK_FALSE(e.parallelism.overlap);
    CHECK(e.parallelism.gradient_dtype == Dtype::fp16);
    CHECK(e.cluster.nodes == 8);
    CHECK(e.cluster.gpus_per_node == 8);
    CHECK(e.cluster.network.nics == 8);
    CHECK(e.cluster.inter.bandwidth == BytesPerSecond(25e9));
    // Nothing but what a family and a framework imply was left open.
    CHECK(c.assumptions.size() == 2);
    CHECK(c.assumptions[0] == "model family gpt: two-matrix feed-forward, layernorm, learned positions, tied, biases");
    CHECK(c.assumptions[1].starts_with("framework megatron-deepspeed: plain attention, dropout 0.1, 16-bit gradients"));
}

TEST_CASE("what a row does not state is listed with what was taken instead") {
    const CasesHome home;
    const Case c = case_with({{"gpus", ""},
                              {"gpu", "A100 (memory size not stated)"},
                              {"interconnect", "not stated"},
                              {"vp", ""},
                              {"zero", ""},
                              {"precision", "fp16 (assumed)"}});
    CHECK(assumes(c, "gpus not stated: 64, the product of the split"));
    CHECK(assumes(c, "memory of a100 not stated: 80 GiB of dgx-a100"));
    CHECK(assumes(c, "network between nodes not stated: 8 NICs of 20 GB/s of dgx-a100"));
    CHECK(assumes(c, "vp not stated: 1"));
    CHECK(assumes(c, "zero not stated: 0"));
    CHECK(assumes(c, "precision: fp16 (assumed)"));
    CHECK(assumes(case_with({{"vp", "n/a"}}), "vp not stated: 1"));
    CHECK(assumes(case_with({{"sp", ""}}), "sp not stated: off"));
    CHECK(assumes(case_with({{"mbs", ""}}), "mbs not stated: 1, with pipeline stages"));
    CHECK(assumes(case_with({{"mbs", ""}, {"pp", "1"}, {"dp", "32"}}), "mbs not stated: 16, the largest that fits"));
    CHECK(assumes(case_with({{"recompute", "not stated (recipe)"}, {"mbs", "1"}}),
                  "recompute not stated: none, the least that fits"));
    CHECK(assumes(case_with({{"precision", ""}}), "precision not stated: bf16"));
    CHECK(assumes(case_with({{"dp", ""}}), "dp not stated: 16 = gpus / (tp x pp x cp)"));
    CHECK(case_with({{"dp", ""}}).experiment.parallelism.dp == 16);
}

// 800 Gb/s of a node are 100 GB/s, over 8 NICs 12.5 each; "per GPU" is one NIC a rank.
TEST_CASE("the network of a row is the one that its interconnect states") {
    const CasesHome home;
    const auto network = [](const std::string& text) {
        const Cluster c = case_with({{"interconnect", text}}).experiment.cluster;
        return std::pair{c.network.nics, c.inter.bandwidth.si()};
    };
    CHECK(network("NVSwitch node of 8; 800 Gb/s per node between nodes (from the config)") == std::pair{0, 12.5e9});
    CHECK(network("NVSwitch in node; 1600 Gb/s RoCE per node") == std::pair{0, 25e9});
    CHECK(network("NVLink in node, 400 Gb/s RDMA per GPU") == std::pair{0, 50e9});
    CHECK(network("NVLink 4 + NVSwitch; 8x ConnectX-7 NDR 400G per node") == std::pair{8, 50e9});
    CHECK(network("NVLink 4 + 4x400G IB per node") == std::pair{4, 50e9});
    CHECK(network("NVLink 3 in the 8-GPU node, 4 Omni-Path 100 Gb/s links per node") == std::pair{4, 12.5e9});
    CHECK(network("NVLink/NVSwitch in node, 8x HDR200 IB per node (not read)") == std::pair{8, 25e9});
    CHECK(network("DGX H100 cluster (fabric not stated)") == std::pair{0, 20e9});
}

TEST_CASE("a row's device is the shipped cluster of its family, with the memory that it states") {
    const CasesHome home;
    const auto cluster = [](const std::string& gpu) { return case_with({{"gpu", gpu}}).experiment.cluster; };
    CHECK(cluster("H100-80GB-SXM (DGX H100)").name == "dgx-h100");
    CHECK(cluster("dgx-a100").name == "dgx-a100");
    CHECK(cluster("A100-40GB? (DGX-A100)").gpu.memory == parse_bytes("40 GiB"));
    CHECK(cluster("A100-40GB? (DGX-A100)").gpu.memory_bandwidth == BytesPerSecond(1.555e12));
    CHECK(cluster("A100-80GB-SXM (400 W)").gpu.memory_bandwidth == BytesPerSecond(2e12));
    CHECK(cluster("H100-96GB (HBM2e, 500 W)").gpu.memory_bandwidth == BytesPerSecond(2.4e12));
    for (const char* unknown : {"V100-32GB (DGX-2)", "GB200", "H800", "A100-PCIe-80GB-x"})
        if (std::string(unknown).starts_with("A100"))
            CHECK(cluster(unknown).name == "dgx-a100");
        else
            CHECK(refusal({{"gpu", unknown}}) == "c.csv:2: gpu: no cluster is known for \"" + std::string(unknown) +
                                                     "\"; expected one of B200, A100-SXM, H100-SXM, or name one with "
                                                     "--cluster");
    const Case named = case_of(row_with({{"gpu", "V100"}}), "dgx-h100");
    CHECK(named.experiment.cluster.name == "dgx-h100");
    CHECK(named.experiment.cluster.inter.bandwidth == BytesPerSecond(20e9));  // the V100's network says nothing of it
}

TEST_CASE("a row says how many GPUs a node has") {
    const CasesHome home;
    const int usual = case_with({}).experiment.cluster.gpus_per_node;
    REQUIRE(usual == 8);
    for (const auto& [column, text] : {std::pair("notes", "gpus_per_node=4; session 3"), std::pair("interconnect", "NVLink3 4-GPU mesh")}) {
        const Case c = case_with({{column, text}});
        CHECK(c.experiment.cluster.gpus_per_node == 4);
        CHECK(c.experiment.cluster.nodes == 16);
        CHECK(assumes(c, "nodes of 4 GPUs, as stated"));
    }
    const Case wider = case_with({{"notes", "gpus_per_node=16"}});  // more than its switch has: not in silence
    CHECK(wider.experiment.cluster.gpus_per_node == 8);
    CHECK(std::any_of(wider.assumptions.begin(), wider.assumptions.end(), [](const std::string& said) {
        return said.starts_with("nodes of 16 GPUs are stated: 8 as in dgx-a100");
    }));
}

TEST_CASE("fewer ranks than a node are one smaller node, more are spread evenly over at least half-filled nodes") {
    const CasesHome home;
    const Cluster c = case_with({{"gpus", "4"}, {"tp", "1"}, {"pp", "1"}, {"dp", "4"}}).experiment.cluster;
    CHECK(c.nodes == 1);
    CHECK(c.gpus_per_node == 4);
    const Case twelve = case_with({{"gpus", "12"}, {"tp", "1"}, {"pp", "1"}, {"dp", "12"}, {"gbs", "96"}});
    CHECK(twelve.experiment.cluster.nodes == 2);
    CHECK(twelve.experiment.cluster.gpus_per_node == 6);
    CHECK(assumes(twelve, "6 ranks on each node of 8"));
    CHECK(refusal({{"gpus", "13"}, {"tp", "1"}, {"pp", "1"}, {"dp", "13"}}) ==
          "c.csv:2: gpus: 13 is no multiple of the 8 of a node of dgx-a100");
}

TEST_CASE("a DeepSeek row has latent attention, dense first layers, shared experts and its measured peak") {
    const CasesHome home;
    const Case c = case_with(deepseek_cells);
    const Workload& w = c.experiment.workload;
    CHECK(w.attention == AttentionKind::mla);
    CHECK(w.mla == Mla{1536, 512, 128, 64, 128});
    CHECK(w.ffn == 18432);
    CHECK(w.moe == Moe{.experts = 256,
                       .top_k = 8,
                       .shared_experts = 1,
                       .ffn = 2048,
                       .dense_layers = 1,
                       .groups = 8,
                       .top_groups = 4,
                       .router_bias = true});
    CHECK(c.experiment.routing.kind == RoutingSpec::Kind::uniform);
    CHECK(assumes(c, "routing not stated: uniform"));
    CHECK(c.measured_peak == parse_bytes("104.3 GiB"));
    CHECK_FALSE(c.experiment.parallelism.overlap_p2p);
    CHECK(c.experiment.parallelism.gradient_dtype == Dtype::fp32);
}

TEST_CASE("a row says whether embedding and logits share their weights, and what its allocator reserved") {
    const CasesHome home;
    CHECK_FALSE(case_with(deepseek_cells).experiment.workload.tied);
    auto cells = deepseek_cells;
    cells.emplace_back("notes", "tied embeddings; peak reserved 50.18 GiB on rank 0");
    CHECK(case_with(cells).experiment.workload.tied);
    CHECK(case_with(cells).measured_peak == parse_bytes("50.18 GiB"));
    cells.back().second = "untied embeddings";
    CHECK_FALSE(case_with(cells).experiment.workload.tied);
    cells.back().second = "emptied caches";
    CHECK_FALSE(case_with(cells).experiment.workload.tied);
    CHECK_FALSE(case_with(cells).measured_peak);
}

TEST_CASE("notes about dense layers and shared experts change the family's") {
    const CasesHome home;
    auto cells = deepseek_cells;
    cells.emplace_back("notes", "first layer dense (ffn 12288); shared expert width 3072");
    CHECK(case_with(cells).experiment.workload.moe.dense_layers == 1);
    CHECK(case_with(cells).experiment.workload.ffn == 12288);
    CHECK(case_with(cells).experiment.workload.moe.shared_ffn == 3072);
    cells.back().second = "first 2 layers dense (ffn 1000)";
    CHECK(case_with(cells).experiment.workload.moe.dense_layers == 2);
    cells.back().second = "";
    CHECK(case_with(cells).experiment.workload.moe.dense_layers == 3);
}

TEST_CASE("ZeRO stages are read from the words that tables use") {
    const CasesHome home;
    const auto zero = [](const std::string& text, const std::string& notes = "") {
        const Parallelism p = case_with({{"zero", text}, {"notes", notes}, {"tp", "1"}, {"pp", "1"}, {"dp", "64"}})
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
    CHECK(refusal({{"zero", "offload"}}) == "c.csv:2: zero: \"offload\" is not understood; expected 0, 1, 2 or 3");
    CHECK(case_with({{"zero", "3"}}).experiment.parallelism.overlap);  // ZeRO 3 gathers ahead in every framework
}

TEST_CASE("recompute is read from the words that tables use") {
    const CasesHome home;
    const auto kind = [](const std::string& text) {
        return case_with({{"recompute", text}}).experiment.parallelism.recompute;
    };
    CHECK(kind("none (config default)") == Recompute::none);
    CHECK(kind("selective attention") == Recompute::selective);
    CHECK(kind("core_attn selective (baseline)") == Recompute::selective);
    CHECK(kind("minimal (flash policy)") == Recompute::none);
    CHECK(kind("norm, act") == Recompute::none);
    CHECK(kind("moe_act") == Recompute::none);
    CHECK(kind("save_nothing") == Recompute::full);
    CHECK(refusal({{"recompute", "often"}}) ==
          "c.csv:2: recompute: \"often\" is not understood; expected none, selective or full");
}

TEST_CASE("torchtitan's operator policy, row-wise fp8 and asynchronous tensor parallelism are read") {
    const CasesHome home;
    const Case c = case_with({{"source", "torchtitan"},
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
    CHECK_FALSE(c.experiment.workload.row_scales);
    CHECK(c.experiment.parallelism.gradient_dtype == Dtype::fp32);
    CHECK(assumes(c, "recompute selective (op): every second matrix product of each layer"));
    CHECK(case_with({{"source", "torchtitan"}, {"gpus", "8"}, {"tp", "1"}, {"pp", "1"}, {"dp", "8"},
                     {"recompute", "selective per op"}})
              .experiment.parallelism.recompute == Recompute::alternate);
    const Case rows = case_with({{"source", "torchtitan"}, {"gpus", "8"}, {"gpu", "H100"}, {"tp", "8"}, {"pp", "1"}, {"dp", "1"}, {"sp", "on"},
                                 {"precision", "float8 rowwise"}, {"notes", "async TP; compile"}});
    CHECK(rows.experiment.workload.row_scales);
    CHECK(rows.experiment.parallelism.overlap_tp);
    CHECK_FALSE(rows.experiment.workload.fused_projections);
}

// nanotron's blocks by matrix products (models/base.py, build_model), 16 layers of 67.1 million and logits of 268.4 million, as
// much as 4 layers: 20 units. pp 4, 5 a stage: layers 1 to 5, to 10, to 15, then one and the logits; pp 2: 10 and 6; pp 8, 2.5 a
// stage: full after layers 3, 5, 8, 10, 13 and 15, and the last holds the logits alone.
TEST_CASE("stages balanced by matrix products may leave the last to the logits") {
    const CasesHome home;
    const auto stages = [](const std::string& pp) {
        return case_with({{"framework", "nanotron"}, {"layers", "16"}, {"hidden", "2048"}, {"heads", "32"}, {"kv_heads", "32"},
                          {"ffn", "8192"}, {"vocab", "131072"}, {"model", "llama-1.3b"}, {"gpus", "8"}, {"tp", "1"},
                          {"pp", pp}, {"dp", std::to_string(8 / std::stoi(pp))}})
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
        return case_with({{"layers", layers}, {"gpus", "64"}, {"tp", "1"}, {"pp", "8"}, {"vp", "8"}, {"dp", "8"}})
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
    for (const auto& [column, text] :
         std::vector<std::pair<std::string, std::string>>{{"gpus", "16"}, {"tp", "2"}, {"dp", "8"}, {"ep", "16"}})
        cells.emplace_back(column, text);
    CHECK_FALSE(case_with(cells).experiment.parallelism.expert_tensor_parallel);
    cells.emplace_back("ep", "32");
    CHECK(refusal(cells) == "c.csv:2: parallelism.ep: 32 does not divide dp x cp x tp = 16");
    CHECK(case_with({{"model", "mixtral-8x7b"}, {"experts", "8"}, {"topk", "2"}, {"ep", "8"}})
              .experiment.parallelism.expert_tensor_parallel);
}

// MPT rows state their parameters. 12 x 768^2 x 12 + 50368 x 768 = 123,617,280 without positions and biases; norms add
// 25 x 768 = 19,200 (one weight each): 123,636,480 is ALiBi without biases.
TEST_CASE("a stated parameter count decides between learned positions and attention biases") {
    const CasesHome home;
    const auto with = [](const std::string& params) {
        return case_with({{"source", "mosaic_mpt"},
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
    CHECK(with("125311488").experiment.parallelism.gradient_dtype == Dtype::fp16);
    const Case alibi = with("123636480");
    CHECK(alibi.experiment.workload.positions == Positions::none);
    CHECK_FALSE(alibi.experiment.workload.linear_bias);
    CHECK(assumes(alibi, "parameters as stated: positions none, no biases"));
    CHECK(assumes(with("1000"), "parameters stated: 1000, counted 125311488"));
}

TEST_CASE("a row of other or contradictory work is refused with the column") {
    const CasesHome home;
    CHECK(refusal({{"layers", ""}}) == "c.csv:2: layers: missing; expected a count");
    CHECK(refusal({{"dp", "8"}}) == "c.csv:2: tp 2 x pp 2 x dp 8 x cp 1 = 32 ranks, but gpus is 64");
    CHECK(refusal({{"layers", "1000000"}}) == "c.csv:2: layers: 1000000 is out of range; expected 1 to 10000");
    CHECK(refusal({{"gbs", ""}}) == "c.csv:2: gbs: missing; expected the sequences of a step");
    CHECK(refusal({{"experts", "8"}}) == "c.csv:2: topk: missing, but there are 8 experts");
    CHECK(refusal({{"model", "deepseek-v3"}}) == "c.csv:2: experts: missing; the model has expert layers");
    CHECK(refusal({{"model", "qwen3-next-80b"}}) ==
          "c.csv:2: model: \"qwen3-next-80b\" is not modelled: a hybrid of linear and full attention");
    CHECK(refusal({{"model", "resnet"}}).starts_with("c.csv:2: model: \"resnet\" is of no known family and no preset"));
    CHECK(refusal({{"notes", "RLHF rollouts"}}) ==
          "c.csv:2: notes: \"rlhf\" is other work than the training step that is modelled");
    CHECK(refusal({{"precision", "int8"}}).starts_with("c.csv:2: precision: \"int8\" names no dtype that is modelled"));
    CHECK(refusal({{"precision", "nvfp4"}}).starts_with("c.csv:2: cluster.gpu.peak.fp4: device \"A100-SXM\" has no"));
    CHECK(refusal({{"precision", "fp8"}}) ==
          "c.csv:2: cluster.gpu.peak.fp8: device \"A100-SXM\" has no such rate; it has fp32, tf32, fp16, bf16; set "
          "this key "
          "or choose another workload.dtype");
    CHECK(refusal({{"heads", "31"}}) == "c.csv:2: heads: 31 do not divide the hidden width 3072");
    CHECK(refusal({{"mbs", "7"}}) == "c.csv:2: parallelism.global_batch: 512 is no multiple of dp x micro_batch = 112");
    CHECK(refusal({{"step_s", ""}}) == "c.csv:2: step_s: missing; nothing to compare with");
}

// 64 tokens/s on each of 64 ranks: 512 x 2048 / 4096 = 256 s.
TEST_CASE("a step that its own value contradicts is refused") {
    const CasesHome home;
    CHECK(refusal({{"value", "3500"}, {"unit", "ms"}}).empty());
    CHECK(refusal({{"value", "3400"}, {"unit", "ms (approx)"}}) ==
          "c.csv:2: step_s: 3.5, but value 3400 ms (approx) makes 3.4 s");
    CHECK(refusal({{"value", "35"}, {"unit", "s"}}) == "c.csv:2: step_s: 3.5, but value 35 s makes 35 s");
    CHECK(refusal({{"value", "64"}, {"unit", "tokens/s/GPU"}}) ==
          "c.csv:2: step_s: 3.5, but value 64 tokens/s/GPU makes 256 s");
    CHECK(refusal({{"value", "64"}, {"unit", "TFLOP/s/GPU"}}).empty());
}

TEST_CASE("rows of a file are compared each on its own, and a case told twice counts once") {
    const CasesHome home;
    std::string header, cells;
    for (const auto& [column, text] : gpt_row) {
        header += (header.empty() ? "" : ",") + column;
        cells += (cells.empty() ? "" : ",") + text;
    }
    std::string broken = cells;
    broken.replace(broken.find(",30,"), 4, ",,");
    broken.replace(broken.find(",a,"), 3, ",b,");
    const auto path = home.folder().write("c.csv", header + "\n" + cells + "\n" + broken + "\n" + cells + "\n");
    const auto found = read_comparisons(path, "");
    REQUIRE(found.size() == 3);
    CHECK(found[0].refused_because.empty());
    CHECK(found[1].refused_because == path + ":3: layers: missing; expected a count");
    CHECK(found[1].what.case_id == "b");
    CHECK(found[1].what.measured_step == Seconds(3.5));
    CHECK(found[2].refused_because == path + ":4: case_id: \"a\" is also in line 2; expected each case once");
    CHECK(read_comparisons(home.folder().write("d.csv", header + "\n"), "").empty());
}

TEST_CASE("rows of published tables are accepted (where shared/truth is)") {
    if (truth_is_absent()) return;
    const std::string truth = truth_folder();
    const CasesHome home;
    const auto refused = [&](const std::string& name) {
        std::vector<std::string> ids;
        for (const Comparison& c : read_comparisons(truth + "/" + name + ".csv", ""))
            if (!c.refused_because.empty()) ids.push_back(c.what.case_id);
        return ids;
    };
    for (const char* name : {"vtrain_multi", "simumax_b200", "mosaic_mpt", "mlperf_training", "nemo_docs",
                             "pytorch_jax_fsdp", "small_gpt"})
        CHECK(refused(name).empty());
    // These clusters are without V100.
    CHECK(refused("megatron_papers") == std::vector<std::string>{"meg20_1B_V100_mp1", "meg20_8B_V100_mp8"});
}
