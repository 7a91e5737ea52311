// Sentences about comparisons that every sink says. Internal to reports/.
#pragma once

#include <string>
#include <vector>

#include "cases/cases.h"
#include "reports/compare.h"

namespace stepcast {

std::vector<std::string> all_assumptions(const std::vector<Comparison>& comparisons);
std::vector<std::string> all_provenance(const std::vector<Comparison>& comparisons);
std::string inside_text(const Comparison& comparison);  // "yes", "no", "-" without an interval
std::string role_text(const Case& what);                // "fitted on", "seen", "unseen"

// "mean error 4.1 %, median 2.8 %, ..".
std::string errors_text(const CompareSummary& summary);
// What a comparison comes to; the evidence apart.
std::vector<std::string> summary_sentences(const std::vector<Comparison>& comparisons);

}  // namespace stepcast
