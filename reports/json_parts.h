// Parts that several objects of reports/json.h share.
#pragma once

#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "model/answers/traced_step.h"
#include "model/answers/campaign.h"
#include "model/answers/forecast.h"
#include "reports/table.h"

namespace stepcast::json {

using Json = nlohmann::ordered_json;

// JSON has no infinity: values that are not finite become null.
inline Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

template <class Value>
requires requires(Value value) { value.si(); }
Json number(Value value) { return number(value.si()); }

template <class Value>
Json optional_number(const std::optional<Value>& value) {
    return value ? number(*value) : Json(nullptr);
}

// The list of of(item).
template <class Items, class Of>
Json list(const Items& items, Of of) {
    Json all = Json::array();
    for (const auto& item : items) all.push_back(of(item));
    return all;
}

Json interval(const Interval& interval);
Json times(const std::vector<StepPart>& parts);
Json basis(const Forecast& forecast);  // the constants that price the step's critical path
Json doubts(const Doubts& doubts);
Json attribution(const ErrorAttribution& attribution);
Json campaign(const Campaign& campaign);
std::string text_of(const Json& object);  // replaces bytes that are no UTF-8, which names from a log may have

}  // namespace stepcast::json
