#include "import/tables/pytorch.h"
#include "model/routing_file.h"
#include "model/runtime_rules.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

const std::string pytorch_header =
    "case_id,layers,hidden,heads,ffn,vocab,seq,batch,dtype,attention,optimizer,forward_s,backward_"
    "s,optimizer_s,step_s,"
    "step_p10_s,step_p90_s,peak_bytes,samples\n";

std::string one_gpu(const TestFolder& folder) {
    return folder.write("x1.toml",
                        "name = \"x1\"\nsource = \"made up\"\n[gpu]\nname = \"X1\"\nsms = "
                        "100\nmemory = \"80 GB\"\nmemory_bandwidth "
                        "= \"3 TB/s\"\n[gpu.peak]\nfp32 = \"50 TFLOP/s\"\ntf32 = \"250 "
                        "TFLOP/s\"\nfp16 = \"500 TFLOP/s\"\nbf16 = "
                        "\"500 TFLOP/s\"\n[link.intra]\nbandwidth = \"1 "
                        "GB/s\"\n[link.inter]\nbandwidth = \"1 GB/s\"\n");
}

}  // namespace

TEST_CASE("a row of PyTorch steps is a script's GPT with its phases and peak") {
    const TestFolder folder;
    const auto found = comparisons_of_pytorch(
        folder.write("steps.csv", pytorch_header +
                                      "gpt2-124m,12,768,12,3072,50304,1024,8,tf32,plain,adamw-"
                                      "fused,0.01,0.02,0.001,0.0312,"
                                      "0.031,0.032,11030000000,20\n"),
        one_gpu(folder));
    REQUIRE(found.size() == 1);
    const Case& c = found[0].what;
    CHECK(found[0].refused_because.empty());
    CHECK(c.case_id == "gpt2-124m b8 tf32 plain");
    CHECK(c.series == "gpt2-124m");
    CHECK(c.measured_step.si() == 0.0312);
    CHECK(c.measured_forward->si() == 0.01);
    REQUIRE(c.measured_phases.size() == 1);
    CHECK(c.measured_phases[0].name == "optimizer");
    CHECK(c.measured_peak->si() == 11.03e9);
    const Workload& w = c.experiment.workload;
    CHECK(w.dtype == Dtype::tf32);
    CHECK(c.experiment.runtime.attention == AttentionKind::plain);
    CHECK(!w.causal);  // the script masks nothing without flash attention
    CHECK(!w.tied);
    CHECK(c.experiment.parallelism.micro_batch == 8);
    CHECK(runs_script(c.experiment));
}

TEST_CASE("the script has one GPU on a cluster of many") {
    const TestFolder folder;
    const auto found = comparisons_of_pytorch(
        folder.write("steps.csv",
                     pytorch_header +
                         "gpt2-124m,12,768,12,3072,50304,1024,8,tf32,plain,adamw-fused,0.01,0."
                         "02,0.001,0.0312,0.031,0.032,11030000000,20\n"),
        "dgx-h100");
    REQUIRE(found.size() == 1);
    CHECK(found[0].refused_because.empty());
    CHECK(rank_count(found[0].what.experiment.cluster) == 1);
}

TEST_CASE("a step that ran out of memory, or is not the script's, is refused with its line") {
    const TestFolder folder;
    const auto found = comparisons_of_pytorch(
        folder.write(
            "steps.csv",
            pytorch_header +
                "gpt2,12,768,12,3072,50304,1024,999,bf16,plain,adamw-fused,oom,,,,,,,0\n"
                "gpt2,12,768,12,3072,50304,1024,8,bf16,flash,sgd,0.01,0.02,0.001,0.03,,,,20\n"
                "gpt2,12,768,11,3072,50304,1024,8,bf16,flash,adamw-fused,1,1,1,1,,,,20\n"),
        one_gpu(folder));
    REQUIRE(found.size() == 3);
    const auto reason = [&](std::size_t i) {
        return complaint([&] { throw ConfigError(found[i].refused_because); }, folder.path());
    };
    CHECK(reason(0) ==
          "steps.csv:2: forward_s: ran out of memory when measured; no step to compare with");
    CHECK(reason(1) == "steps.csv:3: optimizer: \"sgd\" is not modelled; expected adamw-fused");
    CHECK_THAT(reason(2), Catch::Matchers::Contains("steps.csv:4: workload.heads"));
}

TEST_CASE("an MoE layer finds the routing of its gate beside it") {
    const TestFolder folder;
    folder.write(
        "moe_routing.csv",
        "experts,gate,expert,count\n2,skewed,0,7\n2,skewed,1,1\n2,uniform,0,4\n2,uniform,1,4\n");
    const auto found =
        comparisons_of_pytorch(folder.write("moe.csv",
                                            "experts,tokens,d,h,top_k,gate,forward_s,backward_s,"
                                            "step_p10_s,step_p90_s,hottest_share,experts_hit\n"
                                            "2,4,16,64,2,skewed,0.001,0.002,0.003,0.003,0.875,2\n"
                                            "4,4,16,64,2,skewed,0.001,0.002,0.003,0.003,0.5,4\n"),
                               one_gpu(folder));
    REQUIRE(found.size() == 2);
    const Case& c = found[0].what;
    CHECK(found[0].refused_because.empty());
    CHECK(c.case_id == "moe 2 experts skewed");
    CHECK(c.measured_step.si() == Approx(0.003));
    const Routing routing = read_routing(c.experiment.routing.file);
    CHECK(routing.counts == std::vector<int>{7, 1});
    CHECK_THAT(found[1].refused_because, Catch::Matchers::Contains("holds 0 experts of 4/skewed"));
}
