#include "calibrate/least_squares.h"

#include <ceres/ceres.h>

#include <Eigen/Dense>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace stepcast {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct CeresResiduals {
    const Residuals* residuals;
    std::size_t unknowns;
    bool operator()(double const* const* blocks, double* out) const {
        const Vector values = (*residuals)(Vector(blocks[0], blocks[0] + unknowns));
        std::copy(values.begin(), values.end(), out);
        return true;
    }
};

Eigen::MatrixXd to_eigen(const DenseMatrix& m) {
    return Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
        m.values.data(), static_cast<Eigen::Index>(m.rows), static_cast<Eigen::Index>(m.columns));
}

Eigen::MatrixXd normal_matrix(const DenseMatrix& jacobian, const Vector& precision) {
    const Eigen::MatrixXd j = to_eigen(jacobian);
    Eigen::MatrixXd normal = j.transpose() * j;
    for (std::size_t i = 0; i < precision.size(); ++i) {
        const auto k = static_cast<Eigen::Index>(i);
        normal(k, k) += precision[i];
    }
    return normal;
}

}  // namespace

Vector minimise(const Residuals& residuals, std::size_t count, Vector x, const Vector& lower,
                const Vector& upper) {
    if (x.empty()) return x;
    const std::size_t n = x.size();
    auto* cost = new ceres::DynamicNumericDiffCostFunction<CeresResiduals, ceres::FORWARD>(
        new CeresResiduals{&residuals, n});
    cost->AddParameterBlock(static_cast<int>(n));
    cost->SetNumResiduals(static_cast<int>(count));
    ceres::Problem problem;  // owns the cost
    problem.AddResidualBlock(cost, nullptr, x.data());
    for (std::size_t i = 0; i < n; ++i) {
        problem.SetParameterLowerBound(x.data(), static_cast<int>(i), lower[i]);
        problem.SetParameterUpperBound(x.data(), static_cast<int>(i), upper[i]);
    }
    ceres::Solver::Options options;
    options.linear_solver_type = ceres::DENSE_QR;
    // Medians over draws have kinks: tighter tolerances only make the solver walk along them.
    options.max_num_iterations = 25;
    options.function_tolerance = 1e-7;
    options.parameter_tolerance = 1e-7;
    options.logging_type = ceres::SILENT;
    ceres::Solver::Summary summary;
    ceres::Solve(options, &problem, &summary);
    if (!summary.IsSolutionUsable()) throw std::logic_error("least squares: " + summary.message);
    return x;
}

DenseMatrix jacobian(const Residuals& residuals, std::size_t count, const Vector& x) {
    constexpr double step = 1e-4;  // of a logarithm
    DenseMatrix result{count, x.size(), Vector(count * x.size())};
    for (std::size_t c = 0; c < x.size(); ++c) {
        Vector moved = x;
        moved[c] = x[c] + step;
        const Vector up = residuals(moved);
        moved[c] = x[c] - step;
        const Vector down = residuals(moved);
        for (std::size_t r = 0; r < count; ++r) result.at(r, c) = (up[r] - down[r]) / (2 * step);
    }
    return result;
}

Vector standard_errors(const DenseMatrix& jacobian, const Vector& precision) {
    const Eigen::MatrixXd normal = normal_matrix(jacobian, precision);
    Vector errors(jacobian.columns, 0.0);
    if (errors.empty()) return errors;
    // Scaling to a unit diagonal gives "zero" the same meaning for every unknown.
    Eigen::VectorXd scale = normal.diagonal().cwiseSqrt();
    for (Eigen::Index i = 0; i < scale.size(); ++i)
        if (scale(i) <= 0) scale(i) = 1;
    const Eigen::MatrixXd scaled =
        scale.cwiseInverse().asDiagonal() * normal * scale.cwiseInverse().asDiagonal();
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(scaled);
    const double zero = 1e-10 * std::max(1.0, eigen.eigenvalues().maxCoeff());
    for (Eigen::Index i = 0; i < scale.size(); ++i) {
        double variance = 0;
        for (Eigen::Index k = 0; k < scale.size(); ++k) {
            const double part = eigen.eigenvectors()(i, k) * eigen.eigenvectors()(i, k),
                         value = eigen.eigenvalues()(k);
            if (value > zero)
                variance += part / value;
            else if (part > 1e-6)
                variance = infinity;
        }
        errors[static_cast<std::size_t>(i)] = std::sqrt(variance) / scale(i);
    }
    return errors;
}

double scaled_condition(const DenseMatrix& jacobian) {
    if (jacobian.columns < 2) return 1;
    Eigen::MatrixXd j = to_eigen(jacobian);
    for (Eigen::Index c = 0; c < j.cols(); ++c) {
        const double length = j.col(c).norm();
        if (length <= 0) return infinity;
        j.col(c) /= length;
    }
    const Eigen::VectorXd singular = Eigen::JacobiSVD<Eigen::MatrixXd>(j).singularValues();
    if (j.rows() < j.cols()) return infinity;
    const double ratio = singular(0) / singular(singular.size() - 1);
    return std::isfinite(ratio) && ratio < 1e8 ? ratio * ratio : infinity;
}

double effective_unknowns(const DenseMatrix& jacobian, const Vector& precision) {
    if (jacobian.columns == 0) return 0;
    const Eigen::MatrixXd j = to_eigen(jacobian), normal = normal_matrix(jacobian, precision);
    return normal.completeOrthogonalDecomposition().solve(j.transpose() * j).trace();
}

}  // namespace stepcast
