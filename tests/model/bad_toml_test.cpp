#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/experiment.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {
struct Bad {
    std::string text, message;
};
// The position is line and column of the value, of the key if the key is wrong, or of the table if
// a key is missing.
const std::vector<Bad> bad_experiments{
    {"[workload]\nhiden = 4\n",
     "e.toml:2:1: workload.hiden: unknown key, did you mean \"workload.hidden\"?"},
    {"[run]\nzzzzzzzzzzzz = 4\n",
     "e.toml:2:1: run.zzzzzzzzzzzz: unknown key; expected one of steps, warmup, seed, timeout, "
     "cuda_graph, allocator, offload_optimizer, paged_optimizer, offload_parameters, "
     "offload_activations in run"},
    {"[workloads]\n", "e.toml:1:1: workloads: unknown key, did you mean \"workload\"?"},
    {"steps = 4\n", "e.toml:1:1: steps: unknown key, did you mean \"run.steps\"?"},
    {"workload = 4\n", "e.toml:1:12: workload: found a value; expected a table"},
    {"[workload.hidden]\n", "e.toml:1:1: workload.hidden: found a table; expected a value"},
    {"[workload]\nhidden = -4\n",
     "e.toml:2:10: workload.hidden: -4 is out of range; expected 1 to 1048576"},
    {"[workload]\nhidden = 1000000000000\n",
     "e.toml:2:10: workload.hidden: 1000000000000 is out of range; expected at most 2147483647"},
    {"[workload]\nhidden = 1024.5\n",
     "e.toml:2:10: workload.hidden: 1024.5 is not an integer; expected an integer, for example 4"},
    {"[workload]\nhidden = \"1024\"\n",
     "e.toml:2:10: workload.hidden: \"1024\" is not an integer; expected an integer, for example "
     "4"},
    {"[workload]\nhidden = [1]\n",
     "e.toml:2:10: workload.hidden: found an array; expected an integer, for example 4"},
    {"[workload]\nhidden = 1979-05-27\n",
     "e.toml:2:10: found a date or time; expected a string, number, boolean or array of them"},
    {"[workload]\nname = \"a\\nb\"\n",
     "e.toml:2:8: workload.name: \"a?b\" holds control characters; expected a line of text"},
    {"[workload]\n# "
     "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18.19.20.21.22.23.24.25.26.27.28.29.30.31.32.33.34."
     "35\n"
     "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a.b.c.d.e.f.g.h = 1\n",
     "e.toml:3: a key of more than 32 parts; expected one of `stepcast list keys`"},
    {"[workload]\nname = "
     "\"a\"\na.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a.b.c.d.e.f.g.h = 1\n",
     "e.toml:3: a key of more than 32 parts; expected one of `stepcast list keys`"},
    {"[workload]\nname = "
     "'x'\n\"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a.b.c.d.e.f.g.h\" = 1\n",
     "e.toml:3:1: workload.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a.b.c.d.e.f.g.h: "
     "unknown key"},
    {"[workload]\nname = 4\n", "e.toml:2:8: workload.name: 4 is not text; expected text in quotes"},
    {"[workload]\ndtype = \"fp61\"\n",
     "e.toml:2:9: workload.dtype: \"fp61\" is not a dtype; expected fp32, tf32, fp16, bf16, fp8 or "
     "fp4, did you mean "
     "\"fp16\"?"},
    {"[workload]\ndtype = 16\n",
     "e.toml:2:9: workload.dtype: 16 is not a name; expected a name in quotes"},
    {"[parallelism]\noverlap = 1\n",
     "e.toml:2:11: parallelism.overlap: 1 is not a boolean; expected true or false"},
    {"[parallelism]\nzero = 4\n",
     "e.toml:2:8: parallelism.zero: 4 is out of range; expected 0 to 3"},
    {"[parallelism]\noverlap_chunks = 65\n",
     "e.toml:2:18: parallelism.overlap_chunks: 65 is out of range; expected 1 to 64"},
    {"[parallelism]\nbucket = 25\n",
     "e.toml:2:10: parallelism.bucket: 25 has no unit; expected bytes, for example \"80 GiB\""},
    {"[parallelism]\nbucket = true\n",
     "e.toml:2:10: parallelism.bucket: found true; expected bytes, for example \"80 GiB\""},
    {"[cluster]\nlink.intra.bandwidth = \"900\"\n",
     "e.toml:2:24: cluster.link.intra.bandwidth: \"900\" has no unit; expected bytes per second, "
     "for example \"900 "
     "GB/s\""},
    {"[cluster]\nlink.intra.bandwidth = 900.5\n",
     "e.toml:2:24: cluster.link.intra.bandwidth: 900.5 has no unit; expected bytes per second, for "
     "example \"900 "
     "GB/s\""},
    {"[cluster]\nlink.intra.bandwidth = \"-9 GB/s\"\n",
     "e.toml:2:24: cluster.link.intra.bandwidth: -9 GB/s is out of range; expected 0 B/s to "
     "1000000 TB/s"},
    {"[cluster]\nnodes = 0\n",
     "e.toml:2:9: cluster.nodes: 0 is out of range; expected 1 to 131072"},
    {"[cluster]\nkernel.gemm_efficiency = nan\n",
     "e.toml:2:26: cluster.kernel.gemm_efficiency: nan is out of range; expected 0.0001 to 10"},
    {"[cluster]\nkernel.gemm_efficiency = \"high\"\n",
     "e.toml:2:26: cluster.kernel.gemm_efficiency: \"high\" is not a number; expected a number "
     "without unit, for "
     "example 0.85"},
    {"[cluster]\nkernel.memory_curve = \"fast\"\n",
     "e.toml:2:23: cluster.kernel.memory_curve: found \"fast\"; expected an array of points, for "
     "example [[\"4 KiB\", "
     "\"3.1 us\"]]"},
    {"[cluster]\nkernel.memory_curve = [[\"4 KiB\"]]\n",
     "e.toml:2:23: cluster.kernel.memory_curve: point 1: found 1 values; expected 2 values, for "
     "example [[\"4 KiB\", "
     "\"3.1 us\"]]"},
    {"[cluster]\nkernel.memory_curve = [[\"4 KiB\", \"3 us\"], [\"2 KiB\", \"4 us\"]]\n",
     "e.toml:2:23: cluster.kernel.memory_curve: point 2: \"2 KiB\" is not above the point before; "
     "expected ascending "
     "bytes"},
    {"[cluster]\nkernel.gemm_table = [[8, 8, 0, \"fp32\", \"1 us\"]]\n",
     "e.toml:2:21: cluster.kernel.gemm_table: point 1: 0 is out of range; expected more than 0"},
    {"[cluster]\npreset = \"fuor\"\n",
     "e.toml:2:10: cluster.preset: \"fuor\" is no preset cluster, did you mean \"four\"?"},
    {"[cluster]\npreset = 4\n",
     "e.toml:2:10: cluster.preset: found no text; expected a preset's name or a file in quotes"},
    {"[routing]\nseed = -1\n", "e.toml:2:8: routing.seed: -1 is out of range; expected at least 0"},
    {"[routing]\ndraws = 0\n",
     "e.toml:2:9: routing.draws: 0 is out of range; expected 1 to 100000"},
    {"[run]\ntimeout = \"0 s\"\n",
     "e.toml:2:11: run.timeout: 0 s is out of range; expected 1 ms to 1000000 s"},
    {"[workload]\nffn = 4\nseq = 4\n[cluster]\npreset = \"four\"\n",
     "e.toml:1:1: workload.hidden: missing; expected model width"},
    {"[workload]\npreset = \"moe_layer\"\n",
     "e.toml:1:1: cluster.gpu.memory: missing; expected device memory as a process sees it"},
    {"[workload]\npreset = \"moe_layer\"\n[cluster]\npreset = \"four\"\n[parallelism]\ndp = 2\n",
     "e.toml:5:1: parallelism: pipeline 1 x data 2 x tensor 1 x context 1 = 2 ranks, but cluster "
     "has 4; dp=4 uses all"},
    {"[workload]\npreset = \"moe_layer\"\nmoe.experts = 6\n[cluster]\npreset = "
     "\"four\"\n[parallelism]\ndp = 4\nep = "
     "4\n",
     "e.toml:3:15: workload.moe.experts: 6 cannot be spread over parallelism.ep = 4 ranks; "
     "expected a multiple"},
};
}  // namespace

