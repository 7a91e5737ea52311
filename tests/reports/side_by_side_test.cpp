#include <catch2/catch.hpp>

#include "reports/compare_page.h"
#include "reports/comparison_tables.h"

using namespace stepcast;

namespace {

Comparison step(const char* source, const char* id, int batch, double measured, double predicted) {
    Comparison c;
    c.what.source = source;
    c.what.case_id = id;
    c.what.experiment.parallelism.micro_batch = batch;
    c.what.measured_step = Seconds(measured);
    c.what.measured_forward = Seconds(measured / 3);
    Forecast f;
    f.step = {Seconds(predicted), Seconds(predicted), Seconds(predicted), Seconds(predicted)};
    f.forward = {Seconds(predicted / 3), Seconds(predicted / 3), Seconds(predicted / 3),
                 Seconds(predicted / 3)};
    c.forecast = f;
    return c;
}

}  // namespace

TEST_CASE("a step that was executed stands beside the script's of the same shape, and only that") {
    const std::vector<Comparison> all{step("executed", "run", 8, 0.02, 0.021),
                                      step("pytorch", "script b8", 8, 0.025, 0.02),
                                      step("pytorch", "script b2", 2, 0.01, 0.01)};
    CHECK(side_by_side_table(all) ==
          "\nside by side  by           measured    predicted     error\n"
          "run           executed     20.00 ms     21.00 ms    +5.0 %\n"
          "script b8     PyTorch      25.00 ms     20.00 ms   -20.0 %\n");
    CHECK(side_by_side_table({all[1], all[2]}).empty());
}

// Errors of 25, 20 and 0 per cent.
TEST_CASE("errors of phases are summed up over cases") {
    CHECK(phase_errors_text({step("pytorch", "a", 1, 0.4, 0.5), step("pytorch", "b", 1, 0.5, 0.4),
                             step("pytorch", "c", 1, 0.3, 0.3)}) ==
          "errors of phases (median, mean): forward 20.0 %, 15.0 %");
    CHECK(phase_errors_text({step("pytorch", "a", 1, 0.4, 0.5)}).empty());
    // a phase that was not measured, or took no time, has no error
    Comparison none = step("pytorch", "d", 1, 0.3, 0.6), zero = none;
    none.what.measured_forward.reset();
    zero.what.measured_forward = Seconds(0);
    CHECK(phase_errors_text({step("pytorch", "a", 1, 0.4, 0.5), step("pytorch", "b", 1, 0.5, 0.4),
                             step("pytorch", "c", 1, 0.3, 0.3), none, zero}) ==
          "errors of phases (median, mean): forward 20.0 %, 15.0 %");
}
