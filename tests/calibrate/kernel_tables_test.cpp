// Tables of single kernels: what a row becomes, what predicts it, and the priors.

#include <cmath>
#include <numeric>

#include <catch2/catch.hpp>

#include "calibrate/exchange_tables.h"
#include "calibrate/fit.h"
#include "calibrate/fit_parameter.h"
#include "calibrate/fit_tables.h"
#include "calibrate/kernel_comparisons.h"
#include "calibrate/named_kernels.h"
#include "calibrate/sisters.h"
#include "calibrate/table_cases.h"
#include "measured/nearest.h"
#include "measured/priors.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "model/input/presets.h"
#include "model/routing.h"
#include "sim/costs/attention_law.h"
#include "sim/costs/dispatch_law.h"
#include "sim/costs/expert_layer_law.h"
#include "sim/scatter.h"
#include "tests/calibrate/made_up_machine.h"
#include "tests/literals.h"
#include "tests/model/files.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

BuildingBlocks blocks_of(const TestFolder& folder, const std::string& table) {
    BuildingBlocks blocks;
    read_building_blocks(folder.write("t.csv", table), made_up_machine().gpu, blocks);
    return blocks;
}

std::string refused(const TestFolder& folder, const std::string& table) {
    return complaint([&] { blocks_of(folder, table); }, folder.path());
}

}  // namespace

TEST_CASE("a row of attention is a shape, a form and a kernel") {
    const TestFolder folder;
    const BuildingBlocks blocks =
        blocks_of(folder,
                  "op,batch,heads,kv_heads,seq_q,seq_k,head_dim,value_dim,causal,window,form,"
                  "kernel,dtype,time_us\n"
                  "attention,2,12,3,512,1024,96,80,1,,,flash,bf16,70\n"
                  "attention,2,12,3,512,1024,96,80,0,128,,flash,fp8 scaled,50\n"
                  "encoder_attention,2,12,3,512,1024,96,80,0,0,,flash,bf16,30\n"
                  "mla_attention,2,12,3,512,1024,96,80,1,,absorbed,flash,bf16,20\n"
                  "mla_module,2,12,3,512,1024,96,80,1,,absorbed,flash,bf16,20\n"
                  "attention,2,12,3,512,1024,96,80,1,,,flash,fp4,70\n");
    CHECK(blocks.other_op_rows == 2);  // a whole module, and a dtype without a rate
    REQUIRE(blocks.attentions.size() == 4);
    Attention op{.batch = 2,
                 .heads = 12,
                 .seq_q = 512,
                 .seq_k = 1024,
                 .head_dim = 96,
                 .causal = true,
                 .dtype = Dtype::bf16,
                 .flash = true,
                 .value_dim = 80};
    AttentionRow first = blocks.attentions[0];
    CHECK(first == AttentionRow{"attention", "flash", {op, 3}, first.time, first.row});
    CHECK(first.time.si() == Approx(70e-6));
    op.causal = false;
    op.dtype = Dtype::fp8;
    op.window = 128;
    CHECK(blocks.attentions[1].shape.op == op);
    CHECK(blocks.attentions[2].kernel == "unmasked flash");
    CHECK(blocks.attentions[2].kind == "encoder_attention");
    CHECK(blocks.attentions[2].shape.op.window == 0);
    CHECK(blocks.attentions[3].kernel == "latent, absorbed: flash");
    CHECK(first.row != blocks.attentions[1].row);
    const BuildingBlocks narrow =
        blocks_of(folder,
                  "op,batch,heads,kv_heads,seq_q,seq_k,head_dim,causal,kernel,dtype,time_us\n"
                  "attention,1,1,1,2,2,8,1,flash,bf16,70\nattention,1,1,1,2,2,8,1,Triton extend "
                  "attention,bf16,70\n");
    CHECK(narrow.attentions.at(0).shape.op.value_dim == 0);
    CHECK(narrow.attentions.at(0).compiler.empty());
    CHECK(narrow.attentions.at(1).compiler == "Triton");
    CHECK(attention_by_name(first).name ==
          "flash 2 of 1024 keys, 12 heads over 3, width 96, window 0 bf16");
}

// One scale per row, one to be computed for the tensor, a given one; and vLLM's kernels for a given
// one.
TEST_CASE("a row of casts says where its scale comes from") {
    const TestFolder folder;
    const BuildingBlocks blocks = blocks_of(folder,
                                            "op,rows,width,granularity,implementation,time_us\n"
                                            "cast_dynamic,3,5,per row,vLLM 1,7\n"
                                            "cast_dynamic,3,5,per tensor,vLLM 1,7\n"
                                            "cast,3,5,per tensor,vLLM 1,7\n"
                                            "cast,3,5,per tensor,other,11\n");
    REQUIRE(blocks.casts.size() == 4);
    const CastScale scales[] = {CastScale::rows, CastScale::tensor, CastScale::given_rows,
                                CastScale::given};
    for (std::size_t i = 0; i < 4; ++i) CHECK(blocks.casts[i].scale == scales[i]);
    const CastRow& last = blocks.casts[3];
    CHECK(last == CastRow{"other", 3, 5, CastScale::given, last.time, last.row});
    CHECK(last.time.si() == Approx(11e-6));
    CHECK((last.row != 0 && last.row != blocks.casts[2].row));
    const std::vector<FitCase> cases = cast_cases(blocks.casts);
    CHECK(cases.at(2).name == "cast 3x5 1 vLLM 1");
    CHECK(cases.at(3).predict(made_up_machine()) ==
          cast_time(3, 5, CastScale::given, made_up_machine()));
    CHECK(cases.at(0).predict(made_up_machine()) ==
          cast_time(3, 5, CastScale::rows, made_up_machine()));
}