TEST_CASE("each mistake in an experiment file has its message") {
    const TestHome home;
    const TestFolder folder;
    for (const auto& bad : bad_experiments) {
        const auto path = folder.write("e.toml", bad.text);
        CHECK(complaint([&] { read_experiment(path); }, folder.path()) == bad.message);
    }
}

TEST_CASE("broken TOML is refused where it breaks") {
    const TestFolder folder;
    const auto told = [&](const std::string& text) {
        const auto path = folder.write("e.toml", text);
        return complaint([&] { read_experiment(path); }, folder.path());
    };
    CHECK_THAT(told("[workload]\nhidden = 4\nhidden = 5\n"), Catch::StartsWith("e.toml:3:") &&
                                                                 Catch::Contains("redefine") &&
                                                                 Catch::Contains("hidden"));
    CHECK_THAT(told("[workload]\nhidden = \n"), Catch::StartsWith("e.toml:2:"));
    CHECK_THAT(told("[workload\n"), Catch::StartsWith("e.toml:1:"));
    CHECK_THAT(told(std::string("\xff\xfe\x00", 3)), Catch::StartsWith("e.toml:1:1: "));
    CHECK(complaint([&] { read_experiment(folder.path() + "/none.toml"); }, folder.path()) ==
          "none.toml: no such file; expected a TOML file or the name of a preset experiment");
}

