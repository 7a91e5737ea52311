#include <algorithm>
#include <filesystem>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/experiment.h"
#include "model/machine/cluster_file.h"
#include "model/records/provenance.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

const std::string header = "source,case_id,model,layers,hidden,gpus,gpu,tp,mbs,gbs,step_s,notes\n";

}  // namespace

// The same two rows in a file of another name, in another order, with columns moved, cases renamed
// and numbers written differently.
TEST_CASE("a measured row is known by its content") {
    const TestFolder folder;
    const auto rows =
        rows_of_file(folder.write("a.csv", header + "s,one,gpt,24,2048,8,A100,2,4,512,1.5,first\n"
                                                    "s,two,gpt,24,2048,16,A100,2,4,512,0.75,\n"));
    REQUIRE(rows.size() == 2);
    const auto copy =
        rows_of_file(folder.write("b.csv",
                                  "# a remark\ncase_id,step_s,gbs,mbs,tp,gpus,hidden,layers,gpu\n"
                                  "b,7.5e-1,512,4,2,16.0,2048,24,NVIDIA A100-SXM4-80GB\n"
                                  "a,1.500,512,4,2,8, 2048 ,24,a100\n"));
    CHECK(copy == rows);
    const auto others =
        rows_of_file(folder.write("c.csv", header + "s,one,gpt,24,2048,8,A100,2,4,512,1.61,first\n"
                                                    "s,one,gpt,24,2048,8,H100,2,4,512,1.5,\n"
                                                    "s,two,gpt,24,2048,16,A100,1,4,512,0.75,\n"
                                                    "s,three,gpt,24,2048,16,A100,1,4,512,,\n"));
    REQUIRE(others.size() == 3);  // the last states nothing measured
    for (const RowHash row : others) CHECK(!known_among(rows, row));
}

// A degree of 1 is what a blank cell means. Rounding moves 1.4783 by 1.5 % to 1.5, less than the 2
// % of a step of the hash, so it is found one step away at most; 1.61 is 9 % and four steps away.
TEST_CASE("a rounded number or a blank degree does not make a row unseen") {
    const TestFolder folder;
    const auto row = [&](const std::string& tp, const std::string& step) {
        return rows_of_file(folder.write("r.csv", header + "s,one,gpt,24,2048,8,A100," + tp +
                                                      ",4,512," + step + ",\n"))
            .front();
    };
    const std::vector<RowHash> fitted{row("1", "1.4783")};
    CHECK(known_among(fitted, row("", "1.4783")));
    CHECK(known_among(fitted, row("1", "1.48")));
    CHECK(known_among(fitted, row("", "1.5")));
    CHECK(!known_among(fitted, row("1", "1.61")));
    CHECK(!known_among(fitted, row("2", "1.4783")));
    CHECK(evidence_of({row("", "1.48")}, fitted, {}) == Evidence::fitted);
}

TEST_CASE("a GPU is known by the first word with a digit") {
    CHECK(gpu_word("NVIDIA H100 80GB HBM3") == "h100");
    CHECK(gpu_word("Tesla V100-SXM2-32GB") == "v100");
    CHECK(gpu_word("A100-40GB") == "a100");
    CHECK(gpu_word("GB200") == "gb200");
    CHECK(gpu_word("unknown").empty());
}

TEST_CASE("a table that names its runs without phases is one of cells") {
    const TestFolder folder;
    CHECK(rows_of_file(
              folder.write("a.csv",
                           "run_id,layers,hidden,gpus,step_s\nr,24,2048,8,1.5\nr,24,2048,16,0.8\n"))
              .size() == 2);
}