// Only the product with a scale for the tensor and its own cast time gives a row of a cast; it is
// left out together with its product.
TEST_CASE("a cast that was timed beside a product is a row of its own and is left out with it") {
    const TestFolder folder;
    BuildingBlocks blocks;
    read_building_blocks(
        folder.write("gemms.csv",
                     "op,m,n,k,dtype,implementation,time_us,cast_us\n"
                     "cast_gemm,64,32,16,fp8,TRT-LLM 1,20,9\ncast_gemm,65,32,16,fp8,TRT-LLM 1,20,\n"
                     "cast_gemm,64,32,16,fp8 (128-wide scaling),TRT-LLM 1,20,9\n"),
        made_up_machine().gpu, blocks);
    REQUIRE(blocks.gemms.size() == 3);
    REQUIRE(blocks.casts.size() == 1);
    CHECK(blocks.casts[0] == CastRow{"TRT-LLM 1", 64, 16, CastScale::tensor, Seconds(9e-6),
                                     blocks.gemms[0].row, true});
    CHECK(casts_without(blocks.casts, {blocks.gemms[0].row}).empty());
    CHECK(casts_without(blocks.casts, {blocks.gemms[1].row}).size() == 1);
    blocks.casts[0].of_product = false;
    CHECK(casts_without(blocks.casts, {blocks.gemms[0].row}).size() == 1);
}

TEST_CASE("sisters have the same SMs, and fp4 units only within a generation") {
    CHECK(sisters_of("b300-x8") == std::vector<std::string>{"b200-x8", "gb200-nvl72"});
    CHECK(sisters_of("dgx-h100").empty());
    const Gpu b200 = read_cluster("b200-x8").gpu, b300 = read_cluster("b300-x8").gpu,
              gb200 = read_cluster("gb200-nvl72").gpu;
    CHECK((alike_in(Dtype::fp8, b200, b300) && alike_in(Dtype::fp4, b200, gb200)));
    CHECK_FALSE(alike_in(Dtype::fp4, b200, b300));
    CHECK_FALSE(alike_in(Dtype::fp4, b200, read_cluster("dgx-h100").gpu));
    Cluster fitted = read_cluster("b200-x8");
    const Cluster seen = seen_as(fitted, {b300, {.limit = 1100, .idle = 160}});
    CHECK((seen.gpu == b300 && seen.power.limit == 1100 && seen.power.idle == 160));
    CHECK((seen.power.flop == fitted.power.flop && seen.kernel == fitted.kernel));
}

// mxfp4 has one scale byte per 32 weights of 4 bits (0.53, rounded), nvfp4 one per 16: 0.5 + 1/16.
TEST_CASE("a row of an expert layer has weights of its dtype and a load by its distribution") {
    const TestFolder folder;
    const std::string header =
        "num_tokens,hidden,inter,topk,experts,tp_in_expert,ep,distribution,implementation,dtype,"
        "time_us\n";
    const BuildingBlocks blocks =
        blocks_of(folder, header +
                              "6,512,1536,2,8,3,4,balanced,fused,bf16,70\n"
                              "6,512,1536,2,8,,,power_law_1.25,,fp8 128-wide blocks,50\n"
                              "6,512,1536,2,8,1,1,,fused,bf16 x mxfp4,30\n"
                              "6,512,1536,2,8,1,1,,fused,fp4,30\n");
    CHECK(blocks.other_op_rows == 1);  // fp4 has no rate
    REQUIRE(blocks.moe_layers.size() == 3);
    const MoeLayerRow& first = blocks.moe_layers[0];
    CHECK(first == MoeLayerRow{6, 512, 1536, 2, 8, 4, 3, 0, Dtype::bf16, first.time, "bf16 fused",
                               2, first.row});
    CHECK(blocks.moe_layers[1].skew == 1.25);
    CHECK((blocks.moe_layers[1].tp == 1 && blocks.moe_layers[1].ep == 1));
    CHECK(blocks.moe_layers[1].implementation == "fp8 128-wide blocks");
    CHECK(blocks.moe_layers[1].weight_bytes == 1);
    CHECK(blocks.moe_layers[1].dtype == Dtype::fp8);
    CHECK(blocks.moe_layers[2].weight_bytes == 0.53);
    CHECK((first.row != 0 && first.row != blocks.moe_layers[1].row));
    Gpu with_fp4 = made_up_machine().gpu;
    with_fp4.peaks[Dtype::fp4] = FlopsPerSecond(2e15);
    BuildingBlocks more;
    read_building_blocks(folder.path() + "/t.csv", with_fp4, more);
    CHECK(more.moe_layers.at(3).weight_bytes == 0.5625);
    CHECK(refused(folder, header + "6,512,1536,2,8,1,3,balanced,x,bf16,70\n") ==
          "t.csv:2: ep: 8 experts over 3 ranks; expected a divisor");
    CHECK(refused(folder, header + "6,512,1536,2,8,1,1,zipf,x,bf16,70\n") ==
          "t.csv:2: distribution: found \"zipf\"; expected balanced or power_law_EXPONENT");
}