TEST_CASE("keys of cluster and workload files are named as the file names them") {
    const TestHome home;
    const TestFolder folder;
    const auto told = [&](const std::string& text) {
        const auto path = folder.write("c.toml", text);
        return complaint([&] { read_cluster(path); }, folder.path());
    };
    CHECK(told("nods = 4\n") == "c.toml:1:1: nods: unknown key, did you mean \"nodes\"?");
    CHECK(told("[cluster]\nnodes = 4\n") == "c.toml:2:1: cluster.nodes: unknown key");
    CHECK_THAT(told("preset = \"five\"\n"),
               Catch::StartsWith("c.toml:1:10: preset: \"five\" is no preset cluster"));
    CHECK(told("gpu.sms = 4\n") ==
          "c.toml: gpu.memory: missing; expected device memory as a process sees it");
    CHECK(told("link.intra.latency = 4\n") ==
          "c.toml:1:22: link.intra.latency: 4 has no unit; expected a time, for example \"8 us\"");
    const auto lacking = folder.write("lacking.toml", "gpu.sms = 4\n");
    CHECK(complaint(
              [&] {
                  read_experiment("moe_layer", std::vector<Override>{{"cluster.preset", lacking}});
              },
              folder.path()) ==
          "lacking.toml: cluster.gpu.memory: missing; expected device memory as a process sees it");
    const auto workload = folder.write("w.toml", "[moe]\ntopk = 2\n");
    CHECK(complaint(
              [&] {
                  read_experiment("moe_layer_alltoall",
                                  std::vector<Override>{{"workload.preset", workload}});
              },
              folder.path()) == "w.toml:2:1: moe.topk: unknown key, did you mean \"moe.top_k\"?");
}

TEST_CASE("mistakes in what was fitted have their position") {
    const TestFolder folder;
    const auto told = [&](const std::string& text) {
        const auto path = folder.write("c.toml", text);
        return complaint([&] { read_cluster(path); }, folder.path());
    };
    CHECK(told("[fitted]\nwhen = \"\"\n") ==
          "c.toml:2:1: fitted.when: unknown key; docs/files.md lists those of [fitted]");
    CHECK(told("fitted = 3\n") ==
          "c.toml:1:1: fitted: unknown key; docs/files.md lists those of [fitted]");
    CHECK(
        told("[fitted]\nsamples = \"\"\n") ==
        "c.toml:2:11: fitted.samples: \"\" is not an integer; expected an integer, for example 4");
    CHECK(told("[fitted]\nsources = \"a\"\n") ==
          "c.toml:2:11: fitted.sources: found \"a\"; expected an array of texts");
    CHECK(told("[[fitted.parameters]]\nkey = \"kernel.lunch\"\nvalue = \"1 us\"\n") ==
          "c.toml:2:7: fitted.parameters: \"kernel.lunch\": unknown key, did you mean "
          "\"kernel.launch\"?");
    CHECK(told("[[fitted.parameters]]\nkey = \"kernel.launch\"\nvalue = \"1\"\n") ==
          "c.toml:3:9: kernel.launch: 1 has no unit; expected a time, for example \"8 us\"");
    CHECK(told("[[fitted.parameters]]\nkey = \"kernel.launch\"\nvalue = \"1 us\"\nprior = "
               "\"fast\"\n") ==
          "c.toml:4:9: kernel.launch: \"fast\" is not a number with a unit; expected a time, for "
          "example \"8 us\"");
    CHECK(told("[[fitted.parameters]]\nvalue = \"1 us\"\n") ==
          "c.toml:2:9: fitted.parameters: \"\": unknown key");
}
