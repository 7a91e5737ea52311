#include "reports/tables.h"

#include <catch2/catch.hpp>

using namespace stepcast;

namespace {

const std::string far = "extrapolated: gemm.k up to 128256, fitted on 512 to 16384";
const std::string prior = "cluster.host.call: not determined by the data, kept its prior 5 us";

}  // namespace

TEST_CASE("notes come to at most five lines, each no wider than a table") {
    CHECK(brief_notes({}).empty());
    CHECK(brief_notes({"a assumed"}) == "note: a assumed\n");
    CHECK(brief_notes({far, prior, prior}) ==
          "note: extrapolated: gemm.k; 2 parameters kept their prior (--explain says more)\n");
    CHECK(brief_notes({"extrapolated: gemm.k down to 8, fitted on 512 to 16384", far}) ==
          "note: extrapolated: gemm.k (--explain says more)\n");
    CHECK(brief_notes({far, "first", "second"}) ==
          "note: extrapolated: gemm.k\nnote: first\nnote: second (--explain says more)\n");
    const std::string lines = brief_notes({far, "1st", "2nd", "3rd", "4th", "5th", "6th"});
    CHECK(
        lines ==
        "note: extrapolated: gemm.k\nnote: 1st\nnote: 2nd\nnote: 3rd\nnote: 4th (+2: --explain)\n");
    const std::string cut = brief_notes({std::string("many words ") + std::string(80, 'x') +
                                         " and still more words"
                                         " than a line of this table has room for"});
    CHECK(cut.size() <= table_width + 1);
    CHECK(cut.find(" ..") != std::string::npos);
    CHECK(every_note({far, prior}) == wrapped("note: " + far) + wrapped("note: " + prior));
}