// SGLang's package has tiles for eight experts of width 14336 on H200, and with four ranks that
// share an expert for 3584, but not for 1024.
TEST_CASE("an expert layer's kernel is told apart where its package holds tiles for the shape") {
    const TestFolder folder;
    BuildingBlocks blocks;
    read_building_blocks(
        folder.write("t.csv",
                     "gpu,num_tokens,hidden,inter,topk,experts,tp_in_expert,distribution,"
                     "implementation,dtype,time_us\n"
                     "NVIDIA H200,6,512,14336,2,8,1,balanced,SGLang 0 Triton fused MoE,bf16,70\n"
                     "NVIDIA H200,6,512,14336,2,8,4,balanced,SGLang 0 Triton fused MoE,bf16,70\n"
                     "NVIDIA H200,6,512,14336,2,8,14,balanced,SGLang 0 Triton fused MoE,bf16,70\n"
                     "NVIDIA H200,6,512,14336,2,8,1,balanced,SGLang 0 Triton fused MoE,fp8,70\n"
                     "NVIDIA H200,6,512,14336,2,8,1,balanced,other Triton fused MoE,bf16,70\n"),
        read_cluster("dgx-h200").gpu, blocks);
    std::vector<bool> tuned;
    for (const MoeLayerRow& row : blocks.moe_layers) tuned.push_back(row.tuned);
    CHECK(tuned == std::vector<bool>{true, true, false, false, false});
}

// Six tokens with two experts each make twelve rows, three for each of four experts; a rank with
// two experts has six. With a skew the rank with most rows stands for all; the tables average five
// draws.
TEST_CASE("an expert layer takes as long as its heaviest rank") {
    MoeLayerRow row{6, 512, 1536, 2, 4, 2, 3, 0, Dtype::bf16, 1_ms, "bf16 fused", 2, 17};
    ExpertLayer layer;
    layer.tokens = 6;
    layer.hidden = 512;
    layer.ffn = 512;
    layer.experts = 4;
    layer.top_k = 2;
    layer.dtype = Dtype::bf16;
    layer.weight_bytes = 2;
    layer.loads = {expert_load({3, 3})};
    Cluster c = made_up_machine();
    c.kernel.experts.launch = 31_us;
    ExpertKernel own = c.kernel.experts;
    own.name = "bf16 fused";
    own.launch = 47_us;
    ExpertKernel another;
    another.name = "another";
    c.kernel.expert_kernels = {another, own};
    const FitCase nameless = expert_cases({row}).at("bf16 fused").at(0);
    CHECK(nameless.predict(c).si() == Approx(expert_layer_time(layer, c.kernel.experts, c).si()));
    CHECK(nameless.name == "moe_layer 6 tokens 512x1536 top 2 of 4 ep 2 tp 3 skew 0 bf16 fused");
    CHECK(nameless.row == 17);
    CHECK(expert_by_name(row).predict(c).si() == Approx(expert_layer_time(layer, own, c).si()));
    row.tuned = true;  // another kernel with the same shape's name, so the same rows are held out
    CHECK(expert_cases({row}).at("bf16 fused, tuned").at(0).name == nameless.name);
    c.kernel.expert_kernels[0].name = "bf16 fused, tuned";
    CHECK(expert_by_name(row).predict(c).si() ==
          Approx(expert_layer_time(layer, c.kernel.expert_kernels[0], c).si()));
    row.tuned = false;
    c.kernel.expert_kernels.pop_back();
    c.kernel.expert_kernels[0].name = "another";
    CHECK(expert_by_name(row).predict(c).si() ==
          Approx(expert_layer_time(layer, c.kernel.experts, c).si()));

    // Another release's kernel, whose name has the same words except its number; not one that
    // shares only few of them.
    c.kernel.expert_kernels[0].name = "bf16 fast 1.2.3 fused";
    c.kernel.expert_kernels.push_back(own);
    c.kernel.expert_kernels[1].name = "bf16 fast 1.2.3 grouped GEMM";
    row.implementation = "bf16 fast 1.3.0rc2 fused";
    CHECK(expert_by_name(row).predict(c).si() ==
          Approx(expert_layer_time(layer, c.kernel.expert_kernels[0], c).si()));
    CHECK(stand_in(row, c) == "bf16 fast 1.2.3 fused");
    row.implementation = "bf16 fast 1.3.0rc2 GEMM, grouped";
    CHECK(expert_by_name(row).predict(c).si() == Approx(expert_layer_time(layer, own, c).si()));
    row.implementation = "fp8 slow 1.2.3 fused";
    CHECK(expert_by_name(row).predict(c).si() ==
          Approx(expert_layer_time(layer, c.kernel.experts, c).si()));
    CHECK(stand_in(row, c) == "the cluster's kernel of no name");
    row.implementation = "bf16 fast 1.2.3 fused";
    CHECK(stand_in(row, c).empty());
    c.kernel.expert_kernels.clear();
    row.implementation = "bf16 fused";

    row.tokens = layer.tokens = 64;
    row.skew = 1.5;
    row.experts = 8;
    layer.experts = 8;
    layer.loads.clear();
    RoutingSpec spec;
    spec.kind = RoutingSpec::Kind::power_law;
    spec.skew = 1.5;
    for (int draw = 0; draw < 5; ++draw) {
        const std::vector<int> all = make_routing(spec, {1, 8, 64, 2}, draw).counts;
        const std::vector<long> first(all.begin(), all.begin() + 4),
            second(all.begin() + 4, all.end());
        const bool heavier = std::accumulate(second.begin(), second.end(), 0L) >
                             std::accumulate(first.begin(), first.end(), 0L);
        layer.loads.push_back(expert_load(heavier ? second : first));
    }
    CHECK(expert_by_name(row).predict(c).si() ==
          Approx(expert_layer_time(layer, c.kernel.experts, c).si()));
}

