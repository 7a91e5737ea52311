#include <array>

#include <fmt/format.h>

#include "import/tables/case_files.h"
#include "import/tables/case_of.h"
#include "model/runtime_rules.h"
#include "reports/compare_page.h"
#include "tests/import/tables/cases_home.h"
#include "tests/import/tables/transformer_rows.h"
#include "tests/truth.h"

using namespace stepcast;
using Catch::Contains;

TEST_CASE("a row of a transformer becomes the experiment that its columns say") {
    const CasesHome home;
    const Case c = gpt_case_with({});
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
    CHECK(e.runtime.attention == AttentionKind::plain);
    CHECK(e.workload.dropout == 0.1);
    CHECK(e.workload.optimizer == Optimizer::adam);
    CHECK(e.parallelism.tp == 2);
    CHECK(e.parallelism.pp == 2);
    CHECK(e.parallelism.dp == 16);
    CHECK(e.parallelism.micro_batch == 8);
    CHECK(e.parallelism.global_batch == 512);
    CHECK(e.parallelism.recompute == Recompute::full);
    CHECK_FALSE(overlaps_gradients(e));
    CHECK(gradient_type(e) == Dtype::fp16);
    CHECK(e.cluster.nodes == 8);
    CHECK(e.cluster.gpus_per_node == 8);
    CHECK(e.cluster.network.nics == 8);
    CHECK(e.cluster.inter.bandwidth == BytesPerSecond(25e9));
    // Nothing but what a family and a framework imply was left open.
    CHECK(c.assumptions.size() == 2);
    CHECK(c.assumptions[0] ==
          "model family gpt: two-matrix feed-forward, layernorm, learned positions, tied, biases");
    CHECK(c.assumptions[1].starts_with(
        "framework megatron-deepspeed: plain attention, dropout 0.1, 16-bit gradients"));
}

// However a cell writes its memory, it is that of the 40 GB board, whose rate is 1,555 GB/s.
TEST_CASE("the memory in a row's GPU is its machine's") {
    const CasesHome home;
    for (const char* gpu : {"A100-40GB", "A100-SXM4-40GB", "A100 40 GB", "A100-40G", "a100_40gib",
                            "8x A100 (40GB, 400 W)"}) {
        INFO(gpu);
        const Cluster c = gpt_case_with({{"gpu", gpu}}).experiment.cluster;
        CHECK(c.gpu.memory == Bytes(40.0 * (1 << 30)));
        CHECK(c.gpu.memory_bandwidth == BytesPerSecond(1.555e12));
    }
    // the preset's
    CHECK(gpt_case_with({{"gpu", "A100-80GB"}}).experiment.cluster.gpu.memory_bandwidth ==
          BytesPerSecond(2e12));
}

TEST_CASE("what a row does not state is listed with what was taken instead") {
    const CasesHome home;
    const Case c = gpt_case_with({{"gpus", ""},
                                  {"gpu", "A100 (memory size not stated)"},
                                  {"interconnect", "not stated"},
                                  {"vp", ""},
                                  {"zero", ""},
                                  {"precision", "fp16 (assumed)"}});
    CHECK(takes_for_granted(c, "gpus not stated: 64, the product of the parallel degrees"));
    CHECK(takes_for_granted(c, "memory of a100 not stated: 80 GiB of dgx-a100"));
    CHECK(takes_for_granted(c, "network between nodes not stated: 8 NICs of 20 GB/s of dgx-a100"));
    CHECK(takes_for_granted(c, "vp not stated: 1"));
    CHECK(takes_for_granted(c, "zero not stated: 0, the least that fits"));
    CHECK(takes_for_granted(c, "precision: fp16 (assumed)"));
    CHECK(takes_for_granted(gpt_case_with({{"vp", "n/a"}}), "vp not stated: 1"));
    CHECK(takes_for_granted(gpt_case_with({{"sp", ""}}), "sp not stated: off"));
    CHECK(
        takes_for_granted(gpt_case_with({{"mbs", ""}}), "mbs not stated: 1, with pipeline stages"));
    CHECK(takes_for_granted(gpt_case_with({{"mbs", ""}, {"pp", "1"}, {"dp", "32"}}),
                            "mbs not stated: 16, the largest that fits"));
    CHECK(takes_for_granted(gpt_case_with({{"recompute", "not stated (recipe)"}, {"mbs", "1"}}),
                            "recompute not stated: none, the least that fits"));
    CHECK(takes_for_granted(gpt_case_with({{"precision", ""}}), "precision not stated: bf16"));
    CHECK(takes_for_granted(gpt_case_with({{"dp", ""}}),
                            "dp not stated: 16 = gpus / (tp x pp x cp)"));
    CHECK(gpt_case_with({{"dp", ""}}).experiment.parallelism.dp == 16);
}

