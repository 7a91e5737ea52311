#include <catch2/catch.hpp>
#include <filesystem>

#include <fmt/format.h>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/experiment.h"
#include "model/input/presets.h"
#include "tests/model/files.h"

using namespace stepcast;

TEST_CASE("presets are found by name under the home folder") {
    const TestHome home;
    CHECK(home_folder() == test_data() + "/home");
    CHECK(preset_path(PresetKind::cluster, "four") ==
          test_data() + "/home/model/presets/clusters/four.toml");
    CHECK(preset_names(PresetKind::experiment) == std::vector<std::string>{"moe_layer_alltoall",
                                                                           "moe_layer_fast_moe",
                                                                           "moe_layer_mix_moe"});
}

TEST_CASE("a name with a slash or the ending .toml is a path") {
    const TestHome home;
    const TestFolder folder;
    const auto path = folder.write("mine.toml", "");
    CHECK(preset_path(PresetKind::workload, path) == path);
    CHECK(complaint([] { preset_path(PresetKind::workload, "four.toml"); }) ==
          "four.toml: no such file; expected a TOML file, a model's config.json or the name of a "
          "preset workload");
    CHECK(complaint([] { preset_path(PresetKind::workload, "./none"); }) ==
          "./none: no such file; expected a TOML file, a model's config.json or the name of a "
          "preset workload");
}

// four.toml names its GPU; capitals do not count.
TEST_CASE("a GPU's name finds its cluster") {
    const TestHome home;
    const auto name = read_cluster("four").gpu.name;
    CHECK(preset_path(PresetKind::cluster, name) == preset_path(PresetKind::cluster, "four"));
}

// The machine with the most GPUs, whatever else its file states; among equal ones the first.
TEST_CASE("of several clusters with a GPU the largest machine is meant") {
    const TestFolder folder;
    std::filesystem::create_directories(folder.path() + "/model/presets/clusters");
    const auto add = [&](const std::string& name, int gpus, int sms) {
        folder.write(
            "model/presets/clusters/" + name + ".toml",
            fmt::format("gpus_per_node = {}\n[gpu]\nname = \"X9\"\nsms = {}\n", gpus, sms));
    };
    add("alone", 1, 100);
    add("four", 4, 10);
    add("more", 4, 90);
    add("two", 2, 200);
    const TestHome home(folder.path());
    CHECK(std::filesystem::path(preset_path(PresetKind::cluster, "x9")).stem() == "four");
    // A machine's own name counts before the alias of a larger machine.
    folder.write("model/presets/clusters/alias.toml",
                 "gpus_per_node = 16\n[gpu]\nname = \"X9-SXM\"\naliases = \"X9\"\n");
    CHECK(std::filesystem::path(preset_path(PresetKind::cluster, "x9")).stem() == "four");
    // A file without a GPU name of its own, because it inherits, is not the cluster with the empty
    // name.
    folder.write("model/presets/clusters/heir.toml", "inherits = \"four\"\ngpus_per_node = 72\n");
    CHECK_THAT(complaint([] { preset_path(PresetKind::cluster, ""); }),
               Catch::Contains("\"\" is no preset cluster"));
}

// Measured machines come first; for others a datasheet suffices.
TEST_CASE("a cluster is also found among nameplates, by name or by GPU") {
    const TestFolder folder;
    for (const char* kind : {"clusters", "nameplates"})
        std::filesystem::create_directories(folder.path() + "/model/presets/" + kind);
    folder.write("model/presets/clusters/measured.toml", "[gpu]\nname = \"X9\"\n");
    folder.write("model/presets/nameplates/plate.toml",
                 "gpus_per_node = 8\n[gpu]\nname = \"X9\"\naliases = \"X9, Y2\"\n");
    const TestHome home(folder.path());
    const auto found = [](const char* name) {
        return std::filesystem::path(preset_path(PresetKind::cluster, name)).stem();
    };
    CHECK(found("x9") == "measured");
    CHECK(found("y2") == "plate");
    CHECK(found("plate") == "plate");
    CHECK(preset_names(PresetKind::cluster) == std::vector<std::string>{"measured"});
    CHECK((has_preset(PresetKind::cluster, "Y2") && !has_preset(PresetKind::cluster, "z")));
    CHECK_FALSE(has_preset(PresetKind::cluster, "../nameplates/plate"));
    CHECK_THAT(
        complaint([] { preset_path(PresetKind::cluster, "z"); }),
        Catch::Contains("expected one of measured, plate; to write one: a datasheet as in ") &&
            Catch::Contains("nameplates"));
}

