// Rows of a fit whose errors are linear in its unknowns.
#pragma once

#include <vector>

#include "calibrate/posterior.h"

namespace stepcast {

// A linear model: error = slopes x - truth.
inline RowModel linear(const std::vector<Vector>& slopes, const Vector& truth) {
    return [=](const Vector& x, const std::vector<bool>&) {
        RowErrors rows{{}, {slopes.size(), x.size(), {}}};
        for (std::size_t i = 0; i < slopes.size(); ++i) {
            double at = -truth[i];
            for (std::size_t j = 0; j < x.size(); ++j) at += slopes[i][j] * x[j];
            rows.errors.push_back(at);
            rows.slopes.values.insert(rows.slopes.values.end(), slopes[i].begin(), slopes[i].end());
        }
        return rows;
    };
}

}  // namespace stepcast
