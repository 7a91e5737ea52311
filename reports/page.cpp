#include "reports/page.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/stamp.h"
#include "reports/page_files.h"

namespace stepcast {
namespace {

std::string markdown_of(const Fact& fact) {
    std::string text = fact.row.empty()
                           ? "- " + (fact.name.empty() ? "" : markdown_text(fact.name) + ": ") +
                                 markdown_text(fact.text) + "\n"
                           : "";
    for (const Table& table : fact.tables)
        text += "\n" + markdown_text(table.name) + "\n\n" + markdown_of(table) + "\n";
    return text;
}

std::string markdown_of(const PageSection& section) {
    const std::string title = "\n## " + markdown_text(section.title) + "\n";
    std::string text;
    for (const std::string& paragraph : section.paragraphs)
        text += "\n" + markdown_text(paragraph) + "\n";
    for (const Table& table : section.tables)
        text += "\n" + (table.name.empty() ? "" : markdown_text(table.name) + "\n\n") +
                markdown_of(table);
    if (!section.sentences.empty()) text += "\n";
    for (const std::string& sentence : section.sentences)
        text += "- " + markdown_text(sentence) + "\n";
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
        text +=
            "\n**" + markdown_text(page.answer) + "** " + markdown_text(page.answer_note) + "\n";
    if (!page.facts.empty()) text += "\n";
    for (const Fact& fact : page.facts) text += markdown_of(fact);
    if (!page.warnings.empty()) text += "\n";
    for (const std::string& warning : page.warnings)
        text += "- warning: " + markdown_text(warning) + "\n";
    for (const PageSection& section : page.sections) text += markdown_of(section);
    if (!page.provenance.empty()) text += "\n## Where the numbers come from\n\n";
    if (const Table fits = fits_of(page.provenance); !fits.rows.empty())
        text += markdown_of(fits) + "\n";
    for (const Fact& fact : page.provenance) text += markdown_of(fact);
    return text;
}

Table fits_of(const std::vector<Fact>& facts) {
    Table table{"",
                {{.name = "fit", .is_text = true},
                 {"date"},
                 {"samples"},
                 {.name = "tables", .is_text = true},
                 {.name = "error on steps left out, by that day's program", .is_text = true},
                 {.name = "on fitted steps", .is_text = true},
                 {"parameters assumed"},
                 {.name = "not measured there", .is_text = true}},
                {}};
    for (const Fact& fact : facts)
        if (!fact.row.empty()) table.rows.push_back(fact.row);
    return table;
}

void add_once(std::vector<Fact>& facts, const std::vector<Fact>& more) {
    for (const Fact& fact : more) add_once(facts, fact);
}

void write_page(const std::string& folder, const Page& page) {
    write_whole({{folder + "/report.html", html_of(page, folder)}});
}

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

// ---- report.html: the template of reports/page/ with the page's values in it

namespace {

// ---- gnuplot's SVG as a part of a page

// The prefix of a picture's ids; equal pictures get the same.
std::string name_of(std::string_view svg) {
    return fmt::format("p{:08x}-", fnv1a(svg) & 0xffffffffU);
}

// The greys in which reports/plot_frame.cpp and the plots draw frames, as gnuplot writes them.
struct Grey {
    std::array<std::string_view, 4> written;
    std::string_view variable;
};
constexpr std::array<Grey, 6> greys{
    {{{"black", "rgb(  0,   0,   0)", "rgb(17,17,17)", "rgb( 17,  17,  17)"}, "ink"},
     {{"rgb(51,51,51)", "rgb( 51,  51,  51)"}, "ink"},
     {{"rgb(85,85,85)", "rgb( 85,  85,  85)"}, "grey"},
     {{"rgb(228,228,228)", "rgb(228, 228, 228)", "rgb(204, 204, 204)"}, "grid"},
     {{"rgb(239, 239, 239)"}, "band"},
     {{"rgb(218, 218, 218)"}, "inner-band"}}};

void follow_the_page(std::string& svg) {
    for (const Grey& grey : greys)
        for (const std::string_view written : grey.written)
            if (!written.empty())
                for (const char quote : {'"', '\''})
                    svg = replaced(svg, fmt::format("{0}{1}{0}", quote, written),
                                   fmt::format("{0}var(--plot-{1}){0}", quote, grey.variable));
    svg = replaced(svg, "stroke='rgb(255, 255, 255)'", "stroke='var(--plot-ground)'");
    // open marks
    for (const char* mark : {"color='#FFFFFF'", "color=\"#FFFFFF\""})
        svg = replaced(svg, mark, "color='var(--plot-ground)'");
    svg = replaced(svg, "fill=\"#ffffff\"/>", "fill=\"none\"/>");  // the ground
}

void name_apart(std::string& svg, const std::string& name) {
    for (const char* before : {" id='", " id=\"", "href='#", "href=\"#", "url(#"})
        svg = replaced(svg, before, before + name);
}

// Removes the first piece from `begin` up to and including `end`.
void cut(std::string& text, std::string_view begin, std::string_view end) {
    const std::size_t from = text.find(begin),
                      to = from == std::string::npos ? from : text.find(end, from);
    if (to != std::string::npos) text.erase(from, to + end.size() - from);
}

}  // namespace

std::string inline_svg(std::string_view svg, std::string_view label) {
    const std::size_t root = svg.find("<svg"),
                      inside = root == std::string_view::npos ? root : svg.find('>', root);
    if (inside == std::string_view::npos) return "";
    std::string picture(svg.substr(inside + 1));
    const std::string_view tag = svg.substr(root, inside - root);
    const std::size_t box = std::min(tag.find("viewBox="), tag.size());
    const std::string_view view_box = tag.substr(box, tag.find('"', box + 9) + 1 - box);
    cut(picture, "<title>", "</title>");
    cut(picture, "<desc>", "</desc>");
    follow_the_page(picture);
    name_apart(picture, name_of(svg));
    return fmt::format("<svg class=\"plot\" {} role=\"img\" aria-label=\"{}\">", view_box,
                       html_text(label)) +
           picture;
}

// ---- the page

namespace {

struct Word {
    const char* name;
    const char* said;  // for readers who do not see the colour
};
// by Tone
constexpr Word tones[] = {{"plain", ""}, {"good", "✓ "}, {"doubt", "△ "}, {"bad", "✕ "}};

std::string list_of(const std::vector<std::string>& sentences) {
    if (sentences.empty()) return "";
    std::string text = "<ul>\n";
    for (const std::string& sentence : sentences) text += "<li>" + html_text(sentence) + "</li>\n";
    return text + "</ul>\n";
}

std::string facts_of(const std::vector<Fact>& facts, const char* kind) {
    if (facts.empty()) return "";
    std::string text = fmt::format("<dl class=\"{}\">\n", kind);
    for (const Fact& fact : facts) {
        if (!fact.row.empty()) continue;
        const Word& word = tones[as_index(fact.tone)];
        text += fmt::format("<div class=\"{}\"><dt>{}</dt><dd>{}{}</dd></div>\n", word.name,
                            html_text(fact.name), word.said, html_text(fact.text));
    }
    text += "</dl>\n";
    for (const Fact& fact : facts)
        for (const Table& table : fact.tables)
            text += "<details><summary>" + html_text(table.name) + "</summary>\n" + html_of(table) +
                    "</details>\n";
    return text;
}

// "" if there is no picture; a warning on the page says why.
std::string figure_of(const std::string& folder, const std::string& plot) {
    const std::string name = std::filesystem::path(plot).stem().string();
    const auto path = (std::filesystem::path(folder) / plot).replace_extension(".svg");
    std::ifstream file(path, std::ios::binary);
    const std::string picture =
        inline_svg(std::string(std::istreambuf_iterator<char>(file), {}), name);
    return picture.empty() ? "" : "<figure tabindex=\"0\">" + picture + "</figure>\n";
}

std::string html_of(const PageSection& section, const std::string& folder) {
    std::string text;
    for (const std::string& paragraph : section.paragraphs)
        text += "<p>" + html_text(paragraph) + "</p>\n";
    for (const std::string& plot : section.plots) text += figure_of(folder, plot);
    if (section.tables.size() > 1) text += "<div class=\"tables\">\n";
    for (const Table& table : section.tables) text += html_of(table);
    if (section.tables.size() > 1) text += "</div>\n";
    text += list_of(section.sentences);
    if (!section.listing.empty()) {
        std::string lines;
        for (std::size_t at = 0, end; at < section.listing.size(); at = end + 1) {
            end = std::min(section.listing.find('\n', at), section.listing.size());
            lines += html_text(std::string_view(section.listing).substr(at, end - at)) + "\n";
        }
        text += "<pre tabindex=\"0\">" + lines + "</pre>\n";
    }
    if (text.empty()) return "";  // only plots that could not be drawn
    const std::string title = "<h2>" + html_text(section.title) + "</h2>";
    return section.is_folded ? "<details><summary>" + title + "</summary>\n" + text + "</details>\n"
                             : "<section>" + title + "\n" + text + "</section>\n";
}

// Escaped, since nothing within a script element may look like its end.
std::string script_json(const std::string& json) {
    return escaped(json, {{'<', "\\u003c"}, {'>', "\\u003e"}, {'&', "\\u0026"}});
}

constexpr const char* map_plot = "map.png";

// Beside it the plot, for paper and without scripts.
std::string map_of(const std::string& json, const std::string& folder) {
    if (json.empty()) return "";
    if (page_files::d3.empty())
        return "<p class=\"note\">This report has no map that answers the mouse: the program was "
               "built without d3 (Debian's "
               "node-d3-scale, node-d3-selection and node-d3-axis).</p>\n";
    return "<section class=\"map\"><h2>Explore every configuration</h2>" +
           figure_of(folder, map_plot) +
           "<div class=\"map-place\"></div>\n"
           "<script type=\"application/json\" class=\"map-data\">" +
           script_json(json) + "</script></section>\n";
}

std::string chapter_of(const Page& page, const std::string& folder) {
    std::string text = "<!-- chapter -->\n<article>\n<header><p class=\"kicker\">" +
                       html_text(page.title) + "</p>\n<h1>" + html_text(page.question) +
                       "</h1></header>\n";
    text += "<p class=\"answer\"><strong>" + html_text(page.answer) + "</strong> <span>" +
            html_text(page.answer_note) + "</span></p>\n" + facts_of(page.facts, "facts");
    if (!page.warnings.empty())
        text += "<section class=\"warnings\"><h2>Mind this</h2>\n" + list_of(page.warnings) +
                "</section>\n";
    text += map_of(page.map, folder);
    for (PageSection section : page.sections) {
        if (!page.map.empty() && !page_files::d3.empty()) std::erase(section.plots, map_plot);
        text += html_of(section, folder);
    }
    if (const Table fits = fits_of(page.provenance); !page.provenance.empty())
        text += "<section><h2>Where the numbers come from</h2>\n" +
                (fits.rows.empty() ? "" : html_of(fits)) + facts_of(page.provenance, "provenance") +
                "</section>\n";
    return text + "</article>\n<!-- end of chapter -->\n";
}

std::string scripts_of(const Page& page) {
    std::string text;
    if (!page.map.empty() && !page_files::d3.empty())
        text = fmt::format("<script>\n/*\n{}*/\n{}</script>\n<script>\n{}</script>\n",
                           page_files::d3_licence, page_files::d3, page_files::map_script);
    return text + fmt::format("<script>\n{}</script>\n", page_files::script);
}

}  // namespace

std::string html_of(const Page& page, const std::string& folder) {
    std::string text;
    std::string_view rest = page_files::page;
    for (std::size_t open; (open = rest.find("{{")) != std::string_view::npos;) {
        const std::size_t close = rest.find("}}", open);
        const std::string_view name = rest.substr(open + 2, close - open - 2);
        text += rest.substr(0, open);
        text += name == "title"     ? html_text(page.title)
                : name == "style"   ? std::string(page_files::style)
                : name == "chapter" ? chapter_of(page, folder)
                                    : scripts_of(page);
        rest.remove_prefix(close + 2);
    }
    return text + std::string(rest);
}

}  // namespace stepcast
