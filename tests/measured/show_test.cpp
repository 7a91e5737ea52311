#include "measured/show.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <sstream>

#include "measured/read.h"
#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

const std::string own =
    "[workload]\npreset = \"moe_layer\"\nmoe.experts = 8\n[parallelism]\ndp = 4\nep = "
    "4\n[cluster]\npreset = \"four\"\n";

}  // namespace

TEST_CASE("what show prints reads back to the same experiment") {
    const TestHome home;
    const TestFolder folder;
    const auto path = folder.write("mine.toml", own);
    const std::vector<Override> overrides{parse_override("seq=4096"),
                                          {"cluster.link.intra.bandwidth", "400 Gb/s"}};
    auto shown = read_experiment(folder.write("mine_shown.toml", show(path, overrides)));
    auto told = read_experiment(path, overrides);
    shown.name = told.name;
    // everything shown counts as stated, so the framework decides nothing
    shown.framework = told.framework;
    shown.overlay = told.overlay;
    CHECK(shown == told);
}

TEST_CASE("show says who said each value last") {
    const TestHome home;
    const TestFolder folder;
    const auto path = folder.write("mine.toml", own);
    const auto text = show(path, std::vector<Override>{{"parallelism.ep", "2"}});
    CHECK_THAT(text, Contains("# set: " + path + ":3:15"));       // moe.experts, in the file
    CHECK_THAT(text, Contains("# set: --set parallelism.ep=2"));  // on the command line
    CHECK_THAT(text, Contains("# preset: ") && Contains("moe_layer.toml"));
    CHECK_THAT(text,
               Contains("dp = 4") && Contains("schedule = \"1f1b\"") && Contains("# default"));
    CHECK_THAT(text, Contains("[workload]\npreset = \"" + test_data() + "/home") &&
                         Contains("workloads/moe_layer.toml\"\nname"));
    CHECK_THAT(text, Contains("[cluster]\npreset = \"" + test_data() + "/home") &&
                         Contains("clusters/four.toml\"\nname"));
    CHECK_THAT(text, !Contains("[parallelism]\npreset"));
}

// The output may be saved anywhere, and a relative path in a file refers to that file's folder.
TEST_CASE("show names files from the root, wherever the experiment was named from") {
    const TestFolder folder;
    folder.write("c.toml", "preset = \"dgx-a100\"\n");
    const auto path = folder.write(
        "e.toml", "[workload]\npreset = \"moe_layer\"\n[cluster]\npreset = \"c.toml\"\n");
    const auto relative = std::filesystem::relative(path).string();
    CHECK_THAT(show(relative, {}), Contains("[cluster]\npreset = \"/"));
}

TEST_CASE("show names the framework that an experiment starts from, and none where it names none") {
    const TestFolder folder;
    const std::string moe =
        "[workload]\npreset = \"moe_layer\"\n[cluster]\npreset = \"dgx-a100\"\n";
    CHECK_THAT(show(folder.write("mine.toml", moe + "[framework]\npreset = \"nemo\"\n"), {}),
               Contains("[framework]\npreset = \"") && Contains("frameworks/nemo.toml\"\n"));
    CHECK_THAT(show(folder.write("none.toml", moe), {}), !Contains("[framework]\npreset"));
}

// Where tensor cores read their operands comes from the nearest machine, not from a median.
TEST_CASE("show says from which machines a prior is") {
    const std::string text = show("gb300-nvl72", {});
    CHECK_THAT(text, Contains("# prior: median of "));
    const std::string operands = text.substr(text.find("kernel.gemm_shared_operands = true"));
    CHECK_THAT(operands.substr(0, operands.find('\n')), Contains("# prior: as "));
}

// Presets are recognised by name, files by their tables; a place with a line break stays on one
// line.
TEST_CASE("show takes experiments, workloads and clusters, by name or by what a file holds") {
    const TestHome home;
    const TestFolder folder;
    const std::string workload = show("moe_layer", {});
    CHECK_THAT(workload, Contains("\nhidden = 1024 ") && Contains("moe.experts = 64 ") &&
                             !Contains("[workload]"));
    const std::string cluster = show("four", {});
    CHECK_THAT(cluster, Contains("\ngpus_per_node = 4 ") && Contains("[fitted]"));
    CHECK(show(read_cluster("four").gpu.name, {}) == cluster);
    CHECK_THAT(show(folder.write("c.toml",
                                 "nodes = 1\n[gpu]\nname = \"X\"\nmemory = \"80 "
                                 "GiB\"\nmemory_bandwidth = \"2 TB/s\"\n"),
                    {}),
               Contains("gpu.name = \"X\"") && !Contains("[cluster]"));
    const auto before = std::filesystem::current_path();
    // a file in the working folder needs no folder in its name
    std::filesystem::current_path(folder.path());
    CHECK_THAT(show("c.toml", {}), Contains("gpu.name = \"X\""));
    std::filesystem::current_path(before);
    CHECK_THAT(show(folder.write("w.toml", "hidden = 96\n"), {}),
               Contains("hidden = 96 ") && !Contains("[parallelism]"));
    CHECK_THAT(show("moe_layer_mix_moe", {}),
               Contains("[parallelism]\n") && Contains("preset = ") &&
                   Contains("# moe_layer_mix_moe: every key") &&
                   Contains("# empty, 0 or off by default: ") && !Contains("[framework]"));
    CHECK(show(folder.write("e.toml", own), {}).find("# empty, 0 or off by default: \n") ==
          std::string::npos);
    CHECK_THAT(complaint([] {
                   show("four", std::vector<Override>{{"cluster.nodes", "1"}});
               }),
               Contains("four: is a cluster; --set changes experiments"));
    for (const std::string& line : {std::string("dp = 4 "), std::string("ep = 4 ")})
        CHECK_THAT(show("moe_layer_mix_moe", {}), Contains("\n" + line));
}

// All origins begin in the same column: key and value take at least 44 characters.
TEST_CASE("who said a value stands in a column of its own, on the line of the value") {
    const TestHome home;
    const TestFolder folder;
    const auto path = folder.write("two\nlines.toml", own);
    std::istringstream lines(show(path, {}));
    int said = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.find(" = ") == std::string::npos || line.starts_with("#") ||
            line.starts_with("preset"))
            continue;
        const auto at = line.find("  # ");
        CHECK(at != std::string::npos);
        if (line.starts_with("dp = 4")) CHECK(at == 44);
        ++said;
    }
    CHECK(said > 20);
}
