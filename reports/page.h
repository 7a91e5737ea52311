// A report as people read it, before it is text: summary.md and report.html are made of the same page.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/whole_files.h"
#include "reports/table.h"

namespace stepcast {

// good, doubt and bad are also said in words: colour alone tells nobody anything.
enum class Tone { plain, good, doubt, bad };
struct Fact {
    std::string name, text;
    Tone tone = Tone::plain;
    friend bool operator==(const Fact&, const Fact&) = default;
};

struct PageSection {
    std::string title;
    std::vector<std::string> paragraphs = {};
    std::vector<Table> tables = {};
    std::vector<std::string> sentences = {};  // a list
    std::vector<std::string> plots = {};      // PNG names within the folder; their SVG lies next to them
    std::string listing = {};                 // as a terminal shows it
    bool is_folded = false;                   // opened by who wants it
};

struct Page {
    std::string title, question = {};
    std::string answer = {}, answer_note = {};  // the figure that was asked for, and what it is
    std::vector<Fact> facts = {};
    std::vector<std::string> warnings = {};
    std::string map = {};  // JSON of map_json(); "" = none
    std::vector<PageSection> sections = {};
    std::vector<Fact> provenance = {};
};

std::string markdown_of(const Page& page);
// One file that needs no other: pictures are read from `folder`.
std::string html_of(const Page& page, const std::string& folder);

// A picture of gnuplot's alone, with names of its own (so that several share a page) and its greys as the page's variables,
// which are others on a dark ground. Colours of data stay. "" for what is no SVG of gnuplot's.
std::string inline_svg(std::string_view svg, std::string_view label);

// Facts that are not there yet.
void add_once(std::vector<Fact>& facts, const std::vector<Fact>& more);

// Writes `folder`/report.html, before the plots and after them: it is there, and says what it lacks, when gnuplot fails
// (ConfigError). `add_plots` draws them and names them in `page`. `write`: what else is made of the page.
void write_with_plots(const std::string& folder, Page& page, const std::function<void()>& add_plots,
                      const std::function<void(const Page&)>& write = {});
void write_page(const std::string& folder, const Page& page);

}  // namespace stepcast
