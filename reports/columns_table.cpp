#include "reports/tables.h"

#include <algorithm>
#include <functional>

#include "reports/text.h"

namespace stepcast {
namespace {

using Forecasted = ForecastColumn;
struct Row {
    std::string name;
    std::function<std::string(const Forecasted&)> cell;
};

std::vector<Row> rows_of(const std::vector<Forecasted>& columns) {
    const Seconds first = columns.front().forecast.step.p50;
    std::vector<Row> rows{
        {"cluster", [](const Forecasted& c) { return c.forecast.cluster + (c.forecast.calibrated ? "" : ", uncalibrated"); }},
        {"step", [](const Forecasted& c) { return time_text(c.forecast.step.p50); }},
        {"  p10 .. p90", [](const Forecasted& c) { return range_text(c.forecast.step); }},
        {"  against the first",
         [first](const Forecasted& c) { return signed_percent_text(c.forecast.step.p50 / first - 1); }},
        {"tokens/s", [](const Forecasted& c) { return count_text(c.forecast.tokens_per_second); }},
        {"MFU", [](const Forecasted& c) { return percent_text(c.forecast.model_flops_utilization); }},
        {"forward", [](const Forecasted& c) { return time_text(c.forecast.phases.forward); }},
        {"backward", [](const Forecasted& c) { return time_text(c.forecast.phases.backward); }},
        {"gradient sync", [](const Forecasted& c) { return time_text(c.forecast.phases.gradient_sync); }},
        {"optimizer", [](const Forecasted& c) { return time_text(c.forecast.phases.optimizer); }}};
    for (std::size_t i = 0; i < parts_of(Breakdown{}).size(); ++i)
        rows.push_back({parts_of(Breakdown{})[i].name,
                        [i](const Forecasted& c) { return time_text(parts_of(c.forecast.breakdown)[i].time); }});
    rows.push_back({"memory, fullest rank", [](const Forecasted& c) { return bytes_text(c.forecast.memory.peak); }});
    rows.push_back({"  fits", [](const Forecasted& c) { return c.forecast.memory.fits ? "yes" : "NO"; }});
    if (std::ranges::none_of(columns, [](const Forecasted& c) { return c.campaign.has_value(); })) return rows;
    rows.push_back({"training, time", [](const Forecasted& c) { return days_text(*c.campaign); }});
    rows.push_back({"  money", [](const Forecasted& c) { return money_text(*c.campaign); }});
    rows.push_back({"  energy, at most", [](const Forecasted& c) { return energy_text(*c.campaign); }});
    return rows;
}

}  // namespace

Table columns_of(const std::vector<ForecastColumn>& columns) {
    Table table{"", {{"", 0, true}}, {}};
    for (const Forecasted& c : columns) table.columns.push_back({c.label});
    for (const Row& row : rows_of(columns)) {
        std::vector<Cell> line{{row.name}};
        for (const Forecasted& c : columns) line.push_back({row.cell(c)});
        // a row that says nothing of any column
        if (std::ranges::all_of(line.begin() + 1, line.end(), [](const Cell& cell) { return cell.text == "-"; }))
            continue;
        table.rows.push_back(std::move(line));
    }
    return table;
}

std::string columns_table(const std::vector<ForecastColumn>& columns) { return text_of(columns_of(columns)); }

}  // namespace stepcast
