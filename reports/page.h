// The content of a report, independent of its format: summary.md and report.html are made from the
// same page.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/whole_files.h"
#include "reports/table.h"

namespace stepcast {

// good, doubt and bad also show as a mark or in words, since not everyone sees colours.
enum class Tone { plain, good, doubt, bad };
struct Fact {
    std::string name, text;
    Tone tone = Tone::plain;
    std::vector<Table> tables = {};  // what the text sums up; closed until a reader opens it
    std::vector<Cell> row = {};      // of a fit, in place of a text: its line of fits_of()
    friend bool operator==(const Fact&, const Fact&) = default;
};

struct PageSection {
    std::string title;
    std::vector<std::string> paragraphs = {};
    std::vector<Table> tables = {};
    std::vector<std::string> sentences = {};  // shown as a list
    std::vector<std::string> plots = {};      // PNG names in the folder, where their SVG is too
    std::string listing = {};                 // text as on a terminal
    bool is_folded = false;                   // closed until a reader opens it
};

struct Page {
    std::string title, question = {};
    std::string answer = {}, answer_note = {};  // the number that was asked for, and what it is
    std::vector<Fact> facts = {};
    std::vector<std::string> warnings = {};
    std::string map = {};  // JSON of map_json(); "" = none
    std::vector<PageSection> sections = {};
    std::vector<Fact> provenance = {};
};

std::string markdown_of(const Page& page);
// One self-contained file; pictures are read from `folder`.
std::string html_of(const Page& page, const std::string& folder);

// Turns a gnuplot SVG into a part of a page: with ids of its own, so that several fit on one page,
// and with the page's variables instead of its greys, which differ on a dark background. Colours of
// data stay. "" if `svg` is no SVG of gnuplot.
std::string inline_svg(std::string_view svg, std::string_view label);

// The fits among the facts as a table.
Table fits_of(const std::vector<Fact>& facts);

// Appends the facts that `facts` does not have yet.
void add_once(std::vector<Fact>& facts, const std::vector<Fact>& more);

// Writes `folder`/report.html before the plots and again after them, so that it exists and says
// what it lacks when gnuplot fails (ConfigError). `add_plots` draws the plots and names them in
// `page`. `write` writes other files made from the page.
void write_with_plots(const std::string& folder, Page& page, const std::function<void()>& add_plots,
                      const std::function<void(const Page&)>& write = {});
void write_page(const std::string& folder, const Page& page);

// What made a page: the text of --version and the command line, "" if there was none.
struct Invocation {
    std::string version, command = {};
};

}  // namespace stepcast