// An encoder's kernel writes no cache. A Triton kernel reaches 0.6 of the library's best and does
// not skip the keys before a window.
TEST_CASE(
    "attention without constants is priced as the kernel named most alike, without what its own "
    "does not do") {
    Cluster c = made_up_machine();
    AttentionKernel flash;
    flash.name = "FlashAttention-2 (vLLM)";
    flash.launch = Seconds(5e-6);
    flash.tile = 64;
    flash.traffic = flash.cache = 1;
    flash.token = Seconds(3e-9);
    c.kernel.attention_kernels = {flash};
    c.kernel.attention = flash;
    c.kernel.attention.name.clear();
    c.kernel.attention_triton = 0.6;
    AttentionRow row;
    row.shape.op = {.batch = 2,
                    .heads = 4,
                    .seq_q = 2048,
                    .seq_k = 2048,
                    .head_dim = 128,
                    .causal = true,
                    .dtype = Dtype::bf16,
                    .flash = true};
    row.shape.op.window = 256;
    const auto as = [&](const AttentionKernel& kernel) {
        return attention_law_time(row.shape, kernel, c, GemmSetting::alone).si();
    };
    const auto priced = [&](const char* name) {
        row.kernel = name;
        row.compiler = std::string_view(name).starts_with("Triton") ? "Triton" : "";
        return attention_by_name(row).predict(c).si();
    };
    CHECK(priced("FlashAttention-2 (vLLM)") == as(flash));
    CHECK(priced("FlashAttention-2 (vLLM 2)") == as(flash));
    AttentionKernel compiled = flash;
    compiled.efficiency *= 0.6;
    compiled.fp8_efficiency *= 0.6;
    compiled.slides = false;
    CHECK(priced("Triton extend attention") == Approx(as(compiled)));
    CHECK(as(compiled) > as(flash));
    c.kernel.attention_triton = 0;  // no step has told it
    compiled = flash;
    compiled.slides = false;
    CHECK(priced("Triton extend attention") == Approx(as(compiled)));
    row.shape.op.causal = false;
    // its own fitted constants are used as they are
    CHECK(priced("FlashAttention-2 (vLLM)") == as(flash));
    AttentionKernel unmasked = flash;
    unmasked.cache = 0;
    unmasked.token = Seconds(0);
    CHECK(priced("unmasked FlashAttention-2 (vLLM ViT)") == Approx(as(unmasked)));
    CHECK(as(unmasked) < as(flash));
}

