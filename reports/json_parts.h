// Parts that several objects of reports/json.h share.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "model/input/key_values.h"
#include "reports/table.h"
#include "sim/results/campaign.h"
#include "sim/results/forecast.h"
#include "sim/results/traced_step.h"

// Quantities become numbers in SI units, empty values null. JSON has no infinity: the library
// writes what is not finite as null.
template <class Value>
requires requires(Value value) { value.si(); }
struct nlohmann::adl_serializer<Value> {
    static void to_json(auto& json, const Value& value) { json = value.si(); }
};
template <class Value>
struct nlohmann::adl_serializer<std::optional<Value>> {
    static void to_json(auto& json, const std::optional<Value>& value) {
        if (value) json = *value;
    }
};

namespace stepcast::json {

using Json = nlohmann::ordered_json;

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
// replaces bytes that are no UTF-8, which names from a log may have
std::string text_of(const Json& object);

}  // namespace stepcast::json