// 800 Gb/s of a node are 100 GB/s, over 8 NICs 12.5 each; "per GPU" is one NIC a rank.
TEST_CASE("the network of a row is the one that its interconnect states") {
    const CasesHome home;
    const auto network = [](const std::string& text) {
        const Cluster c = gpt_case_with({{"interconnect", text}}).experiment.cluster;
        return std::pair{c.network.nics, c.inter.bandwidth.si()};
    };
    CHECK(network("NVSwitch node of 8; 800 Gb/s per node between nodes (from the config)") ==
          std::pair{0, 12.5e9});
    CHECK(network("NVSwitch in node; 1600 Gb/s RoCE per node") == std::pair{0, 25e9});
    CHECK(network("NVLink in node, 400 Gb/s RDMA per GPU") == std::pair{0, 50e9});
    CHECK(network("NVLink 4 + NVSwitch; 8x ConnectX-7 NDR 400G per node") == std::pair{8, 50e9});
    CHECK(network("NVLink 4 + 4x400G IB per node") == std::pair{4, 50e9});
    CHECK(network("NVLink 3 in the 8-GPU node, 4 Omni-Path 100 Gb/s links per node") ==
          std::pair{4, 12.5e9});
    CHECK(network("NVLink/NVSwitch in node, 8x HDR200 IB per node (not read)") ==
          std::pair{8, 25e9});
    CHECK(network("DGX H100 cluster (fabric not stated)") == std::pair{0, 20e9});
    for (const char* eight : {"8x 200 Gb/s per node", "8x200 Gb/s IB per node",
                              "NVLink 12x 50 GB/s; 8x200G IB per node"})
        CHECK(network(eight) == std::pair{8, 25e9});
    for (const char* spelled :
         {"100Gb/s per GPU", "100 Gbit/s per GPU", "100Gbps per GPU", "100 GbE per GPU"})
        CHECK(network(spelled) == std::pair{0, 12.5e9});
    CHECK(network("8 x 200 Gb/s per node") == std::pair{8, 25e9});
    // what partial rings reach is vTrain's machine's own, no A100's
    const auto partial_ring = [](const std::string& text) {
        return gpt_case_with({{"interconnect", text}}).experiment.cluster.network.partial_ring;
    };
    const std::string vtrain = "800 Gb/s per node between nodes (from the simulator config)";
    CHECK(partial_ring(vtrain) == Approx(0.289187));
    CHECK(network(vtrain) == std::pair{0, 12.5e9});
    CHECK_THROWS_AS(network("9999999999x200G IB"), ConfigError);
    CHECK(takes_for_granted(gpt_case_with({{"interconnect", "RoCE 100 Gb/s"}}),
                            "network between nodes: \"RoCE 100 Gb/s\" is not understood (expected "
                            "for example 400 Gb/s per GPU, 800 Gb/s per node or "
                            "8x 200 Gb/s per node), so 8 NICs of 20 GB/s of dgx-a100"));
}

TEST_CASE("a row's device is the shipped cluster of its family, with the memory that it states") {
    const CasesHome home;
    const auto cluster = [](const std::string& gpu) {
        return gpt_case_with({{"gpu", gpu}}).experiment.cluster;
    };
    CHECK(cluster("H100-80GB-SXM (DGX H100)").name == "dgx-h100");
    CHECK(cluster("A100-SXM-64GB").gpu.memory == parse_bytes("64 GiB"));  // in no list of cards
    CHECK(cluster("dgx-a100").name == "dgx-a100");
    CHECK(cluster("A100-40GB? (DGX-A100)").gpu.memory == parse_bytes("40 GiB"));
    CHECK(cluster("A100-40GB? (DGX-A100)").gpu.memory_bandwidth == BytesPerSecond(1.555e12));
    CHECK(cluster("A100-80GB-SXM (400 W)").gpu.memory_bandwidth == BytesPerSecond(2e12));
    CHECK(cluster("H100-96GB (HBM2e, 500 W)").gpu.memory_bandwidth == BytesPerSecond(2.4e12));
    for (const char* unknown : {"V100-32GB (DGX-2)", "GB200", "H800", "A100-PCIe-80GB-x"})
        if (std::string(unknown).starts_with("A100"))
            CHECK(cluster(unknown).name == "dgx-a100");
        else
            CHECK(gpt_refusal({{"gpu", unknown}}) ==
                  "c.csv:2: gpu: no cluster is known for \"" + std::string(unknown) +
                      "\"; expected one of B200, A100-SXM, H100-SXM, or name one with "
                      "--cluster (stepcast import --gpu NAME --out FILE.toml writes one where the "
                      "datasheet is known)");
    const Case named = case_of(gpt_row_with({{"gpu", "V100"}}), "dgx-h100");
    CHECK(named.experiment.cluster.name == "dgx-h100");
    // the V100's network says nothing of it
    CHECK(named.experiment.cluster.inter.bandwidth == BytesPerSecond(20e9));
}

TEST_CASE("a row says how many GPUs a node has") {
    const CasesHome home;
    const int usual = gpt_case_with({}).experiment.cluster.gpus_per_node;
    REQUIRE(usual == 8);
    for (const auto& [column, text] : {std::pair("notes", "gpus_per_node=4; session 3"),
                                       std::pair("interconnect", "NVLink3 4-GPU mesh")}) {
        const Case c = gpt_case_with({{column, text}});
        CHECK(c.experiment.cluster.gpus_per_node == 4);
        CHECK(c.experiment.cluster.nodes == 16);
        CHECK(takes_for_granted(c, "nodes of 4 GPUs, as stated"));
    }
    // more than its switch has: not in silence
    const Case wider = gpt_case_with({{"notes", "gpus_per_node=16"}});
    CHECK(wider.experiment.cluster.gpus_per_node == 8);
    CHECK(std::any_of(wider.assumptions.begin(), wider.assumptions.end(),
                      [](const std::string& said) {
                          return said.starts_with("nodes of 16 GPUs are stated: 8 as in dgx-a100");
                      }));
}

