#include "reports/compare_page.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "model/base/lines.h"
#include "model/base/lists.h"
#include "reports/compare.h"
#include "reports/comparison_tables.h"
#include "reports/comparison_words.h"
#include "reports/explain_tables.h"
#include "reports/kernel_plots.h"
#include "reports/kernel_tables.h"
#include "reports/page.h"
#include "reports/plots.h"
#include "reports/step_page.h"

namespace stepcast {
namespace {

using Comparisons = std::vector<Comparison>;
constexpr const char* heading = "Predicted against measured";

Table case_table(const Comparisons& comparisons) {
    Table table{"",
                {{.name = "case", .is_text = true},
                 {.name = "machine", .is_text = true},
                 {"sequences"},
                 {"tokens each"},
                 {"measured"},
                 {"predicted"},
                 {"p10 .. p90"},
                 {"error"},
                 {.name = "inside", .is_text = true},
                 {.name = "row", .is_text = true}},
                {}};
    for (const Comparison& c : comparisons) {
        if (!c.forecast) {
            const Cell measured =
                c.what.measured_step > Seconds(0) ? time_cell(c.what.measured_step) : Cell{"-"};
            table.rows.push_back({{c.what.case_id},
                                  {},
                                  {},
                                  {},
                                  measured,
                                  {"refused: " + c.refused_because},
                                  {},
                                  {},
                                  {},
                                  {}});
            continue;
        }
        const Cluster& cluster = c.what.experiment.cluster;
        std::vector<Cell>& row = table.rows.emplace_back(case_cells(c));
        row.insert(row.begin(), {{c.what.case_id},
                                 {fmt::format("{}, {} ranks", cluster.name, rank_count(cluster))},
                                 count_cell(sequences_of_step(c.what.experiment.parallelism)),
                                 count_cell(c.what.experiment.workload.seq)});
    }
    return table;
}

// The cases with the best evidence: unseen ones if there are any, since only these say how well
// stepcast predicts. `which`: in words.
Comparisons with_best_evidence(const Comparisons& comparisons, std::string& which) {
    for (const auto& [evidence, name] :
         {std::pair{Evidence::unseen, " that no fit has seen"},
          {Evidence::seen, ", known while the model was made but not fitted"},
          {Evidence::fitted, " of the fit itself: no evidence for other runs"}}) {
        which = name;
        if (Comparisons chosen = of_evidence(comparisons, evidence); !chosen.empty()) return chosen;
    }
    which = "";
    return comparisons;
}

void add_answer(Page& page, const Comparisons& comparisons) {
    const CompareSummary all = summarise(comparisons);
    if (all.predicted == 0) {
        page.answer = "nothing predicted";
        page.answer_note = all.cases == 0 ? "the input has no cases"
                                          : fmt::format("{} cases, all refused", all.cases);
        return;
    }
    std::string which;
    const CompareSummary s = summarise(with_best_evidence(comparisons, which));
    page.answer = percent_text(s.mape);
    const bool one = s.predicted == 1;
    page.answer_note = one ? "error of one step" + which
                           : fmt::format("mean error of {} steps{}", s.predicted, which);
    if (!one)
        page.facts.push_back(
            {"Bias and worst", fmt::format("bias {}, median {}, worst {} ({})",
                                           signed_percent_text(s.bias), percent_text(s.median_ape),
                                           signed_percent_text(s.worst_error), s.worst_case)});
    page.facts.push_back({"Interval", inside_count_text(all),
                          all.with_interval == 0                        ? Tone::plain
                          : 2 * all.inside_of_them >= all.with_interval ? Tone::good
                                                                        : Tone::doubt});
    for (const Evidence evidence : all_evidence)
        if (const Comparisons chosen = of_evidence(comparisons, evidence); !chosen.empty()) {
            const CompareSummary part = summarise(chosen);
            page.facts.push_back(
                {fmt::format("{}: {} case{}", to_string(evidence), part.predicted,
                             part.predicted == 1 ? "" : "s"),
                 part.predicted == 1
                     ? "error " + signed_percent_text(part.worst_error)
                     : fmt::format("mean error {}, bias {}, worst {}", percent_text(part.mape),
                                   signed_percent_text(part.bias),
                                   signed_percent_text(part.worst_error))});
        }
    if (all.regret)
        page.facts.push_back(
            {"Choosing by the prediction",
             fmt::format(
                 "finds the measured best in {} of {} decisions; time lost {} mean, {} at worst",
                 all.best_chosen, all.decisions, percent_text(*all.regret),
                 percent_text(all.worst_regret))});
}

void add_warnings(Page& page, const Comparisons& comparisons) {
    const auto refused =
        std::ranges::count_if(comparisons, [](const Comparison& c) { return !c.forecast; });
    if (refused > 0)
        add_line(page.warnings, "{} of {} cases could not be predicted; the table says why.",
                 refused, comparisons.size());
    if (of_evidence(comparisons, Evidence::unseen).empty() &&
        !of_evidence(comparisons, Evidence::fitted).empty())
        page.warnings.emplace_back(
            "None of these cases is new to the model: nothing here says how well it predicts other "
            "runs.");
    std::set<std::string> uncalibrated;
    for (const Comparison& c : comparisons)
        if (c.forecast && !c.what.experiment.cluster.fitted)
            uncalibrated.insert(c.what.experiment.cluster.name);
    for (const std::string& cluster : uncalibrated)
        add_line(page.warnings,
                 "Cluster {} was never fitted to measurements: its costs are datasheet "
                 "values and assumptions.",
                 cluster);
    for (const std::string& assumption : all_assumptions(comparisons))
        page.warnings.push_back("Assumed: " + assumption + ".");
}

void add_provenance(Page& page, const Comparisons& comparisons) {
    for (const Comparison& c : comparisons)
        if (c.forecast) {
            add_once(page.provenance, provenance_of(c.what.experiment.cluster));
            add_once(page.provenance, provenance_of(c.what.experiment.framework));
        }
}

PageSection case_section(const Comparisons& comparisons) {
    PageSection section{.title = "Cases",
                        .tables = {case_table(comparisons)},
                        .sentences = summary_sentences(comparisons)};
    for (const Comparison& c : comparisons)
        if (c.attribution)
            section.sentences.push_back(c.what.case_id + ": " +
                                        attribution_sentence(*c.attribution));
    return section;
}

std::string question_about(const std::vector<std::string>& inputs) {
    std::string text = inputs.empty() ? "" : " in ";
    for (const std::size_t i : indices_of(inputs))
        text += (i == 0                   ? ""
                 : i + 1 == inputs.size() ? " and "
                                          : ", ") +
                std::filesystem::path(inputs[i]).filename().string();
    return "How well does stepcast predict what was measured" + text + "?";
}

}  // namespace

Page compare_page(const std::string& title, const std::vector<std::string>& inputs,
                  const Comparisons& comparisons, const KernelComparisons& kernels) {
    Page page{.title = title, .question = question_about(inputs)};
    const bool steps = !comparisons.empty() || kernels.rows.empty();
    if (steps) {
        add_answer(page, comparisons);
        add_warnings(page, comparisons);
        page.sections.push_back(case_section(comparisons));
        add_provenance(page, comparisons);
    } else {
        const KernelSummary s = kernel_summary_of(kernels.rows);
        page.answer = percent_text(s.mape);
        page.answer_note = fmt::format("mean error of {} kernels and collectives, median {}",
                                       s.rows, percent_text(s.median_ape));
    }
    if (!kernels.rows.empty()) page.sections.push_back(kernel_section(kernels));
    return page;
}

void write_comparison(const std::string& folder, const std::vector<std::string>& inputs,
                      const Comparisons& comparisons, const KernelComparisons& kernels,
                      const Invocation& program) {
    Page page = compare_page(heading, inputs, comparisons, kernels);
    add_once(page.provenance, facts_of(program));
    const bool steps = !comparisons.empty() || kernels.rows.empty(),
               has_kernels = !kernels.rows.empty();
    std::vector<PlannedFile> tables;
    if (steps) tables.push_back({folder + "/compare.csv", comparison_csv(comparisons)});
    if (has_kernels) tables.push_back({folder + "/kernels.csv", kernel_csv(kernels)});
    write_whole(tables);
    const auto add_plots = [&] {
        if (steps) page.sections.front().plots = plot_comparison(comparisons, heading, folder);
        if (has_kernels)
            page.sections[steps ? 1 : 0].plots = plot_kernels(kernels, heading, folder);
    };
    const auto write_summaries = [&](const Page& whole) {
        if (steps)
            write_whole(
                {{folder + "/summary.md", markdown_of(Page{.title = heading,
                                                           .warnings = whole.warnings,
                                                           .sections = {whole.sections.front()},
                                                           .provenance = whole.provenance})}});
        if (has_kernels)
            write_whole(
                {{folder + "/kernels.md",
                  markdown_of(Page{.title = fmt::format("{}: kernels and collectives", heading),
                                   .sections = {whole.sections[steps ? 1 : 0]}})}});
    };
    if (steps)
        page.sections.push_back({.title = "Phases and details, as the terminal shows them",
                                 .listing = comparison_table(comparisons),
                                 .is_folded = true});
    write_with_plots(folder, page, add_plots, write_summaries);
}

}  // namespace stepcast
