#include "sim/sweep/axes.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <set>

#include <fmt/format.h>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/input/keys.h"

namespace stepcast {
namespace {

constexpr std::size_t most_values = 100'000;  // of one key

// FIRST..LAST, FIRST..LAST*FACTOR or FIRST..LAST+STEP.
struct Range {
    long first, last, by;
    bool multiplied;
};

std::optional<Range> range_of(std::string_view text) {
    const auto dots = text.find("..");
    if (dots == std::string_view::npos) return std::nullopt;
    const auto rest = text.substr(dots + 2);
    const auto how = rest.find_first_of("*+");
    const bool plain = how == std::string_view::npos, multiplied = !plain && rest[how] == '*';
    const auto first = as_number<long>(text.substr(0, dots)),
               last = as_number<long>(rest.substr(0, how));
    const auto by = plain ? std::optional<long>(1) : as_number<long>(rest.substr(how + 1));
    if (!first || !last || !by) return std::nullopt;
    if (*last < *first)
        throw ConfigError(fmt::format(
            "{} is an empty range; expected first..last with last not below first", text));
    if (*by < (multiplied ? 2 : 1) || (multiplied && *first < 1))
        throw ConfigError(fmt::format(
            "{} does not rise; expected a step above 0, or a factor of at least 2", text));
    return Range{*first, *last, *by, multiplied};
}

void append_range(std::vector<std::string>& values, const Range& range, std::string_view text) {
    const auto left = [&](long value) {
        return static_cast<std::uint64_t>(range.last) - static_cast<std::uint64_t>(value);
    };
    for (long value = range.first;;
         value = range.multiplied ? value * range.by : value + range.by) {
        if (values.size() == most_values)
            throw ConfigError(
                fmt::format("{} has more than {} values; expected fewer", text, most_values));
        values.push_back(std::to_string(value));
        if (range.multiplied ? value > range.last / range.by
                             : left(value) < static_cast<std::uint64_t>(range.by))
            break;
    }
}

// The first comma that separates values: those in the brackets of a list and in quotes do not.
std::size_t comma_in(std::string_view text) {
    int open = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '"') quoted = !quoted;
        if (quoted) continue;
        open += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
        if (text[i] == ',' && open <= 0) return i;
    }
    if (open > 0)
        throw ConfigError(fmt::format(
            "{}: found a \"[\" without its \"]\"; expected lists as in KEY=[8,8],[6,10]", text));
    return std::string_view::npos;
}

std::vector<std::string> values_of(std::string_view text) {
    std::vector<std::string> values;
    while (true) {
        const auto comma = comma_in(text);
        const auto item = text.substr(0, comma);
        if (item.empty()) throw ConfigError("a value is empty; expected KEY=A,B,C");
        if (const auto range = range_of(item))
            append_range(values, *range, item);
        else
            values.emplace_back(item);
        if (comma == std::string_view::npos) return values;
        text.remove_prefix(comma + 1);
    }
}

// The first value that occurs twice, or "" if none does.
std::string doubled(const std::vector<std::string>& values) {
    std::set<std::string_view> seen;
    for (const auto& value : values)
        if (!seen.insert(value).second) return value;
    return "";
}

bool is_every_split(const Axis& axis) { return axis.key == "parallelism"; }

void check_value(const Axis& axis, const std::string& value, const Experiment& experiment) {
    if (axis.key == "parallelism.dp" && value == "rest") return;
    Experiment tried = experiment;
    try {
        set_varied(tried, axis.key, value);
    } catch (const ConfigError& error) {
        std::string text = error.what();
        if (text.starts_with("--set ")) text.replace(0, 5, "--vary");
        throw ConfigError(text);
    }
}

void check_values(const Axis& axis, const Experiment& experiment) {
    constexpr std::size_t few = 1000;
    if (axis.values.size() <= few)
        for (const auto& value : axis.values) check_value(axis, value, experiment);
    else  // a range: values between its ends are of the same kind
        for (const auto& value : {axis.values.front(), axis.values.back()})
            check_value(axis, value, experiment);
}

}  // namespace

bool lays_preset(const Axis& axis) {
    return axis.key == "machines" || axis.key == "workload.family" || axis.key.ends_with(".preset");
}

