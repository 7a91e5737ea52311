#include "sim/sweep/axes.h"

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/base/errors.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

std::vector<std::string> values(const std::string& text) {
    return parse_axis("parallelism.tp=" + text).values;
}

}  // namespace

TEST_CASE("commas inside a list and inside quotes belong to the value") {
    CHECK(parse_axis("parallelism.stage_layers=[8,8],[6,10]").values ==
          std::vector<std::string>{"[8,8]", "[6,10]"});
    CHECK(parse_axis("stage_layers=[8, 8]").values == std::vector<std::string>{"[8, 8]"});
    CHECK(parse_axis("parallelism.composed=[],[\"norms\",\"loss\"]").values ==
          std::vector<std::string>{"[]", "[\"norms\",\"loss\"]"});
    CHECK(parse_axis("framework.may_be=[\"a],b\"],[]").values ==
          std::vector<std::string>{"[\"a],b\"]", "[]"});
    CHECK(parse_axis("parallelism.tp=1..4*2,8").values ==
          std::vector<std::string>{"1", "2", "4", "8"});
    CHECK_THROWS_WITH(parse_axis("parallelism.stage_layers=[8,8"),
                      Catch::Contains("a \"[\" without its \"]\""));
    CHECK_THROWS_WITH(parse_axis("parallelism.stage_layers=[8,8],[8,8]"),
                      Catch::Contains("is there twice"));
}

TEST_CASE("the option --vary takes lists, linear and geometric ranges") {
    CHECK(values("1,2,4") == std::vector<std::string>{"1", "2", "4"});
    CHECK(values("1..4") == std::vector<std::string>{"1", "2", "3", "4"});
    CHECK(values("1..64*4") == std::vector<std::string>{"1", "4", "16", "64"});
    CHECK(values("1..63*4") == std::vector<std::string>{"1", "4", "16"});
    CHECK(values("8..24+8,96") == std::vector<std::string>{"8", "16", "24", "96"});
    CHECK(values("5..5") == std::vector<std::string>{"5"});
    CHECK(parse_axis("cluster.link.intra.bandwidth=300 GB/s,600 GB/s") ==
          Axis{"cluster.link.intra.bandwidth", {"300 GB/s", "600 GB/s"}});
    CHECK(parse_axis("parallelism=all") == Axis{"parallelism", {"all"}});
}

TEST_CASE("a range that ends at the largest integer ends") {
    CHECK(values("4611686018427387904..9223372036854775807*2") ==
          std::vector<std::string>{"4611686018427387904"});
    CHECK(values("9223372036854775806..9223372036854775807") ==
          std::vector<std::string>{"9223372036854775806", "9223372036854775807"});
    CHECK(values("-9223372036854775808..9223372036854775807+9223372036854775807") ==
          std::vector<std::string>{"-9223372036854775808", "-1", "9223372036854775806"});
}

TEST_CASE("what looks like a range and is none is a value") {
    for (const std::string text : {"a..8", "1..b", "1..8*c", "1..8+c", "..", "1.."})
        CHECK(values(text) == std::vector<std::string>{text});
}

TEST_CASE(
    "machines are so many ranks of a cluster, and another cluster leaves the number of nodes") {
    Experiment e = small_gpt();
    e.cluster.nodes = 5;
    set_varied(e, "cluster.preset", "dgx-a100");
    CHECK(e.cluster.name == read_cluster("dgx-a100").name);
    CHECK(e.cluster.nodes == 5);
    set_varied(e, "machines", "24xdgx-h100");
    CHECK(e.cluster.name == read_cluster("dgx-h100").name);
    CHECK(e.cluster.nodes == 3);
    set_varied(e, "workload.hidden", "96");
    CHECK(e.workload.hidden == 96);
    CHECK_THROWS_WITH(
        set_varied(e, "machines", "12xdgx-h100"),
        Catch::Contains("--vary machines=12xdgx-h100: ") &&
            Catch::Contains("has 8 ranks a node; expected a multiple, for example 16xdgx-h100"));
    for (const std::string wrong : {"dgx-h100", "0xdgx-h100", "xdgx-h100", "ax"})
        CHECK_THROWS_WITH(set_varied(e, "machines", wrong),
                          Catch::Contains("expected COUNTxCLUSTER"));
    // 2^17 + 1 nodes, and a number with no multiple above it
    for (const std::string many : {"1048584", "9223372036854775807"})
        CHECK_THROWS_WITH(set_varied(e, "machines", many + "xdgx-h100"),
                          Catch::Contains("for example 1048576xdgx-h100"));
    CHECK_NOTHROW(set_varied(e, "machines", "1048576xdgx-h100"));
}

