#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "model/base/whole_files.h"
#include "reports/compare.h"
#include "reports/compare_page.h"
#include "reports/gnuplot.h"
#include "reports/page.h"
#include "reports/step_page.h"
#include "reports/sweep_json.h"
#include "reports/sweep_page.h"
#include "tests/reports/samples.h"
#include "tests/reports/sweeps.h"

using namespace stepcast;

namespace {

// What a name may hold that each sink gives a meaning of its own.
const std::string evil = "</script><b>\"it's\" `rm`|[a](b) {{title}} two\nlines \x1b[2J &amp;";

Page evil_page() {
    Page page{.title = evil, .question = evil, .answer = evil, .answer_note = evil};
    page.facts = {{evil, evil, Tone::doubt}};
    page.warnings = {evil};
    page.sections = {{.title = evil,
                      .paragraphs = {evil},
                      .tables = {{evil, {{evil, 0, true}}, {{{evil}}}, evil}},
                      .sentences = {evil},
                      .listing = evil}};
    page.provenance = {{evil, evil}};
    page.map = nlohmann::json{{"experiment", evil}}.dump(-1, ' ', true,
                                                         nlohmann::json::error_handler_t::replace);
    return page;
}

std::size_t count_of(const std::string& text, const std::string& what) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size())
        ++count;
    return count;
}

SweepMap sample_map() {
    return {.keys = {{"parallelism.tp", {"1", "2"}}, {"parallelism.zero", {"0", "1", "</script>"}}},
            .points = {{.at = {0, 2},
                        .step = Seconds(0.123456789),
                        .peak = Bytes(4e9),
                        .tokens_per_second = 8,
                        .ranks = 4,
                        .simulated = true}},
            .limits = {Bytes(5e9)},
            .of_token = false};
}

}  // namespace

TEST_CASE("HTML shows every text as it stands, wherever it stands") {
    const std::string html = html_of(evil_page(), ".");
    CHECK(count_of(html, "<b>") == 0);
    CHECK(count_of(html.substr(0, html.find("application/json")), "`rm`") == 0);
    CHECK(html.find('\x1b') == std::string::npos);
    const std::string shown =
        "&lt;/script&gt;&lt;b&gt;&quot;it&#39;s&quot; &#96;rm&#96;|[a](b) {{title}} two?lines ?[2J "
        "&amp;amp;";
    CHECK(html_text(evil) == shown);
    CHECK_THAT(html, Catch::Contains("<h1>" + shown + "</h1>"));
    CHECK_THAT(html, Catch::Contains("aria-label=\"" + shown + "\""));
    CHECK_THAT(html, Catch::Contains("<pre tabindex=\"0\">&lt;/script&gt;&lt;b&gt;"));
    CHECK_THAT(
        html,
        Catch::Contains("\"experiment\":\"\\u003c/script\\u003e\\u003cb\\u003e\\\"it's\\\" `rm`|"));
    CHECK(count_of(html, "<script") == count_of(html, "</script>"));
}

TEST_CASE("Markdown shows every text as it stands, but in listings") {
    Page page = evil_page();
    page.sections.front().listing.clear();
    const std::string text = markdown_of(page);
    CHECK(text.find('\x1b') == std::string::npos);
    CHECK(count_of(text, "<b>") == 0);
    CHECK(count_of(text, "\\<b\\>") > 10);
    CHECK(count_of(text, "[a](b)") == 0);
    CHECK_THAT(text, Catch::StartsWith("# \\</script\\>\\<b\\>\"it's\" \\`rm\\`\\|\\[a\\](b) "
                                       "{{title}} two?lines ?\\[2J &amp;\n"));
}

TEST_CASE("a terminal and gnuplot get no control characters") {
    const Table table{"", {{"name", 30, true}}, {{{evil}}}};
    CHECK(gnuplot_text("`a`\"\n\x1b") == "\"\\`a\\`\\\"\\n?\"");
    CHECK(count_of(markdown_of(table), "\n") == 3);
}

TEST_CASE("a page needs nothing but itself") {
    const std::string html = html_of(evil_page(), ".");
    for (const char* elsewhere :
         {"src=", "@import", "url(http", "<link rel=\"stylesheet\"", "fetch("}) {
        CAPTURE(elsewhere);
        CHECK(html.find(elsewhere) == std::string::npos);
    }
}

