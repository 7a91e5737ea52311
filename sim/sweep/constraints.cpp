#include "sim/sweep/constraints.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/files/plain_text.h"
#include "sim/sweep/split_keys.h"

namespace stepcast {
namespace {

double number_of(std::string_view text) {
    const auto value = as_number<double>(text);
    if (!value || !std::isfinite(*value)) throw ConfigError(fmt::format("\"{}\" is no number", text));
    return *value;
}

// "45 %" or 0.45.
double share_of(std::string_view text) {
    if (!text.ends_with('%')) return number_of(text);
    return number_of(trimmed(text.substr(0, text.size() - 1), " ")) / 100;
}

struct Word {
    std::string_view text;
    Relation relation;
};
constexpr Word relations[] = {{"<=", Relation::at_most}, {">=", Relation::at_least}, {"!=", Relation::unequal},
                              {"==", Relation::equal},   {"<", Relation::below},     {">", Relation::above},
                              {"=", Relation::equal}};

const std::map<std::string, Measure, std::less<>> measures{{"memory.peak", Measure::memory_peak},
                                                           {"step", Measure::step},
                                                           {"tokens", Measure::tokens},
                                                           {"cost", Measure::cost},
                                                           {"mfu", Measure::mfu}};

void read_quantity(Constraint& c, std::string_view name) {
    if (const auto found = measures.find(name); found != measures.end()) {
        c.measure = found->second;
        return;
    }
    c.measure = Measure::split;
    c.split_key = split_index(whole_key(std::string(name)));
    if (c.split_key < split_key_count) return;
    std::vector<std::string> valid;
    for (const auto& [known, measure] : measures) valid.push_back(known);
    for (const SplitField& field : split_fields()) valid.emplace_back(field.key);
    throw ConfigError(
        fmt::format("\"{}\" is no quantity{}; expected memory.peak, step, tokens, cost, mfu or a key such "
                    "as parallelism.tp",
                    name, did_you_mean(name, valid)));
}

void read_value(Constraint& c, std::string_view text) {
    switch (c.measure) {
        case Measure::memory_peak: c.value = parse_bytes(text).si(); return;
        case Measure::step: c.value = parse_seconds(text).si(); return;
        case Measure::tokens:
        case Measure::cost: c.value = number_of(text); return;
        case Measure::mfu: c.value = share_of(text); return;
        case Measure::split: break;
    }
    Experiment scratch;
    const SplitField& field = split_fields()[c.split_key];
    set_key(scratch, {std::string(field.key), std::string(text)});
    c.value = field.get(scratch.parallelism);
}

Constraint parse_one(std::string_view text) {
    const auto at = text.find_first_of("<>=!");
    if (at == std::string_view::npos)
        throw ConfigError("expected a quantity, a relation and a value, for example \"memory.peak < 76 GiB\"");
    const auto rest = text.substr(at);
    const auto word = std::ranges::find_if(relations, [&](const Word& w) { return rest.starts_with(w.text); });
    if (word == std::end(relations)) throw ConfigError("expected <, <=, >, >=, = or !=");
    Constraint c{.text = std::string(text)};
    c.relation = word->relation;
    read_quantity(c, trimmed(text.substr(0, at), " "));
    const auto value = trimmed(rest.substr(word->text.size()), " ");
    if (value.empty()) throw ConfigError("the value is missing");
    read_value(c, value);
    return c;
}

bool compare(Relation relation, double found, double value) {
    switch (relation) {
        case Relation::below: return found < value;
        case Relation::at_most: return found <= value;
        case Relation::above: return found > value;
        case Relation::at_least: return found >= value;
        case Relation::equal: return found == value;
        case Relation::unequal: return found != value;
    }
    return false;
}

double measured(const Constraint& c, const PointFacts& facts, Seconds step) {
    switch (c.measure) {
        case Measure::memory_peak: return facts.peak.si();
        case Measure::step: return step.si();
        case Measure::tokens: return facts.tokens / step.si();
        case Measure::cost: return 1e6 * cost_per_token(facts, step);
        case Measure::mfu: return facts.flops / step / facts.peak_flops;
        case Measure::split: return split_fields()[c.split_key].get(facts.split);
    }
    return 0;
}

// Values that all constraints on one quantity leave, with who says so.
struct Allowed {
    double least = 0, most = std::numeric_limits<double>::infinity();
    bool open_least = true, open_most = true;
    std::string least_text = "nothing is below 0", most_text;
};

void narrow(Allowed& range, const Constraint& c) {
    const bool from_below = c.relation == Relation::above || c.relation == Relation::at_least;
    const bool from_above = c.relation == Relation::below || c.relation == Relation::at_most;
    if (c.relation == Relation::unequal) return;
    if (!from_above && (c.value > range.least || (c.value == range.least && c.relation == Relation::above)))
        range.least = c.value, range.open_least = c.relation == Relation::above, range.least_text = c.text;
    if (!from_below && (c.value < range.most || (c.value == range.most && c.relation == Relation::below)))
        range.most = c.value, range.open_most = c.relation == Relation::below, range.most_text = c.text;
    if (range.least > range.most || (range.least == range.most && (range.open_least || range.open_most)))
        throw ConfigError(fmt::format("--where \"{}\": excluded by \"{}\"; no configuration can satisfy both",
                                      range.most_text, range.least_text));
}

void check_axis(const Constraint& c, std::span<const Axis> axes, const Experiment& experiment) {
    const SplitField& field = split_fields()[c.split_key];
    const auto axis = std::ranges::find(axes, field.key, &Axis::key);
    if (axis == axes.end()) {
        if (!varies_every_split(axes) && !compare(c.relation, field.get(experiment.parallelism), c.value))
            throw ConfigError(fmt::format("--where \"{}\": {} is {} and does not vary; expected --vary {}=..", c.text,
                                          field.key, get_key(experiment, std::string(field.key)), field.key));
        return;
    }
    for (const std::string& value : axis->values) {
        if (value == "rest") return;
        Experiment tried = experiment;
        set_key(tried, {axis->key, value});
        if (compare(c.relation, field.get(tried.parallelism), c.value)) return;
    }
    throw ConfigError(fmt::format("--where \"{}\": no value of --vary {} satisfies it", c.text, axis->key));
}

}  // namespace

double cost_per_token(const PointFacts& facts, Seconds step) { return facts.price * step.si() / facts.tokens; }

std::vector<Constraint> parse_constraints(std::span<const std::string> texts) {
    std::vector<Constraint> constraints;
    for (const std::string& text : texts) {
        std::string_view left = text;
        while (true) {
            const auto join = left.find(" and ");
            try {
                constraints.push_back(parse_one(trimmed(left.substr(0, join), " ")));
            } catch (const ConfigError& error) {
                throw ConfigError("--where \"" + text + "\": " + error.what());
            }
            if (join == std::string_view::npos) break;
            left.remove_prefix(join + 5);
        }
    }
    return constraints;
}

void check_constraints(std::span<const Constraint> constraints, std::span<const Axis> axes,
                       const Experiment& experiment) {
    std::map<std::pair<Measure, std::size_t>, Allowed> ranges;
    const bool one_cluster =
        std::ranges::none_of(axes, [](const Axis& axis) { return axis.key.starts_with("cluster.") || axis.key == "machines"; });
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
        if (const Bytes memory = experiment.cluster.gpu.memory;
            c.measure == Measure::memory_peak && one_cluster && memory > Bytes(0) && range.least >= memory.si())
            throw ConfigError(fmt::format("--where \"{}\": the device has {}, and what does not fit never counts",
                                          c.text, to_string(memory)));
    }
}

bool holds(const Constraint& c, const PointFacts& facts, Seconds step) {
    return compare(c.relation, measured(c, facts, step), c.value);
}

bool can_hold(const Constraint& c, const PointFacts& facts, Seconds lower) {
    const bool from_above = c.relation == Relation::below || c.relation == Relation::at_most;
    const bool from_below = c.relation == Relation::above || c.relation == Relation::at_least;
    switch (c.measure) {
        case Measure::memory_peak:
        case Measure::split: return holds(c, facts, lower);
        case Measure::step:
        case Measure::cost: return !from_above || holds(c, facts, lower);  // they rise with the step
        case Measure::tokens:
        case Measure::mfu: return !from_below || lower <= Seconds(0) || holds(c, facts, lower);  // and these fall
    }
    return true;
}

}  // namespace stepcast