// Only its steps identify a run; reading a table as cells or as samples gives the same rows.
TEST_CASE("a recorded step is the same row as a cell and as a sample") {
    const TestFolder folder;
    const std::vector<Sample> samples{{"r", "s", "m", 4, 8, "step", -1, 3, 0.0185, "s"},
                                      {"r", "s", "m", 4, 8, "step", 2, 3, 0.0185, "s"},
                                      {"r", "s", "m", 4, 8, "forward", -1, 3, 0.01, "s"}};
    const auto path = folder.write("m.csv", write_measurements(samples));
    CHECK(rows_of_file(path) == std::vector<RowHash>{row_hash(samples[0])});
    CHECK(step_rows(samples) == rows_of_file(path));
}

TEST_CASE("hashes read back as written") {
    std::vector<RowHash> rows{1, 63, 64, (RowHash{1} << 36) - 1};
    for (RowHash row = 1000; rows.size() < 45; row += 7919) rows.push_back(row);
    const auto lines = hash_lines(rows);
    CHECK(lines.size() == 3);
    CHECK(lines.front().substr(0, 24) == "AAAAABAAAAA_AAAABA______");
    std::vector<RowHash> back;
    for (const auto& line : lines)
        for (const RowHash row : read_hash_line(line)) back.push_back(row);
    CHECK(back == rows);
    CHECK_THROWS_AS(read_hash_line("AAAA"), ConfigError);
    CHECK_THROWS_AS(read_hash_line("AAAA?A"), ConfigError);
}

// Row a was fitted, c was known while the model was made, d is neither; one fitted row of a run
// suffices. Their low six bits are the measured number.
TEST_CASE("evidence comes from rows that nothing has read") {
    const RowHash a = 5 << 6, b = 6 << 6, c = 7 << 6, d = 9 << 6;
    CHECK(evidence_of({a}, {a, b}, {a, c}) == Evidence::fitted);
    CHECK(evidence_of({a + 63}, {a, b}, {}) == Evidence::fitted);  // one step below 0 is 63
    CHECK(evidence_of({a + 2}, {a, b}, {}) == Evidence::unseen);
    CHECK(evidence_of({d, b}, {a, b}, {}) == Evidence::fitted);
    CHECK(evidence_of({c}, {a, b}, {a, c}) == Evidence::seen);
    CHECK(evidence_of({d}, {a, b}, {a, c}) == Evidence::unseen);
    CHECK(evidence_of({}, {a}, {c}) == Evidence::unseen);
}

// Cluster b inherits constants of a, so the rows that a was fitted to count for b. If a and b name
// each other, this must end.
TEST_CASE("copied constants bring the rows that they were fitted to") {
    const TestFolder folder;
    const auto write = [&](const std::string& name, RowHash row, const std::string& inherits) {
        Cluster c = read_cluster("host");
        c.name = name;
        c.inherits = inherits;
        c.fitted.emplace().rows = {row};
        return folder.write(name, write_cluster(c));
    };
    const auto b = (std::filesystem::path(folder.path()) / "b.toml").string();
    const auto a = write("a.toml", 5, b);
    write("b.toml", 6, a);
    CHECK(fitted_rows(read_cluster(b)) == std::vector<RowHash>{5, 6});
    CHECK(fitted_rows(read_cluster("host")).empty());
}

// The first measured column counts; sizes and words follow in a fixed order, whatever the table's
// order.
TEST_CASE("a row's hash is that of its content, on every machine") {
    const TestFolder folder;
    CHECK(hash_lines(rows_of_file(folder.write(
              "s.csv",
              "dtype,heads,gbs,mbs,ep,cp,pp,tp,gpus,seq,hidden,layers,time_us,step_s,peak_bytes\n"
              "BF16,16,512,4,7,5,3,2,8,1024,2048,24,9,1.50,77\n"))) ==
          std::vector<std::string>{"9UM8XU"});
    CHECK(hash_lines(rows_of_file(folder.write(
              "k.csv", "pass,dtype,op,k,n,m,time_us\nforward,fp8,GEMM,256,128,64,1.25e1\n"))) ==
          std::vector<std::string>{"B6pTk_"});
}
