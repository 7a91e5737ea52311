// Whole reports of drawn results as texts, CSV, JSON, Markdown, pages and scripts of plots, against
// tests/reports/golden: what a wanted change does to them is read in git diff (samples.h says how
// they are renewed).

#include <filesystem>
#include <sstream>

#include <catch2/catch.hpp>

#include "reports/campaign_tables.h"
#include "reports/compare_page.h"
#include "reports/comparison_json.h"
#include "reports/comparison_tables.h"
#include "reports/explain_tables.h"
#include "reports/json.h"
#include "reports/kernel_tables.h"
#include "reports/step_page.h"
#include "reports/sweep_json.h"
#include "reports/sweep_page.h"
#include "reports/sweep_tables.h"
#include "tests/golden_text.h"
#include "tests/reports/drawn.h"

using namespace stepcast;
using samples::Drawn;

namespace {

// A page without what is the same on all, and without the pictures, whose scripts are files of
// their own.
std::string without_frame(std::string html) {
    for (const auto& [open, close] : {std::pair<std::string, std::string>{"<style", "</style>"},
                                      {"<script>", "</script>"},
                                      {"<svg class=\"plot\"", "</svg>"}})
        for (std::size_t at; (at = html.find(open)) != std::string::npos;)
            html.erase(at, html.find(close, at) + close.size() - at);
    return html;
}

std::string in_one_line(const std::string& json) {
    std::istringstream lines(json);
    std::string text;
    for (std::string line; std::getline(lines, line);)
        text += line.substr(std::min(line.find_first_not_of(' '), line.size())) + " ";
    return text + "\n";
}

// `page`: with the page, which says much of what the other files say.
std::string folder_text(bool page, const std::function<void(const std::string&)>& write) {
    const std::string folder = samples::folder_of_scripts("golden", write);
    std::map<std::string, std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(folder))
        if (file.path().extension() != ".png" && (page || file.path().extension() != ".html"))
            files[file.path().filename()] = samples::file_text(file.path());
    std::string all;
    for (const auto& [file, text] : files)
        all +=
            "==== " + file + "\n" + (file.ends_with(".html") ? without_frame(text) : text) + "\n";
    return replaced(all, folder, "FOLDER");
}

}  // namespace

TEST_CASE("golden reports: comparisons") {
    std::string text;
    for (const std::uint64_t seed : {1u, 2u}) {
        Drawn drawn(seed);
        const std::vector<Comparison> all = drawn.comparisons(seed == 1 ? 15 : 6);
        const KernelComparisons kernels = drawn.kernels(seed == 2 ? 0 : 12);
        text += comparison_table(all) + in_one_line(to_json(summarise(all), all, kernels));
        text += folder_text(seed <= 2, [&](const std::string& to) {
            write_comparison(to, {"x/a.csv", "b.csv"}, all, kernels,
                             {"stepcast 1\nhere", "stepcast compare"});
        });
    }
    check_golden("reports/golden/comparisons.txt", text);
}

TEST_CASE("golden reports: sweeps") {
    std::string text;
    for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u}) {
        const SweepAnswer answer = Drawn(seed).sweep();
        text += sweep_table(answer) + in_one_line(to_json(answer));
        text += folder_text(seed == 1 || answer.best[0].campaign, [&](const std::string& to) {
            write_sweep(to, answer, {{"program", "stepcast 1"}});
        });
    }
    check_golden("reports/golden/sweeps.txt", text);
}

TEST_CASE("golden reports: steps") {
    std::string text;
    Experiment e;
    e.cluster = samples::fitted_cluster();
    e.framework.name = "own";
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
        Drawn drawn(seed);
        std::optional<Explanation> why;
        std::optional<Campaign> training;
        if (seed != 1) why = drawn.explanation(), training = drawn.campaign();
        const Forecast f = drawn.forecast(0.25 * static_cast<double>(seed));
        text += forecast_table(f, seed % 2 == 0) + kernel_table(f) +
                in_one_line(to_json(f, why, training));
        if (why) text += explanation_table(*why) + campaign_table(*training);
        text += folder_text(seed <= 2, [&](const std::string& to) {
            write_forecast(to, forecast_page(e, f, why, training), drawn.gantt(), why);
        });
        if (seed > 2) continue;
        const std::vector<ForecastColumn> columns{{"a", f, training},
                                                  {"b", drawn.forecast(0.3), training},
                                                  {"c", drawn.forecast(0.2), training}};
        text += columns_table(columns) + in_one_line(columns_json(columns));
        text += folder_text(seed <= 2, [&](const std::string& to) {
            write_columns(to, columns, {drawn.gantt(), drawn.gantt(), drawn.gantt()},
                          {{"program", "stepcast 1"}});
        });
    }
    check_golden("reports/golden/steps.txt", text);
}
