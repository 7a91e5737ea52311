#include "calibrate/least_squares.h"
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

Vector minimise(const Residuals&, std::size_t, Vector, const Vector&, const Vector&) { refuse(); }
DenseMatrix jacobian(const Residuals&, std::size_t, const Vector&) { refuse(); }
Vector standard_errors(const DenseMatrix&, const Vector&) { refuse(); }
double scaled_condition(const DenseMatrix&) { refuse(); }
double effective_unknowns(const DenseMatrix&, const Vector&) { refuse(); }

}  // namespace stepcast
