#include <catch2/catch.hpp>

#include <stdexcept>

#include "model/records/measurements.h"
#include "tests/model/files.h"

using namespace stepcast;

TEST_CASE("measurements read back as written") {
    const TestFolder folder;
    const std::vector<Sample> samples{
        {"run,1", "mix_moe", "moe_layer", 64, 4, "AG.forward", 2, 31, 1.0 / 3, "s"},
        {"run 2", "", "\"x\"", 0, 1, "memory", -1, -1, 8e10, "B"}};
    CHECK(read_measurements(folder.write("m.csv", write_measurements(samples))) == samples);
    CHECK(read_measurements(folder.write("m.csv", write_measurements({}))).empty());
}

TEST_CASE("broken measurements are refused with their line") {
    const TestFolder folder;
    const std::string header = "run_id,system,model,experts,ranks,phase,rank,step,value,unit\n";
    const auto read = [&](const std::string& text) {
        const auto path = folder.write("m.csv", text);
        return complaint([&] { read_measurements(path); }, folder.path());
    };
    const std::string good = "r,s,m,0,1,step,-1,0,0.1,s\n";
    CHECK(read("a,b\n") == "m.csv:1: not a measurements file; expected the header \"" +
                               header.substr(0, header.size() - 1) + "\"");
    CHECK(read("") == "m.csv:1: not a measurements file; expected the header \"" +
                          header.substr(0, header.size() - 1) + "\"");
    CHECK(read(header + good + "r,s,m,0,1,step,-1,0,0.") ==
          "m.csv:3: found 9 fields; expected 10 as in the header");
    CHECK(read(header + "r,s,m,0,1,step,-1,0,fast,s\n") ==
          "m.csv:2: value: \"fast\" is no finite number");
    CHECK(read(header + "r,s,m,0,1,step,-1,0,-0.1,s\n") ==
          "m.csv:2: value: -0.1 s is no time of a phase; expected 0 to 10000000 s");
    CHECK(read(header + "r,s,m,0,1,step,-1,0,1e300,s\n") ==
          "m.csv:2: value: 1e+300 s is no time of a phase; expected 0 to 10000000 s");
    CHECK(read(header + "r,s,m,4.5,1,step,-1,0,1,s\n") ==
          "m.csv:2: experts: \"4.5\" is no integer of at least 0");
    CHECK(read(header + "r,s,m,0,1,step,-2,0,1,s\n") ==
          "m.csv:2: rank: \"-2\" is no integer of at least -1");
    CHECK(read(header + "r,s,m,0,1,step,-1,0,1,ms\n") ==
          "m.csv:2: unit: \"ms\" is no unit here; expected s, B or 1");
    CHECK(read(header + ",s,m,0,1,step,-1,0,1,s\n") ==
          "m.csv:2: run_id and phase must not be empty");
}
