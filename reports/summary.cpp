#include "reports/summary.h"

#include <filesystem>

#include <fmt/format.h>

#include "model/whole_files.h"
#include "reports/compare.h"
#include "reports/plots.h"
#include "reports/tables.h"
#include "reports/text.h"

namespace stepcast {
namespace {

// Which of the figures above are evidence.
std::string evidence_text(const std::vector<Comparison>& comparisons) {
    std::array<std::size_t, all_evidence.size()> counts{};
    std::size_t known = 0;
    for (std::size_t i = 0; i < counts.size(); ++i)
        known += counts[i] = of_evidence(comparisons, all_evidence[i]).size();
    if (known == 0) return "";
    return fmt::format(
        "\nEvidence: the cluster was fitted on {} of these cases, {} were seen while the model was made, {} are "
        "unseen. "
        "Only unseen cases say how well it predicts.\n",
        counts[0], counts[1], counts[2]);
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
