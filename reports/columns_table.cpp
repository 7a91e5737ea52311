#include "reports/tables.h"

#include <algorithm>

#include "reports/text.h"

namespace stepcast {

Table columns_of(const std::vector<ForecastColumn>& columns) {
    using Forecasted = ForecastColumn;
    Table table{"", {{"", 0, true}}, {}};
    for (const Forecasted& c : columns) table.columns.push_back({c.label});
    const auto add = [&](const std::string& name, const auto& cell) {
        std::vector<Cell> line{{name}};
        bool says_something = false;
        for (const Forecasted& c : columns) says_something |= line.emplace_back(Cell{cell(c)}).text != "-";
        if (says_something) table.rows.push_back(std::move(line));
    };
    const Seconds first = columns.front().forecast.step.p50;
    add("cluster", [](const Forecasted& c) { return c.forecast.cluster + (c.forecast.calibrated ? "" : ", uncalibrated"); });
    add("step", [](const Forecasted& c) { return time_text(c.forecast.step.p50); });
    add("  p10 .. p90", [](const Forecasted& c) { return range_text(c.forecast.step); });
    add("  against the first", [&](const Forecasted& c) { return signed_percent_text(c.forecast.step.p50 / first - 1); });
    add("tokens/s", [](const Forecasted& c) { return count_text(c.forecast.tokens_per_second); });
    add("MFU", [](const Forecasted& c) { return percent_text(c.forecast.model_flops_utilization); });
    add("forward", [](const Forecasted& c) { return time_text(c.forecast.phases.forward); });
    add("backward", [](const Forecasted& c) { return time_text(c.forecast.phases.backward); });
    add("gradient sync", [](const Forecasted& c) { return time_text(c.forecast.phases.gradient_sync); });
    add("optimizer", [](const Forecasted& c) { return time_text(c.forecast.phases.optimizer); });
    for (std::size_t i = 0; i < parts_of(Breakdown{}).size(); ++i)
        add(parts_of(Breakdown{})[i].name, [i](const Forecasted& c) { return time_text(parts_of(c.forecast.breakdown)[i].time); });
    add("memory, fullest rank", [](const Forecasted& c) { return bytes_text(c.forecast.memory.peak); });
    add("  fits", [](const Forecasted& c) { return c.forecast.memory.fits ? "yes" : "NO"; });
    if (std::ranges::none_of(columns, [](const Forecasted& c) { return c.campaign.has_value(); })) return table;
    add("training, time", [](const Forecasted& c) { return days_text(*c.campaign); });
    add("  money", [](const Forecasted& c) { return money_text(*c.campaign); });
    add("  energy, at most", [](const Forecasted& c) { return energy_text(*c.campaign); });
    return table;
}

std::string columns_table(const std::vector<ForecastColumn>& columns) { return text_of(columns_of(columns)); }

}  // namespace stepcast
