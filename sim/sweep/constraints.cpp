#include "sim/sweep/constraints.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/input/split_keys.h"

namespace stepcast {
namespace {

double number_of(std::string_view text) {
    const auto value = as_number<double>(text);
    if (!value || !std::isfinite(*value))
        throw ConfigError(fmt::format("\"{}\" is no number", text));
    return *value;
}

// Reads "45 %" or 0.45.
double share_of(std::string_view text) {
    if (!text.ends_with('%')) return number_of(text);
    return number_of(trimmed(text.substr(0, text.size() - 1), " ")) / 100;
}

struct Word {
    std::string_view text;
    Relation relation;
};
constexpr Word relations[] = {{"<=", {true, true, false}}, {">=", {false, true, true}},
                              {"!=", {true, false, true}}, {"==", {false, true, false}},
                              {"<", {true, false, false}}, {">", {false, false, true}},
                              {"=", {false, true, false}}};

struct KnownMeasure {
    std::string_view name;
    double (*read)(std::string_view text);
    double (*measure)(const PointFacts& facts, Seconds step);
    bool rises = false, falls = false;  // whether it rises or falls with the step
};
// Indexed by Measure, without split.
constexpr KnownMeasure quantities[] = {
    {"memory.peak", [](std::string_view text) { return parse_bytes(text).si(); },
     [](const PointFacts& facts, Seconds) { return facts.peak.si(); }},
    {"step", [](std::string_view text) { return parse_seconds(text).si(); },
     [](const PointFacts&, Seconds step) { return step.si(); }, true},
    {"tokens", number_of,
     [](const PointFacts& facts, Seconds step) { return facts.tokens / step.si(); }, false, true},
    {"cost", number_of,
     [](const PointFacts& facts, Seconds step) { return 1e6 * cost_per_token(facts, step); }, true},
    {"mfu", share_of,
     [](const PointFacts& facts, Seconds step) { return facts.flops / step / facts.peak_flops; },
     false, true}};

const KnownMeasure& quantity(const Constraint& c) { return quantities[as_index(c.measure)]; }

void read_quantity(Constraint& c, std::string_view name) {
    const auto found = std::ranges::find(quantities, name, &KnownMeasure::name);
    c.measure = static_cast<Measure>(found - quantities);
    if (c.measure != Measure::split) return;
    c.split_key = split_index(whole_key(std::string(name)));
    if (c.split_key < split_key_count) return;
    std::vector<std::string> valid;
    for (const KnownMeasure& known : quantities) valid.emplace_back(known.name);
    for (const SplitField& field : split_fields) valid.emplace_back(field.key);
    throw ConfigError(fmt::format(
        "\"{}\" is no quantity{}; expected memory.peak, step, tokens, cost, mfu or a key such "
        "as parallelism.tp",
        name, did_you_mean(name, valid)));
}

void read_value(Constraint& c, std::string_view text) {
    if (c.measure != Measure::split) {
        c.value = quantity(c).read(text);
        return;
    }
    Experiment scratch;
    const SplitField& field = split_fields[c.split_key];
    set_key(scratch, {std::string(field.key), std::string(text)});
    c.value = field.get(plan_of(scratch));
}

Constraint parse_one(std::string_view text) {
    const auto at = text.find_first_of("<>=!");
    if (at == std::string_view::npos)
        throw ConfigError(
            "expected a quantity, a relation and a value, for example \"memory.peak < 76 GiB\"");
    const auto rest = text.substr(at);
    const auto word =
        std::ranges::find_if(relations, [&](const Word& w) { return rest.starts_with(w.text); });
    if (word == std::end(relations)) throw ConfigError("expected <, <=, >, >=, = or !=");
    Constraint c{.text = std::string(text)};
    c.relation = word->relation;
    read_quantity(c, trimmed(text.substr(0, at), " "));
    const auto value = trimmed(rest.substr(word->text.size()), " ");
    if (value.empty()) throw ConfigError("the value is missing");
    read_value(c, value);
    return c;
}

double measured(const Constraint& c, const PointFacts& facts, Seconds step) {
    return c.measure == Measure::split ? split_fields[c.split_key].get(facts.split)
                                       : quantity(c).measure(facts, step);
}

// The values that all constraints on one quantity leave, and the texts of the constraints that set
// the limits.
struct Allowed {
    double least = 0, most = std::numeric_limits<double>::infinity();
    bool open_least = true, open_most = true;
    std::string least_text = "nothing is below 0", most_text;
};

void narrow(Allowed& range, const Constraint& c) {
    const auto& [below, equal, above] = c.relation;
    if (below && above) return;
    if (!below && (c.value > range.least || (c.value == range.least && !equal)))
        range.least = c.value, range.open_least = !equal, range.least_text = c.text;
    if (!above && (c.value < range.most || (c.value == range.most && !equal)))
        range.most = c.value, range.open_most = !equal, range.most_text = c.text;
    if (range.least > range.most ||
        (range.least == range.most && (range.open_least || range.open_most)))
        throw ConfigError(
            fmt::format("--where \"{}\": excluded by \"{}\"; no configuration can satisfy both",
                        range.most_text, range.least_text));
}

void check_axis(const Constraint& c, std::span<const Axis> axes, const Experiment& experiment) {
    const SplitField& field = split_fields[c.split_key];
    const auto axis = std::ranges::find_if(
        axes, [&](const Axis& one) { return split_index(one.key) == c.split_key; });
    if (axis == axes.end()) {
        if (!varies_every_split(axes) && !c.relation.holds(field.get(plan_of(experiment)), c.value))
            throw ConfigError(fmt::format(
                "--where \"{}\": {} is {} and does not vary; expected --vary {}=..", c.text,
                field.key, get_key(experiment, std::string(field.key)), field.key));
        return;
    }
    for (const std::string& value : axis->values) {
        if (value == "rest") return;
        Experiment tried = experiment;
        set_key(tried, {axis->key, value});
        if (c.relation.holds(field.get(plan_of(tried)), c.value)) return;
    }
    throw ConfigError(
        fmt::format("--where \"{}\": no value of --vary {} satisfies it", c.text, axis->key));
}

}  // namespace

double cost_per_token(const PointFacts& facts, Seconds step) {
    return facts.price * step.si() / facts.tokens;
}

std::vector<Constraint> parse_constraints(std::span<const std::string> texts) {
    std::vector<Constraint> constraints;
    for (const std::string& text : texts) {
        std::string_view left = text;
        while (true) {
            const auto join = left.find(" and ");
            constraints.push_back(at_place("--where \"" + text + "\"", [&] {
                return parse_one(trimmed(left.substr(0, join), " "));
            }));
            if (join == std::string_view::npos) break;
            left.remove_prefix(join + 5);
        }
    }
    return constraints;
}

void check_constraints(std::span<const Constraint> constraints, std::span<const Axis> axes,
                       const Experiment& experiment) {
    std::map<std::pair<Measure, std::size_t>, Allowed> ranges;
    const bool one_cluster = std::ranges::none_of(axes, [](const Axis& axis) {
        return axis.key.starts_with("cluster.") || axis.key == "machines";
    });
    for (const Constraint& c : constraints) {
        Allowed fresh;
        fresh.open_least = c.measure != Measure::split;
        Allowed& range = ranges.try_emplace({c.measure, c.split_key}, fresh).first->second;
        narrow(range, c);
        if (c.measure == Measure::split) check_axis(c, axes, experiment);
        if (c.measure == Measure::cost && one_cluster && experiment.cluster.price_per_gpu_hour == 0)
            throw ConfigError(
                fmt::format("--where \"{}\": cluster.price_per_gpu_hour is 0; expected --set "
                            "cluster.price_per_gpu_hour=2.5, say",
                            c.text));
        if (const Bytes memory = experiment.cluster.gpu.memory; c.measure == Measure::memory_peak &&
                                                                one_cluster && memory > Bytes(0) &&
                                                                range.least >= memory.si())
            throw ConfigError(
                fmt::format("--where \"{}\": the device has {}, and what does not fit never counts",
                            c.text, to_string(memory)));
    }
}

bool holds(const Constraint& c, const PointFacts& facts, Seconds step) {
    return c.relation.holds(measured(c, facts, step), c.value);
}

bool can_hold(const Constraint& c, const PointFacts& facts, Seconds lower) {
    const auto& [below, equal, above] = c.relation;
    if (c.measure == Measure::split) return holds(c, facts, lower);
    if (quantity(c).rises && (!below || above)) return true;
    if (quantity(c).falls && (!above || below || lower <= Seconds(0))) return true;
    return holds(c, facts, lower);
}

}  // namespace stepcast
