// The summary.md that goes with a folder of results: tables, what is fitted and what held out, and the plots.
#pragma once

#include <string>
#include <vector>

#include "model/cases/cases.h"

namespace stepcast {

struct SummarySection {
    std::string title;                    // "Recorded MoE runs"
    std::vector<std::string> remarks;     // one paragraph each, before the table
    std::vector<Comparison> comparisons;  // may be empty
    std::vector<std::string> plots;       // picture paths as seen from the summary
};

// Writes compare.csv, the plots that the cases allow, and summary.md with all of it. Tables first: when gnuplot fails
// (ConfigError) they are there.
void write_comparison(const std::string& folder, const std::string& title, const std::vector<Comparison>& comparisons);

std::string markdown_summary(const std::string& title, const std::vector<SummarySection>& sections);

}  // namespace stepcast
