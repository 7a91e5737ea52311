// The numerics of fit(): bounded least squares, and standard errors and condition numbers from a
// Jacobian.
#pragma once

#include <functional>
#include <vector>

namespace stepcast {

using Vector = std::vector<double>;
using Residuals = std::function<Vector(const Vector& x)>;

// Row-major.
struct DenseMatrix {
    std::size_t rows = 0, columns = 0;
    Vector values;
    double& at(std::size_t r, std::size_t c) { return values[r * columns + c]; }
    [[nodiscard]] double at(std::size_t r, std::size_t c) const { return values[r * columns + c]; }
};

// Minimises the sum of squares of the `count` residuals, from `x` on, within [lower, upper].
Vector minimise(const Residuals& residuals, std::size_t count, Vector x, const Vector& lower,
                const Vector& upper);

// By central differences.
DenseMatrix jacobian(const Residuals& residuals, std::size_t count, const Vector& x);

// Standard deviation of each unknown from (J^T J + diag(precision))^-1; infinite along directions
// that nothing fixes.
Vector standard_errors(const DenseMatrix& jacobian, const Vector& precision);

// Condition number of J^T J with J's columns scaled to unit length; infinite when columns are
// dependent; 1 for none or one column.
double scaled_condition(const DenseMatrix& jacobian);

// Effective number of unknowns that the rows determine: the trace of J (J^T J + diag(precision))^-1
// J^T.
double effective_unknowns(const DenseMatrix& jacobian, const Vector& precision);

}  // namespace stepcast
