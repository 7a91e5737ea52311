#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>

#include "measured/read.h"
#include "model/experiment.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {
Experiment read_preset(const std::string& name, const std::vector<std::string>& sets = {}) {
    std::vector<Override> overrides;
    for (const auto& set : sets) overrides.push_back(parse_override(set));
    return read_experiment(name, overrides);
}
const std::string routing_of_8 =
    "# stepcast routing 1, block_totals, ranks 4, experts 8\nrank,blocks,remote_blocks\n"
    "0,9,1\n1,8,2\n2,7,3\n3,6,4\n";
}  // namespace

TEST_CASE("a preset experiment holds its workload preset, its cluster preset and its own keys") {
    const TestHome home;
    const auto e = read_preset("moe_layer_mix_moe");
    CHECK(e.name == "moe_layer_mix_moe");
    CHECK(e.workload.name == "moe_layer");
    CHECK(e.workload.hidden == 1024);
    CHECK(e.workload.moe.experts == 64);
    CHECK(e.workload.dtype == Dtype::fp16);
    CHECK(e.parallelism.moe_system == MoeSystem::mix_moe);
    CHECK(e.cluster.name == "four ranks");
    CHECK(e.cluster.gpu.peaks[Dtype::fp16] == FlopsPerSecond(300e12));
    CHECK(e.routing.kind == RoutingSpec::Kind::random_gate);
}

TEST_CASE("an experiment's files are its own and those that it names") {
    const TestHome home;
    std::vector<std::string> names;
    for (const std::string& path : files_of_experiment("moe_layer_mix_moe", {}))
        names.push_back(std::filesystem::path(path).filename());
    CHECK(names ==
          std::vector<std::string>{"moe_layer_mix_moe.toml", "moe_layer.toml", "four.toml"});
}

// clusters/four.toml has 3 us on the nameplate and 4 us fitted; the experiment says 5 us, --set 6
// us, then 7 us.
TEST_CASE("nameplate, fit, experiment and command line are laid over each other in this order") {
    const TestHome home;
    const TestFolder folder;
    CHECK(read_preset("moe_layer_mix_moe").cluster.kernel.launch == Seconds(4e-6));
    const auto path = folder.write(
        "e.toml",
        "[workload]\npreset = \"moe_layer\"\nhidden = 2048\n[parallelism]\ndp = 4\nep = 4\n"
        "[cluster]\npreset = \"four\"\nkernel.launch = \"5 us\"\n");
    CHECK(read_preset(path).cluster.kernel.launch == Seconds(5e-6));
    CHECK(read_preset(path).workload.hidden == 2048);
    const auto set = read_preset(path, {"cluster.kernel.launch=6 us", "workload.hidden=512",
                                        "cluster.kernel.launch=\"7 us\""});
    CHECK(set.cluster.kernel.launch == Seconds(7e-6));
    CHECK(set.workload.hidden == 512);
}

TEST_CASE("a preset on the command line replaces the file's and stays below the file's keys") {
    const TestHome home;
    const TestFolder folder;
    const auto wide =
        folder.write("wide.toml", "hidden = 4096\nffn = 4096\nseq = 16\n[moe]\nexperts = 4\n");
    const auto path =
        folder.write("e.toml",
                     "[workload]\npreset = \"wide.toml\"\nffn = 64\n[parallelism]\ndp = 4\nep = 4\n"
                     "[cluster]\npreset = \"four\"\n");
    CHECK(read_preset(path).workload.hidden == 4096);
    CHECK(read_preset(path).workload.name == "wide");
    const auto e = read_preset(path, {"workload.preset=moe_layer", "workload.seq=128"});
    CHECK(e.workload.hidden == 1024);
    CHECK(e.workload.ffn == 64);
    CHECK(e.workload.seq == 128);
}

TEST_CASE("a routing file brings its kind and its number of experts") {
    const TestHome home;
    const TestFolder folder;
    const auto file = folder.write("r.csv", routing_of_8);
    const auto e = read_preset("moe_layer_mix_moe", {"routing.file=" + file});
    CHECK(e.routing.kind == RoutingSpec::Kind::file);
    CHECK(e.workload.moe.experts == 8);
    CHECK(read_preset("moe_layer_mix_moe", {"routing.file=" + file, "routing.kind=uniform"})
              .workload.moe.experts == 64);
    CHECK(complaint(
              [&] {
                  read_preset("moe_layer_mix_moe",
                              {"routing.file=" + file, "workload.moe.experts=16"});
              },
              folder.path()) ==
          "--set workload.moe.experts=16: 16, but routing file r.csv has 8 experts");
    CHECK(read_preset("moe_layer_mix_moe", {"routing.file=" + file, "workload.moe.experts=8"})
              .workload.moe.experts == 8);
}

