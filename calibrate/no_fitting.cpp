// Stands in for solver.cpp in a build without Ceres: every fit is refused with what to install.
#include "calibrate/solver.h"
#include "model/base/errors.h"

namespace stepcast {
namespace {

[[noreturn]] void refuse() {
    throw ConfigError(
        "calibrate: this program was built without fitting (WITH_FITTING); what was measured is in "
        "the tables next to "
        "--out, fit them with a program that has it: calibrate --measurements");
}

}  // namespace

Posterior solve(const Problem&, Vector) { refuse(); }
Posterior posterior_at(const Problem&, Vector, double) { refuse(); }
DenseMatrix weighted_slopes(const Problem&, const Vector&, double) { refuse(); }
double objective(const Problem&, const Vector&, const Vector&, double) { refuse(); }
DenseMatrix differences(const std::function<Vector(const Vector&)>&, const Vector&) { refuse(); }
DenseMatrix forward_differences(const std::function<Vector(const Vector&)>&, const Vector&) {
    refuse();
}
Vector standard_errors(const DenseMatrix&) { refuse(); }
double scaled_condition(const DenseMatrix&) { refuse(); }

}  // namespace stepcast
