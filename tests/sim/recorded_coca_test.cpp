// The shipped coca_zero1 against the recorded run: medians of steps 30 to 901 of zero_coca.log (docs/recorded-runs.md).
#include <cmath>

#include <catch2/catch.hpp>

#include "sim/coca_memory.h"
#include "sim/predict.h"

using namespace stepcast;

namespace {

Forecast coca(std::vector<Override> overrides = {}) { return predict(read_experiment("coca_zero1", overrides)); }

double error(Seconds predicted, double milliseconds) { return std::abs(predicted.si() / (milliseconds * 1e-3) - 1); }

}  // namespace

TEST_CASE("CoCa under ZeRO 1: forward within 5 %, backward with recompute within 4 %, optimizer within 20 %") {
    const Forecast f = coca();
    CHECK(error(f.phases.forward, 362.1) < 0.05);
    CHECK(error(f.phases.backward, 1027.6) < 0.04);
    CHECK(error(f.phases.gradient_sync, 9.2) < 0.25);
    CHECK(error(f.phases.optimizer, 169.6) < 0.2);
    CHECK(error(f.phases.step, 1738) < 0.05);
}

// The run prints 0.72 GB (binary) allocated before its optimizer's states and 1.2 GB after: 2 bytes of 253,026,049 weights
// and 4 of the owned quarter are 0.707, with 8 more of the quarter 1.178.
TEST_CASE("CoCa's states take the memory that the run prints, within 15 %") {
    const StateMemory states = coca_states(read_experiment("coca_zero1"));
    const double gigabyte = 1073741824.0;
    CHECK(states.before_optimizer.si() / gigabyte == Approx(0.707).epsilon(1e-3));
    CHECK(states.with_optimizer.si() / gigabyte == Approx(1.178).epsilon(1e-3));
    CHECK(std::abs(states.before_optimizer.si() / gigabyte / 0.72 - 1) < 0.15);
    CHECK(std::abs(states.with_optimizer.si() / gigabyte / 1.2 - 1) < 0.15);
    CHECK(coca().memory.fits);
}

// The optimizer phase is host calls: a tenth of the bytes changes nothing, one group instead of 83 most of it. With one
// group 83 x (flatten + update + gather) and 2 x 82 values of the groups' norms fall away.
TEST_CASE("parameter groups, not bytes, are the cost of CoCa's optimizer phase") {
    const Experiment e = read_experiment("coca_zero1");
    const Forecast base = predict(e);
    const Forecast faster_memory = coca({{"cluster.gpu.memory_bandwidth", "20 TB/s"}});
    CHECK(error(faster_memory.phases.optimizer, 1e3 * base.phases.optimizer.si()) < 0.05);
    CHECK(base.breakdown.host > 0.8 * base.phases.optimizer);
    const Forecast one_group = coca({{"workload.optimizer_groups", "1"}});
    const HostCosts& host = e.cluster.host;
    const Seconds calls = host.load * 82.0 * (host.flatten + host.update + host.gather + 2 * host.read);
    CHECK(base.phases.optimizer - one_group.phases.optimizer > calls);
    CHECK(one_group.phases.optimizer < 0.45 * base.phases.optimizer);
    CHECK(one_group.phases.forward == base.phases.forward);
}

// One bucket holds all gradients, so with overlap too nothing leaves before the last is there; buckets of a tenth do.
TEST_CASE("overlap hides CoCa's exchange only with buckets that fill before the backward ends") {
    const Forecast base = coca();
    const Forecast one_bucket = coca({{"parallelism.overlap", "true"}});
    const Forecast small = coca({{"parallelism.overlap", "true"}, {"parallelism.bucket", "60 MB"}});
    CHECK(one_bucket.phases.gradient_sync > 0.5 * base.phases.gradient_sync);
    CHECK(small.phases.gradient_sync < 0.35 * base.phases.gradient_sync);
    CHECK(small.phases.step < base.phases.step);
}

TEST_CASE("without recompute CoCa's backward is shorter by the blocks' forward, and it needs more memory") {
    const Forecast base = coca(), kept = coca({{"parallelism.recompute", "none"}});
    const Seconds saved = base.phases.backward - kept.phases.backward;
    CHECK(saved > 0.85 * base.phases.forward);
    CHECK(saved < base.phases.forward);
    CHECK(kept.memory.peak > 2 * base.memory.peak);
}