TEST_CASE("a routing file of other ranks is refused") {
    const TestHome home;
    const TestFolder folder;
    folder.write("r.csv",
                 "# stepcast routing 1, block_totals, ranks 2, experts "
                 "8\nrank,blocks,remote_blocks\n0,9,1\n1,8,2\n");
    CHECK(
        complaint(
            [&] { read_preset("moe_layer_mix_moe", {"routing.file=" + folder.path() + "/r.csv"}); },
            folder.path()) == "--set routing.file=r.csv: r.csv has 2 ranks, but cluster has 4");
}

TEST_CASE("a relative routing file lies beside the experiment that names it") {
    const TestHome home;
    const TestFolder folder;
    folder.write("r.csv", routing_of_8);
    const auto path = folder.write(
        "e.toml",
        "[workload]\npreset = \"moe_layer\"\n[parallelism]\ndp = 4\nep = 4\n"
        "[cluster]\npreset = \"four\"\n[routing]\nkind = \"file\"\nfile = \"r.csv\"\n");
    CHECK(read_preset(path).routing.file == folder.path() + "/r.csv");
    CHECK(read_preset(path).workload.moe.experts == 8);
}

TEST_CASE("every key is documented once, read and written") {
    const TestHome home;
    auto e = read_preset("moe_layer_mix_moe");
    std::vector<std::string> seen;
    for (const auto& doc : key_docs()) {
        INFO(doc.key);
        CHECK(std::find(seen.begin(), seen.end(), doc.key) == seen.end());
        seen.push_back(doc.key);
        CHECK_FALSE(doc.meaning.empty());
        if (doc.kind == "preset") continue;
        const auto before = e;
        set_key(e, {doc.key, get_key(e, doc.key)});
        if (doc.key != "routing.file") CHECK(e == before);
        e = before;
    }
    CHECK(seen.size() > 80);
}

TEST_CASE("one key of a value already read can be set and asked for") {
    const TestHome home;
    auto e = read_preset("moe_layer_alltoall");
    set_key(e, {"cluster.link.intra.bandwidth", "900 GB/s"});
    CHECK(e.cluster.intra.bandwidth == BytesPerSecond(900e9));
    CHECK(get_key(e, "cluster.link.intra.bandwidth") == "900 GB/s");
    set_key(
        e, {"cluster.link.intra.all_to_all", "[[\"4 KiB\", \"3.1 us\"], [\"1 MiB\", \"100 us\"]]"});
    CHECK(e.cluster.intra.all_to_all ==
          Curve{{Bytes(4096), Seconds(3.1e-6)}, {Bytes(1048576), Seconds(100e-6)}});
    CHECK(get_key(e, "cluster.link.intra.all_to_all") ==
          "[[\"4 KiB\", \"3.1 us\"], [\"1 MiB\", \"100 us\"]]");
    set_key(e, {"routing.file", "x.csv"});
    CHECK(e.routing.kind == RoutingSpec::Kind::file);
    set_key(e, {"cluster.preset", "four"});
    CHECK(e.cluster == read_cluster("four"));
    const auto before = e;
    CHECK(complaint([&] {
              set_key(e, {"cluster.nodes", "0"});
          }) == "--set cluster.nodes=0: 0 is out of range; expected 1 to 131072");
    CHECK(complaint([&] {
              set_key(e, {"cluster.preset", "none"});
          }).starts_with("--set cluster.preset=none: \"none\" is no preset"));
    CHECK(e == before);
    CHECK(complaint([&] { (void)get_key(e, "cluster.node"); }) ==
          "cluster.node: unknown key, did you mean \"cluster.nodes\"?");
}

