// Page -> report.html: the template of reports/page/ with the page's values in it.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "reports/inline_svg.h"
#include "reports/page.h"
#include "reports/page_files.h"

namespace stepcast {
namespace {

struct Word {
    const char* name;
    const char* said;  // for who does not see the colour
};
Word word_of(Tone tone) {
    switch (tone) {
        case Tone::plain: return {"plain", ""};
        case Tone::good: return {"good", "✓ "};
        case Tone::doubt: return {"doubt", "△ "};
        case Tone::bad: return {"bad", "✕ "};
    }
    return {"", ""};
}

std::string list_of(const std::vector<std::string>& sentences) {
    if (sentences.empty()) return "";
    std::string text = "<ul>\n";
    for (const std::string& sentence : sentences) text += "<li>" + html_text(sentence) + "</li>\n";
    return text + "</ul>\n";
}

// A sentence of many parts, a line each.
std::string lines_of(std::string_view text) {
    std::string lines;
    for (std::size_t end; (end = text.find("; ")) != std::string_view::npos; text.remove_prefix(end + 2))
        lines += html_text(text.substr(0, end)) + "<br>";
    return lines + html_text(text);
}

std::string facts_of(const std::vector<Fact>& facts, const char* kind, std::string (*shown)(std::string_view) = html_text) {
    if (facts.empty()) return "";
    std::string text = fmt::format("<dl class=\"{}\">\n", kind);
    for (const Fact& fact : facts) {
        const Word word = word_of(fact.tone);
        text += fmt::format("<div class=\"{}\"><dt>{}</dt><dd>{}{}</dd></div>\n", word.name, html_text(fact.name), word.said,
                            shown(fact.text));
    }
    return text + "</dl>\n";
}

// "" where there is no picture: its place stays empty, and a warning of the page says why.
std::string figure_of(const std::string& folder, const std::string& plot) {
    const std::string name = std::filesystem::path(plot).stem().string();
    const auto path = (std::filesystem::path(folder) / plot).replace_extension(".svg");
    std::ifstream file(path, std::ios::binary);
    const std::string picture = inline_svg(std::string(std::istreambuf_iterator<char>(file), {}), name);
    return picture.empty() ? "" : "<figure tabindex=\"0\">" + picture + "</figure>\n";
}

std::string html_of(const PageSection& section, const std::string& folder) {
    std::string text;
    for (const std::string& paragraph : section.paragraphs) text += "<p>" + html_text(paragraph) + "</p>\n";
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
    if (text.empty()) return "";  // plots that could not be drawn
    const std::string title = "<h2>" + html_text(section.title) + "</h2>";
    return section.is_folded ? "<details><summary>" + title + "</summary>\n" + text + "</details>\n"
                             : "<section>" + title + "\n" + text + "</section>\n";
}

// Within a script element nothing may look like its end.
std::string script_json(const std::string& json) {
    std::string text;
    for (const char c : json) text += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : c == '&' ? "\\u0026" : std::string(1, c);
    return text;
}

std::string map_of(const std::string& json) {
    if (json.empty()) return "";
    if (page_files::d3.empty())
        return "<p class=\"note\">This report has no map that answers the mouse: the program was built without d3 (Debian's "
               "node-d3-scale, node-d3-selection and node-d3-axis).</p>\n";
    return "<section class=\"map\" hidden><h2>Explore every split</h2><div class=\"map-place\"></div>\n"
           "<script type=\"application/json\" class=\"map-data\">" + script_json(json) + "</script></section>\n";
}

std::string chapter_of(const Page& page, const std::string& folder) {
    std::string text = "<!-- chapter -->\n<article>\n<header><p class=\"kicker\">" + html_text(page.title) + "</p>\n<h1>" +
                       html_text(page.question) + "</h1></header>\n";
    text += "<p class=\"answer\"><strong>" + html_text(page.answer) + "</strong> <span>" + html_text(page.answer_note) +
            "</span></p>\n" + facts_of(page.facts, "facts");
    if (!page.warnings.empty())
        text += "<section class=\"warnings\"><h2>Mind this</h2>\n" + list_of(page.warnings) + "</section>\n";
    text += map_of(page.map);
    for (const PageSection& section : page.sections) text += html_of(section, folder);
    if (!page.provenance.empty())
        text += "<section><h2>Where the numbers come from</h2>\n" + facts_of(page.provenance, "provenance", lines_of) + "</section>\n";
    return text + "</article>\n<!-- end of chapter -->\n";
}

std::string scripts_of(const Page& page) {
    std::string text;
    if (!page.map.empty() && !page_files::d3.empty())
        text = fmt::format("<script>\n/*\n{}*/\n{}</script>\n<script>\n{}</script>\n", page_files::d3_licence, page_files::d3,
                           page_files::map_script);
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