// fp8 has 4 bytes of scale per 128 elements, 7168 (1 + 1/32) = 7392; fp4 one per 16, 7168 (1/2 +
// 1/16) = 4032.
TEST_CASE("a row of dispatch or combine is read with the bytes that cross") {
    const TestFolder folder;
    const std::string header =
        "op,tokens_per_rank,hidden,topk,experts,ranks,nodes,sms,dtype,time_us\n";
    const BuildingBlocks blocks =
        blocks_of(folder, header +
                              "deepep_dispatch,128,7168,3,64,8,1,24,fp8,70\n"
                              "deepep_combine,128,7168,3,64,8,,,bf16,90\n"
                              "deepep_ll_dispatch,128,7168,3,64,8,1,,fp4,70\n"
                              "deepep_ll_combine,128,7168,3,64,8,1,,bf16,70\n"
                              "nvlink_dispatch_one_sided,128,7168,3,64,8,1,,bf16,70\n"
                              "nvlink_combine_one_sided,128,7168,3,64,8,1,,bf16,70\n"
                              "nvlink_dispatch,128,7168,3,64,8,1,,bf16,70\n"
                              "nvlink_combine,128,7168,3,64,2,1,,bf16,70\n"
                              "deepep_dispatch,128,7168,3,64,8,2,24,fp8,70\n"
                              "deepep_layout,128,7168,3,64,8,1,24,fp8,70\n");
    CHECK(blocks.other_op_rows == 2);  // one between nodes, and one that no law describes
    REQUIRE(blocks.exchanges.size() == 8);
    const ExchangeRow& first = blocks.exchanges[0];
    CHECK(first == ExchangeRow{"deepep_dispatch", "dispatch", 8, 1, 3, 64, 24, 128, Bytes(7392),
                               first.time, false, first.row});
    CHECK(first.time.si() == Approx(70e-6));
    CHECK(blocks.exchanges[1].bytes == Bytes(14336));
    CHECK(blocks.exchanges[1].sms == 0);
    CHECK((first.row != 0 && first.row != blocks.exchanges[1].row));
    CHECK(blocks.exchanges[2].bytes == Bytes(4032));
    const char* kernels[] = {
        "dispatch",           "dispatch",           "dispatch_low_latency", "dispatch_low_latency",
        "dispatch_one_sided", "dispatch_one_sided", "dispatch_two_sided",   "dispatch_two_sided"};
    const char* kinds[] = {
        "dispatch",           "combine",           "dispatch_low_latency", "combine_low_latency",
        "dispatch_one_sided", "combine_one_sided", "dispatch_two_sided",   "combine_two_sided"};

    // 7/8 of the rows leave the rank. Rows per token: one for each rank with one of its three
    // experts; in low-latency mode one for each expert (50 SMs serve 64 experts in two turns of 32,
    // a combine waits for none); with NVLink one for each of min(ranks, experts) ranks.
    Cluster c = made_up_machine();
    CHECK_FALSE(has_kernels(c, first));
    c.intra.dispatch = {.launch = 11_us,
                        .efficiency = 0.7,
                        .row = Bytes(900),
                        .own = 2,
                        .per_sm = BytesPerSecond(20e9),
                        .sms = 20};
    c.intra.dispatch_low_latency = c.intra.dispatch_one_sided = c.intra.dispatch_two_sided =
        c.intra.dispatch;
    c.intra.dispatch_low_latency.launch = 13_us;
    c.intra.dispatch_low_latency.wave = 5_us;
    c.gpu.sms = 50;
    c.intra.dispatch_one_sided.launch = 17_us;
    c.intra.dispatch_two_sided.launch = 19_us;
    const double copies[] = {ranks_of_token(3, 64, 8), ranks_of_token(3, 64, 8), 3, 3, 3, 3, 3, 2};
    const Dispatch* constants[] = {&c.intra.dispatch,
                                   &c.intra.dispatch,
                                   &c.intra.dispatch_low_latency,
                                   &c.intra.dispatch_low_latency,
                                   &c.intra.dispatch_one_sided,
                                   &c.intra.dispatch_one_sided,
                                   &c.intra.dispatch_two_sided,
                                   &c.intra.dispatch_two_sided};
    for (std::size_t i = 0; i < 8; ++i) {
        const ExchangeRow& row = blocks.exchanges[i];
        CAPTURE(row.op);
        CHECK(row.kernels == kernels[i]);
        CHECK(has_kernels(c, row));
        const FitCase one = exchange_case(row);
        CHECK(one.kind == kinds[i]);
        const double away = i == 7 ? 1.0 / 2 : 7.0 / 8;
        const bool by_expert = row.kernels == "dispatch_low_latency";
        CHECK(one.predict(c).si() ==
              Approx(dispatch_law_time({128 * copies[i] * away, 128, row.bytes, by_expert ? 2 : 0},
                                       *constants[i], c.intra.bandwidth,
                                       !by_expert ? row.sms
                                       : i == 2   ? 32
                                                  : 0)
                         .si()));
    }
    CHECK(exchange_case(first).row == first.row);
    const std::vector<FitPlan> fits = exchange_fits(blocks);
    REQUIRE(fits.size() == 4);
    for (const FitPlan& fit : fits) CHECK(fit.cases.size() == 2);
    CHECK(
        text_of(fits[0].parameters) ==
        "link.intra.dispatch.launch 30 us 0.7 2 us..300 us\nlink.intra.dispatch.efficiency 0.8 0.5 "
        "0.1..2\n"
        "link.intra.dispatch.row 1.5 kB 1 0.01 kB..50 kB\nlink.intra.dispatch.own 1.5 1 0.01..10\n"
        "link.intra.dispatch.per_sm 30 GB/s 0.7 2 GB/s..300 GB/s\n");
    CHECK(text_of(fits[1].parameters) ==
          "link.intra.dispatch_low_latency.launch 30 us 0.7 2 us..300 us\n"
          "link.intra.dispatch_low_latency.efficiency 0.8 0.5 0.1..2\n"
          "link.intra.dispatch_low_latency.per_sm 3 GB/s 0.7 0.2 GB/s..100 GB/s\n"
          "link.intra.dispatch_low_latency.wave 3 us 0.7 0.1 us..30 us\n");
    CHECK(fits[2].parameters.size() == 5);
    CHECK(text_of({fits[3].parameters.back()}) ==
          "link.intra.dispatch_two_sided.token 20 ns 1 0.1 ns..1 us\n");

    // Four trays in one NVLink domain count as one node.
    const BuildingBlocks trays =
        blocks_of(folder, header + "nvlink_dispatch,128,7168,3,64,16,4,,fp4,70\n");
    REQUIRE(trays.exchanges.size() == 1);
    CHECK(trays.exchanges[0].nodes == 1);
    CHECK(trays.exchanges[0].ranks == 16);

    const std::string experts =
        ": experts: 3 of 64 experts over 1 ranks; expected at least two ranks, as many experts on "
        "each";
    CHECK(refused(folder, header + "deepep_dispatch,128,7168,3,64,1,1,24,fp8,70\n") ==
          "t.csv:2" + experts);
    CHECK_FALSE(refused(folder, header + "deepep_dispatch,128,7168,65,64,8,1,24,fp8,70\n").empty());
    CHECK_FALSE(refused(folder, header + "deepep_dispatch,128,7168,3,64,6,1,24,fp8,70\n").empty());
    CHECK(refused(folder, header + "deepep_dispatch,128,7168,64,64,2,1,24,fp8,70\n").empty());
}