// Names within a picture are its own; black and greys follow the page, colours of data stay.
TEST_CASE("gnuplot's picture becomes a part of a page") {
    const std::string svg =
        "<?xml version=\"1.0\"?>\n<svg \n width=\"1600\" viewBox=\"0 0 1600 "
        "700\">\n<title>Gnuplot</title>\n<desc>by</desc>"
        "<rect x=\"0\" y=\"0\" width=\"1600\" height=\"1000\" fill=\"#ffffff\"/><path id='gpPt5' "
        "stroke='rgb( 85,  85,  85)'/>"
        "<use xlink:href='#gpPt5' fill = 'rgb(  0, 114, 178)' color=\"black\"/><use "
        "color='#FFFFFF'/></svg>";
    const std::string other = svg + "\n", picture = inline_svg(svg, "a \"b\"");
    const std::string name =
        picture.substr(picture.find("id='") + 4, picture.find("gpPt5") - picture.find("id='") - 4);
    CHECK(name.size() == 10);
    CHECK(picture ==
          "<svg class=\"plot\" viewBox=\"0 0 1600 700\" role=\"img\" aria-label=\"a "
          "&quot;b&quot;\">\n\n"
          "<rect x=\"0\" y=\"0\" width=\"1600\" height=\"1000\" fill=\"none\"/><path id='" +
              name + "gpPt5' stroke='var(--plot-grey)'/><use xlink:href='#" + name +
              "gpPt5' fill = 'rgb(  0, 114, 178)' color=\"var(--plot-ink)\"/><use "
              "color='var(--plot-ground)'/></svg>");
    CHECK(inline_svg(other, "a").find(name) == std::string::npos);
    CHECK(inline_svg("", "a").empty());
    CHECK(inline_svg("<svg", "a").empty());
}

TEST_CASE("a table sorts by values and shows texts") {
    const Table table{"",
                      {{"case", 10, true}, {"time", 10}},
                      {{{"a"}, time_cell(Seconds(0.25))}, {{"b"}, {"refused"}}},
                      "beneath"};
    CHECK_THAT(html_of(table),
               Catch::Contains("<td>a</td><td class=\"n\" data-v=\"0.25\">250.0 ms</td>") &&
                   Catch::Contains("<td class=\"n\">refused</td>") && Catch::Contains("beneath"));
    CHECK(text_of(table) ==
          "case              time\na             250.0 ms\nb              refused\nbeneath\n");
    CHECK(markdown_of(table) ==
          "| case | time |\n|---|---:|\n| a | 250.0 ms |\n| b | refused |\n\nbeneath\n");
}

TEST_CASE("a map's JSON has keys, points as positions along them, and limits") {
    SweepAnswer answer = sample_sweep();
    CHECK(map_json(answer).empty());
    answer.points = sample_map();
    const auto json = nlohmann::json::parse(map_json(answer));
    CHECK(json["keys"][1]["values"][2] == "</script>");
    CHECK(json["points"][0] ==
          nlohmann::json::parse("[0, 2, 0.1234568, 4000000000, 4, 8.0, true]"));
    CHECK(json["limits_bytes"][0] == 5000000000);
    answer.experiment = "Modèle";  // in plain ASCII, whatever a page's encoding
    CHECK_THAT(map_json(answer),
               Catch::StartsWith("{\"experiment\":\"Mod\\u00e8le\",\"of_token\":false,"));
    answer.points->keys.pop_back();
    CHECK(map_json(answer).empty());
}

