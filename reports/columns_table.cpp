#include "reports/columns_table.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/campaign_table.h"
#include "reports/json.h"
#include "reports/text.h"

namespace stepcast {
namespace {

using Column = ForecastColumn;
struct Row {
    std::string name;
    std::function<std::string(const Column&)> cell;
};

std::vector<Row> rows_of(const std::vector<Column>& columns) {
    const Seconds first = columns.front().forecast.step.p50;
    std::vector<Row> rows{
        {"cluster", [](const Column& c) { return c.forecast.cluster + (c.forecast.calibrated ? "" : ", uncalibrated"); }},
        {"step", [](const Column& c) { return time_text(c.forecast.step.p50); }},
        {"  p10 .. p90", [](const Column& c) { return range_text(c.forecast.step); }},
        {"  against the first",
         [first](const Column& c) { return signed_percent_text(c.forecast.step.p50 / first - 1); }},
        {"tokens/s", [](const Column& c) { return count_text(c.forecast.tokens_per_second); }},
        {"MFU", [](const Column& c) { return percent_text(c.forecast.model_flops_utilization); }},
        {"forward", [](const Column& c) { return time_text(c.forecast.phases.forward); }},
        {"backward", [](const Column& c) { return time_text(c.forecast.phases.backward); }},
        {"gradient sync", [](const Column& c) { return time_text(c.forecast.phases.gradient_sync); }},
        {"optimizer", [](const Column& c) { return time_text(c.forecast.phases.optimizer); }}};
    for (std::size_t i = 0; i < parts_of(Breakdown{}).size(); ++i)
        rows.push_back({parts_of(Breakdown{})[i].name,
                        [i](const Column& c) { return time_text(parts_of(c.forecast.breakdown)[i].time); }});
    rows.push_back({"memory, fullest rank", [](const Column& c) { return bytes_text(c.forecast.memory.peak); }});
    rows.push_back({"  fits", [](const Column& c) { return c.forecast.memory.fits ? "yes" : "NO"; }});
    if (std::ranges::none_of(columns, [](const Column& c) { return c.campaign.has_value(); })) return rows;
    rows.push_back({"training, time", [](const Column& c) { return days_text(*c.campaign); }});
    rows.push_back({"  money", [](const Column& c) { return money_text(*c.campaign); }});
    rows.push_back({"  energy, at most", [](const Column& c) { return energy_text(*c.campaign); }});
    return rows;
}

}  // namespace

std::string columns_table(const std::vector<ForecastColumn>& columns) {
    std::vector<std::vector<std::string>> lines(1, {""});
    for (const Column& c : columns) lines[0].push_back(c.label);
    for (const Row& row : rows_of(columns)) {
        std::vector<std::string> line{row.name};
        for (const Column& c : columns) line.push_back(row.cell(c));
        // a row that says nothing of any column
        if (std::ranges::all_of(line.begin() + 1, line.end(), [](const std::string& cell) { return cell == "-"; }))
            continue;
        lines.push_back(std::move(line));
    }
    std::vector<std::size_t> width(columns.size() + 1);
    for (const auto& line : lines)
        for (std::size_t i = 0; i < line.size(); ++i) width[i] = std::max(width[i], line[i].size());
    std::string text;
    for (const auto& line : lines) {
        text += fmt::format("{:<{}}", line[0], width[0]);
        for (std::size_t i = 1; i < line.size(); ++i) text += fmt::format("  {:>{}}", line[i], width[i]);
        text += "\n";
    }
    return text;
}

std::string columns_json(const std::vector<ForecastColumn>& columns) {
    using Json = nlohmann::ordered_json;
    Json list = Json::array();
    for (const Column& c : columns) {
        Json one{{"label", c.label}};
        one.update(Json::parse(to_json(c.forecast, std::nullopt, c.campaign)));
        list.push_back(std::move(one));
    }
    return list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stepcast
