// Every flag of model/presets/launch_flags.toml does what the table says of it.
#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

#include "import/launch/launch_flags.h"
#include "model/base/plain_text.h"
#include "model/base/whole_files.h"
#include "tests/import/launch/told.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

// 8 layers; its batch of 16 in pieces of one.
const std::string plain_flags =
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 16 "
    "--max-position-embeddings 16 --micro-batch-size 1 "
    "--global-batch-size 16 --vocab-size 1000 --bf16";

Translation launched(const std::string& flags) {
    static const TestFolder folder;
    return translate(folder.write("run.sh", "torchrun pretrain_gpt.py " + flags + "\n"), {});
}

std::string dashed(std::string name) {
    std::ranges::replace(name, '_', '-');
    return "--" + name;
}

std::vector<std::string> lines_of(const std::string& path) {
    std::vector<std::string> lines = words_of(read_text(path, "a table"), "\n");
    lines.erase(lines.begin());
    return lines;
}

std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells;
    for (std::size_t from = 0, end = 0; end != std::string::npos; from = end + 1) {
        end = line.find(';', from);
        cells.push_back(line.substr(from, end == std::string::npos ? end : end - from));
    }
    return cells;
}

}  // namespace

// The values are those of the arguments beside them; what is divided: 8 layers in 3 stages with
// embedding or loss are 9 in threes.
TEST_CASE("each taken flag sets its key") {
    std::set<std::string> rest(launch_flags().taken.begin(), launch_flags().taken.end());
    for (const std::string& line : lines_of(test_data() + "/launch/taken_flags.csv")) {
        const auto cells = cells_of(line);
        REQUIRE(cells.size() == 5);
        INFO(line);
        CHECK(rest.erase(cells[0]) == 1);
        CHECK_THAT(" " + cells[2] + " ", Contains(" " + dashed(cells[0]) + " "));
        std::string base = plain_flags;
        if (!cells[1].empty()) base.replace(base.find(cells[1]), cells[1].size(), "");
        const auto without = launched(base), with = launched(base + " " + cells[2]);
        CHECK((cells[3] == "framework" ? with.framework : value(with, cells[3])) == cells[4]);
        CHECK_FALSE(with.settings == without.settings);
    }
    CHECK(rest == std::set<std::string>());
}

TEST_CASE(
    "each flag that changes a step without a key is a problem, unless it says what is usual") {
    CHECK(launch_flags().problems.size() > 150);
    for (const auto& [name, flag] : launch_flags().problems) {
        INFO(name);
        CHECK_THAT(
            lines(launched(plain_flags + " " + dashed(name) + (flag.usual.empty() ? "" : " 9"))
                      .problems),
            Contains(name + " (") && Contains(flag.instead));
        if (flag.usual.empty())
            CHECK_THAT(lines(launched(plain_flags + " " + dashed(name) + " 0").problems),
                       !Contains(name + " ("));
        else
            CHECK_THAT(
                lines(launched(plain_flags + " " + dashed(name) + " " + flag.usual).problems),
                !Contains(name + " ("));
    }
}

TEST_CASE("flags without effect set nothing and are no problem") {
    const auto base = launched(plain_flags);
    const LaunchFlags& flags = launch_flags();
    const std::set<std::string> taken(flags.taken.begin(), flags.taken.end());
    const std::set<std::string> checked{"spec",
                                        "rampup_batch_size",
                                        "no_pipeline_parallel",
                                        "deepspeed_config",
                                        "checkpoint_num_layers",
                                        "enable_expert_tensor_parallelism"};
    for (const std::string& name : flags.quiet) {
        if (taken.contains(name) || flags.of_deepspeed.contains(name)) continue;
        INFO(name);
        const auto with = launched(plain_flags + " " + dashed(name) + " 7");
        CHECK(with.settings == base.settings);
        CHECK(with.problems.empty());
        if (!checked.contains(name)) CHECK_THAT(lines(with.ignored), Contains(name));
    }
}

TEST_CASE("flags that no list has are problems if their names are of a step") {
    for (const char* flag :
         {"--block-sparse-attention 4", "--my-tensor-slices-parallel 2", "--fp6-training",
          "--weird-precision int4", "--expert-dropout-rate 0.1", "--overlap-everything",
          "--recompute-cheap", "--offload-all", "--pipeline-chunks 3", "--extra-layers 2",
          "--hidden-multiplier 2", "--use-lora", "--vocab-parallel-embedding-v2", "--seq-packing",
          "--fsdp-flavor x", "--graph-capture", "--moe-new-router"}) {
        INFO(flag);
        CHECK_THAT(lines(launched(plain_flags + " " + flag).problems),
                   Contains("no flag that is known here"));
    }
    for (const char* flag : {"--my-cat", "--colour blue", "--run-name x", "--note 7",
                             "--moe-new-router false", "--extra-layers 0"}) {
        INFO(flag);
        CHECK(launched(plain_flags + " " + flag).problems.empty());
    }
}

