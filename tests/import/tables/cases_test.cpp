#include <catch2/catch.hpp>

#include "import/tables/case_of.h"
#include "import/tables/cases.h"
#include "import/tables/recorded.h"
#include "model/runtime_rules.h"
#include "reports/compare_page.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {
const std::string routing_of_8 =
    "# stepcast routing 1, block_totals, ranks 4, experts 8\nrank,blocks,remote_blocks\n"
    "0,9,1\n1,8,2\n2,7,3\n3,6,4\n";

Case only_case(const std::string& path, const std::string& cluster = "") {
    const auto rows = read_cases(path);
    REQUIRE(rows.size() == 1);
    return case_of(rows[0], cluster);
}
}  // namespace

TEST_CASE("a row that names a preset becomes its experiment with the row's sizes") {
    const TestHome home;
    const TestFolder folder;
    const auto c = only_case(folder.write(
        "c.csv",
        "source,case_id,model,experts,topk,seq,gpus,gpu,dp,ep,sp,precision,step_s,forward_s,moe_"
        "system\n"
        "own,a,moe_layer,16,1,4096,4,X100,4,4,off (assumed),fp16 mixed,0.02,0.01,mix_moe\n"));
    CHECK(c.source == "own");
    CHECK(c.case_id == "a");
    CHECK(c.series == "mix_moe");
    CHECK(c.x == 16);
    CHECK(c.experiment.name == "moe_layer_mix_moe");
    CHECK(c.experiment.workload.moe == Moe{16, 1, 0, 0});
    CHECK(c.experiment.workload.seq == 4096);
    CHECK(c.experiment.routing.kind == RoutingSpec::Kind::random_gate);
    CHECK(c.experiment.routing.draws == 200);
    CHECK(c.measured_step == Seconds(0.02));
    CHECK(c.measured_forward == Seconds(0.01));
    CHECK_FALSE(c.measured_backward);
    CHECK(c.assumptions == std::vector<std::string>{"routing not stated: random-gate, 200 draws",
                                                    "sp: off (assumed)"});
}

TEST_CASE("a routing file of a row lies beside the cases file") {
    const TestHome home;
    const TestFolder folder;
    folder.write("r.csv", routing_of_8);
    const auto c =
        only_case(folder.write("c.csv", "model,step_s,routing\nmoe_layer_mix_moe,0.02,r.csv\n"));
    CHECK(c.experiment.routing.file == folder.path() + "/r.csv");
    CHECK(c.experiment.workload.moe.experts == 8);
    CHECK(c.assumptions ==
          std::vector<std::string>{"gpu not stated: X100 of moe_layer_mix_moe",
                                   "gpus not stated: 4 of moe_layer_mix_moe",
                                   "precision not stated: fp16 of moe_layer_mix_moe"});
    CHECK(c.case_id == "line 2");
}

TEST_CASE("a row that cannot be predicted says why") {
    const TestHome home;
    const TestFolder folder;
    const auto told = [&](const std::string& row) {
        const auto path = folder.write(
            "c.csv",
            "model,layers,experts,gpus,gpu,tp,dp,zero,sp,precision,recompute,step_s,routing\n" +
                row + "\n");
        return complaint([&] { only_case(path); }, folder.path());
    };
    CHECK(told("llama3-8b,32,,8,H100,2,2,,,bf16,,1,") ==
          "c.csv:2: tp 2 x pp 1 x dp 2 x cp 1 = 4 ranks, but gpus is 8");
    CHECK(told("llama3-8b,,,8,H100,2,4,,,bf16,,1,") ==
          "c.csv:2: layers: missing; expected a count");
    CHECK(told("moe_layer_naive,32,,8,H100,2,4,,,bf16,,1,") ==
          "c.csv:2: model: \"moe_layer_naive\" is no preset experiment; expected one of "
          "moe_layer_alltoall, "
          "moe_layer_fast_moe, moe_layer_mix_moe");
    CHECK(told("moe_layer_mix_moe,,,4,H900,1,4,,,,,1,") ==
          "c.csv:2: gpu: no cluster is known for \"H900\"; expected one of X100, or name one with "
          "--cluster "
          "(stepcast import --gpu NAME --out FILE.toml writes one where the datasheet is known)");
    CHECK(told("moe_layer_mix_moe,,,8,,1,8,,,,,1,") ==
          "c.csv:2: --set parallelism.dp=8: pipeline 1 x data 8 x tensor 1 x context 1 = 8 ranks, "
          "but cluster has 4; dp=4 uses all");
    CHECK(told("moe_layer_mix_moe,,,8,,,,,,,,1,") ==
          "c.csv:2: gpus: 8, but the experiment has 4 ranks");
    CHECK(told("moe_layer_mix_moe,,,4,,1,4,,,,,,") ==
          "c.csv:2: step_s: missing; nothing to compare with");
    CHECK(told("moe_layer_mix_moe,,,4,,1,4,,,,,0,") ==
          "c.csv:2: step_s: 0 is out of range; expected more than 0 and at most 1000000 seconds");
    CHECK(
        told("moe_layer_mix_moe,,,4,,1,4,,,,,1e300,") ==
        "c.csv:2: step_s: 1e300 is out of range; expected more than 0 and at most 1000000 seconds");
    CHECK(told("moe_layer_mix_moe,,,4,,1,4,,,int8,,1,") ==
          "c.csv:2: precision: \"int8\" names no dtype that is modelled; expected fp32, tf32, "
          "fp16, bf16, fp8 or fp4");
    CHECK(told("moe_layer_mix_moe,,,4,,1,4,,maybe,,,1,") ==
          "c.csv:2: sp: \"maybe\" is neither on nor off");
    CHECK(told("moe_layer_mix_moe,,,x,,1,4,,,,,1,") ==
          "c.csv:2: gpus: \"x\" is no integer of at least 1");
    CHECK(told("moe_layer_mix_moe,,,4,,1,4,,,,full (as stated),1,") ==
          "c.csv:2: --set parallelism.recompute=full: full, but workload.kind moe_layer does not "
          "model it; expected "
          "none");
}