// The priors of fits (notes/kernel-laws.md). A kernel has only those constants that its rows can
// show.
TEST_CASE("named kernels start from the same beliefs on every device") {
    Attention causal{.head_dim = 128, .dtype = Dtype::bf16}, odd = causal, narrow = causal;
    odd.head_dim = 72;
    narrow.dtype = Dtype::fp8;
    const auto row = [](const char* kernel, const Attention& op) {
        return AttentionRow{"attention", kernel, {op, 1}, 1_us, 0};
    };
    const std::string always =
        "kernel.attention_launch 8 us 0.7 0.5 us..80 us\nkernel.attention_efficiency 0.7 0.4 "
        "0.1..1.2\n"
        "kernel.attention_width 30 0.7 0.1..400\nkernel.attention_fill 128 0.7 1..3000\n"
        "kernel.attention_corner 0.5 0.7 0.02..3\nkernel.attention_traffic 1 0.7 0.02..20\n";
    const std::string caches =
        "kernel.attention_cache 1 0.7 0.02..40\nkernel.attention_token 1 ns 1.5 0.001 ns..100 ns\n";
    CHECK(text_of(attention_parameters("a", {row("a", causal), row("b", odd), row("b", narrow)})) ==
          always + caches);
    CHECK(text_of(attention_parameters("unmasked a", {row("unmasked a", causal)})) == always);
    CHECK(text_of(attention_parameters("a", {row("a", causal), row("a", odd)})) ==
          always + caches + "kernel.attention_odd 1 0.5 0.05..2\n");
    // without other widths to compare with
    CHECK(text_of(attention_parameters("a", {row("a", odd), row("a", odd)})) == always + caches);
    CHECK(text_of(attention_parameters("a", {row("a", narrow)})) ==
          always + caches +
              "kernel.attention_fp8 0.5 0.5 0.05..1.5\nkernel.attention_fp8_launch 4 us 0.7 0.1 "
              "us..60 us\nkernel.attention_fp8_traffic 1 0.7 0.05..20\n");
    CHECK(text_of(fit_priors({"experts"})) ==
          "kernel.experts.launch 20 us 0.7 1 us..300 us\n"
          "kernel.experts.efficiency 0.6 0.5 0.05..1\nkernel.experts.k0 300 0.7 "
          "5..3000\nkernel.experts.tile_reuse 25 0.7 0.1..300\n"
          "kernel.experts.traffic 0.8 0.4 0.1..1.3\nkernel.experts.passes 1 0.7 0.05..20\n");
    CHECK(text_of(fit_priors({"casts"})) ==
          "kernel.cast.launch 2 us 0.5 0.5 us..10 us\nkernel.cast.efficiency 0.85 0.2 0.3..1.2\n"
          "kernel.cast.cache 40 MB 0.5 4 MB..400 MB\nkernel.cast.cache_gain 1.5 0.4 1.01..8\n"
          "kernel.cast.row 0.2 us 0.7 0.01 us..5 us\n"
          "kernel.cast.tensor_efficiency 0.8 0.4 0.2..2\nkernel.cast.tensor_gain 1.5 0.4 1.01..8\n"
          "kernel.cast.tensor_written 1 1 0.01..10\n");
    CHECK(text_of(fit_priors({"fp8"})) ==
          "kernel.fp8.efficiency 0.7 0.5 0.1..1\nkernel.fp8.k0 350 0.7 5..3000\n"
          "kernel.fp8.tile_reuse 40 0.8 0.1..400\nkernel.fp8.wave_loss 0.3 1 0.02..1\n"
          "kernel.fp8.cast_launch 1 us 0.7 0.05 us..30 us\n");
    CHECK(fit_priors({"fp4"}).at(1).prior == "600");
    CHECK(text_of(fit_priors({"fp8_blocks"}))
              .ends_with("kernel.fp8_blocks.cast_launch 4 us 0.7 0.05 us..30 "
                         "us\nkernel.fp8_blocks.cast_bytes 3 0.7 0.2..30\n"
                         "kernel.fp8_blocks.cast_row 0.1 us 1.5 1 ns..50 us\n"));
}

// model/presets/sources.toml names the releases; other formats and releases have no such kernel.
TEST_CASE("128-wide rows of an older release pay for a layout of scales of its own") {
    const TestFolder folder;
    BuildingBlocks blocks;
    read_building_blocks(
        folder.write("t.csv",
                     "gpu,op,m,n,k,dtype,implementation,time_us\n"
                     "NVIDIA B200,sustained_cast_gemm,64,32,16,fp8 (128-wide scaling),TRT-LLM "
                     "1.3.0rc15 Linear,20\n"
                     "NVIDIA B200,cast_gemm,64,32,16,fp8 (128-wide scaling),TRT-LLM 1.3.0rc20 "
                     "Linear (DeepGEMM),20\n"
                     "NVIDIA B200,sustained_cast_gemm,64,32,16,fp8,TRT-LLM 1.3.0rc15 Linear,20\n"),
        read_cluster("b200-x8").gpu, blocks);
    REQUIRE(blocks.gemms.size() == 3);
    CHECK(blocks.gemms[0].layout_apart);
    CHECK_FALSE(blocks.gemms[1].layout_apart);
    CHECK_FALSE(blocks.gemms[2].layout_apart);
    const Cluster c = read_cluster("b200-x8");
    GemmRow without = blocks.gemms[0];
    without.layout_apart = false;
    CHECK((narrow_time(blocks.gemms[0], c) - narrow_time(without, c)).si() ==
          Approx(scale_layout_time(64, 16, c).si()));
}

// A product's time includes its cast if the table's does. Block-scaled products and sustained runs
// are separate kinds.
TEST_CASE("a narrow product is a kind of its own, with its cast where the row has it") {
    GemmRow row{{4096, 2048, 1024, 1, Dtype::fp8}, 1, 1_ms};
    Cluster c = made_up_machine();
    CHECK(narrow_kind(row) == "gemm_fp8");
    const Seconds plain = narrow_time(row, c);
    row.casts = true;
    CHECK(narrow_time(row, c).si() ==
          Approx((plain + input_cast_time(4096, 1024, Dtype::fp8, false, c)).si()));
    row.scaled_blocks = true;
    CHECK(narrow_kind(row) == "gemm_fp8_blocks");
    row.sustained = true;
    CHECK(narrow_kind(row) == "sustained_gemm_fp8_blocks");
    row.gemm.dtype = Dtype::fp4;
    CHECK(narrow_kind(row) == "sustained_gemm_fp4");
}

