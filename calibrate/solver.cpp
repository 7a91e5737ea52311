#include "calibrate/solver.h"

#include <ceres/ceres.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The errors and slopes of all rows at the point that Ceres asks for: every row is a residual of
// its own, as the loss is of single rows, but all are evaluated together.
class RowEvaluation : public ceres::EvaluationCallback {
public:
    using Slopes = std::function<DenseMatrix(const Vector& x)>;

    RowEvaluation(const Problem& problem, const Slopes& slopes_at, const Vector& x)
        : problem_(problem), slopes_at_(slopes_at), x_(x) {}

    void PrepareForEvaluation(bool with_slopes, bool new_point) override {
        if (new_point || errors.empty()) {
            errors = problem_.errors(x_);
            has_slopes_ = false;
        }
        if (!with_slopes || has_slopes_) return;
        slopes = slopes_at_(x_);
        has_slopes_ = true;
    }

    Vector errors;
    DenseMatrix slopes;

private:
    const Problem& problem_;
    const Slopes& slopes_at_;
    const Vector& x_;
    bool has_slopes_ = false;
};

class RowResidual : public ceres::CostFunction {
public:
    RowResidual(const RowEvaluation& rows, std::size_t row, std::size_t unknowns, double noise)
        : rows_(rows), row_(row), noise_(noise) {
        set_num_residuals(1);
        mutable_parameter_block_sizes()->push_back(as_int(unknowns));
    }

    bool Evaluate(double const* const*, double* residual, double** slopes) const override {
        *residual = rows_.errors[row_] / noise_;
        if (slopes != nullptr && slopes[0] != nullptr)
            for (std::size_t j = 0; j < rows_.slopes.columns; ++j)
                slopes[0][j] = rows_.slopes.at(row_, j) / noise_;
        return true;
    }

private:
    const RowEvaluation& rows_;
    std::size_t row_;
    double noise_;
};

class PriorResiduals : public ceres::CostFunction {
public:
    explicit PriorResiduals(const std::vector<Prior>& priors) : priors_(priors) {
        set_num_residuals(as_int(priors.size()));
        mutable_parameter_block_sizes()->push_back(as_int(priors.size()));
    }

    bool Evaluate(double const* const* x, double* residuals, double** slopes) const override {
        const std::size_t n = priors_.size();
        for (std::size_t j = 0; j < n; ++j)
            residuals[j] = (x[0][j] - priors_[j].mean) / priors_[j].sigma;
        if (slopes == nullptr || slopes[0] == nullptr) return true;
        std::fill_n(slopes[0], n * n, 0.0);
        for (std::size_t j = 0; j < n; ++j) slopes[0][j * n + j] = 1 / priors_[j].sigma;
        return true;
    }

private:
    const std::vector<Prior>& priors_;
};

// What Huber's loss makes of a residual in units of the noise: twice the loss, and its weight.
std::pair<double, double> loss_and_weight(const RobustLoss& loss, double residual) {
    double rho[3];
    ceres::HuberLoss(loss.limit).Evaluate(residual * residual, rho);
    return {rho[0], rho[1]};
}

Vector weights_of(const RobustLoss& loss, const Vector& errors, double noise) {
    Vector weights;
    for (const double error : errors)
        weights.push_back(loss_and_weight(loss, error / noise).second);
    return weights;
}

// The problem at fixed weights and noise as Ceres holds it; x moves.
class WeightedProblem {
public:
    WeightedProblem(const Problem& problem, const RowEvaluation::Slopes& slopes, Vector& x,
                    const Vector& weights, double noise)
        : priors_(problem.priors),
          again_(problem.again_at_bounds),
          x_(x),
          rows_(problem, slopes, x),
          ceres_(options(rows_)) {
        for (const std::size_t i : indices_of(weights))
            ceres_.AddResidualBlock(
                new RowResidual(rows_, i, x.size(), noise),
                new ceres::ScaledLoss(nullptr, weights[i], ceres::TAKE_OWNERSHIP), x.data());
        ceres_.AddResidualBlock(new PriorResiduals(problem.priors), nullptr, x.data());
    }

