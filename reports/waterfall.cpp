#include "reports/waterfall.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "model/base/lines.h"
#include "model/base/numbers.h"
#include "model/base/text_search.h"
#include "model/base/whole_files.h"
#include "reports/forecast_tables.h"
#include "reports/json_parts.h"
#include "reports/lever_tables.h"
#include "reports/plot_frame.h"

namespace stepcast {
namespace {

constexpr const char* not_explained = "not explained by the configuration";

bool is_measured(const Waterfall& w) {
    return w.from.measured > Seconds(0) || w.to.measured > Seconds(0);
}

// "549.9999999999999 us" as "550 us": a quantity with at most six figures.
std::string short_text(const std::string& value) {
    const auto end = value.find_first_not_of("0123456789.-+e");
    const std::string number = value.substr(0, end);
    if (number.size() < 8 || !has(number, '.')) return value;
    const double parsed = std::strtod(number.c_str(), nullptr);
    return fmt::format("{:.6g}{}", parsed, end == std::string::npos ? "" : value.substr(end));
}

// "tp 8 -> 4"
std::string change_text(const KeyChange& k) {
    return fmt::format("{} {} -> {}", short_key(k.key), short_text(k.from), short_text(k.to));
}

// "tp 8 -> 4, pp 1 -> 2"; of a group, its name and how many keys.
std::string keys_text(const WaterfallBar& bar) {
    if (!bar.group.empty() && bar.keys.size() > 3)
        return fmt::format("{} ({} keys)", bar.group, bar.keys.size());
    std::string text;
    for (const KeyChange& k : bar.keys)
        text +=
            fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", short_key(k.key), k.from, k.to);
    return text;
}

struct Line {
    std::string what;
    Seconds cost, then;
};

// The bars, and what they leave, in the order that is shown.
std::vector<Line> lines_of(const Waterfall& w) {
    std::vector<Line> lines;
    Seconds then = shown_step(w.from);
    const auto add = [&](const std::string& what, Seconds cost) {
        then += cost;
        lines.push_back({what, cost, then});
    };
    for (const WaterfallBar& bar : w.bars) add(keys_text(bar), bar.cost);
    if (is_measured(w)) add(not_explained, w.unexplained);
    if (!lines.empty()) lines.back().then = shown_step(w.to);  // without what sums round away
    return lines;
}

// Times of one waterfall are written with one number of decimals, so that lines can add up.
struct Rounding {
    double unit;  // seconds of one unit
    const char* name;
    int decimals;
    [[nodiscard]] double rounded(Seconds t) const {
        const double scale = std::pow(10.0, decimals);
        return std::round(t.si() / unit * scale) / scale;
    }
    [[nodiscard]] std::string text(double value, bool is_signed = false) const {
        return is_signed ? fmt::format("{:+.{}f} {}", value, decimals, name)
                         : fmt::format("{:.{}f} {}", value, decimals, name);
    }
};

Rounding rounding_of(const Waterfall& w) {
    const Seconds longest = std::max(shown_step(w.from), shown_step(w.to));
    return longest < Seconds(10) ? Rounding{1e-3, "ms", longest < Seconds(1) ? 2 : 1}
                                 : Rounding{1, "s", 3};
}

std::string of_end(const WaterfallEnd& end) {
    return end.measured > Seconds(0) ? fmt::format("{} measured, {} forecast",
                                                   time_text(end.measured), time_text(end.step))
                                     : time_text(end.step) + " forecast";
}

std::string difference_text(const Waterfall& w) {
    const double ratio = w.to.step / w.from.step;
    const double low = ratio * std::exp(-w.reach) - 1, high = ratio * std::exp(w.reach) - 1;
    std::string text =
        fmt::format("forecast difference {} ({} .. {})", signed_percent_text(ratio - 1),
                    signed_percent_text(low), signed_percent_text(high));
    if (low < 0 && high > 0) text += ": the two cannot be told apart";
    if (w.from.measured > Seconds(0) && w.to.measured > Seconds(0))
        text += "; measured " + signed_percent_text(w.to.measured / w.from.measured - 1);
    return text;
}

std::string list_of(const std::vector<KeyChange>& changes) {
    constexpr std::size_t most = 8;
    std::string text;
    for (std::size_t i = 0; i < std::min(most, changes.size()); ++i)
        text += (i == 0 ? "" : ", ") + change_text(changes[i]);
    return changes.size() > most ? text + fmt::format(" and {} more", changes.size() - most) : text;
}

// What belongs to the table but is no line of it.
std::vector<std::string> remarks_of(const Waterfall& w) {
    std::vector<std::string> remarks{difference_text(w)};
    if (!w.follows.empty()) remarks.push_back("follows from the others: " + list_of(w.follows));
    if (!w.without_effect.empty())
        remarks.push_back("differ without effect on the step: " + list_of(w.without_effect));
    if (w.bars.size() > 1)
        add_line(remarks,
                 "each cost is the mean over all orders of changing the keys (Shapley): {} "
                 "simulations",
                 w.simulated);
    return remarks;
}

json::Json json_of(const std::vector<KeyChange>& changes) {
    return json::list(changes, [](const KeyChange& k) {
        return json::Json{{"key", k.key}, {"from", k.from}, {"to", k.to}};
    });
}

json::Json json_of(const WaterfallEnd& end) {
    return {{"name", end.name},
            {"forecast_s", end.step},
            {"measured_s", end.measured > Seconds(0) ? json::Json(end.measured) : nullptr}};
}

}  // namespace

Table waterfall_bars(const Waterfall& w) {
    const Rounding r = rounding_of(w);
    double before = r.rounded(shown_step(w.from));
    Table table{.name = "", .columns = {{"what differs", 40, true}, {"costs"}, {"step then"}}};
    table.rows.push_back({{w.from.name + ": " + of_end(w.from)}, {""}, {r.text(before), before}});
    for (const Line& line : lines_of(w)) {
        const double then = r.rounded(line.then);
        table.rows.push_back(
            {{line.what}, {r.text(then - before, true), then - before}, {r.text(then), then}});
        before = then;
    }
    table.rows.push_back({{w.to.name + ": " + of_end(w.to)}, {""}, {r.text(before), before}});
    return table;
}

std::string waterfall_table(const Waterfall& w) {
    std::string text = text_of(waterfall_bars(w)) + "\n";
    for (const std::string& remark : remarks_of(w)) text += wrapped(remark);
    for (const WaterfallBar& bar : w.bars)
        if (!bar.group.empty() && bar.keys.size() > 3)
            text += wrapped(bar.group + ": " + list_of(bar.keys));
    return text;
}

std::string to_json(const Waterfall& w) {
    return json::text_of({{"from", json_of(w.from)},
                          {"to", json_of(w.to)},
                          {"bars", json::list(w.bars,
                                              [](const WaterfallBar& bar) {
                                                  return json::Json{{"group", bar.group},
                                                                    {"keys", json_of(bar.keys)},
                                                                    {"cost_s", bar.cost}};
                                              })},
                          {"unexplained_s", is_measured(w) ? json::Json(w.unexplained) : nullptr},
                          {"follows", json_of(w.follows)},
                          {"without_effect", json_of(w.without_effect)},
                          {"log_reach", w.reach},
                          {"simulated", w.simulated}});
}

void plot_waterfall(const Waterfall& w, const std::string& path) {
    const TimeUnit unit = axis_unit(std::max(shown_step(w.from), shown_step(w.to)));
    const std::vector<Line> lines = lines_of(w);
    const auto count = real(lines.size() + 2);
    std::vector<Row> ends, more, less;
    std::string names;
    double row = count, least = INFINITY, most = 0;
    const auto bar = [&](std::vector<Row>& into, const std::string& name, double from, double to) {
        into.push_back({(from + to) / 2, row, std::abs(to - from) / 2});
        names += fmt::format("{}{} {}", names.empty() ? "" : ",", gnuplot_text(name), row);
        least = std::min({least, from, to});
        most = std::max({most, from, to});
        row -= 1;
    };
    const auto shown = [&](Seconds t) { return t.si() * unit.factor; };
    const double first = shown(shown_step(w.from)), last = shown(shown_step(w.to));
    for (const Line& line : lines) least = std::min(least, shown(line.then));
    const double base = std::max(0.0, std::min({least, first, last}) * 0.8);
    bar(ends, bar_label(w.from.name, ""), base, first);
    double before = first;
    for (const Line& line : lines) {
        const double then = shown(line.then);
        bar(then > before ? more : less, bar_label(line.what, ""), before, then);
        before = then;
    }
    bar(ends, bar_label(w.to.name, ""), base, last);
    const auto block = [](const char* name, std::vector<Row> rows) {
        if (rows.empty()) rows.push_back({NAN, NAN, NAN});  // an empty block is an error
        return DataBlock{name, std::move(rows)};
    };
    const auto drawn = [](const char* name, const char* colour) {
        return fmt::format("${} using 1:2:3:(0.34) with boxxyerror lc rgb '{}'", name, colour);
    };
    const Plot plot{
        .data = {block("ends", ends), block("more", more), block("less", less)},
        .parts = {drawn("ends", "#777777"), drawn("more", colour(1)), drawn("less", colour(2))},
        .labels = {"step", "longer step", "shorter step"}};
    plot.draw(
        fmt::format("{} to {}: {} to {}", w.from.name, w.to.name, time_text(shown_step(w.from)),
                    time_text(shown_step(w.to))),
        "what each difference adds to the step; the bars add up", difference_text(w),
        fmt::format("set lmargin at screen 0.34\nset border 1\nset yrange [0.3:{}]\nset xrange "
                    "[{:.9g}:{:.9g}]\nset ytics ({}) font ',14'\nset xlabel 'step, {}'\nset "
                    "style fill solid 0.85 noborder\n",
                    count + 0.7, base, most + 0.05 * (most - base), names, unit.name),
        path);
}

void write_waterfall(const std::string& folder, const Waterfall& w,
                     const std::vector<Fact>& origin) {
    Page page{.title = w.from.name + " against " + w.to.name,
              .question = "What does each difference of the two configurations cost?",
              .answer = time_text(shown_step(w.from)) + " to " + time_text(shown_step(w.to)),
              .answer_note = difference_text(w)};
    page.sections.push_back(
        {.title = "Key by key", .tables = {waterfall_bars(w)}, .sentences = remarks_of(w)});
    for (const WaterfallBar& bar : w.bars) {
        if (bar.group.empty()) continue;
        Table keys{.name = bar.group,
                   .columns = {{"key", 0, true}, {"from", 0, true}, {"to", 0, true}}};
        for (const KeyChange& k : bar.keys) keys.rows.push_back({{k.key}, {k.from}, {k.to}});
        page.sections.push_back({.title = bar.group, .tables = {keys}, .is_folded = true});
    }
    page.provenance = origin;
    write_with_plots(
        folder, page,
        [&] {
            plot_waterfall(w, folder + "/waterfall");
            page.sections[0].plots = {"waterfall.png"};
        },
        [&](const Page& p) {
            write_whole({{folder + "/summary.md", markdown_of(p)}});
        });
}

}  // namespace stepcast
