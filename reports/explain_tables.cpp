#include "reports/explain_tables.h"

#include <array>
#include <ranges>

#include <fmt/format.h>

#include "model/base/numbers.h"
#include "model/graph/task_graph.h"

namespace stepcast {
namespace {

constexpr std::ptrdiff_t shown_parameters = 12, shown_uncertainties = 5;

double share_of(Seconds time, Seconds whole) { return whole > Seconds(0) ? time / whole : 0; }

std::string kind_text(const PathShare& s) {
    if (s.kind == "issue") return "host: issuing kernels";
    std::string text = s.kind == "host_work" ? "host: framework's work" : kind_words(s.kind);
    if (s.link != LinkLevel::none) text += fmt::format(", {}", link_text(s.link));
    return text;
}

Table path_table(const Explanation& x) {
    Table table{"", {{"critical path", 44, true}, {"time", 11}, {"share", 7}, {"tasks", 9}}, {}};
    for (const PathShare& s : x.path)
        table.rows.push_back({{kind_text(s)},
                              time_cell(s.time),
                              percent_cell(share_of(s.time, x.step)),
                              count_cell(real(s.tasks))});
    return table;
}

Table resource_table(const Explanation& x) {
    std::array<Seconds, 4> by_link{};
    Seconds host, device;
    for (const PathShare& s : x.path)
        (s.on_host                   ? host
         : s.link == LinkLevel::none ? device
                                     : by_link[as_index(s.link)]) += s.time;
    Table table{"", {{"critical path by resource", 44, true}, {"time", 11}, {"share", 7}}, {}};
    const auto add = [&](const std::string& name, Seconds time) {
        if (time > Seconds(0))
            table.rows.push_back({{name}, time_cell(time), percent_cell(share_of(time, x.step))});
    };
    add("devices", device);
    for (const LinkLevel level : {LinkLevel::node, LinkLevel::leaf, LinkLevel::spine})
        add(fmt::format("links {}", link_text(level)), by_link[as_index(level)]);
    add("hosts", host);
    return table;
}

std::string rank_text(const IdleTime& i) {
    return i.stands_for > 1 ? fmt::format("{} (of {} alike)", i.rank, i.stands_for)
                            : fmt::format("{}", i.rank);
}

Table idle_table(const Explanation& x) {
    Table table{"",
                {{"where ranks idle", 24, true},
                 {"slowest " + rank_text(x.slowest), 19},
                 {"", 8},
                 {"median " + rank_text(x.median), 19},
                 {"", 8}},
                {}};
    const auto add = [&](const char* name, Seconds slowest, Seconds median) {
        table.rows.push_back({{name},
                              time_cell(slowest),
                              percent_cell(share_of(slowest, x.step)),
                              time_cell(median),
                              percent_cell(share_of(median, x.step))});
    };
    add("pipeline bubble", x.slowest.bubble, x.median.bubble);
    add("straggler", x.slowest.straggler, x.median.straggler);
    add("exposed communication", x.slowest.exposed_communication, x.median.exposed_communication);
    add("host", x.slowest.host, x.median.host);
    add("idle in all", x.step - x.slowest.busy, x.step - x.median.busy);
    return table;
}

Cell change_cell(Seconds change, Seconds step) {
    return {change == Seconds(0) ? "0" : fmt::format("{:+.2f} %", 100 * share_of(change, step)),
            share_of(change, step)};
}

Table elasticity_table(const Explanation& x) {
    Table table{"",
                {{fmt::format("{:.0f} % more of", 100 * x.change), 40, true},
                 {"now", 17},
                 {"changes the step", 15},
                 {"along the path", 17}},
                {}};
    for (const Elasticity& e : x.elasticities | std::views::take(shown_parameters))
        table.rows.push_back({{e.key},
                              {e.value},
                              change_cell(e.simulated, x.step),
                              change_cell(e.along_path, x.step)});
    table.below = fmt::format("{} more change it by less, {} not at all",
                              x.elasticities.size() - table.rows.size(), x.without_effect.size());
    return table;
}

Table uncertainty_table(const Explanation& x) {
    Table table{"",
                {{"uncertain", 40, true},
                 {"now", 13},
                 {"known", 15},
                 {"+-", 7},
                 {"step +-", 13},
                 {"variance", 9}},
                {}};
    static constexpr std::array sources{"fitted", "not determined", "never fitted"};
    for (const Uncertainty& u : x.uncertainties | std::views::take(shown_uncertainties))
        table.rows.push_back({{u.key},
                              {u.value},
                              {sources[as_index(u.source)]},
                              percent_cell(u.relative_error),
                              time_cell(u.widening),
                              percent_cell(u.share)});
    table.below = fmt::format("all {} together: step +- {} ({}), one standard deviation",
                              x.uncertainties.size(), time_text(x.uncertainty),
                              percent_text(share_of(x.uncertainty, x.step)));
    return table;
}

}  // namespace

std::string_view link_text(LinkLevel level) {
    static constexpr std::array<std::string_view, 4> texts{"no link", "inside nodes",
                                                           "between nodes", "across the spine"};
    return texts[as_index(level)];
}

std::vector<Table> explanation_tables(const Explanation& x) {
    std::vector<Table> tables{path_table(x), resource_table(x), idle_table(x), elasticity_table(x)};
    if (!x.uncertainties.empty()) tables.push_back(uncertainty_table(x));
    return tables;
}

std::string explanation_table(const Explanation& x) {
    std::string text = fmt::format("why: one step of {} without noise\n", time_text(x.step));
    for (const Table& table : explanation_tables(x)) {
        text += "\n";
        if (table.columns.front().name == "uncertain")
            text += fmt::format("measure this next: {}\n", x.uncertainties.front().key);
        text += text_of(table);
    }
    return text + (x.uncertainties.empty()
                       ? "\nmeasure this next: nothing, no parameter of this step is uncertain\n"
                       : "");
}

std::string attribution_sentence(const ErrorAttribution& a) {
    return fmt::format("cost error {}, schedule error {}", signed_percent_text(cost_error(a)),
                       signed_percent_text(schedule_error(a)));
}

std::string attribution_table(const std::string& name, const ErrorAttribution& a) {
    std::string text = wrapped(
        fmt::format("{}: {} (with the measured duration of every task the simulated step is {}; "
                    "measured {})",
                    name, attribution_sentence(a), time_text(a.replayed), time_text(a.measured)));
    Table table{"",
                {{"kind, phase (slowest rank)", 34, true},
                 {"measured", 11},
                 {"predicted", 11},
                 {"error", 8},
                 {"of the step", 12}},
                {}};
    for (const KindError& k : a.kinds)
        table.rows.push_back(
            {{fmt::format("{}, {}", kind_words(k.kind), kind_words(to_string(k.phase)))},
             time_cell(k.measured),
             time_cell(k.predicted),
             error_cell(k.predicted, k.measured),
             signed_percent_cell(k.effect / a.measured)});
    return text + text_of(table);
}

std::string traced_table(const TracedStep& step) {
    Table table{"",
                {{"rank", 6, true},
                 {"GPU, traced", 12},
                 {"predicted", 12},
                 {"error", 8},
                 {"exposed", 12},
                 {"predicted", 12},
                 {"error", 8}},
                {}};
    TracedRank sum;
    for (const TracedRank& r : step.ranks) {
        table.rows.push_back({{std::to_string(r.rank)},
                              time_cell(r.measured_span),
                              time_cell(r.predicted_span),
                              error_cell(r.predicted_span, r.measured_span),
                              time_cell(r.measured_exposed),
                              time_cell(r.predicted_exposed),
                              error_cell(r.predicted_exposed, r.measured_exposed)});
        sum.measured_exposed += r.measured_exposed;
        sum.predicted_exposed += r.predicted_exposed;
    }
    if (step.ranks.size() > 1)
        table.rows.push_back({{"all"},
                              {},
                              {},
                              {},
                              time_cell(sum.measured_exposed),
                              time_cell(sum.predicted_exposed),
                              error_cell(sum.predicted_exposed, sum.measured_exposed)});
    std::string text = text_of(table);
    for (const std::string& note : step.notes) text += note + "\n";
    return text + "\n" + attribution_table(step.name, step.error);
}

}  // namespace stepcast