TEST_CASE("a sweep's page begins with its answer and says what cannot be told apart") {
    SweepAnswer answer = sample_sweep();
    answer.points = sample_map();
    answer.best[1].behind = Behind{-0.02, 0.03, 0.08, false};
    for (SweepRow& row : answer.best) {
        row.forecast.memory = {.peak = row.peak,
                               .weights = row.peak,
                               .gradients = {},
                               .optimizer = {},
                               .activations = {},
                               .buffers = {},
                               .fits = true,
                               .capacity = Bytes(80e9),
                               .overheads = {}};
        row.forecast.draws = 100;
    }
    const Page page = sweep_page(answer, {{"program", "stepcast"}});
    CHECK(page.answer == "100.0 ms");
    CHECK(page.answer_note == "a step; p10 .. p90 50.00 .. 125.0 ms over 100 draws");
    CHECK(page.facts[0] == Fact{"The configuration", "tp = 2, zero = 1"});
    CHECK(page.facts[1].tone == Tone::good);
    CHECK_THAT(page.facts[1].text,
               Catch::StartsWith("fits: 4.00 GiB of 74.51 GiB, 70.51 GiB free"));
    const auto has = [&](const char* name) {
        return std::ranges::any_of(page.facts, [&](const Fact& f) { return f.name == name; });
    };
    CHECK(has("Not distinguishable from the first"));
    CHECK(has("Proof"));
    CHECK_FALSE(page.map.empty());
    CHECK(page.sections[0].paragraphs.empty());  // no one asked what ends in time
    answer.within = Seconds(86400);
    CHECK_THAT(sweep_page(answer, {}).sections[0].paragraphs.at(0),
               Catch::StartsWith("no configuration ends within"));
    const std::vector<std::string>& said = page.sections[0].sentences;
    REQUIRE(said.size() == 3);
    CHECK_THAT(said[0], Catch::StartsWith("~ not distinguishable from 1 (1 of 2)"));
    CHECK(said[1] ==
          "proven: the best 2 of 7 feasible configurations; 2 were simulated, each of the other 5 "
          "has a lower bound that is no better, each by its median over 100 common draws");
    CHECK(said[2] == "only where step < 1 s");
}

// 0.02 of 100 apart is less than what the model errs by on what it has not seen.
TEST_CASE("a close second is called close, and a step that does not fit is called so") {
    SweepAnswer answer = sample_sweep();
    answer.best[1].step = Seconds(0.102);
    answer.best[0].forecast.memory = {.peak = Bytes(90e9),
                                      .weights = {},
                                      .gradients = {},
                                      .optimizer = {},
                                      .activations = {},
                                      .buffers = {},
                                      .fits = false,
                                      .capacity = Bytes(80e9),
                                      .overheads = {}};
    const Page page = sweep_page(answer, {});
    CHECK(page.facts[1].tone == Tone::bad);
    CHECK_THAT(page.facts[1].text, Catch::StartsWith("DOES NOT FIT"));
    const auto close = std::ranges::find(page.facts, "How close the next one is", &Fact::name);
    REQUIRE(close != page.facts.end());
    CHECK(close->tone == Tone::doubt);
    CHECK_THAT(close->text, Catch::StartsWith("the second's step is +2.0 % of this one's"));
}

TEST_CASE("a comparison's page takes its figure from what no fit has seen") {
    std::vector<Comparison> all{samples::compared("old", "s", 100, 150, 90, 160),
                                samples::compared("new", "s", 100, 110, 95, 120)};
    all[0].what.evidence = Evidence::fitted;
    all[1].what.evidence = Evidence::unseen;
    Page page = compare_page("t", {"a/b.csv"}, all, {});
    CHECK(page.answer == "10.0 %");
    CHECK(page.answer_note == "error of one step that no fit has seen");
    CHECK(page.question == "How well does stepcast predict what was measured in b.csv?");
    all.pop_back();
    page = compare_page("t", {"b.csv"}, all, {});
    CHECK(page.answer == "50.0 %");
    CHECK_THAT(page.answer_note, Catch::Contains("of the fit itself: no evidence"));
    CHECK_THAT(page.warnings.front(), Catch::StartsWith("None of these cases is new"));
    page = compare_page("t", {"b.csv"}, {samples::refused("x", "why")}, {});
    CHECK(page.answer == "nothing predicted");
}

TEST_CASE("a page is there without plots and says so") {
    const std::string folder = samples::temporary_folder("page_without_plots");
    Page page{.title = "t", .question = "q?"};
    CHECK_THROWS_WITH(
        write_with_plots(folder, page, [] { throw std::runtime_error("no gnuplot"); }),
        "no gnuplot");
    CHECK_THAT(samples::file_text(folder + "/report.html"),
               Catch::Contains("<h1>q?</h1>") && Catch::Contains("The plots are missing"));
    write_with_plots(folder, page, [] {});
    CHECK_THAT(samples::file_text(folder + "/report.html"),
               !Catch::Contains("The plots are missing"));
}

