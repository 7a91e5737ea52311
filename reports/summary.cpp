#include "reports/summary.h"

#include <filesystem>

#include <fmt/format.h>

#include "model/whole_files.h"
#include "reports/plots.h"
#include "reports/tables.h"
#include "reports/text.h"

namespace stepcast {
namespace {

// Which of the figures above a fit has seen.
std::string evidence_text(const std::vector<Comparison>& comparisons) {
    int fitted = 0, held_out = 0, unknown = 0;
    for (const Comparison& c : comparisons) {
        if (!c.forecast) continue;
        ++(!c.what.held_out ? unknown : *c.what.held_out ? held_out : fitted);
    }
    if (fitted + held_out + unknown == 0) return "";
    return fmt::format(
        "\nEvidence: the cluster was fitted on {} of these cases, {} were held out of the fit, for {} it is not "
        "stated. Only held-out cases say how well it predicts.\n",
        fitted, held_out, unknown);
}

}  // namespace

std::string markdown_summary(const std::string& title, const std::vector<SummarySection>& sections) {
    std::string text = "# " + markdown_text(title) + "\n";
    for (const SummarySection& section : sections) {
        text += "\n## " + markdown_text(section.title) + "\n";
        for (const std::string& remark : section.remarks) text += "\n" + markdown_text(remark) + "\n";
        if (!section.comparisons.empty())
            text += "\n" + comparison_markdown(section.comparisons) + evidence_text(section.comparisons);
        for (const std::string& plot : section.plots)
            text += fmt::format("\n![{}]({})\n", std::filesystem::path(plot).stem().string(), plot);
    }
    return text;
}

void write_comparison(const std::string& folder, const std::string& title, const std::vector<Comparison>& comparisons) {
    const auto summary = [&](std::vector<std::string> plots) {
        return PlannedFile{folder + "/summary.md",
                           markdown_summary(title, {{"Cases", {}, comparisons, std::move(plots)}})};
    };
    write_whole({{folder + "/compare.csv", comparison_csv(comparisons)}, summary({})});
    write_whole({summary(plot_comparison(comparisons, title, folder))});
}

}  // namespace stepcast