// Arithmetic and traffic by hand. An expert layer of 64 tokens with 2 of 8 experts on two ranks has
// 64 rows per rank and three products of 512 x 256 (tp 2). Bytes: the weights of four experts and,
// for each row, input and output (512) and three times 256, in two bytes each.
TEST_CASE("kernels of every table are compared with their work and their traffic") {
    const TestFolder folder;
    const auto one = [&](const std::string& table) {
        const KernelComparisons found =
            read_kernel_comparisons(folder.write("t.csv", table), "dgx-h100");
        CAPTURE(table);
        for (const auto& r : found.refused) UNSCOPED_INFO(r.reason);
        REQUIRE(found.rows.size() == 1);
        CHECK(found.rows[0].predicted > Seconds(0));
        CHECK(found.rows[0].device == "H100-80GB-SXM");
        return found.rows[0];
    };
    const Cluster h100 = read_cluster("dgx-h100");
    const KernelComparison attention =
        one("op,batch,heads,kv_heads,seq_q,seq_k,head_dim,causal,kernel,dtype,time_us\nattention,2,"
            "12,3,512,512,128,0,x,bf16,70\n");
    CHECK(attention.dtype == "bf16");
    CHECK(attention.work.si() == 4.0 * 2 * 12 * 512 * 512 * 128);
    CHECK(attention.peak == peak(h100.gpu, Dtype::bf16));
    CHECK(
        one("op,rows,width,granularity,implementation,time_us\ncast,3,5,per tensor,x,7\n").bytes ==
        Bytes(45));
    const KernelComparison layer =
        one("num_tokens,hidden,inter,topk,experts,tp_in_expert,ep,dtype,time_us\n64,512,512,2,8,2,"
            "2,bf16,70\n");
    CHECK(layer.work.si() == 6.0 * 64 * 512 * 256);
    CHECK(layer.bytes.si() == (3.0 * 4 * 512 * 256 + 64 * (2 * 512 + 3 * 256)) * 2);
    CHECK(layer.peak == peak(h100.gpu, Dtype::bf16));
    const KernelComparison exchange =
        one("op,tokens_per_rank,hidden,topk,experts,ranks,nodes,sms,dtype,time_us\ndeepep_dispatch,"
            "128,7168,3,64,8,1,24,fp8,70\n");
    CHECK(exchange.bytes == Bytes(128 * 7392));
    CHECK(exchange.ranks == 8);
    CHECK(exchange.bus_factor == 1);
    const KernelComparison pass = one("kind,bytes,time_us\ncopy,6000,7\n");
    CHECK(pass.bytes.si() == Approx(6000));
    CHECK(pass.dtype.empty());
    const KernelComparison grouped = one("m,n,k,groups,dtype,time_us\n64,128,256,3,bf16,7\n");
    CHECK(grouped.work.si() == 3 * 2.0 * 64 * 128 * 256);
    CHECK(grouped.bytes.si() == 3 * 2.0 * (64 * 256 + 256 * 128 + 64 * 128));
    CHECK(grouped.peak == peak(h100.gpu, Dtype::bf16));
    CHECK(grouped.bandwidth == h100.gpu.memory_bandwidth);
    const KernelComparison batched = one("batch,m,n,k,dtype,time_us\n3,64,128,256,fp16,7\n");
    CHECK(batched.dtype == "fp16");
    CHECK(batched.work.si() == 2.0 * 3 * 64 * 128 * 256);
    CHECK(batched.peak == peak(h100.gpu, Dtype::fp16));
    const KernelComparison flash =
        one("batch,m,n,k,dtype,time_us\n3,64,64,128,bf16-flash-causal,7\n");
    CHECK(flash.dtype == "bf16");
    CHECK(flash.bandwidth == h100.gpu.memory_bandwidth);
    const KernelComparisons none = read_kernel_comparisons(
        folder.write("l.csv", "kind,calls,time_us_per_call\nhost read,5,7\nhost read,6,7\n"),
        "dgx-h100");
    REQUIRE(none.refused.size() == 1);
    CHECK(none.refused[0].rows == 2);
    const KernelComparisons lacking = read_kernel_comparisons(
        folder.write("t.csv",
                     "op,tokens_per_rank,hidden,topk,experts,ranks,nodes,sms,dtype,time_us\nnvlink_"
                     "dispatch,128,7168,3,64,8,1,24,fp8,70\n"),
        "dgx-a100");
    CHECK(lacking.rows.empty());
    CHECK(lacking.refused.at(0).reason == "dispatch kernels that this cluster has no constants of");
}