TEST_CASE(
    "fewer ranks than a node are one smaller node, more are spread evenly over at least "
    "half-filled nodes") {
    const CasesHome home;
    const Cluster c =
        gpt_case_with({{"gpus", "4"}, {"tp", "1"}, {"pp", "1"}, {"dp", "4"}}).experiment.cluster;
    CHECK(c.nodes == 1);
    CHECK(c.gpus_per_node == 4);
    const Case twelve =
        gpt_case_with({{"gpus", "12"}, {"tp", "1"}, {"pp", "1"}, {"dp", "12"}, {"gbs", "96"}});
    CHECK(twelve.experiment.cluster.nodes == 2);
    CHECK(twelve.experiment.cluster.gpus_per_node == 6);
    CHECK(takes_for_granted(twelve, "6 ranks on each node of 8"));
    CHECK(gpt_refusal({{"gpus", "13"}, {"tp", "1"}, {"pp", "1"}, {"dp", "13"}}) ==
          "c.csv:2: gpus: 13 is no multiple of the 8 of a node of dgx-a100");
}

TEST_CASE(
    "a DeepSeek row has latent attention, dense first layers, shared experts and its measured "
    "peak") {
    const CasesHome home;
    const Case c = gpt_case_with(deepseek_cells);
    const Workload& w = c.experiment.workload;
    CHECK(is_latent(w));
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
    CHECK(takes_for_granted(c, "routing not stated: uniform"));
    CHECK(c.measured_peak == parse_bytes("104.3 GiB"));
    CHECK_FALSE(c.experiment.runtime.exchanges.sends);
    CHECK(gradient_type(c.experiment) == Dtype::fp32);
}

TEST_CASE(
    "a row says whether embedding and logits share their weights, and what its allocator "
    "reserved") {
    const CasesHome home;
    CHECK_FALSE(gpt_case_with(deepseek_cells).experiment.workload.tied);
    auto cells = deepseek_cells;
    cells.emplace_back("notes", "tied embeddings; peak reserved 50.18 GiB on rank 0");
    CHECK(gpt_case_with(cells).experiment.workload.tied);
    CHECK(gpt_case_with(cells).measured_peak == parse_bytes("50.18 GiB"));
    cells.back().second = "untied embeddings";
    CHECK_FALSE(gpt_case_with(cells).experiment.workload.tied);
    cells.back().second = "emptied caches";
    CHECK_FALSE(gpt_case_with(cells).experiment.workload.tied);
    CHECK_FALSE(gpt_case_with(cells).measured_peak);
}

// Megatron-Core raises where experts run over tp without it, so a row that does not say sp had it.
TEST_CASE(
    "sequence parallelism that is not stated is on where the framework runs experts no other way") {
    const CasesHome home;
    const auto with = [](const char* framework, const char* sp, const char* tp,
                         const char* experts) {
        return gpt_case_with({{"model", "mixtral-x"},
                              {"kv_heads", "8"},
                              {"vocab", "32000"},
                              {"experts", experts},
                              {"topk", "2"},
                              {"tp", tp},
                              {"pp", "1"},
                              {"dp", ""},
                              {"ep", "8"},
                              {"sp", sp},
                              {"mbs", "1"},
                              {"framework", framework}});
    };
    const Case unstated = with("megatron-core", "", "2", "8");
    CHECK(unstated.experiment.parallelism.sequence_parallel);
    CHECK(takes_for_granted(unstated,
                            "sp not stated: on, megatron-core runs experts over tp no other way"));
    CHECK_FALSE(with("megatron-core", "", "1", "8").experiment.parallelism.sequence_parallel);
    CHECK_FALSE(with("default", "", "2", "8").experiment.parallelism.sequence_parallel);
    CHECK(takes_for_granted(with("default", "", "2", "8"), "sp not stated: off"));
    CHECK_THAT(
        complaint([&] { with("megatron-core", "off", "2", "8"); }),
        Contains("parallelism.sequence_parallel: false, but megatron-core runs experts on 2"));
    CHECK_FALSE(with("default", "off", "2", "8").experiment.parallelism.sequence_parallel);
}

// megatron-core unties models with learned positions that do not say it. The row says it.
TEST_CASE("what a row says of its embedding stands against its framework") {
    const CasesHome home;
    for (const auto& [framework, notes, tied] : {std::tuple("megatron-core", "", false),
                                                 {"megatron-core", "tied embeddings", true},
                                                 {"megatron-core", "untied", false},
                                                 {"nemo", "", true},
                                                 {"nemo", "untied", false},
                                                 {"nemo", "tied", true}}) {
        CAPTURE(framework, notes);
        const Experiment e = gpt_case_with({{"framework", framework}, {"notes", notes}}).experiment;
        CHECK(e.framework.name == framework);
        CHECK(e.workload.tied == tied);
        Experiment again = e;
        apply_framework(again);
        CHECK(again.workload.tied == tied);
    }
}

