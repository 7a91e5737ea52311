#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>

#include "model/errors.h"
#include "model/experiment.h"
#include "model/records/provenance.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

const std::string header = "source,case_id,model,layers,hidden,gpus,gpu,tp,mbs,gbs,step_s,notes\n";

}  // namespace

// The same two rows in a file of another name, in another order, with columns moved, cases renamed and numbers written differently.
TEST_CASE("a measured row is known by its content") {
    const TestFolder folder;
    const auto rows = rows_of_file(folder.write("a.csv", header + "s,one,gpt,24,2048,8,A100,2,4,512,1.5,first\n"
                                                                  "s,two,gpt,24,2048,16,A100,2,4,512,0.75,\n"));
    REQUIRE(rows.size() == 2);
    const auto copy =
        rows_of_file(folder.write("b.csv",
                                  "# a remark\ncase_id,step_s,gbs,mbs,tp,gpus,hidden,layers,gpu\n"
                                  "b,7.5e-1,512,4,2,16.0,2048,24,H100\na,1.500,512,4,2,8, 2048 ,24,H100\n"));
    CHECK(copy == rows);
    const auto others = rows_of_file(folder.write("c.csv", header + "s,one,gpt,24,2048,8,A100,2,4,512,1.51,first\n"
                                                                    "s,two,gpt,24,2048,16,A100,1,4,512,0.75,\n"
                                                                    "s,three,gpt,24,2048,16,A100,1,4,512,,\n"));
    REQUIRE(others.size() == 2);  // the third states nothing measured
    for (const RowHash row : others) CHECK(std::count(rows.begin(), rows.end(), row) == 0);
}

TEST_CASE("a table that names its runs without phases is one of cells") {
    const TestFolder folder;
    CHECK(rows_of_file(folder.write("a.csv", "run_id,layers,hidden,gpus,step_s\nr,24,2048,8,1.5\nr,24,2048,16,0.8\n")).size() == 2);
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

// Row 5 was fitted, 7 was known while the model was made, 9 is neither; one fitted row of a run suffices.
TEST_CASE("evidence comes from rows that nothing has read") {
    CHECK(evidence_of({5}, {5, 6}, {5, 7}) == Evidence::fitted);
    CHECK(evidence_of({9, 6}, {5, 6}, {}) == Evidence::fitted);
    CHECK(evidence_of({7}, {5, 6}, {5, 7}) == Evidence::seen);
    CHECK(evidence_of({9}, {5, 6}, {5, 7}) == Evidence::unseen);
    CHECK(evidence_of({}, {5}, {7}) == Evidence::unseen);
}

// Cluster b inherits constants of a, so the rows that a was fitted to count for b. If a and b name each other, this must end.
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

// The first measured column counts; sizes and words follow in a fixed order, whatever the table's order.
TEST_CASE("a row's hash is that of its content, on every machine") {
    const TestFolder folder;
    CHECK(hash_lines(rows_of_file(folder.write("s.csv", "dtype,heads,gbs,mbs,ep,cp,pp,tp,gpus,seq,hidden,layers,time_us,step_s,peak_bytes\n"
                                                        "BF16,16,512,4,7,5,3,2,8,1024,2048,24,9,1.50,77\n"))) == std::vector<std::string>{"jfa2K5"});
    CHECK(hash_lines(rows_of_file(folder.write("k.csv", "pass,dtype,op,k,n,m,time_us\nforward,fp8,GEMM,256,128,64,1.25e1\n"))) == std::vector<std::string>{"3kbAFi"});
    CHECK_THROWS_AS(rows_text({}), ConfigError);
    CHECK(rows_text({folder.path() + "/k.csv"}) == "3kbAFi\n");
}