// A dump states every default: what is not known is named once, and is no problem.
TEST_CASE("a dump's unknown arguments are named in one line") {
    const TestFolder folder;
    const auto dump = [&](const std::string& more) {
        return translate(folder.write("run.log",
                                      "------------ arguments ------------\n  num_layers ...... "
                                      "4\n  hidden_size ...... 64\n  num_attention_heads ...... 4\n"
                                      "  seq_length ...... 16\n  micro_batch_size ...... 1\n  "
                                      "retro_encoder_layers ...... 2\n" +
                                          more + "---------- end of arguments ----------\n"),
                         {});
    };
    CHECK(dump("").problems.empty());
    const auto own = dump(
        "  sparse_attention_size ...... 8\n  block_layers ...... None\n  hidden_tricks ...... "
        "True\n");
    CHECK(own.problems.empty());
    CHECK_THAT(lines(own.open),
               Contains("may change a step: sparse_attention_size = 8, hidden_tricks = True"));
    CHECK_THAT(lines(dump("  enable_mhc_connections ...... True\n").problems),
               Contains("enable_mhc_connections ("));
}

// A run prints what it derives of its arguments beside them: 4 ranks / tp 2 = 2 replicas.
TEST_CASE("what a dump derives of other arguments is no unknown argument") {
    const TestFolder folder;
    const std::string sizes =
        "  num_layers .... 4\n  hidden_size .... 64\n  num_attention_heads .... 4\n  seq_length "
        ".... 32\n"
        "  micro_batch_size .... 2\n  global_batch_size .... 8\n  tensor_model_parallel_size .... "
        "2\n  world_size .... 4\n";
    const auto unknown = [&](const std::string& more) {
        const auto path = folder.write(
            "run.log", "------------------------ arguments ------------------------\n" + sizes +
                           more + "-------------------- end of arguments ---------------------\n");
        std::string found;
        for (const std::string& line : translate(path, {}).open)
            if (line.starts_with("arguments that are not known")) found += line;
        return found;
    };
    CHECK(
        unknown("  data_parallel_size .... 2\n  transformer_pipeline_model_parallel_size .... 1\n")
            .empty());
    CHECK(unknown("  own_expert_width .... 2\n").find("own_expert_width = 2") != std::string::npos);
}

// Megatron-Core 0.16.0, transformer_config.py: linear_attention_freq is N, one layer of attention
// in N, or a list of 1 for each delta net and 0 for attention.
TEST_CASE("gated delta nets and indexers of Megatron-Core are read, others are problems") {
    const auto delta = [](const std::string& frequency) {
        return launched(plain_flags + " --experimental-attention-variant gated_delta_net " +
                        frequency);
    };
    CHECK(value(delta("--linear-attention-freq 4"), "workload.delta.interval") == "4");
    CHECK(value(delta("--linear-attention-freq '[1,1,1,0,1,1,1,0]'"), "workload.delta.interval") ==
          "4");
    CHECK(value(delta("--linear-attention-freq '[1]*8'"), "workload.delta.interval") == "0");
    CHECK_THAT(complaint([&] { delta("--linear-attention-freq '[1,0,0,1,1,1,1,0]'"); }),
               Contains("the patterns that are modelled"));
    CHECK_THAT(complaint([&] { delta(""); }), Contains("--linear-attention-freq beside it"));
    CHECK_THAT(complaint([&] { launched(plain_flags + " --experimental-attention-variant dsa"); }),
               Contains("dsa_indexer_n_heads beside it"));
    CHECK_THAT(lines(launched(plain_flags + " --experimental-attention-variant gdn2").problems),
               Contains("gdn2; the forecast has the usual attention"));
    const std::string dsa =
        plain_flags +
        " --multi-latent-attention --experimental-attention-variant dsa --dsa-indexer-n-heads 6 "
        "--dsa-indexer-head-dim 64 --dsa-indexer-topk 32 --dsa-indexer-topk-freq ";
    CHECK(launched(dsa + "1").problems.empty());
    CHECK_THAT(lines(launched(dsa + "4").problems), Contains("an indexer in every layer"));
}