// 64 ranks of tp 2 and pp 2 are 16 replicas: 16 x 8 x (4 x 2) = 1024 sequences of 2048 tokens, at
// 64 x 1024 tokens/s 32 s. Without a micro-batch a replica takes 16,384 / 2048 = 8. A rate of all
// GPUs, no pipeline: 16 x 8 = 128 sequences a step.
TEST_CASE("a rate of tokens without a batch is a step of a usual one") {
    const CasesHome home;
    const auto with = [](std::vector<std::pair<std::string, std::string>> cells) {
        cells.insert(cells.end(), {{"gbs", ""}, {"step_s", ""}});
        return gpt_case_with(cells);
    };
    const Case stated = with({{"metric", "tokens_per_s_per_gpu"}, {"value", "1024"}, {"unit", ""}});
    CHECK(stated.experiment.parallelism.global_batch == 1024);
    CHECK(stated.measured_step.si() == Approx(32));
    CHECK(takes_for_granted(
        stated, "gbs not stated: 1024 sequences, and the step that the stated rate makes of them"));
    const Case unknown = with({{"metric", "tokens_per_s"},
                               {"value", "65536"},
                               {"unit", ""},
                               {"mbs", ""},
                               {"pp", "1"},
                               {"gpus", "32"}});
    CHECK(unknown.experiment.parallelism.global_batch == 128);
    CHECK(unknown.measured_step.si() == Approx(128 * 2048 / 65536.0));
}

// 1,024 tokens/s on each of 64 GPUs in 32 s are 1,024 sequences of 2,048 tokens. 16 samples/s make
// 512 sequences in 32 s. A rate that leaves open whose it is decides nothing.
TEST_CASE("rate, batch and step make the one of them that is missing") {
    const CasesHome home;
    const Case batch = gpt_case_with({{"gbs", ""},
                                      {"step_s", "32"},
                                      {"metric", "tgs"},
                                      {"value", "1024"},
                                      {"unit", "tokens/s/GPU"}});
    CHECK(batch.experiment.parallelism.global_batch == 1024);
    CHECK(takes_for_granted(
        batch, "gbs not stated: 1024 sequences, which the stated rate makes of the step"));
    const Case step = gpt_case_with({{"gbs", "512"},
                                     {"step_s", ""},
                                     {"metric", "throughput"},
                                     {"value", "16"},
                                     {"unit", "samples/s (all GPUs)"}});
    CHECK(step.measured_step.si() == Approx(32));
    CHECK(takes_for_granted(step, "step_s not stated: 32 s by value, unit and batch"));
    CHECK(gpt_refusal({{"step_s", ""}, {"value", "16"}, {"unit", "samples/s"}}) ==
          "c.csv:2: step_s: missing; nothing to compare with");
}

// tp 2 over 32 GPUs: 16 replicas of 8 sequences. In a pipeline nobody knows how many micro-batches.
TEST_CASE("a step without a batch is of one micro-batch where there is no pipeline") {
    const CasesHome home;
    const Case one = gpt_case_with({{"gbs", ""}, {"pp", "1"}, {"gpus", "32"}});
    CHECK(one.experiment.parallelism.global_batch == 128);
    CHECK(takes_for_granted(one, "gbs not stated: 128 sequences, one micro-batch of each replica"));
    CHECK(gpt_refusal({{"gbs", ""}}) == "c.csv:2: gbs: missing; expected the sequences of a step");
}

// A name that nobody knows: 40 heads of 128 in a width of 6,144. Two shared experts of 1,536 beside
// 64 are 3,072 wide.
TEST_CASE("sizes of an unknown model are read from its notes") {
    const CasesHome home;
    const Case c = gpt_case_with({{"model", "Foo-40B-A5B"},
                                  {"hidden", "6144"},
                                  {"heads", "40"},
                                  {"kv_heads", "8"},
                                  {"ffn", "1536"},
                                  {"experts", "64"},
                                  {"topk", "6"},
                                  {"zero", "1"},
                                  {"notes",
                                   "head_dim 128; two shared experts; one dense layer, "
                                   "dense ffn 12288"}});
    const Workload& w = c.experiment.workload;
    CHECK(w.head_dim == 128);
    CHECK(shared_ffn(w) == 3072);
    CHECK(w.moe.dense_layers == 1);
    CHECK((w.moe.ffn == 1536 && w.ffn == 12288));
    CHECK(w.moe.interval == 1);
    CHECK(gpt_case_with({{"notes", "head dim 96"}}).experiment.workload.head_dim == 0);
    CHECK(gpt_case_with({{"experts", "8"},
                         {"topk", "1"},
                         {"zero", "1"},
                         {"notes", "every second layer has experts"}})
              .experiment.workload.moe.interval == 2);
}

// A row says who ran it: a source whose recipes the frameworks' files describe, a thread (the
// number of an issue), one that complains, one whose other steps the widths are of, or a stranger.
TEST_CASE("a row says who ran its step") {
    const CasesHome home;
    const auto of = [](const char* source, const char* ref, const char* notes,
                       const char* network = "8x HDR200 IB per node") {
        return gpt_case_with(
                   {{"source", source}, {"ref", ref}, {"notes", notes}, {"interconnect", network}})
            .circumstances;
    };
    CHECK(of("vtrain_multi", "README.md @ abc", "").by == RunBy::recipe);
    CHECK(of("vtrain_multi", "", "").by == RunBy::recipe);
    CHECK(of("somebody", "", "").by == RunBy::own);
    CHECK(of("InternEvo", "README.md @ abc", "").by == RunBy::anyone);
    CHECK(of("somebody", "README.md @ abc", "").by == RunBy::stranger);
    CHECK(of("vtrain_multi", "owner/repo#12", "neutral; trust A").by == RunBy::thread);
    CHECK(of("somebody", "owner/repo#12", "complaint: slow; trust B").by == RunBy::complaint);
    CHECK(of("modalities", "README.md @ abc", "").software_named);
    CHECK_FALSE(of("somebody", "README.md @ abc", "").software_named);
    CHECK(of("somebody", "", "").network_stated);
    CHECK_FALSE(of("somebody", "", "", "2 nodes (not stated)").network_stated);
    CHECK(of("somebody", "", "neutral; trust B").evidence);
    CHECK_FALSE(of("somebody", "", "CAUSE: a PCIe switch; trust B").evidence);
    CHECK_FALSE(of("somebody", "", "neutral; trust C").evidence);
}