void set_varied(Experiment& e, const std::string& key, const std::string& value,
                std::span<const Override> stated) {
    const int nodes = e.cluster.nodes;
    const auto lay = [&](const std::string& preset, const std::string& name) {
        set_key(e, {preset, name});
        if (preset == "cluster.preset") e.cluster.nodes = nodes;
        const auto table = preset.substr(0, preset.find('.') + 1);
        for (const Override& one : stated)
            if (one.key.starts_with(table)) set_key(e, one);
    };
    if (key != "machines") {
        if (lays_preset({key, {}}))
            lay(key, value);
        else
            set_key(e, {key, value});
        return;
    }
    const auto x = value.find('x');
    const auto count = as_number<long>(std::string_view(value).substr(0, x));
    if (x == std::string::npos || !count || *count < 1)
        throw ConfigError(fmt::format(
            "--vary machines={}: expected COUNTxCLUSTER, for example 512xdgx-h100", value));
    lay("cluster.preset", value.substr(x + 1));
    const int of_node = e.cluster.gpus_per_node;
    constexpr long most_nodes = 1L << 17;
    if (*count % of_node != 0 || *count > most_nodes * of_node)
        throw ConfigError(fmt::format(
            "--vary machines={}: {} has {} ranks a node; expected a multiple, for example "
            "{}x{}",
            value, e.cluster.name, of_node, std::min(*count / of_node + 1, most_nodes) * of_node,
            value.substr(x + 1)));
    e.cluster.nodes = as_int(*count / of_node);
}

void set_varied(Experiment& e, const Settings& settings, std::span<const Override> stated) {
    for (const bool presets : {true, false})
        for (const auto& [key, value] : settings)
            if (lays_preset({key, {}}) == presets) set_varied(e, key, value, stated);
}

Axis parse_axis(const std::string& text) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
        throw ConfigError("--vary " + text +
                          ": expected KEY=A,B,C, a range as in KEY=1..64*2, or parallelism=all");
    Axis axis;
    at_place("--vary " + text, [&] {
        axis.key = whole_key(text.substr(0, equals));
        axis.values = values_of(std::string_view(text).substr(equals + 1));
        if (const auto twice = doubled(axis.values); !twice.empty())
            throw ConfigError(twice + " is there twice; expected every value once");
        if (is_every_split(axis) && axis.values != std::vector<std::string>{"all"})
            throw ConfigError("expected parallelism=all, or a key such as parallelism.tp");
    });
    return axis;
}

Axis parse_switch(std::string_view line) {
    const auto equals = line.find('=');
    const Key* const key = find_key(line.substr(0, equals));
    if (equals == std::string_view::npos || !key)
        throw ConfigError(fmt::format("\"{}\"; expected KEY=VALUE|VALUE", line));
    Axis axis{std::string(canonical(*key)), {}};
    for (line.remove_prefix(equals + 1);;) {
        axis.values.emplace_back(line.substr(0, line.find('|')));
        if (line.find('|') == std::string_view::npos) return axis;
        line.remove_prefix(line.find('|') + 1);
    }
}

void check_axes(std::span<const Axis> axes, const Experiment& experiment) {
    if (axes.empty())
        throw ConfigError(
            "sweep: nothing varies; expected --vary KEY=A,B,C, or --vary parallelism=all");
    std::set<std::string_view> keys;
    for (const Axis& axis : axes) {
        if (!keys.insert(axis.key).second)
            throw ConfigError("--vary " + axis.key +
                              ": is there twice; expected all its values in one --vary");
        if (keys.contains("machines") &&
            (keys.contains("cluster.nodes") || keys.contains("cluster.preset")))
            throw ConfigError(
                "--vary machines: is a cluster and its nodes; expected no --vary cluster.preset or "
                "cluster.nodes next to it");
        if (!is_every_split(axis)) check_values(axis, experiment);
    }
    if (varies_every_split(axes) && experiment.workload.kind != Workload::Kind::transformer)
        throw ConfigError(fmt::format(
            "--vary parallelism=all: workload.kind is {}, whose parallel layouts are not all "
            "modelled; expected a transformer, or single keys such as --vary parallelism.ep=1,2,4",
            to_string(experiment.workload.kind)));
}

bool varies_every_split(std::span<const Axis> axes) {
    return std::ranges::any_of(axes, is_every_split);
}

bool is_fixed(std::string_view key, std::span<const Override> stated) {
    return std::ranges::any_of(stated, [&](const Override& one) {
        const Key* const known = find_key(one.key);
        return known && canonical(*known) == key;
    });
}

void fix_set_splits(std::vector<Axis>& axes, std::span<const std::string> set) {
    if (!varies_every_split(axes)) return;
    for (const std::string& text : set | std::views::reverse) {  // the last of a key counts
        const auto [key, value] = parse_override(text);
        const Key* const known = find_key(key);
        const std::size_t split = known ? split_index(canonical(*known)) : split_key_count;
        if (!contains(walked_splits, split, [](SplitKey k) { return as_index(k); })) continue;
        const Axis fixed = parse_axis(key + "=" + value);
        if (!contains(axes, fixed.key, &Axis::key)) axes.push_back(fixed);
    }
}

}  // namespace stepcast
