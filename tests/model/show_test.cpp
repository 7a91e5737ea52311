#include "model/show.h"

#include <catch2/catch.hpp>

#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

const std::string own = "[workload]\npreset = \"moe_layer\"\nmoe.experts = 8\n[parallelism]\ndp = 4\nep = 4\n[cluster]\npreset = \"four\"\n";

}  // namespace

TEST_CASE("what show prints reads back to the same experiment") {
    const TestHome home;
    const TestFolder folder;
    const auto path = folder.write("mine.toml", own);
    const std::vector<Override> overrides{parse_override("seq=4096"), {"cluster.link.intra.bandwidth", "400 Gb/s"}};
    auto shown = read_experiment(folder.write("mine_shown.toml", show(path, overrides)));
    auto told = read_experiment(path, overrides);
    shown.name = told.name;
    shown.framework = told.framework;  // what is shown is all stated, and leaves a framework nothing to say
    CHECK(shown == told);
}

TEST_CASE("show says who said each value last") {
    const TestHome home;
    const TestFolder folder;
    const auto path = folder.write("mine.toml", own);
    const auto text = show(path, std::vector<Override>{{"parallelism.ep", "2"}});
    CHECK_THAT(text, Contains("# set: " + path + ":3:15"));              // moe.experts, in the file
    CHECK_THAT(text, Contains("# set: --set parallelism.ep=2"));         // on the command line
    CHECK_THAT(text, Contains("# preset: ") && Contains("moe_layer.toml"));
    CHECK_THAT(text, Contains("dp = 4") && Contains("schedule = \"1f1b\"") && Contains("# default"));
    CHECK_THAT(show("four", {}), Contains("[") || Contains("gpu.name"));
}