TEST_CASE("notes about dense layers and shared experts change the family's") {
    const CasesHome home;
    auto cells = deepseek_cells;
    cells.emplace_back("notes", "first layer dense (ffn 12288); shared expert width 3072");
    CHECK(gpt_case_with(cells).experiment.workload.moe.dense_layers == 1);
    CHECK(gpt_case_with(cells).experiment.workload.ffn == 12288);
    CHECK(gpt_case_with(cells).experiment.workload.moe.shared_ffn == 3072);
    cells.back().second = "first 2 layers dense (ffn 1000)";
    CHECK(gpt_case_with(cells).experiment.workload.moe.dense_layers == 2);
    cells.back().second = "";
    CHECK(gpt_case_with(cells).experiment.workload.moe.dense_layers == 3);
}

TEST_CASE("a row of other or contradictory work is refused with the column") {
    const CasesHome home;
    CHECK(gpt_refusal({{"layers", ""}}) == "c.csv:2: layers: missing; expected a count");
    CHECK(gpt_refusal({{"dp", "8"}}) ==
          "c.csv:2: tp 2 x pp 2 x dp 8 x cp 1 = 32 ranks, but gpus is 64");
    CHECK(gpt_refusal({{"layers", "1000000"}}) ==
          "c.csv:2: layers: 1000000 is out of range; expected 1 to 10000");
    CHECK(gpt_refusal({{"gbs", ""}}) == "c.csv:2: gbs: missing; expected the sequences of a step");
    CHECK(gpt_refusal({{"experts", "8"}}) == "c.csv:2: topk: missing, but there are 8 experts");
    CHECK(gpt_refusal({{"model", "deepseek-v3"}}) ==
          "c.csv:2: experts: missing; the model has expert layers");
    CHECK(gpt_refusal({{"model", "deepseek-v4-pro"}}) ==
          "c.csv:2: model: \"deepseek-v4-pro\" is not modelled: sparse attention over compressed "
          "keys, whose sizes no table states");
    CHECK(gpt_refusal({{"model", "resnet"}, {"vocab", ""}})
              .starts_with("c.csv:2: model: \"resnet\" is of no known family and no preset"));
    CHECK(gpt_refusal({{"model", "t5-3b"}}) ==
          "c.csv:2: model: \"t5-3b\" is not modelled: its layers are not a decoder's");
    CHECK(gpt_refusal({{"notes", "RLHF rollouts"}}) ==
          "c.csv:2: notes: \"rlhf\" is other work than the training step that is modelled");
    CHECK(gpt_refusal({{"interconnect", "one node; optimizer and parameters on NVMe"}}) ==
          "c.csv:2: notes: \"on nvme\" keeps states or weights on disks, whose rates are not "
          "modelled");
    CHECK(gpt_refusal({{"precision", "int8"}})
              .starts_with("c.csv:2: precision: \"int8\" names no dtype that is modelled"));
    CHECK(gpt_refusal({{"precision", "nvfp4"}})
              .starts_with("c.csv:2: cluster.gpu.peak.fp4: device \"A100-SXM\" has no"));
    CHECK(gpt_refusal({{"precision", "fp8"}}) ==
          "c.csv:2: cluster.gpu.peak.fp8: device \"A100-SXM\" has no such rate, which begins at "
          "compute capability 89; it has fp32, tf32, fp16, bf16; set "
          "this key "
          "or choose another workload.dtype");
    CHECK(gpt_refusal({{"heads", "31"}}) ==
          "c.csv:2: heads: 31 do not divide the hidden width 3072");
    CHECK(gpt_refusal({{"mbs", "7"}}) ==
          "c.csv:2: parallelism.global_batch: 512 is no multiple of dp x micro_batch = 112");
    CHECK(gpt_refusal({{"step_s", ""}}) == "c.csv:2: step_s: missing; nothing to compare with");
}

// 64 tokens/s on each of 64 ranks: 512 x 2048 / 4096 = 256 s.
TEST_CASE("a step that its own value contradicts is refused") {
    const CasesHome home;
    CHECK(gpt_refusal({{"value", "3500"}, {"unit", "ms"}}).empty());
    CHECK(gpt_refusal({{"value", "3400"}, {"unit", "ms (approx)"}}) ==
          "c.csv:2: step_s: 3.5, but value 3400 ms (approx) makes 3.4 s");
    CHECK(gpt_refusal({{"value", "35"}, {"unit", "s"}}) ==
          "c.csv:2: step_s: 3.5, but value 35 s makes 35 s");
    CHECK(gpt_refusal({{"value", "64"}, {"unit", "tokens/s/GPU"}}) ==
          "c.csv:2: step_s: 3.5, but value 64 tokens/s/GPU makes 256 s");
    for (const char* unit : {"TFLOP/s/GPU", "TFLOP/s/GPU (hardware FLOPs)"}) {
        CHECK(gpt_refusal({{"value", "64"}, {"unit", unit}}).empty());
        for (const char* wrong : {"30", "300"})
            CHECK_THAT(gpt_refusal({{"value", wrong}, {"unit", unit}}),
                       Catch::StartsWith("c.csv:2: step_s: 3.5 makes ") &&
                           Catch::Contains(fmt::format(
                               "TFLOP/s/GPU, but value is {}; expected them within a factor of 2",
                               wrong)));
    }
}

