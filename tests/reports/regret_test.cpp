#include "reports/compare.h"

#include <catch2/catch.hpp>

#include "tests/literals.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

Comparison mapped(int tp, double measured, double predicted, const std::string& model = "gpt") {
    Comparison c = samples::compared(model + std::to_string(tp), "s", measured, predicted,
                                     predicted, predicted);
    c.what.experiment.workload.name = model;
    c.what.experiment.parallelism.tp = tp;
    c.what.experiment.parallelism.global_batch = 8;
    return c;
}

}  // namespace

// Predicted best is tp 2, measured 110; the best is tp 4 with 100: 10 % lost.
TEST_CASE("regret is what the predicted best costs over the measured best") {
    const std::vector<Decision> d =
        decisions_of({mapped(1, 150, 160), mapped(2, 110, 90), mapped(4, 100, 95)});
    REQUIRE(d.size() == 1);
    CHECK(d[0].mappings == 3);
    CHECK(d[0].model == "gpt");
    CHECK(regret(d[0]) == Approx(0.1));
}

// Two rows of tp 1 with 100 and 140 count as one mapping of 120; predicted alike, the slower of tp
// 2 and 4 counts.
TEST_CASE("rows of one mapping count once, and a tie is decided for the slower") {
    const std::vector<Decision> d = decisions_of(
        {mapped(1, 100, 200), mapped(1, 140, 200), mapped(2, 130, 100), mapped(4, 110, 100)});
    REQUIRE(d.size() == 1);
    CHECK(d[0].mappings == 3);
    CHECK(d[0].best.si() == Approx(0.110));
    CHECK(d[0].chosen.si() == Approx(0.130));
}

TEST_CASE("another batch, device, size or model is another decision, and one mapping is none") {
    Comparison batch = mapped(2, 1, 1), device = mapped(2, 1, 1), size = mapped(2, 1, 1);
    batch.what.experiment.parallelism.global_batch = 16;
    device.what.experiment.cluster.gpu.name = "other";
    size.what.experiment.cluster.nodes = 7;
    CHECK(decisions_of({mapped(1, 2, 2), batch, device, size, mapped(2, 1, 1, "other"),
                        samples::refused("r", "no")})
              .empty());
}

// Decisions of two models: one lost 10 %, one nothing.
TEST_CASE("the summary tells mean and worst regret, and how often the best was chosen") {
    const CompareSummary s = summarise({mapped(1, 110, 90), mapped(2, 100, 95),
                                        mapped(1, 50, 40, "moe"), mapped(2, 60, 70, "moe")});
    CHECK(s.decisions == 2);
    CHECK(s.best_chosen == 1);
    CHECK(s.regret.value() == Approx(0.05));
    CHECK(s.worst_regret == Approx(0.1));
    CHECK_FALSE(summarise({mapped(1, 110, 90)}).regret);
}
