// Why a run is slower than its forecast, as text, an object and a page.
#pragma once

#include <string>
#include <vector>

#include "reports/page.h"
#include "sim/results/diagnosis.h"

namespace stepcast {

std::string verdict_text(const Diagnosis& d);
std::string diagnosis_table(const Diagnosis& d);
std::string to_json(const Diagnosis& d);
// Writes report.html and summary.md.
void write_diagnosis(const std::string& folder, const Diagnosis& d,
                     const std::vector<Fact>& origin);

}  // namespace stepcast
