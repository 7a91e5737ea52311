#include "sim/sweep/file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/model/files.h"

using namespace stepcast;

namespace {

struct Folder {
    TestFolder own;
    std::string path = own.path();
    [[nodiscard]] std::string text() const {
        std::ostringstream text;
        text << std::ifstream(path + "/sweep.csv").rdbuf();
        return text.str();
    }
};

std::vector<VariedKey> varied() {
    std::vector<VariedKey> keys(2);
    keys[0].name = "parallelism.tp";
    keys[1].name = "parallelism.stage_layers";
    return keys;
}

}  // namespace

// Read while the sweep goes on: what is added is there at once. A list has commas, so it is quoted.
TEST_CASE("a sweep's table has each simulated point with its keys as soon as it is known") {
    const Folder folder;
    SweepFile file(folder.path, varied());
    const std::string head = "parallelism.tp,parallelism.stage_layers,step_s,refused\n";
    CHECK(folder.text() == head);
    file.add({{0, 1}, Seconds(1.0 / 3), ""},
             {{"parallelism.tp", "2"}, {"parallelism.stage_layers", "[16,16]"}});
    const std::string first = "2,\"[16,16]\",0.3333333333333333,\n";
    CHECK(folder.text() == head + first);
    file.add({{0, 2}, Seconds(0), "not step < 1 s"},
             {{"parallelism.tp", "4"}, {"parallelism.stage_layers", "[]"}});
    CHECK(folder.text() == head + first + "4,[],,not step < 1 s\n");
    SweepFile again(folder.path, varied());
    CHECK(folder.text() == head);
}

TEST_CASE("a sweep takes no folder that holds another verb's tables") {
    const Folder folder;
    std::ofstream(folder.path + "/top.csv") << "mine\n";
    CHECK_THROWS_WITH(SweepFile(folder.path, varied()), Catch::Contains("top.csv: is of no sweep"));
    CHECK_FALSE(std::filesystem::exists(folder.path + "/sweep.csv"));
    std::filesystem::remove(folder.path + "/top.csv");
    { SweepFile file(folder.path, varied()); }
    std::ofstream(folder.path + "/top.csv") << "of the sweep\n";
    CHECK_NOTHROW(SweepFile(folder.path, varied()));
}