// 400 digits fit no double, ten no int.
TEST_CASE("a number of a note that is none is the row's mistake, not ours") {
    const TestHome home;
    const TestFolder folder;
    for (const std::string& digits : {std::string(400, '1'), std::string("9999999999")}) {
        const auto rows = read_cases(folder.write("c.csv",
                                                  "model,layers,hidden,heads,ffn,vocab,seq,gpus,"
                                                  "gpu,tp,pp,dp,zero,mbs,gbs,precision,step_s\n"
                                                  "gpt,2,64,4,256,100,64,4,X100,1,1,4,FSDP group " +
                                                      digits + ",1,4,fp16,1\n"));
        const auto said = complaint([&] { case_of(rows.at(0), ""); });
        CHECK_THAT(said, Catch::Matchers::Contains("is out of range; expected a "));
    }
}

TEST_CASE("a file that is no cases file is refused with its line") {
    const TestFolder folder;
    const auto told = [&](const std::string& text) {
        const auto path = folder.write("c.csv", text);
        return complaint([&] { read_cases(path); }, folder.path());
    };
    CHECK(told("") == "c.csv:1: is empty; expected a cases file as in docs/files.md");
    CHECK(told("model,steps_s\n") ==
          "c.csv:1: \"steps_s\" is no column of a cases file, did you mean \"step_s\"?");
    CHECK(told("model,step_s,wall\n") ==
          "c.csv:1: \"wall\" is no column of a cases file; docs/files.md lists them");
    CHECK(told("m,n,k,dtype,time_ms\n") ==
          "c.csv:1: found header \"m,..\" of 5 columns; expected cases (model,step_s,.. as in "
          "docs/files.md) or kernels "
          "(m,n,k,dtype,time_us and others, as in docs/files.md)");
    CHECK(told("model,value\n") ==
          "c.csv:1: column step_s is missing; expected a cases file as in docs/files.md");
    CHECK(told("model,model,step_s\n") == "c.csv:1: column model is there twice");
    CHECK(told("model,step_s\na\n") == "c.csv:2: found 1 fields; expected 2 as in the header");
}