// 512 x 2048 / 3.5 s / 64 = 4681 tokens/s of a GPU, 25.9 billion a day in all; 64 TFLOP/s of each
// of 64 GPUs are 4.1 PFLOP/s, a fifth of an A100's peak. The metric may name the unit.
TEST_CASE("a value is held against the step with any prefix, and in the metric's unit") {
    const CasesHome home;
    for (const auto& [metric, unit, right, wrong] :
         std::vector<std::array<const char*, 4>>{{"throughput", "ktok/s/GPU", "4.68", "9"},
                                                 {"throughput", "k tokens/s/GPU", "4.68", "9"},
                                                 {"throughput", "Btok/day", "25.9", "50"},
                                                 {"throughput", "billion tokens/day", "25.9", "50"},
                                                 {"tokens_per_s_per_gpu", "", "4681", "9000"},
                                                 {"tokens/sec/gpu", "", "4681", "9000"},
                                                 {"throughput", "PFLOP/s", "4.1", "40"},
                                                 {"utilization", "MFU", "0.2", "0.9"}}) {
        CAPTURE(metric, unit);
        CHECK(gpt_refusal({{"metric", metric}, {"value", right}, {"unit", unit}}).empty());
        CHECK_THAT(gpt_refusal({{"metric", metric}, {"value", wrong}, {"unit", unit}}),
                   Catch::StartsWith("c.csv:2: step_s: 3.5"));
    }
}

// The row: 512 sequences of 2048 tokens on 64 GPUs in 3.5 s. 512 / 3.5 = 146.29 sequences/s, 2.2857
// on each GPU; 1,048,576 tokens / 3.5 s = 299,593 tokens/s, 4,681 on each; 1 / 3.5 = 0.28571
// steps/s; ten steps take 35 s. Each unit's value half as large is refused.
TEST_CASE("a step is held against its value in any unit") {
    const CasesHome home;
    struct Unit {
        const char* text;
        double value;
    };
    for (const auto& [unit, value] : {Unit{"samples/s", 146.29},
                                      {"sequences/s (all GPUs)", 146.29},
                                      {"sentences per second", 146.29},
                                      {"samples/s/GPU", 2.2857},
                                      {"seq/sec", 146.29},
                                      {"tokens/s", 299593},
                                      {"tokens/s", 4681},
                                      {"tok/s/GPU", 4681},
                                      {"tokens/GPU/s", 4681},
                                      {"tokens per second per GPU (median)", 4681},
                                      {"k tokens/s (all GPUs)", 299.593},
                                      {"ktok/s", 299.593},
                                      {"steps/s", 0.28571},
                                      {"it/s", 0.28571},
                                      {"s/it", 3.5},
                                      {"ms/step", 3500},
                                      {"s for 10 steps", 35},
                                      {"seconds", 3.5}}) {
        INFO(unit << " " << value);
        CHECK(gpt_refusal({{"value", fmt::format("{}", value)}, {"unit", unit}}).empty());
        CHECK_THAT(gpt_refusal({{"value", fmt::format("{}", value / 2)}, {"unit", unit}}),
                   Catch::StartsWith("c.csv:2: step_s: 3.5, but value "));
        CHECK_THAT(gpt_refusal({{"value", fmt::format("{}", value * 1.05)}, {"unit", unit}}),
                   Catch::StartsWith("c.csv:2: step_s: 3.5, but value "));
    }
    // of the whole run
    CHECK(gpt_refusal({{"value", "88"}, {"unit", "h"}, {"metric", "total_time"}}).empty());
}

// 6 x 3.6e9 x 1,048,576 / (3.5 s x 64) = 101 of the 312 TFLOP/s of an A100: 32 %.
TEST_CASE("a step is held against its share of the peak") {
    const CasesHome home;
    CHECK(gpt_refusal({{"value", "20"}, {"unit", "%"}}).empty());
    CHECK(gpt_refusal({{"value", "20"}, {"unit", "% of 312 TFLOP/s"}}).empty());
    CHECK_THAT(gpt_refusal({{"value", "80"}, {"unit", "% (MFU)"}}),
               Catch::Contains("% of the peak, but value is 80"));
}

// Megatron's users switch these; its file has them as its script does without flags.
TEST_CASE("switches that a row states stand over its framework's") {
    const CasesHome home;
    const auto runtime = [](const std::string& notes) {
        return gpt_case_with({{"source", "ours-megatron"}, {"notes", notes}}).experiment.runtime;
    };
    const Runtime as_it_is = runtime("");
    CHECK(as_it_is.gradients.fused_accumulation);
    CHECK(as_it_is.gradients.bucket == BucketSize::one());
    CHECK(as_it_is.exchanges.gradients == GradientOverlap::zero3);
    CHECK_FALSE(as_it_is.exchanges.parameters);
    const Runtime switched =
        runtime("overlap grad reduce; overlap param gather; no gradient accumulation fusion");
    CHECK_FALSE(switched.gradients.fused_accumulation);
    CHECK(switched.gradients.bucket != BucketSize::one());
    CHECK(switched.exchanges.gradients == GradientOverlap::always);
    CHECK(switched.exchanges.parameters);
}