    void minimise() {
        for (const std::size_t j : indices_of(x_)) {
            ceres_.SetParameterLowerBound(x_.data(), as_int(j), priors_[j].lower);
            ceres_.SetParameterUpperBound(x_.data(), as_int(j), priors_[j].upper);
        }
        search();
        std::vector<int> held;
        for (std::size_t j = 0; again_ && j < x_.size(); ++j)
            if (x_[j] <= priors_[j].lower || x_[j] >= priors_[j].upper) held.push_back(as_int(j));
        if (held.empty() || held.size() == x_.size()) return;
        ceres_.SetManifold(x_.data(), new ceres::SubsetManifold(as_int(x_.size()), held));
        search();
    }

    // Of the most probable unknowns, with the weights that Huber's loss gives to the rows.
    DenseMatrix covariance() {
        ceres::Covariance::Options how;
        how.algorithm_type = ceres::DENSE_SVD;
        how.min_reciprocal_condition_number = 0;  // the priors make it regular
        ceres::Covariance covariance(how);
        const std::vector<const double*> all{x_.data()};
        DenseMatrix found{x_.size(), x_.size(), Vector(x_.size() * x_.size())};
        if (!covariance.Compute(all, &ceres_) ||
            !covariance.GetCovarianceBlock(x_.data(), x_.data(), found.values.data()))
            throw std::logic_error("solver: no covariance of the unknowns");
        return found;
    }

private:
    void search() {
        ceres::Solver::Options how;
        how.linear_solver_type = ceres::DENSE_QR;
        // Medians over draws have kinks: more iterations only walk along them.
        how.max_num_iterations = 25;
        how.function_tolerance = 1e-7;
        how.parameter_tolerance = 1e-7;
        how.logging_type = ceres::SILENT;
        ceres::Solver::Summary summary;
        ceres::Solve(how, &ceres_, &summary);
        if (!summary.IsSolutionUsable()) throw std::logic_error("solver: " + summary.message);
    }

    static ceres::Problem::Options options(RowEvaluation& rows) {
        ceres::Problem::Options options;
        options.evaluation_callback = &rows;
        return options;
    }

    const std::vector<Prior>& priors_;
    bool again_;
    Vector& x_;
    RowEvaluation rows_;
    ceres::Problem ceres_;  // owns the costs and losses
};

DenseMatrix covariance_at(const Problem& problem, Vector x, const Vector& weights, double noise) {
    return x.empty() ? DenseMatrix{}
                     : WeightedProblem(problem, problem.slopes, x, weights, noise).covariance();
}

// Huber's proposal 2: a residual beyond the limit counts as the limit, so that an outlier does not
// widen the noise. The unknowns that the rows determine are the trace of their share of the
// covariance's inverse, sum of 1 - (sigma / prior's sigma)^2.
double noise_of(const Problem& p, const Vector& x, const Vector& errors, const Vector& weights,
                double noise) {
    double squares = p.loss.believed_rows * p.loss.noise * p.loss.noise,
           freedom = p.loss.believed_rows + real(errors.size());
    for (const double error : errors) {
        const double counted = std::min(std::abs(error), p.loss.limit * noise);
        squares += counted * counted;
    }
    if (p.loss.believed_rows == 0) {
        const DenseMatrix covariance = covariance_at(p, x, weights, noise);
        for (const std::size_t j : indices_of(x))
            freedom -= 1 - covariance.at(j, j) / (p.priors[j].sigma * p.priors[j].sigma);
    }
    return freedom < 0.5
               ? noise
               : std::max(p.loss.least_noise, std::sqrt(squares / (p.loss.cut_square * freedom)));
}

// Difference quotients between x + up(x) and x + down(x) in each unknown.
template <typename Step, typename Other>
DenseMatrix quotients(const std::function<Vector(const Vector& x)>& errors, const Vector& x,
                      Step up, Other down) {
    DenseMatrix found{0, x.size(), {}};
    for (const std::size_t c : indices_of(x)) {
        Vector moved = x;
        moved[c] = x[c] + up(x[c]);
        const Vector above = errors(moved);
        moved[c] = x[c] + down(x[c]);
        const Vector below = errors(moved);
        found.rows = above.size();
        found.values.resize(above.size() * x.size());
        for (const std::size_t r : indices_of(above))
            found.at(r, c) = (above[r] - below[r]) / (up(x[c]) - down(x[c]));
    }
    return found;
}

