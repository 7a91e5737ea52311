#include <fstream>

#include "import/tables/case_files.h"
#include "import/tables/row_hashes.h"
#include "model/base/errors.h"
#include "model/records/provenance.h"
#include "tests/import/tables/cases_home.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

const std::string hashed_header =
    "source,case_id,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpus,gpu,tp,pp,dp,mbs,gbs,"
    "precision,step_s\n";
const std::string fitted_row =
    "mine,one,llama3-8b,32,4096,32,8,14336,128256,8192,16,H100,2,1,8,1,128,bf16,4.1237\n";

std::vector<RowHash> rows_of(const TestFolder& folder, const std::string& row) {
    const auto found = read_comparisons(folder.write("row.csv", hashed_header + row), "");
    REQUIRE(found.size() == 1);
    INFO(found.front().refused_because);
    REQUIRE(found.front().refused_because.empty());
    return found.front().what.rows;
}

Evidence evidence(const std::vector<RowHash>& fitted, const std::vector<RowHash>& rows) {
    return evidence_of(rows, joined(fitted, {}), {});
}

}  // namespace

// Each spelling trains the same model on the same machine: 16 GPUs / tp 2 = dp 8; the sizes are
// those of Llama 3 8B; 4.12 s is 4.1237 s rounded.
TEST_CASE("a row that was fitted stays fitted, however it is spelled") {
    const CasesHome home;
    const TestFolder folder;
    const auto fitted = rows_of(folder, fitted_row);
    for (const std::string same :
         {"mine,one,llama3-8b,32,4096,32,8,14336,128256,8192,16,H100,2,1,,1,128,bf16,4.1237\n",
          "mine,one,llama3-8b,32,4096,32,8,14336,128256,8192,,H100,2,1,8,1,128,bf16,4.1237\n",
          "mine,one,llama3-8b,32,4096,32,8,14336,128256,8192,16,H100,2,,8,1,128,bf16,4.12\n",
          "yours,two,llama3-8b,32,4096,32,,14336,128256,8192,16,H100,2,1,8,1,128,bf16,4.1237\n",
          "yours,two,llama3-8b,32,4096,32,8,14336,128256,8192,,NVIDIA H100 80GB "
          "HBM3,2,1,8,1,128,bfloat16,4.12\n"}) {
        INFO(same);
        CHECK(evidence(fitted, rows_of(folder, same)) == Evidence::fitted);
    }
}

// Another precision, GPU, batch, split or a step 10 % apart is another measurement.
TEST_CASE("a row of another meaning was not fitted") {
    const CasesHome home;
    const TestFolder folder;
    const auto fitted = rows_of(folder, fitted_row);
    for (const std::string other :
         {"mine,one,llama3-8b,32,4096,32,8,14336,128256,8192,16,H100,2,1,8,1,128,fp8,4.1237\n",
          "mine,one,llama3-8b,32,4096,32,8,14336,128256,8192,16,A100,2,1,8,1,128,bf16,4.1237\n",
          "mine,one,llama3-8b,32,4096,32,8,14336,128256,8192,16,H100,2,1,8,1,64,bf16,4.1237\n",
          "mine,one,llama3-8b,32,4096,32,8,14336,128256,8192,16,H100,4,1,4,1,128,bf16,4.1237\n",
          "mine,one,llama3-8b,32,4096,32,8,14336,128256,8192,16,H100,2,1,8,1,128,bf16,4.5361\n"}) {
        INFO(other);
        CHECK(evidence(fitted, rows_of(folder, other)) == Evidence::unseen);
    }
}

TEST_CASE("a list of rows has those of steps by experiment and by cells") {
    const CasesHome home;
    const TestFolder folder;
    const auto path = folder.write("rows.csv", hashed_header + fitted_row);
    const auto rows = rows_of_table(path);
    CHECK(rows.size() == 2);
    CHECK(known_among(rows, rows_of(folder, fitted_row).front()));
    CHECK(rows_of_table(folder.write("k.csv", "op,m,n,k,dtype,time_us\ngemm,64,128,256,fp8,12.5\n"))
              .size() == 1);
    CHECK_THROWS_AS(rows_text({}), ConfigError);
    CHECK(rows_text({path}) == hash_lines(rows).front() + "\n");
}