TEST_CASE("the option --vary refuses what says nothing or is said twice") {
    CHECK_THROWS_WITH(parse_axis("parallelism.tp"), Catch::Contains("expected KEY=A,B,C"));
    CHECK_THROWS_WITH(values(""), Catch::Contains("a value is empty"));
    CHECK_THROWS_WITH(values("1,,2"), Catch::Contains("a value is empty"));
    CHECK_THROWS_WITH(values("8..1"), Catch::Contains("8..1 is an empty range"));
    CHECK_THROWS_WITH(values("1..8*1"), Catch::Contains("does not rise"));
    CHECK_THROWS_WITH(values("0..8*2"), Catch::Contains("does not rise"));
    CHECK_THROWS_WITH(values("1..8+0"), Catch::Contains("does not rise"));
    CHECK_THROWS_WITH(values("1..4,3"), Catch::Contains("3 is there twice"));
    CHECK_THROWS_WITH(values("1..200000"), Catch::Contains("more than 100000 values"));
    CHECK_THROWS_WITH(parse_axis("parallelism=some"), Catch::Contains("expected parallelism=all"));
}

TEST_CASE("axes name keys that exist, once, with values that they take") {
    const Experiment e = small_gpt();
    const auto check = [&](std::vector<std::string> texts) {
        std::vector<Axis> axes;
        for (const auto& text : texts) axes.push_back(parse_axis(text));
        check_axes(axes, e);
    };
    CHECK_NOTHROW(
        check({"parallelism.dp=rest", "parallelism.tp=1,2", "parallelism.schedule=gpipe,1f1b"}));
    CHECK_THROWS_WITH(check({}), Catch::Contains("nothing varies"));
    CHECK_THROWS_WITH(check({"parallelism.tpp=1"}),
                      Catch::Contains("did you mean \"parallelism.tp\"?"));
    CHECK_THROWS_WITH(check({"parallelism.tp=1,two"}),
                      Catch::Contains("--vary parallelism.tp=two"));
    CHECK_THROWS_WITH(check({"parallelism.tp=0..4"}), Catch::Contains("0 is out of range"));
    CHECK_THROWS_WITH(check({"parallelism.tp=1", "parallelism.tp=2"}),
                      Catch::Contains("there twice"));
    Experiment layer = e;
    layer.workload.kind = Workload::Kind::moe_layer;
    CHECK_THROWS_WITH(check_axes(std::vector{parse_axis("parallelism=all")}, layer),
                      Catch::Contains("expected a transformer"));
}

// Stated keys override a preset as in a file, whichever comes first; the number of machines sets
// the nodes.
TEST_CASE("single keys lie over presets that vary, in any order") {
    const std::vector<Override> stated{
        {"cluster.gpus_per_node", "4"}, {"workload.seq", "512"}, {"cluster.nodes", "7"}};
    Experiment e = small_gpt();
    set_varied(e, "workload.preset", "llama3-8b", stated);
    CHECK((e.workload.seq == 512 && e.workload.layers == 32 && e.cluster.gpus_per_node == 4));
    e.cluster.gpus_per_node = 1;
    set_varied(e, "cluster.preset", "dgx-a100", stated);
    CHECK((e.cluster.gpus_per_node == 4 && e.cluster.nodes == 7));
    set_varied(e, "machines", "12xdgx-h100", stated);
    CHECK((e.cluster.gpus_per_node == 4 && e.cluster.nodes == 3));
    Experiment one = small_gpt(), other = small_gpt();
    set_varied(
        one,
        Settings{
            {"workload.seq", "1024"}, {"workload.preset", "llama3-8b"}, {"workload.layers", "8"}},
        stated);
    set_varied(
        other,
        Settings{
            {"workload.preset", "llama3-8b"}, {"workload.layers", "8"}, {"workload.seq", "1024"}},
        stated);
    CHECK(one == other);
    CHECK((one.workload.seq == 1024 && one.workload.layers == 8));
    const std::vector<Axis> twice{parse_axis("cluster.nodes=1,2"),
                                  parse_axis("machines=8xdgx-h100")};
    CHECK_THROWS_WITH(check_axes(twice, small_gpt()),
                      Catch::Contains("--vary machines: is a cluster and its nodes"));
}

// Of --set the layout counts, the last value of a key, unless --vary asks for the key; of
// switches whatever is stated, under any of a key's names.
TEST_CASE("what is stated is no choice of parallelism=all") {
    std::vector<Axis> axes{parse_axis("parallelism=all"), parse_axis("pp=1,2")};
    fix_set_splits(axes, std::vector<std::string>{"tp=4", "pp=8", "seq=2048", "tp=2"});
    REQUIRE(axes.size() == 3);
    CHECK(axes.back() == Axis{"parallelism.tp", {"2"}});
    std::vector<Axis> keys{parse_axis("pp=1,2")};
    fix_set_splits(keys, std::vector<std::string>{"tp=4"});
    CHECK(keys.size() == 1);
    const std::vector<Override> stated{{"parallelism.overlap_tp", "true"}};
    CHECK(is_fixed("runtime.exchanges.tensor", stated));
    CHECK_FALSE(is_fixed("runtime.exchanges.sends", stated));
}