// GPT-NeoX is read as a Megatron of 2021, which has plain attention, and switches flash attention
// on by its configuration. Other software keeps the kernel of its file whatever a row calls it.
TEST_CASE("flash attention in a row's notes is news of software that comes without it") {
    const CasesHome home;
    const auto attention = [](const char* source, const char* notes) {
        return gpt_case_with({{"source", source}, {"notes", notes}}).experiment.runtime.attention;
    };
    CHECK(attention("gpt-neox", "") == AttentionKind::plain);
    CHECK(attention("gpt-neox", "with FlashAttention, 2023") == AttentionKind::flash2);
    CHECK(attention("gpt-neox", "no FlashAttention") == AttentionKind::plain);
    CHECK(attention("gpt-neox", "flash attention not stated") == AttentionKind::plain);
    CHECK(attention("litgpt", "flash attention") == attention("litgpt", ""));
}

// 101 TFLOP/s in 3.5 s (above) are 322 in 1.1 s and 272 in 1.3 s, of which the mask hides 5; with
// every forward once more 363. CasesHome's A100 has a peak of 300.
TEST_CASE("a step that would need more than the peak is kept apart") {
    const CasesHome home;
    const auto said = [](const std::string& step, const std::string& recompute) {
        const Case found = gpt_case_with({{"step_s", step}, {"recompute", recompute}});
        std::string all;
        for (const std::string& one : found.assumptions)
            if (one.starts_with("kept apart")) all += one;
        CHECK(found.circumstances.evidence == all.empty());
        return all;
    };
    CHECK_THAT(said("1.1", "none"), Catch::StartsWith("kept apart: step_s 1.1 makes 3") &&
                                        Catch::Contains("above the peak of A100"));
    CHECK(said("1.3", "none").empty());
    CHECK_THAT(said("1.3", "full"), Catch::Contains("with all layers recomputed, as stated"));
    CHECK(said("3.5", "full").empty());
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
    const auto path =
        home.folder().write("c.csv", header + "\n" + cells + "\n" + broken + "\n" + cells + "\n");
    const auto found = read_comparisons(path, "");
    REQUIRE(found.size() == 3);
    CHECK(found[0].refused_because.empty());
    CHECK(found[1].refused_because == path + ":3: layers: missing; expected a count");
    CHECK(found[1].what.case_id == "b");
    CHECK(found[1].what.measured_step == Seconds(3.5));
    CHECK(found[2].refused_because ==
          path + ":4: case_id: \"a\" is also in line 2; expected each case once");
    CHECK(read_comparisons(home.folder().write("d.csv", header + "\n"), "").empty());
}

// Who asks why a run is slow does not know the cause that its thread found; what else the notes say
// is the run's.
TEST_CASE("the cause that a row tells of can be left out") {
    const CasesHome home;
    std::string header = "notes", cells = "CAUSE: Muon optimizer; untied";
    for (const auto& [column, text] : gpt_row)
        if (column != "notes") header += "," + column, cells += "," + text;
    const auto path = home.folder().write("c.csv", header + "\n" + cells + "\n");
    const auto read = [&](bool causes) {
        const auto found = read_comparisons(path, "", "", {}, causes);
        INFO(found.front().refused_because);
        REQUIRE(found.front().refused_because.empty());
        CHECK_FALSE(found.front().what.circumstances.evidence);
        CHECK_FALSE(found.front().what.experiment.workload.tied);
        return found.front().what.experiment.workload.optimizer == Optimizer::muon;
    };
    CHECK(read(true));
    CHECK_FALSE(read(false));
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
    for (const char* name : {"vtrain_multi", "simumax_b200", "mosaic_mpt", "mlperf_training",
                             "nemo_docs", "pytorch_jax_fsdp", "small_gpt"})
        CHECK(refused(name).empty());
    // These clusters are without V100.
    CHECK(refused("megatron_papers") ==
          std::vector<std::string>{"meg20_1B_V100_mp1", "meg20_8B_V100_mp8"});
}

// The small models of Pax have room for everything; what it keeps is its default's, a recipe's or
// the row's.
TEST_CASE("Pax computes whole layers again unless a recipe or the row says otherwise") {
    const auto again = [](const char* source, const char* model, const char* gpu,
                          const char* recompute) {
        return gpt_case_with({{"source", source},
                              {"case_id", "paxml"},
                              {"model", model},
                              {"gpu", gpu},
                              {"interconnect", "not stated"},
                              {"tp", "1"},
                              {"pp", "1"},
                              {"dp", "64"},
                              {"gpus", "64"},
                              {"mbs", "1"},
                              {"recompute", recompute}})
            .experiment.parallelism.recompute;
    };
    CHECK(again("jax_toolbox_pax", "gpt-126m", "A100-80GB-SXM", "not stated") == Recompute::full);
    CHECK(again("jax_toolbox_pax", "gpt-126m", "A100-80GB-SXM", "none") == Recompute::none);
    CHECK(again("dgxc_benchmarking", "gpt3-5b", "H100-80GB-SXM", "not stated") ==
          Recompute::selective);
    CHECK(again("dgxc_benchmarking", "gpt3-175b", "H100-80GB-SXM", "not stated") ==
          Recompute::full);
}

