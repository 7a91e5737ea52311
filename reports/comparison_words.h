// The sentences of compare: how far off, on which evidence.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "reports/compare.h"
#include "reports/plot_frame.h"
#include "reports/table.h"
#include "sim/results/comparison.h"

namespace stepcast {

std::vector<std::string> all_assumptions(const std::vector<Comparison>& comparisons);
std::vector<std::string> all_provenance(const std::vector<Comparison>& comparisons);

// clusters of the predicted cases
std::set<std::string> machines_of(const std::vector<Comparison>& comparisons);
std::string inside_text(const Comparison& comparison);  // "yes", "no", "-" without an interval
std::string role_text(const Case& what);                // "fitted on", "seen", "unseen"

// "mean error 4.1 %, median 2.8 %, ..".
std::string errors_text(const CompareSummary& summary);

// The summary of a comparison, with one sentence for each kind of evidence.
std::vector<std::string> summary_sentences(const std::vector<Comparison>& comparisons);

inline double in_ms(Seconds t) { return t.si() * 1e3; }

using CaseSeries = std::map<std::string, std::vector<const Comparison*>>;

// The predicted cases by source, or by series if all have one source. `against_experts`: by series,
// only cases with a position. At most as many series as colours: the smallest ones are merged into
// "others".
CaseSeries series_of(const std::vector<Comparison>& comparisons, bool against_experts);
std::size_t size_of(const CaseSeries& series);

// "gpt: 12 cases, mean error 4.1 %".
std::string series_label(const std::string& name, const std::vector<const Comparison*>& cases);

// "cluster pcie-a100-x4 (fitted)".
std::string clusters_text(const std::vector<Comparison>& comparisons);

// " on dgx-h100"; "" if there are several machines.
std::string machine_title(const std::vector<Comparison>& comparisons);

// "only 7 of 9 cases (1 refused, 1 not shown)"
std::string count_title(const std::vector<Comparison>& comparisons, std::size_t shown);

// mean, median, bias, worst, inside
std::string error_text(const std::vector<Comparison>& comparisons);

// The point type of a case by its evidence; of a series the one that all its cases have, else the
// full one.
int mark_of(const Comparison& comparison);
int mark_of(const std::vector<const Comparison*>& cases);

// Adds to the legend, in this size, the mark of each series and of each kind of evidence.
void add_marks(Plot& plot, const CaseSeries& series, double size);

// "cluster pcie-a100-x4: fitted 2026-11-21 to 11 samples of a.csv, b.csv; ..", or "UNCALIBRATED" if
// nothing was fitted.
std::string provenance_text(const Cluster& cluster);

// A fit in a row of fits_of(): name, date, samples, tables, errors on steps, parameters assumed.
std::vector<Cell> fit_row(const std::string& name, const Fitted& fitted,
                          const std::string& unmeasured);
std::vector<std::string> source_names(const Fitted& fitted);  // the tables behind a fit, each once

}  // namespace stepcast