TEST_CASE("a mistaken override is quoted whole") {
    const TestHome home;
    const auto told = [](const std::string& set) {
        return complaint([&] { read_preset("moe_layer_mix_moe", {set}); });
    };
    CHECK(told("parallelism.ep") ==
          "--set parallelism.ep: expected KEY=VALUE, for example parallelism.ep=8");
    CHECK(told("=8") == "--set =8: expected KEY=VALUE, for example parallelism.ep=8");
    CHECK(told("workload.hiden=8") ==
          "--set workload.hiden=8: unknown key, did you mean \"workload.hidden\"?");
    CHECK(told("micro_bach=8") ==
          "--set micro_bach=8: unknown key, did you mean \"parallelism.micro_batch\"?");
    CHECK(told("link.inter.bandwith=1 GB/s") ==
          "--set link.inter.bandwith=1 GB/s: unknown key, did you mean "
          "\"cluster.link.inter.bandwidth\"?");
    CHECK(told("cluster.link=8") ==
          "--set cluster.link=8: cluster.link is a table; expected one of its keys");
    CHECK(told("workload.hidden=-4") ==
          "--set workload.hidden=-4: -4 is out of range; expected 1 to 1048576");
    CHECK(told("workload.hidden=1e12") ==
          "--set workload.hidden=1e12: 1000000000000.0 is not an integer; expected an integer, for "
          "example 4");
    CHECK(told("workload.hidden=99999999999") ==
          "--set workload.hidden=99999999999: 99999999999 is out of range; expected at most "
          "2147483647");
    CHECK(told("workload.hidden=") ==
          "--set workload.hidden=: \"\" is not an integer; expected an integer, for example 4");
    CHECK(told("parallelism.overlap=yes") ==
          "--set parallelism.overlap=yes: \"yes\" is not a boolean; expected true or false");
    CHECK(told("cluster.link.intra.bandwidth=900") ==
          "--set cluster.link.intra.bandwidth=900: 900 has no unit; expected bytes per second, for "
          "example \"900 GB/s\"");
    CHECK(told("cluster.link.intra.latency=-1 us") ==
          "--set cluster.link.intra.latency=-1 us: -1 us is out of range; expected 0 s to 10000 s");
    CHECK(told("cluster.preset=fuor") ==
          "--set cluster.preset=fuor: \"fuor\" is no preset cluster, did you mean \"four\"?");
    CHECK(told("cluster.nodes=2") ==
          "--set cluster.nodes=2: pipeline 1 x data 4 x tensor 1 x context 1 = 4 ranks, but "
          "cluster has 8; dp=8 uses all");
    CHECK(told("parallelism.ep=3") == "--set parallelism.ep=3: 3 does not divide dp x cp = 4");
}

TEST_CASE("a key may be written without its table where one table has it") {
    CHECK(parse_override("tp=8").key == "parallelism.tp");
    // of no table; the error will name the nearest key
    CHECK(parse_override("experts=8").key == "experts");
    CHECK(parse_override("gpus_per_node=8").key == "cluster.gpus_per_node");
    CHECK(complaint([] { parse_override("seed=1"); }) ==
          "seed may be routing.seed or run.seed; expected the whole key");
}

TEST_CASE("another GPU's name alone is refused") {
    const TestHome home;
    const std::vector<Override> name{{"cluster.gpu.name", "B200"}};
    CHECK(complaint([&] {
              read_experiment("moe_layer_fast_moe", name);
          }).find("a name changes no rate") != std::string::npos);
    auto e = read_experiment("moe_layer_fast_moe");
    CHECK(complaint([&] { set_key(e, name[0]); }).find("a name changes no rate") !=
          std::string::npos);
    const std::vector<Override> both{{"cluster.gpu.name", "B200"},
                                     {"cluster.gpu.memory_bandwidth", "8 TB/s"}};
    CHECK(read_experiment("moe_layer_fast_moe", both).cluster.gpu.name == "B200");
}