TEST_CASE("an executed run's page has its median, its doubts and every step") {
    Experiment e;
    e.name = "host_moe";
    const Page page = run_page(e, samples::measurement());
    CHECK(page.answer == "11.00 ms");
    // of 10, 11, 12 ms
    CHECK(page.answer_note == "measured: median of 3 steps, p10 .. p90 10.20 .. 11.80 ms");
    REQUIRE(page.sections.size() == 1);
    CHECK(page.sections[0].tables[0].rows.size() == 4);
    CHECK(page.sections[0].tables[0].rows[1].back().text == "no: the machine was busy");
    CHECK(run_page(e, Measurement{}).answer == "no step was finished");
}

// A sentence of parts is a line each; marks are said in words of their own; what is empty takes no
// room.
TEST_CASE("a page's parts in HTML") {
    Page page{.title = "t", .question = "q", .answer = "a", .answer_note = "b"};
    page.facts = {{"plain", "1"},
                  {"good", "2", Tone::good},
                  {"doubt", "3", Tone::doubt},
                  {"bad", "4; 5", Tone::bad}};
    page.provenance = {{"cluster", "one; two <; three"}};
    page.sections = {{.title = "first",
                      .paragraphs = {"p"},
                      .tables = {{"x", {{"c", 3, true}}, {{{"v"}}}}, {"y", {{"d", 3}}, {{{"w"}}}}},
                      .sentences = {"s1", "s2"},
                      .listing = "l1\nl2\nl3",
                      .is_folded = true},
                     {.title = "empty", .plots = {"none.png"}}};
    const std::string html = html_of(page, "nowhere");
    CHECK_THAT(
        html, Catch::Contains(
                  "<dl class=\"facts\">\n<div class=\"plain\"><dt>plain</dt><dd>1</dd></div>\n<div "
                  "class=\"good\"><dt>good</dt><dd>✓ 2</dd></div>\n"
                  "<div class=\"doubt\"><dt>doubt</dt><dd>△ 3</dd></div>\n<div "
                  "class=\"bad\"><dt>bad</dt><dd>✕ 4; 5</dd></div>\n</dl>"));
    CHECK_THAT(html, Catch::Contains("<dd>one; two &lt;; three</dd>"));
    CHECK_THAT(html, Catch::Contains("<details><summary><h2>first</h2></summary>\n<p>p</p>\n<div "
                                     "class=\"tables\">\n<div class=\"table narrow\""));
    CHECK_THAT(html, Catch::Contains("<ul>\n<li>s1</li>\n<li>s2</li>\n</ul>\n<pre "
                                     "tabindex=\"0\">l1\nl2\nl3\n</pre>\n</details>"));
    CHECK(count_of(html, "<h2>empty") == 0);
    CHECK(count_of(html, "Mind this") == 0);
    CHECK(count_of(html, "class=\"map\"") == 0);
    CHECK(count_of(html, "{{") == 0);
    page.sections = {{.title = "one", .tables = {{"", {{"a"}, {"b"}, {"c"}, {"d"}}, {}}}}};
    CHECK_THAT(html_of(page, "nowhere"),
               Catch::Contains("<section><h2>one</h2>\n<div class=\"table\""));
}