// 2^16 x 2^16 ranks are beyond what an int counts; that row is refused, and says so.
TEST_CASE("a split of more ranks than there may be is refused") {
    const CasesHome home;
    for (const char* gpus : {"8", ""})
        CHECK_THAT(
            gpt_refusal({{"gpus", gpus}, {"tp", "65536"}, {"pp", "65536"}, {"dp", ""}}),
            Catch::Contains(
                "tp 65536 x pp 65536 x dp 1 x cp 1 = 4294967296 ranks; expected at most 1048576"));
    CHECK_THAT(gpt_refusal({{"gpus", "131072"},
                            {"tp", "1"},
                            {"pp", "2"},
                            {"dp", "65536"},
                            {"mbs", "65536"},
                            {"gbs", "65536"}}),
               Catch::Contains("c.csv:2"));
}

// No family begins with "nobodys": 4 x 3072 = 12288 is GPT's width, 8192 is not; grouped heads came
// with the gated feed-forward.
TEST_CASE("an unknown model's stated sizes suffice") {
    const CasesHome home;
    const auto gated = [](const std::string& ffn, const std::string& kv_heads) {
        return gpt_case_with({{"model", "nobodys-3b"}, {"ffn", ffn}, {"kv_heads", kv_heads}})
            .experiment.workload.gated;
    };
    CHECK_FALSE(gated("12288", "32"));
    CHECK(gated("8192", "32"));
    CHECK(gated("12288", "8"));
    CHECK_THROWS_WITH(gated("", "32"), Contains("nobodys-3b"));
    const auto said = gpt_case_with({{"model", "nobodys-3b"}}).assumptions;
    CHECK(said.front().find("not known by name") != std::string::npos);
}

// 3072 / 128 = 24 and 1536 / 64 = 24. Eight ranks cannot share the 108 heads of 128 of 13824, but
// 96 of 144, nearer than 216 of 64 and 72 of 192 (their logarithms are off by 0.12, 0.69 and 0.41).
TEST_CASE(
    "heads that nobody states are as wide as most are, so many for each tensor-parallel rank") {
    const CasesHome home;
    const auto with = [](const std::string& hidden, const std::string& tp) {
        return gpt_case_with({{"model", "nobodys"},
                              {"hidden", hidden},
                              {"heads", ""},
                              {"kv_heads", ""},
                              {"tp", tp},
                              {"dp", ""}});
    };
    const Case c = with("3072", "1");
    CHECK(c.experiment.workload.heads == 24);
    CHECK(takes_for_granted(c, "heads not stated: 24, each 128 wide"));
    CHECK(with("1536", "1").experiment.workload.heads == 24);
    CHECK(with("13824", "8").experiment.workload.heads == 96);
}

// What a column states counts more than the notes.
TEST_CASE("sequences are as long as the longest that the notes name where no column says it") {
    const CasesHome home;
    const auto seq_of = [](const std::string& stated, const std::string& notes) {
        return gpt_case_with({{"seq", stated}, {"notes", notes}}).experiment.workload.seq;
    };
    CHECK(seq_of("", "sequences up to 512 padded to the longest of 4") == 512);
    CHECK(seq_of("", "validation 2000; cutoff 256, grouped by length") == 256);
    CHECK(seq_of("2048", "sequences up to 512") == 2048);
    CHECK_THROWS_AS(seq_of("", "many sequences"), ConfigError);
}

// InternLM-7B's config.json: 32 layers of 4096, 32 heads, 11008, 103168 symbols.
TEST_CASE("a published model's sizes follow from its name") {
    const CasesHome home;
    const Workload w = gpt_case_with({{"model", "internlm-7b"},
                                      {"layers", ""},
                                      {"hidden", ""},
                                      {"heads", ""},
                                      {"kv_heads", ""},
                                      {"ffn", ""},
                                      {"vocab", ""}})
                           .experiment.workload;
    CHECK(w.layers == 32);
    CHECK(w.hidden == 4096);
    CHECK(w.ffn == 11008);
    CHECK(w.vocab == 103168);
    CHECK(w.gated);
}

// Of rows that state no size. Another size of the model, or another model whose name begins alike,
// is not this one; the row says whether the sizes were held against a source.
TEST_CASE("a model's sizes are its own, and are told with their source") {
    const CasesHome home;
    const auto named = [](const std::string& model) {
        return gpt_case_with({{"model", model},
                              {"layers", ""},
                              {"hidden", ""},
                              {"heads", ""},
                              {"kv_heads", ""},
                              {"ffn", ""},
                              {"vocab", ""}});
    };
    CHECK_THAT(named("internlm-7b-chat").assumptions,
               Catch::VectorContains(
                   std::string("layers not stated: 32 of internlm-7b by memory, unchecked")));
    CHECK_THAT(
        named("mistral-7b").assumptions,
        Catch::VectorContains(std::string("layers not stated: 32 of mistral-7b by litgpt 0.5.13")));
    for (const char* other : {"starcoderbase", "starcoder-7b", "falcon-7", "internlm-7b-1b"}) {
        INFO(other);
        CHECK_THROWS_AS(named(other), ConfigError);
    }
    for (const auto& [model, vocab] :
         {std::pair("llama-3-8b", 128256), std::pair("llama3.1-8b", 128256),
          std::pair("llama-2-9b", 32000), std::pair("gpt3-6.7b", 50257)})
        CHECK(gpt_case_with({{"model", model}, {"vocab", ""}}).experiment.workload.vocab == vocab);
}