// Summary rows count (10 ms); a run without them gets the median of 20, 21 and 25 ms.
TEST_CASE("measured runs become cases, with their recorded routing where there is one") {
    const TestHome home;
    const TestFolder folder;
    folder.write("mix_moe_8.csv", routing_of_8);
    const std::string model = "moe_layer-512x2048-fp16-4096-top1";
    const std::vector<Sample> samples{
        {"a", "mix_moe", model, 8, 4, "step", -1, 30, 0.5, "s"},
        {"a", "mix_moe", model, 8, 4, "AG.forward", 2, -1, 0.001, "s"},
        {"b", "fast_moe", "moe_layer", 16, 4, "step", -1, 0, 0.020, "s"},
        {"b", "fast_moe", "moe_layer", 16, 4, "step", -1, 1, 0.025, "s"},
        {"b", "fast_moe", "moe_layer", 16, 4, "step", -1, 2, 0.021, "s"},
        {"c", "mix_moe", "moe_layer", 8, 4, "step", -1, -1, 0.012, "s"},
        {"d", "host", "other", 8, 2, "step", -1, -1, 0.012, "s"},
        {"a", "mix_moe", model, 8, 4, "step", -1, -1, 0.010, "s"},
        {"a", "mix_moe", model, 8, 4, "forward", -1, -1, 0.004, "s"}};
    const auto found = comparisons_of_layers(samples, folder.path());
    REQUIRE(found.size() == 3);
    const std::vector<Case> cases{found[0].what, found[1].what, found[2].what};
    CHECK(cases[0].case_id == "a");
    CHECK(cases[0].series == "mix_moe");
    CHECK(cases[0].x == 8);
    CHECK(cases[0].measured_step == Seconds(0.010));
    CHECK(cases[0].measured_forward == Seconds(0.004));
    CHECK(cases[0].experiment.workload.hidden == 512);
    CHECK(cases[0].experiment.workload.seq == 4096);
    CHECK(cases[0].experiment.routing.file == folder.path() + "/mix_moe_8.csv");
    CHECK(cases[0].assumptions.empty());
    CHECK(cases[1].measured_step == Seconds(0.021));
    CHECK(cases[1].experiment.workload.moe.experts == 16);
    CHECK(cases[1].assumptions ==
          std::vector<std::string>{"routing not recorded: random-gate, 200 draws"});
    CHECK(cases[2].experiment.routing.kind == RoutingSpec::Kind::random_gate);
}

TEST_CASE("a measured run that no experiment fits is refused by its name, and the rest goes on") {
    const TestHome home;
    const auto found =
        comparisons_of_layers({{"a", "mix_moe", "moe_layer-8", 8, 4, "step", -1, -1, 0.1, "s"},
                               {"b", "mix_moe", "moe_layer", 8, 4, "forward", -1, -1, 0.1, "s"},
                               {"c", "mix_moe", "moe_layer", 8, 3, "step", -1, -1, 0.1, "s"},
                               {"d", "mix_moe", "moe_layer", 8, 4, "step", -1, -1, 0.1, "s"}});
    REQUIRE(found.size() == 4);
    CHECK(found[0].refused_because ==
          "run a: model \"moe_layer-8\" states no shape; expected moe_layer or "
          "moe_layer-HIDDENxFFN-DTYPE-TOKENS-topK");
    CHECK(found[1].refused_because == "run b: has no rows of phase step and rank -1");
    CHECK(found[2].refused_because.find("cannot be spread over parallelism.ep = 3 ranks") !=
          std::string::npos);
    CHECK(found[3].refused_because.empty());
}

// The preset has four ranks; the runs had two, and four under another system than the preset that
// they name.
TEST_CASE("a measured layer is predicted under its system on the ranks that it ran on") {
    const TestHome home;
    const auto found = comparisons_of_layers(
        {{"a", "fast_moe", "moe_layer", 8, 2, "step", -1, -1, 0.1, "s"},
         {"b", "mix_moe", "moe_layer_fast_moe", 16, 4, "step", -1, -1, 0.1, "s"}});
    REQUIRE(found.size() == 2);
    for (const Comparison& c : found) REQUIRE(c.refused_because == "");
    CHECK(found[0].what.experiment.parallelism.moe_system == MoeSystem::fast_moe);
    CHECK(rank_count(found[0].what.experiment.cluster) == 2);
    CHECK(found[1].what.experiment.parallelism.moe_system == MoeSystem::mix_moe);
    CHECK(found[0].what.experiment.parallelism.ep == 2);
    CHECK(found[1].what.experiment.parallelism.ep == 4);
}

TEST_CASE("columns that may be added say what the source leaves open") {
    const TestFolder folder;
    const auto rows = read_cases(
        folder.write("c.csv",
                     "source,case_id,model,layers,hidden,heads,ffn,vocab,seq,experts,topk,gpus,gpu,"
                     "dp,ep,mbs,gbs,step_s,framework,dispatch,overlap_experts\n"
                     "mine,a,mixtral-8x7b,32,4096,32,14336,32000,4096,8,2,8,H100-80GB-SXM,8,8,1,64,"
                     "1,nanotron,once,\n"
                     "mine,b,mixtral-8x7b,32,4096,32,14336,32000,4096,8,2,8,H100-80GB-SXM,8,8,1,64,"
                     "1,,all-to-all,false\n"));
    REQUIRE(rows.size() == 2);
    const Case named = case_of(rows[0], ""), open = case_of(rows[1], "");
    CHECK(named.experiment.framework.name == "nanotron");
    CHECK(open.experiment.framework.name == "default");
    CHECK(sends_once(named.experiment));
    CHECK_FALSE(sends_once(open.experiment));
}