Eigen::MatrixXd to_eigen(const DenseMatrix& m) {
    return Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
        m.values.data(), static_cast<Eigen::Index>(m.rows), static_cast<Eigen::Index>(m.columns));
}

}  // namespace

double objective(const Problem& p, const Vector& errors, const Vector& x, double noise) {
    double sum = 0;
    for (const double error : errors) sum += loss_and_weight(p.loss, error / noise).first;
    for (const std::size_t j : indices_of(x)) {
        const double r = (x[j] - p.priors[j].mean) / p.priors[j].sigma;
        sum += r * r;
    }
    return sum;
}

Posterior posterior_at(const Problem& p, Vector x, double noise) {
    Posterior found;
    found.rows = {p.errors(x), p.slopes(x)};
    found.covariance = covariance_at(p, x, weights_of(p.loss, found.rows.errors, noise), noise);
    for (const std::size_t j : indices_of(x)) {
        found.sigma.push_back(std::sqrt(found.covariance.at(j, j)));
        found.at_bound.push_back(x[j] <= p.priors[j].lower + 1e-9 ||
                                 x[j] >= p.priors[j].upper - 1e-9);
    }
    found.noise = noise;
    found.cost = objective(p, found.rows.errors, x, noise) +
                 2 * (p.loss.believed_rows + real(found.rows.errors.size())) * std::log(noise);
    found.x = std::move(x);
    return found;
}

Posterior solve(const Problem& p, Vector x) {
    for (const std::size_t j : indices_of(x))
        x[j] = std::clamp(x[j], p.priors[j].lower, p.priors[j].upper);
    const auto& slopes = p.search_slopes ? p.search_slopes : p.slopes;
    double noise = p.first_noise;
    Vector errors = p.errors(x),
           weights = p.plain_first ? Vector(errors.size(), 1) : weights_of(p.loss, errors, noise);
    for (int round = 0; round < p.most_rounds; ++round) {
        const Vector before = x;
        if (!x.empty()) WeightedProblem(p, slopes, x, weights, noise).minimise();
        errors = p.errors(x);
        const double last = noise;
        noise = noise_of(p, x, errors, weights, last);
        weights = weights_of(p.loss, errors, noise);
        double moved = std::abs(std::log(noise / last));
        for (const std::size_t j : indices_of(x))
            moved = std::max(moved, std::abs(x[j] - before[j]));
        if (round > 0 && moved < p.standing) break;
    }
    return posterior_at(p, std::move(x), noise);
}

DenseMatrix weighted_slopes(const Problem& p, const Vector& x, double noise) {
    const Vector weights = weights_of(p.loss, p.errors(x), noise);
    DenseMatrix slopes = p.slopes(x);
    for (std::size_t i = 0; i < slopes.rows; ++i)
        for (std::size_t j = 0; j < slopes.columns; ++j)
            slopes.at(i, j) *= std::sqrt(weights[i]) / noise;
    return slopes;
}

DenseMatrix differences(const std::function<Vector(const Vector& x)>& errors, const Vector& x) {
    constexpr double step = 1e-4;  // of a logarithm
    return quotients(
        errors, x, [](double) { return step; }, [](double) { return -step; });
}

DenseMatrix forward_differences(const std::function<Vector(const Vector& x)>& errors,
                                const Vector& x) {
    constexpr double step = 1e-6, least = 1.5e-8;  // relative; the root of a double's precision
    const auto up = [=](double at) { return std::max(step * std::abs(at), least); };
    return quotients(errors, x, up, [](double) { return 0.0; });
}

Vector standard_errors(const DenseMatrix& jacobian) {
    const Eigen::MatrixXd j = to_eigen(jacobian), normal = j.transpose() * j;
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
        errors[as_index(i)] = std::sqrt(variance) / scale(i);
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

}  // namespace stepcast