// The cluster four has 4 ranks per node: 2 ranks are half a node, 8 are two nodes. The number of
// replicas follows.
TEST_CASE("so many ranks are whole nodes, and replicas fill them") {
    const TestHome home;
    const std::string key(ranks_key);
    const auto two =
        read_unchecked_experiment("moe_layer_alltoall", std::vector<Override>{{key, "2"}});
    CHECK(two.cluster.nodes == 1);
    CHECK(two.cluster.gpus_per_node == 2);
    CHECK(two.parallelism.dp == 2);
    const auto eight =
        read_unchecked_experiment("moe_layer_alltoall", std::vector<Override>{{key, "8"}});
    CHECK(eight.cluster.nodes == 2);
    CHECK(eight.parallelism.dp == 8);
    CHECK(complaint([&] {
              read_unchecked_experiment("moe_layer_alltoall", std::vector<Override>{{key, "7"}});
          }).find("--gpus 7: a node of") != std::string::npos);
    // 3 nodes of 4 ranks are 12. With 2 of the 4 ranks these keep their rates.
    CHECK(complaint([&] {
              read_unchecked_experiment("moe_layer_alltoall",
                                        std::vector<Override>{{key, "8"}, {"cluster.nodes", "3"}});
          }).find("--gpus 8: 3 nodes of 4 by --set cluster.nodes=3; expected 12") !=
          std::string::npos);
    const std::vector<Override> rates{{"cluster.gpu.rank_rates", "[1, 0.9, 0.8, 0.7]"}, {key, "2"}};
    CHECK(read_unchecked_experiment("moe_layer_alltoall", rates).cluster.gpu.rank_rates ==
          std::vector<double>{1, 0.9});
    CHECK(complaint([] {
              read_experiment("moe_layer");
          }).find("is a workload; expected a machine too") != std::string::npos);
}

// The file's workload starts from a preset, its cluster from none: of the cluster only what --set
// says counts as stated.
TEST_CASE("stated keys are single keys over a preset") {
    const std::string text =
        "[workload]\npreset = \"llama3-8b\"\nseq = 2048\n[cluster]\nnodes = 2\n";
    const std::vector<Override> overrides{{"cluster.gpus_per_node", "4"},
                                          {"workload.layers", "16"}};
    CHECK(stated_keys({"own.toml", text}, overrides) ==
          std::vector<Override>{
              {"cluster.gpus_per_node", "4"}, {"workload.layers", "16"}, {"workload.seq", "2048"}});
    // The number of ranks is spread over the nodes of one machine, so it states nothing that
    // another machine would keep.
    const std::vector<Override> ranks{{"cluster.preset", "dgx-h100"},
                                      {std::string(ranks_key), "64"}};
    for (const Override& one : stated_keys({"own.toml", text}, ranks))
        CHECK(one.key != "cluster.gpus_per_node");
}

// GPT-2 has 124,439,808 weights as published, and 50257 x 768 more with untied logits, as in
// Megatron-Core's scripts.
TEST_CASE("whether the embedding is tied is the model's word before the framework's") {
    const TestFolder folder;
    const auto hub = [&](const std::string& said) {
        return folder.write("config.json",
                            "{\"model_type\": \"gpt2\", \"n_layer\": 12, \"n_embd\": 768, "
                            "\"n_head\": 12, \"n_positions\": 1024, " +
                                said + "\"vocab_size\": 50257}");
    };
    const auto own = [&](const std::string& said) {
        return folder.write("own.toml",
                            "family = \"gpt\"\nlayers = 12\nhidden = 768\nheads = 12\nffn = "
                            "3072\nseq = 1024\nmax_positions = 1024\nvocab = 50257\n"
                            "dtype = \"bf16\"\noptimizer = \"adam\"\n" +
                                said);
    };
    const auto run = [&](const std::string& workload, const std::string& set) {
        return read_preset(
            folder.write("run.toml",
                         "[workload]\npreset = \"" + workload +
                             "\"\n[parallelism]\ndp = 8\nmicro_batch = 1\nglobal_batch = 8\n"),
            {"cluster.preset=dgx-h100", "framework.preset=megatron-core", set});
    };
    const auto tied = [&](const std::string& workload,
                          const std::string& set = "framework.preset=megatron-core") {
        return run(workload, set).workload.tied;
    };
    CHECK(tied(hub("")));
    CHECK(tied(hub("\"tie_word_embeddings\": true, ")));
    CHECK_FALSE(tied(hub("\"tie_word_embeddings\": false, "), "framework.preset=nemo"));
    CHECK_FALSE(tied(hub(""), "workload.tied=false"));
    CHECK_FALSE(tied(own("")));
    CHECK(tied(own(""), "framework.preset=nemo"));
    CHECK(tied(own("tied = true\n")));
    Experiment e = run(own(""), "framework.preset=megatron-core");
    set_key(e, {"workload.preset", hub("")});
    CHECK(e.workload.tied);
    set_key(e, {"workload.preset", own("")});
    CHECK_FALSE(e.workload.tied);
}
