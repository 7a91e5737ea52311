#include <catch2/catch.hpp>

#include "reports/forecast_tables.h"

using namespace stepcast;

namespace {

Note size(const std::string& what, double value) {
    return {
        .kind = Note::Kind::extrapolated, .key = what, .value = value, .least = 512, .most = 16384};
}
const Note far = size("gemm.k", 128256);
const Note prior{.kind = Note::Kind::undetermined, .key = "host.call", .text = "5 us"};

}  // namespace

TEST_CASE("notes come to at most five lines, each no wider than a table") {
    CHECK(brief_notes({}).empty());
    CHECK(brief_notes({remark("a assumed")}) == "note: a assumed\n");
    CHECK(brief_notes({far, prior, prior}) ==
          "note: extrapolated: gemm.k; 2 parameters kept their prior (--explain says more)\n");
    CHECK(brief_notes({size("gemm.k", 8), far}) ==
          "note: extrapolated: gemm.k (--explain says more)\n");
    CHECK(brief_notes({far, remark("first"), remark("second")}) ==
          "note: extrapolated: gemm.k\nnote: first\nnote: second (--explain says more)\n");
    std::vector<Note> all{far};
    add_remarks(all, {"1st", "2nd", "3rd", "4th", "5th", "6th"});
    const std::string lines = brief_notes(all);
    CHECK(
        lines ==
        "note: extrapolated: gemm.k\nnote: 1st\nnote: 2nd\nnote: 3rd\nnote: 4th (+2: --explain)\n");
    const std::string cut = brief_notes({remark(std::string("many words ") + std::string(80, 'x') +
                                                " and still more words"
                                                " than a line of this table has room for")});
    CHECK(cut.size() <= table_width + 1);
    CHECK(cut.find(" ..") != std::string::npos);
    CHECK(every_note({far, prior}) ==
          wrapped("note: extrapolated: gemm.k up to 128256, fitted on 512 to 16384") +
              wrapped("note: cluster.host.call: not determined by the data, kept its prior 5 us"));
}