// Errors of +10, -20 and +50 %, of a case fitted, one seen and one unseen; 1 of 2 intervals holds
// its measured step.
TEST_CASE("a comparison's page says how sure it is and what it rests on") {
    std::vector<Comparison> all{samples::compared("f", "s", 100, 110, 95, 120),
                                samples::compared("g", "s", 100, 80, 70, 90),
                                samples::compared("h", "s", 100, 150, 150, 150),
                                samples::refused("r", "why")};
    all[0].what.evidence = Evidence::fitted;
    all[1].what.evidence = Evidence::seen;
    all[2].what.evidence = Evidence::unseen;
    all[2].what.assumptions = {"routing assumed"};
    all[0].what.experiment.cluster = samples::fitted_cluster();
    const Page page = compare_page("t", {"a.csv", "x/b.csv", "c.csv"}, all, {});
    CHECK(page.question ==
          "How well does stepcast predict what was measured in a.csv, b.csv and c.csv?");
    CHECK(compare_page("t", {}, all, {}).question ==
          "How well does stepcast predict what was measured?");
    CHECK(page.answer == "50.0 %");
    CHECK(page.answer_note == "error of one step that no fit has seen");
    REQUIRE(page.facts.size() >= 4);
    CHECK(page.facts[0].name == "Interval");
    CHECK(page.facts[0].tone == Tone::good);
    CHECK(page.facts[1] == Fact{"fitted on: 1 case", "error +10.0 %"});
    CHECK(page.facts[2] == Fact{"seen: 1 case", "error -20.0 %"});
    CHECK(page.facts[3] == Fact{"unseen: 1 case", "error +50.0 %"});
    CHECK(page.warnings ==
          std::vector<std::string>{"1 of 4 cases could not be predicted; the table says why.",
                                   "Cluster plain-x4 was never fitted to measurements: its costs "
                                   "are datasheet values and assumptions.",
                                   "Assumed: routing assumed."});
    const auto& rows = page.sections[0].tables[0].rows;
    CHECK(rows[0] == std::vector<Cell>{{"f"},
                                       {"pcie-a100-x4, 4 ranks"},
                                       {"1", 1.0},
                                       {"0", 0.0},
                                       time_cell(Seconds(0.1)),
                                       time_cell(all[0].forecast->step.p50),
                                       range_cell(all[0].forecast->step),
                                       signed_percent_cell(relative_error(all[0])),
                                       {"yes"},
                                       {"fitted on"}});
    CHECK(rows[3] == std::vector<Cell>{{"r"}, {}, {}, {}, {"-"}, {"refused: why"}, {}, {}, {}, {}});
    CHECK(page.sections[0].sentences.back() ==
          "unseen (neither fitted nor known while the model was made): 1, error +50.0 %");
    all.erase(all.begin(), all.begin() + 1);
    all.pop_back();
    CHECK(compare_page("t", {"a.csv", "b.csv"}, all, {}).facts[0].tone == Tone::doubt);  // 0 of 1
    CHECK(compare_page("t", {"a.csv", "b.csv"}, all, {}).question ==
          "How well does stepcast predict what was measured in a.csv and b.csv?");
    CHECK(compare_page("t", {}, {}, {}).answer_note == "the input has no cases");
    CHECK(compare_page("t", {}, {samples::refused("r", "why"), samples::refused("q", "why")}, {})
              .answer_note == "2 cases, all refused");
    all[0].forecast->step.p10 = all[0].forecast->step.p90;
    CHECK(compare_page("t", {"a.csv"}, all, {}).facts[0].tone == Tone::plain);
}

TEST_CASE(
    "a comparison's folder holds steps and kernels, each with tables and pictures of its own") {
    KernelComparisons kernels;
    KernelComparison k;
    k.kind = "gemm";
    k.device = "A";
    k.measured = k.predicted = Seconds(1e-4);
    kernels.rows = {k};
    std::vector<Comparison> all{samples::compared("f", "s", 100, 110, 95, 120)};
    const std::string folder = samples::folder_of_scripts("comparison", [&](const std::string& to) {
        write_comparison(to, {"a.csv"}, all, kernels, {"stepcast 1"});
    });
    CHECK_THAT(samples::file_text(folder + "/summary.md"),
               Catch::Contains("# Predicted against measured\n") &&
                   Catch::Contains("(scatter.png)") && !Catch::Contains("kernel_times.png"));
    CHECK_THAT(samples::file_text(folder + "/kernels.md"),
               Catch::Contains("# Predicted against measured: kernels and collectives\n") &&
                   Catch::Contains("(kernel_times.png)"));
    CHECK_THAT(samples::file_text(folder + "/compare.csv"), Catch::Contains("f,"));
    CHECK_THAT(samples::file_text(folder + "/kernels.csv"), Catch::Contains("gemm,A,"));
    CHECK_THAT(samples::file_text(folder + "/report.html"),
               Catch::Contains("Phases and details, as the terminal shows them") &&
                   Catch::Contains("Kernels and collectives") && Catch::Contains("stepcast 1"));
}

// Two digits; beyond a tenth of a per cent from certain, a bound.
TEST_CASE("chances are told as far as they are known") {
    CHECK(chance_text(0.0312) == "3.1 %");
    CHECK(chance_text(0.95) == "95 %");
    CHECK(chance_text(0) == "below 0.1 %");
    CHECK(chance_text(1) == "above 99.9 %");
}
