// Made-up results that the report tests print, and golden texts to hold them against.
//
// To renew the golden texts after a wanted change: STEPCAST_RENEW_GOLDEN=1
// build/dev/tests/test_reports, then read the difference with git diff tests/reports/golden before
// committing it.
#pragma once

#include <functional>
#include <string>

#include "import/tables/cases.h"
#include "model/cluster.h"
#include "model/records/measurement.h"
#include "reports/compare_page.h"

namespace stepcast::samples {

// A case of `measured` ms predicted as p50 ms within [p10, p90] ms; the breakdown adds up to p50.
Comparison compared(const std::string& case_id, const std::string& series, double measured,
                    double p50, double p10, double p90);
Comparison refused(const std::string& case_id, const std::string& reason);
Forecast forecast();        // calibrated, 200 draws, fits
Measurement measurement();  // three accepted steps of 10, 12, 11 ms and a busy one of 30 ms
Cluster fitted_cluster();

std::string file_text(const std::string& path);
std::string temporary_folder(const std::string& name);  // fresh and empty

// What gnuplot is told to draw: in place of gnuplot stands a program that hands its script back as
// the picture. The folder that `draw` wrote into, where PLOT.svg is the script of PLOT.
std::string folder_of_scripts(const std::string& name,
                              const std::function<void(const std::string& folder)>& draw);
// The script of the one plot that `draw` writes to the path that it is given.
std::string script_of(const std::string& name,
                      const std::function<void(const std::string& path)>& draw);
// The number that follows `text`, which must be there.
double number_after(const std::string& script, const std::string& text);

// The text of tests/reports/golden/NAME; when STEPCAST_RENEW_GOLDEN is set it first becomes
// `actual`.
std::string golden(const std::string& name, const std::string& actual);

}  // namespace stepcast::samples
