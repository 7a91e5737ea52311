#include "reports/page.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "reports/text.h"

namespace stepcast {
namespace {

std::string markdown_of(const Fact& fact) {
    return "- " + (fact.name.empty() ? "" : markdown_text(fact.name) + ": ") + markdown_text(fact.text) + "\n";
}

std::string markdown_of(const PageSection& section) {
    const std::string title = "\n## " + markdown_text(section.title) + "\n";
    std::string text;
    for (const std::string& paragraph : section.paragraphs) text += "\n" + markdown_text(paragraph) + "\n";
    for (const Table& table : section.tables)
        text += "\n" + (table.name.empty() ? "" : markdown_text(table.name) + "\n\n") + markdown_of(table);
    if (!section.sentences.empty()) text += "\n";
    for (const std::string& sentence : section.sentences) text += "- " + markdown_text(sentence) + "\n";
    if (!section.listing.empty()) text += "\n```\n" + section.listing + "```\n";
    for (const std::string& plot : section.plots)
        text += fmt::format("\n![{}]({})\n", std::filesystem::path(plot).stem().string(), plot);
    return text.empty() ? "" : title + text;
}

}  // namespace

std::string markdown_of(const Page& page) {
    std::string text = "# " + markdown_text(page.title) + "\n";
    if (!page.question.empty()) text += "\n" + markdown_text(page.question) + "\n";
    if (!page.answer.empty())
        text += "\n**" + markdown_text(page.answer) + "** " + markdown_text(page.answer_note) + "\n";
    if (!page.facts.empty()) text += "\n";
    for (const Fact& fact : page.facts) text += markdown_of(fact);
    if (!page.warnings.empty()) text += "\n";
    for (const std::string& warning : page.warnings) text += "- warning: " + markdown_text(warning) + "\n";
    for (const PageSection& section : page.sections) text += markdown_of(section);
    if (!page.provenance.empty()) text += "\n## Where the numbers come from\n\n";
    for (const Fact& fact : page.provenance) text += markdown_of(fact);
    return text;
}

void add_once(std::vector<Fact>& facts, const std::vector<Fact>& more) {
    for (const Fact& fact : more)
        if (std::ranges::find(facts, fact) == facts.end()) facts.push_back(fact);
}

void write_page(const std::string& folder, const Page& page) { write_whole({{folder + "/report.html", html_of(page, folder)}}); }

void write_with_plots(const std::string& folder, Page& page, const std::function<void()>& add_plots,
                      const std::function<void(const Page&)>& write) {
    const auto write_both = [&] {
        write_page(folder, page);
        if (write) write(page);
    };
    page.warnings.emplace_back("The plots are missing: gnuplot could not draw them.");
    write_both();
    page.warnings.pop_back();
    add_plots();
    write_both();
}

}  // namespace stepcast