// One letter in three may be wrong: one of 3 to 5, two of 6. Swapped neighbours count as one. Among
// equally near words the first counts.
TEST_CASE("a word is near another when at most a third of its letters differ") {
    const auto told = [](const char* word, const std::vector<std::string>& valid) {
        return did_you_mean(word, valid);
    };
    CHECK(told("abcxx", {"abcde"}).empty());
    CHECK(told("abcdxx", {"abcdef"}) == ", did you mean \"abcdef\"?");
    CHECK(told("abx", {"abc", "abd"}) == ", did you mean \"abc\"?");
    CHECK(told("bac", {"abc"}) == ", did you mean \"abc\"?");
    CHECK(told("xyc", {"abc"}).empty());
    CHECK(told("ab", {"abc"}).empty());
    // that it begins
    CHECK(told("ABCXX", {"abcdefgh", "abcxx-long"}) == ", did you mean \"abcxx-long\"?");
    CHECK(told("abc", {"abcdefgh", "abcdefg", "abcde", "abcdef"}) ==
          ", did you mean \"abcde\", \"abcdef\" or \"abcdefg\"?");
}

TEST_CASE("an unknown preset names the nearest, or all") {
    const TestHome home;
    CHECK(complaint([] { preset_path(PresetKind::cluster, "fuor"); }) ==
          "\"fuor\" is no preset cluster, did you mean \"four\"?");
    CHECK(complaint([] { preset_path(PresetKind::experiment, "x"); }) ==
          "\"x\" is no preset experiment; expected one of moe_layer_alltoall, moe_layer_fast_moe, "
          "moe_layer_mix_moe");
    const TestFolder empty;
    const TestHome nowhere(empty.path());
    CHECK(complaint([] { preset_path(PresetKind::cluster, "four"); }, empty.path()) ==
          "\"four\" is no preset cluster; there are none in model/presets/clusters ($STEPCAST_HOME "
          "chooses the root)");
}

// Capitals, separators and what follows a name do not hide it; a preset of another kind is said
// with how it is named.
TEST_CASE("an unknown name is told the name of the right kind") {
    const auto told = [](PresetKind kind, const char* name) {
        return complaint([&] { preset_path(kind, name); });
    };
    using enum PresetKind;
    CHECK_THAT(told(experiment, "llama3-70B"),
               Catch::Contains("\"llama3-70b\" is a workload: workload.preset=llama3-70b"));
    CHECK_THAT(told(experiment, "llama-3-70b"), Catch::Contains("\"llama3-70b\" is a workload"));
    CHECK_THAT(told(experiment, "qwen3-235b"),
               Catch::Contains("\"qwen3-235b-a22b\" is a workload"));
    CHECK_THAT(told(experiment, "Mixtral-8x7B-instruct"),
               Catch::Contains("\"mixtral-8x7b\" is a workload"));
    CHECK_THAT(told(experiment, "megatron-core"),
               Catch::Contains("is a framework: --framework megatron-core"));
    CHECK_THAT(told(experiment, "H100"), Catch::Contains("is a cluster: --cluster H100"));
    CHECK_THAT(told(experiment, "l40-x8"),
               Catch::Contains("is a cluster of a datasheet: --cluster l40-x8"));
    CHECK_THAT(told(experiment, "GPT2_DDP"), Catch::Contains("did you mean \"gpt2_ddp\"?"));
    CHECK_THAT(
        told(framework, "megatron"),
        Catch::Contains("did you mean \"megatron-lm\", \"megatron-core\" or \"megatron-bridge\"?"));
    CHECK_THAT(told(framework, "TorchTitan"), Catch::Contains("did you mean \"torchtitan\"?"));
    CHECK_THAT(told(framework, "dgx-h100"), Catch::Contains("is a cluster"));
    CHECK_THAT(told(cluster, "nemo"), Catch::Contains("is a framework"));
    CHECK_THAT(told(workload, "coca_zero1"),
               Catch::Contains("is an experiment: stepcast simulate coca_zero1"));
    CHECK_THAT(told(family, "llama3-8b"), Catch::Contains("is a workload"));
    CHECK_THAT(told(cluster, "DGX-B100"), Catch::Contains("did you mean \"dgx-"));
}