// nccl-tests counts 2 (n - 1) / n of an all-reduce's payload, (n - 1) / n for the others, all of a
// broadcast. The interval of a machine without its own constants is as wide as transferred ones are
// off; with its own it follows its held-out error: exp(1.2816 x 1.2533 mape).
TEST_CASE("the interval of a kernel is as wide as the error of its kind") {
    const TestFolder folder;
    Cluster c = read_cluster("dgx-a100");
    c.fitted->errors = {{"gemm", "fitted", 9, 0, 0.5},
                        {"gemm", "held-out tenth", 9, 0, 0.1},
                        {"all_reduce", "fitted", 9, 0, 0.5}};
    const std::string path =
        folder.write("g.csv", "m,n,k,dtype,time_us\n4096,4096,4096,bf16,600\n");
    const KernelComparison row = read_own_kernels(path, c).rows.at(0);
    CHECK(row.p90 / row.predicted == Approx(std::exp(p90_of_normal * 1.2533 * 0.1)));
    CHECK(row.predicted / row.p10 == Approx(std::exp(p90_of_normal * 1.2533 * 0.1)));
    const std::string links =
        folder.write("c.csv",
                     "op,ranks,nodes,bytes,time_us\nall_reduce,8,1,1e6,60\nbroadcast,4,1,1e6,"
                     "60\nreduce_scatter,4,1,1e6,60\nall_to_all,4,1,1e6,60\n");
    const KernelComparisons of_links = read_own_kernels(links, c);
    REQUIRE(of_links.rows.size() == 4);
    // it has only "fitted" errors, which are no evidence
    CHECK(of_links.rows[0].p90 == of_links.rows[0].predicted);
    const double factors[] = {1.75, 1, 0.75, 0.75};
    for (std::size_t i = 0; i < 4; ++i) CHECK(of_links.rows[i].bus_factor == factors[i]);
    CHECK(of_links.rows[0].bytes == Bytes(1e6));
    c.fitted.reset();
    const KernelComparison alone = read_own_kernels(path, c).rows.at(0);
    CHECK(alone.p90 / alone.predicted ==
          Approx(std::exp(p90_of_normal * transfer_spread("gemm", has_like_machine(c)))));
    for (const std::string& name : preset_names(PresetKind::cluster)) {
        Cluster unfitted = read_cluster(name);
        unfitted.fitted.reset();
        if (unfitted.gpu.peaks[Dtype::bf16].si() == 0) continue;
        CAPTURE(name);
        const KernelComparison k = read_own_kernels(path, unfitted).rows.at(0);
        CHECK(
            k.p90 / k.predicted ==
            Approx(std::exp(p90_of_normal * transfer_spread("gemm", has_like_machine(unfitted)))));
    }
    const std::string others =
        folder.write("o.csv", "gpu,m,n,k,dtype,time_us\nNVIDIA B200,4096,4096,4096,bf16,600\n");
    CHECK(read_own_kernels(others, c).rows.empty());
    CHECK(read_kernel_comparisons(others, "").rows.size() == 1);
    CHECK(read_kernel_comparisons(path, "").refused.at(0).reason ==
          "gpu: missing; expected a device, or name a cluster with --cluster");
}

// Nine products are off by 1 .. 9 parts in a thousand (as logarithms). Four fifths of nine and a
// future one means the eighth, which is p90 of a normal distribution, 1.2816 standard deviations
// out. Classes and kinds of machines count separately.
TEST_CASE(
    "constants that were transferred are as uncertain as they were off on machines left out") {
    std::string like, unlike, another;
    for (const std::string& name : preset_names(PresetKind::cluster)) {
        const bool alike = has_like_machine(read_cluster(name));
        if (!alike) another = unlike;
        (alike ? like : unlike) = name;
    }
    REQUIRE_FALSE((like.empty() || unlike.empty() || another.empty()));
    KernelComparisons all;
    const auto add = [&](const std::string& cluster, const char* kind, double off) {
        KernelComparison k;
        k.cluster = cluster;
        k.kind = kind;
        k.measured = 1_ms;
        k.predicted = std::exp(off) * 1_ms;
        all.rows.push_back(k);
    };
    for (const int part : {3, -1, 9, -5, 2, 4, -7, 6, 8})
        add(like, part > 0 ? "gemm" : "grouped_gemm", 1e-3 * part);
    add(like, "cast", 0.7);
    add(unlike, "gemm", -0.3);
    const TransferSpreads spreads = transfer_spreads(all);
    CHECK(spreads.alike.size() == 2);
    CHECK(spreads.alike.at("products") == Approx(8e-3 / p90_of_normal));
    CHECK(spreads.alike.at("casts") == Approx(0.7 / p90_of_normal));
    CHECK(spreads.alone.size() == 1);
    CHECK(spreads.alone.at("products") == Approx(0.3 / p90_of_normal));
    // the machine with the worst prediction counts, however few rows it has
    add(another, "gemm", 0.4);
    add(unlike, "gemm", 0.2);
    CHECK(transfer_spreads(all).alone.at("products") == Approx(0.4 / p90_of_normal));
    CHECK(transfer_spreads(all).alike == spreads.alike);
    add(unlike, "cast", 0.1);  // at least as wide as for machines with a similar measured one
    CHECK(transfer_spreads(all).alone.at("casts") == spreads.alike.at("casts"));
}

TEST_CASE("a measured machine's kernels are foretold by the constants of the others") {
    const TestFolder folder;
    const KernelComparisons found = read_transferred_kernels(
        folder.write("g.csv",
                     "gpu,m,n,k,dtype,time_us\nA100-SXM4-80GB,4096,4096,4096,bf16,600\nV100-SXM2-"
                     "32GB,4096,4096,4096,fp16,600\n"));
    REQUIRE(found.rows.size() == 1);
    CHECK(found.rows[0].predicted == gemm_case({{4096, 4096, 4096, 1, Dtype::bf16}, 1, 1_ms})
                                         .predict(cluster_from_others("dgx-a100")));
    REQUIRE(found.refused.size() == 1);
    CHECK(found.refused[0].reason.ends_with(" is not among the measured machines"));
}
