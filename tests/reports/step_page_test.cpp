#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "reports/step_page.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> titles_of(const Page& page) {
    std::vector<std::string> titles;
    for (const PageSection& section : page.sections) titles.push_back(section.title);
    return titles;
}
using Titles = std::vector<std::string>;

Experiment on_four() {
    Experiment e;
    e.cluster.name = "pcie-a100-x4";
    e.cluster.source = "a list";
    e.cluster.gpus_per_node = 4;
    e.framework.name = "own";
    e.framework.about = "what we run";
    return e;
}

// A tenth more of a key changes 10 s by 2 s, 5 s and not at all: 5 s fewer are the most.
Explanation short_explanation() {
    Explanation x;
    x.step = Seconds(10);
    x.elasticities = {{"gpu.memory_bandwidth", "1 TB/s", Seconds(-2), Seconds(-2)},
                      {"gpu.peak.bf16", "1 TFLOP/s", Seconds(-5), Seconds(-6)},
                      {"host.call", "1 us", Seconds(7), Seconds(7)}};
    x.uncertainties = {
        {"kernel.launch", "2 us", Uncertainty::Source::prior, 0.5, Seconds(0.25), 1}};
    return x;
}

Campaign small_campaign() {
    Campaign c;
    c.tokens = 15e12;
    c.currency = "USD";
    c.time = {Seconds(86'400), Seconds(2 * 86'400), Seconds(3 * 86'400)};
    c.money = {1e6, 2e6, 3e6};
    c.energy = {Joules(3.6e12), Joules(7.2e12), Joules(10.8e12)};
    return c;
}

Gantt gantt() {
    return {.title = "job",
            .step = Seconds(1),
            .rows = {{"rank 0", {{GanttKind::forward, Seconds(0), Seconds(1), 0}}}},
            .memory_label = {},
            .memory = {},
            .capacity = {}};
}

ForecastColumn column(const char* label, double p10, double p50, double p90) {
    ForecastColumn c{label, samples::forecast(), {}};
    c.forecast.step = {Seconds(p50), Seconds(p10), Seconds(p50), Seconds(p90)};
    c.forecast.tokens_per_second = 4096 / p50;
    c.forecast.notes = {};
    return c;
}

}  // namespace

// 1.5 GiB and 512 MiB of context leave 78 of 80; 1472719.1 tokens/s on 4. Of the step compute is 50
// %, memory 10, communication 20, imbalance 15, the host 5; the largest first.
TEST_CASE("a forecast's page answers, says why, and what to do about it") {
    Forecast f = samples::forecast();
    const Page page = forecast_page(on_four(), f, short_explanation(), small_campaign());
    CHECK(page.title == "moe_layer_mix_moe on pcie-a100-x4");
    CHECK(page.question ==
          "How long does a training step of moe_layer_mix_moe take on 4 ranks of pcie-a100-x4?");
    CHECK(page.answer == "22.25 ms");
    CHECK(page.answer_note == "a step; p10 .. p90 20.10 .. 25.32 ms over 200 draws");
    CHECK(page.facts ==
          std::vector<Fact>{
              {"Training on 15 T tokens",
               "2.0 d (1.0 .. 3.0), money 2.00 M (1.00 .. 3.00) USD, energy at most 2.00 GWh (1.00 "
               ".. "
               "3.00)"},
              {"Highest peak memory of a GPU",
               "fits: 1.50 GiB, with context and allocator 2.00 GiB of 80.00 GiB, 78.00 GiB free, "
               "P(out of memory) below 0.1 %",
               Tone::good},
              {"What the step goes to",
               "compute 50.0 %, exposed communication 20.0 %, imbalance 15.0 %, memory-bound "
               "kernels 10.0 "
               "%, host 5.0 %"},
              {"Throughput", "1,472,719 tokens/s, 368,180 a GPU"},
              {"Model FLOP utilization", "11.9 % (causal mask not counted)"},
              {"Costs", "calibrated", Tone::good},
              {"What would help most", "10 % more gpu.peak.bf16 shortens the step by 50.0 %"},
              {"Measure this next",
               "kernel.launch: its uncertainty alone moves the step by +- 250.0 ms"}});
    CHECK(page.warnings.size() == 1);
    CHECK(titles_of(page) == Titles{"The step over time", "Where the step goes",
                                    "Why, and what would change it", "The whole training",
                                    "Kernels"});
    CHECK(page.sections[4].is_folded);
    REQUIRE(page.sections[1].tables.size() == 3);
    const auto& phases = page.sections[1].tables[1].rows;
    CHECK(phases[0] ==
          std::vector<Cell>{{"forward"}, time_cell(f.phases.forward), range_cell(f.forward)});
    CHECK(phases[1] ==
          std::vector<Cell>{{"backward"}, time_cell(f.phases.backward), range_cell(f.backward)});
    CHECK(phases[3][2].text == "-");
    CHECK_FALSE(page.sections[3].listing.empty());
    const Page plain = forecast_page(on_four(), f, std::nullopt, std::nullopt);
    CHECK(titles_of(plain) == Titles{"The step over time", "Where the step goes", "Kernels"});
    CHECK(plain.facts.size() == 5);
    // Nothing helps, nothing is unknown: no advice.
    Explanation none = short_explanation();
    none.uncertainties.clear();
    for (Elasticity& e : none.elasticities) e.simulated = Seconds(0);
    CHECK(forecast_page(on_four(), f, none, std::nullopt).facts.size() == 5);
    none.elasticities.clear();
    CHECK(forecast_page(on_four(), f, none, std::nullopt).facts.size() == 5);
}

// 1 + 2 + 3 + 4 + 5 = 15 GiB, with 6 beside 21.
TEST_CASE("the table of memory holds each part and what all take") {
    constexpr double gib = 1024.0 * 1024 * 1024;
    Forecast f;
    f.memory = {Bytes(15 * gib), Bytes(1 * gib), Bytes(2 * gib),
                Bytes(3 * gib),  Bytes(4 * gib), Bytes(5 * gib),
                Bytes(0),        true,           0,
                Bytes(80 * gib), Bytes(6 * gib)};
    const Table table = memory_table(f);
    std::vector<std::pair<std::string, std::string>> rows;
    for (const auto& row : table.rows) rows.emplace_back(row.at(0).text, row.at(1).text);
    CHECK(rows ==
          std::vector<std::pair<std::string, std::string>>{{"weights", "1.00 GiB"},
                                                           {"gradients", "2.00 GiB"},
                                                           {"optimizer", "3.00 GiB"},
                                                           {"activations", "4.00 GiB"},
                                                           {"buffers", "5.00 GiB"},
                                                           {"context and allocator", "6.00 GiB"},
                                                           {"all", "21.00 GiB"}});
}

// 80 GiB: 75.5 leave 4.5, more than a twentieth; 76 leave 4 exactly, 76.5 3.5: tight. 81 are 1 too
// much.
TEST_CASE("memory is good, tight or too much, and unknown where the device is") {
    constexpr double gib = 1024.0 * 1024 * 1024;
    const auto fact = [&](double peak, bool fits, double capacity) {
        Forecast f;
        f.memory.peak = Bytes(peak * gib);
        f.memory.fits = fits;
        f.memory.capacity = Bytes(capacity * gib);
        return facts_of(f).front();
    };
    CHECK(fact(75.5, true, 80) ==
          Fact{"Highest peak memory of a GPU",
               "fits: 75.50 GiB of 80.00 GiB, 4.50 GiB free, P(out of memory) below 0.1 %",
               Tone::good});
    CHECK(fact(76, true, 80).tone == Tone::good);
    CHECK(fact(76.5, true, 80).tone == Tone::doubt);
    CHECK(
        fact(81, false, 80) ==
        Fact{
            "Highest peak memory of a GPU",
            "DOES NOT FIT: 81.00 GiB of 80.00 GiB, 1.00 GiB too much, P(out of memory) below 0.1 %",
            Tone::bad});
    CHECK(fact(2, true, 0) == Fact{"Highest peak memory of a GPU",
                                   "2.00 GiB; how much the device has is not known", Tone::plain});
    // Nothing is known of an empty forecast's speed; priors of 5 % and more are a doubt.
    Forecast f;
    CHECK(facts_of(f).size() == 2);
    CHECK(facts_of(f)[1].tone == Tone::bad);
    f.calibrated = true;
    f.basis = {{"host", "host.call", false, 0.05}, {"gemm", "kernel.gemm_efficiency", true, 0.95}};
    CHECK(facts_of(f)[1].tone == Tone::doubt);
    f.basis[0].share = 0.049;
    CHECK(facts_of(f)[1].tone == Tone::good);
    // One of two GPUs a thousandth of a token: both counted, and neither without the other.
    f.tokens_per_second = 10;
    CHECK(facts_of(f).size() == 2);
    f.gpus = 4;
    CHECK(facts_of(f)[1] == Fact{"Throughput", "10 tokens/s, 2 a GPU"});  // 2.5 to even
}

TEST_CASE(
    "notes become warnings: what lies outside, what is not determined, and the rest as it is") {
    CHECK(plain_warnings({}).empty());
    const auto size = [](const char* what, double value) {
        return Note{.kind = Note::Kind::extrapolated,
                    .key = what,
                    .value = value,
                    .least = 512,
                    .most = 16384};
    };
    const auto prior = [](const char* key) {
        return Note{.kind = Note::Kind::undetermined, .key = key, .text = "5 us"};
    };
    CHECK(plain_warnings({size("all_reduce.bytes", 1073741824), prior("host.call"),
                          remark("first2 of 7"), size("gemm.k", 128256), prior("kernel.launch")}) ==
          std::vector<std::string>{
              "Outside what was measured (the cost models are extrapolated): all_reduce.bytes up "
              "to 1.00 "
              "GiB, fitted on 512 B to 16.0 KiB; "
              "gemm.k up to 128,256, fitted on 512 to 16,384.",
              "The measurements do not determine 2 of the parameters, which stay at assumed "
              "values: cluster.host.call, cluster.kernel.launch.",
              "first2 of 7"});
}

// 0.2 s is the shortest of those that fit; p10 of 0.25 s is at its p90, which cannot be told apart,
// p10 of 0.3 s beyond it. What does not fit is shorter and neither the answer nor called faster.
TEST_CASE(
    "steps beside each other: the fastest answers, the others say by how much they are longer") {
    std::vector<ForecastColumn> columns{column("a", 0.26, 0.3, 0.4), column("b", 0.15, 0.2, 0.25),
                                        column("c", 0.25, 0.26, 0.27),
                                        column("d", 0.09, 0.1, 0.11)};
    columns[3].forecast.memory.fits = false;
    columns[0].forecast.notes = {remark("own remark")};
    Page page = columns_page(columns);
    CHECK(page.title == "4 steps side by side");
    CHECK(page.question == "Which of the 4 is fastest?");
    CHECK(page.answer == "200.0 ms");
    CHECK(page.answer_note == "a step with b; p10 .. p90 150.0 .. 250.0 ms over 200 draws");
    REQUIRE(page.facts.size() == 8);
    CHECK(page.facts[7] == Fact{"d", "does not fit into memory", Tone::bad});
    CHECK(page.facts[5] == Fact{"a", "300.0 ms: 50.0 % longer", Tone::plain});
    CHECK(page.facts[6] ==
          Fact{"c", "260.0 ms: 30.0 % longer; the intervals overlap: not distinguishable",
               Tone::doubt});
    CHECK(page.warnings ==
          std::vector<std::string>{"d does not fit into memory.", "a: own remark"});
    CHECK(titles_of(page) == Titles{"The steps over time, on one axis", "Side by side"});
    columns.resize(2);
    columns[0].forecast.step.p10 = columns[0].forecast.step.p90 = Seconds(0.2);  // no interval
    page = columns_page(columns);
    CHECK(page.question == "Which of the two is faster?");
    CHECK(page.facts.back().tone == Tone::plain);
}

// The step is 200 ms: 190 ms is 5 % less. Memory now is what the sample's forecast says.
TEST_CASE("levers are a table of the page, with the interval of the difference and the flag") {
    const Forecast f = samples::forecast();
    const Bytes now = f.memory.peak + f.memory.overheads;
    Lever faster{.set = {{"parallelism.recompute", "none"}},
                 .from = "full",
                 .hardware = "",
                 .step = f.step,
                 .against = {-0.08, -0.05, -0.02, true},
                 .memory = now + Bytes(double{1 << 30}),
                 .cannot = "",
                 .flag = "drop --recompute-granularity full"};
    faster.step.p50 = 0.95 * f.step.p50;
    Lever nics = faster;
    nics.hardware = "NICs, twice the rate";
    nics.flag = "";
    nics.against.distinguishable = false;
    Lever lacking = faster;
    lacking.cannot = "no flag of its scripts";
    lacking.set = {{"parallelism.pp", "4"}, {"parallelism.dp", "1"}};
    Lever idle = lacking;  // slower, as much memory, and nobody can turn it
    idle.step.p50 = 1.01 * f.step.p50;
    idle.memory = now;
    const Page page = forecast_page(on_four(), f, std::nullopt, std::nullopt,
                                    std::vector{faster, lacking, idle, nics});
    const auto section =
        std::ranges::find_if(page.sections, [](const auto& s) { return s.title == "Levers"; });
    REQUIRE(section != page.sections.end());
    const auto& rows = section->tables.front().rows;
    REQUIRE(rows.size() == 3);
    const auto text = [&](std::size_t row, std::size_t cell) { return rows[row][cell].text; };
    CHECK(text(0, 0) == "recompute=none (was full)");
    CHECK(text(1, 0) == "pp=4 (was full) dp=1");  // as --set takes them, what was of the first
    CHECK(text(0, 2) == "-5.0 %");
    CHECK(text(0, 3) == "-8.0 .. -2.0 %");
    CHECK(text(0, 4) == "+1.00 GiB");
    CHECK(text(0, 5) == "drop --recompute-granularity full");
    CHECK(text(1, 5) == "not in the framework: no flag of its scripts");
    CHECK(text(2, 0) == "hardware: NICs, twice the rate");
    CHECK(text(2, 3) == "~ -8.0 .. -2.0 %");
    CHECK(section->tables.front().below ==
          "left out: 1 that the framework lacks and that gain nothing (--json has them)");
}

// 1,024 tokens in 0.2 s are 5,120 a second, 4,096 in 0.4 s twice as many; of a token p10 is 0.16 s
// / 1,024 = 156 us beyond p90, 0.5 s / 4,096 = 122 us, and 0.1 s / 1,024 = 98 us is not.
TEST_CASE("steps of unequally many tokens beside each other: tokens a second rank, not steps") {
    std::vector<ForecastColumn> columns{column("seq = 1", 0.16, 0.2, 0.25),
                                        column("seq = 4", 0.3, 0.4, 0.5)};
    columns[0].forecast.tokens_per_second = 5120;
    Page page = columns_page(columns);
    CHECK(page.question == "Which of the two is faster, token for token?");
    CHECK(page.answer == "10,240 tokens/s");
    CHECK(page.answer_note ==
          "with seq = 4, 400.0 ms a step; p10 .. p90 300.0 .. 500.0 ms over 200 draws");
    CHECK(page.facts.back() == Fact{"seq = 1", "5,120 tokens/s: 50.0 % fewer", Tone::plain});
    columns[0].forecast.step.p10 = Seconds(0.1);
    page = columns_page(columns);
    CHECK(page.facts.back() ==
          Fact{"seq = 1",
               "5,120 tokens/s: 50.0 % fewer; the intervals overlap: not distinguishable",
               Tone::doubt});
}

// Two stages, 3 GiB of weights and 1 GiB of activations at the fullest moment.
TEST_CASE("a folder with a replay of memory has its picture and its tables") {
    AllocatorForecast memory;
    memory.stage = 1;
    memory.allocated = parse_bytes("4 GiB");
    memory.reserved = parse_bytes("5 GiB");
    memory.capacity = parse_bytes("8 GiB");
    memory.context = parse_bytes("1 GiB");
    memory.kinds = {{TensorKind::weights, parse_bytes("3 GiB")},
                    {TensorKind::activations, parse_bytes("1 GiB")}};
    memory.layers = {{0, parse_bytes("3 GiB"), parse_bytes("1 GiB"), Bytes(0)}};
    memory.stages = {{parse_bytes("2 GiB"), parse_bytes("3 GiB")},
                     {parse_bytes("4 GiB"), parse_bytes("5 GiB")}};
    memory.over_time = {{parse_bytes("3 GiB"), parse_bytes("3 GiB")},
                        {parse_bytes("4 GiB"), parse_bytes("5 GiB")}};
    memory.fullest = {"attention", Phase::backward, 1, 0, 0};
    const std::string folder = samples::folder_of_scripts("memory", [&](const std::string& to) {
        write_forecast(to,
                       forecast_page(on_four(), samples::forecast(), std::nullopt, std::nullopt),
                       gantt(), std::nullopt, memory);
    });
    CHECK(fs::exists(folder + "/memory.svg"));
    const std::string page = samples::file_text(folder + "/report.html");
    for (const char* text : {"Memory as its allocator sees it", "aria-label=\"memory\"",
                             "allocated 4.00 GiB, reserved 5.00 GiB (25.0 % more)",
                             "backward of micro-batch 0, layer 0, attention, in step 2"})
        CHECK_THAT(page, Contains(text));
}

TEST_CASE("a folder of a forecast has its page and its plots") {
    const auto written = [](const std::optional<Explanation>& why) {
        return samples::folder_of_scripts("forecast", [&](const std::string& to) {
            write_forecast(to, forecast_page(on_four(), samples::forecast(), why, std::nullopt),
                           gantt(), why);
        });
    };
    const auto drawn = [](const char* plot) { return fmt::format("aria-label=\"{}\"", plot); };
    const std::string plain = written(std::nullopt);
    CHECK(fs::exists(plain + "/gantt.svg"));
    CHECK_FALSE(fs::exists(plain + "/elasticity.svg"));
    CHECK_THAT(samples::file_text(plain + "/report.html"), !Contains("The plots are missing") &&
                                                               Contains(drawn("gantt")) &&
                                                               !Contains(drawn("elasticity")));
    const std::string why = written(short_explanation());
    CHECK_THAT(samples::file_text(why + "/elasticity.svg"),
               Contains("moe_layer_mix_moe on pcie-a100-x4"));
    const std::string page = samples::file_text(why + "/report.html");
    std::vector<std::size_t> places;  // each plot under its title
    for (const std::string& text :
         {std::string(">The step over time<"), drawn("gantt"), std::string(">Where the step goes<"),
          std::string(">Why, and what would change it<"), drawn("elasticity"),
          std::string(">Kernels<")})
        places.push_back(page.find(text));
    CHECK(places.back() != std::string::npos);
    CHECK(std::ranges::is_sorted(places));
    const std::string both = samples::folder_of_scripts("columns", [&](const std::string& to) {
        write_columns(to, {column("a", 1, 2, 3), column("b", 1, 2, 3)}, {gantt(), gantt()},
                      {{"program", "stepcast 1"}});
    });
    CHECK(fs::exists(both + "/gantt.svg"));
    CHECK_THAT(samples::file_text(both + "/report.html"),
               Contains("stepcast 1") && Contains("Which of the two is faster?") &&
                   Contains(drawn("gantt")));
}

TEST_CASE("a page says where its numbers come from") {
    Experiment e = on_four();
    const std::vector<Fact> facts = origin_of(e, {"stepcast 1\nbuilt here", "stepcast simulate x"});
    REQUIRE(facts.size() == 5);
    CHECK(facts[0].name == "cluster pcie-a100-x4");
    CHECK(facts[0].tables.empty());  // nothing was fitted
    CHECK(facts[1] == Fact{"datasheet values of pcie-a100-x4", "a list"});
    CHECK(facts[2] == Fact{"framework own", "what we run"});
    CHECK(facts[3] == Fact{"command", "stepcast simulate x"});
    CHECK(facts[4] == Fact{"program", "stepcast 1, built here"});
    e.framework.fitted = samples::fitted_cluster().fitted;
    const Fact fitted = provenance_of(e.framework).back();
    CHECK(fitted.row == std::vector<Cell>{{"framework own"},
                                          {"2026-01-02"},
                                          {"11", 11.0},
                                          {"bench.csv"},
                                          {"5.1 %, at worst -12.0 % (leave-one-out)"},
                                          {"-"},
                                          {"1 of 2"},
                                          {""}});
    REQUIRE(fitted.tables.size() == 1);
    CHECK(fitted.tables[0].name == "Errors of framework own by the program of 2026-01-02");
    CHECK(fitted.tables[0].below == "fitted to bench.csv");
    REQUIRE(fitted.tables[0].rows.size() == 2);  // its errors, a row each
    CHECK(fitted.tables[0].rows[0][0].text == "step");
    CHECK(fitted.tables[0].rows[0][4].text == "5.1 %");
    e.framework.name.clear();
    e.cluster.source.clear();
    CHECK(origin_of(e, {}).size() == 2);
}

// A tenth and nine tenths of {10, 30} ms lie at 12 and 28; where none was accepted, all count.
TEST_CASE("a run on a busy machine says so") {
    Experiment e;
    e.name = "host_moe";
    Measurement m = samples::measurement();
    m.steps.resize(2);
    m.steps[0].accepted = false;
    m.quiet = false;
    const Page page = run_page(e, m);
    CHECK(page.title == "host_moe executed on host, 2 ranks as threads");
    CHECK(page.answer_note == "measured: median of 2 steps, p10 .. p90 12.00 .. 28.00 ms");
    CHECK(page.facts[0] == Fact{"Machine", "BUSY, 98.0 % idle before the run", Tone::bad});
    CHECK(page.facts[1] == Fact{"Samples", "0 accepted of 2, after 3 to warm up", Tone::bad});
    CHECK(page.sections[0].tables[0].rows[1] == std::vector<Cell>{{"2", 2.0},
                                                                  time_cell(Seconds(0.03)),
                                                                  time_cell(Seconds(0.0075)),
                                                                  time_cell(Seconds(0.015)),
                                                                  time_cell(Seconds(0.0075)),
                                                                  time_cell(Seconds(0)),
                                                                  {"no: the machine was busy"}});
    CHECK(page.provenance == std::vector<Fact>{{"device", "host, 2 ranks as threads"},
                                               {"date", "2026-01-02"},
                                               {"version", "OpenBLAS 0.3.21"}});
    const Page quiet = run_page(e, samples::measurement());
    CHECK(quiet.facts[0] == Fact{"Machine", "quiet, 98.0 % idle before the run", Tone::good});
    CHECK(quiet.facts[1] == Fact{"Samples", "3 accepted of 4, after 3 to warm up"});
}
