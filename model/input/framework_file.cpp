#include "model/input/framework_file.h"
#include "model/base/joined.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/experiment.h"
#include "model/input/key_values.h"
#include "model/input/older_framework_lines.h"
#include "model/input/older_keys.h"

namespace stepcast {
namespace {

std::string toml_value(std::string_view key, const std::string& text) {
    Experiment holder;
    assign_text(*find_key(key), holder, text);
    return toml_text_of(*find_key(key), holder);
}

// ---- [[when]]

// "when.2.if.parallelism.zero"
struct WhenPath {
    std::size_t number = 0;
    std::string_view part, key;  // part: if, unless or set
};
std::optional<WhenPath> when_path(std::string_view path) {
    WhenPath found;
    if (!path.starts_with("when.")) return std::nullopt;
    path.remove_prefix(5);
    const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), found.number);
    path.remove_prefix(as_index(end - path.data()));
    if (error != std::errc() || !path.starts_with('.')) return std::nullopt;
    path.remove_prefix(1);
    found.part = path.substr(0, path.find('.'));
    found.key = path.substr(std::min(path.size(), found.part.size() + 1));
    return found;
}

const Key& key_that(std::string_view path, bool (*fits)(std::string_view), const char* expected) {
    const Key* const key = find_key(path);
    if (!key || is_preset(*key)) throw ConfigError(unknown_key(std::string(path)));
    const std::string_view now = canonical(*key);
    if (!fits(now)) refuse("found {}; expected {}", now, expected);
    return *key;
}
// What a rule sets the key to, in its present words.
std::string ruled_text(const Key& key, const ConfigValue& value) {
    Experiment holder;
    assign(key, holder, value);
    if (says_nothing(key, holder))
        throw ConfigError("found mla, which is a model's; expected a kernel: flash, for example");
    return text_of(*find_key(canonical(key)), holder);
}
bool may_be_asked(std::string_view key) { return !may_be_ruled(key); }

void take_condition(std::vector<Condition>& conditions, std::string_view path,
                    const ConfigValue& value) {
    const Key& key =
        key_that(path, may_be_asked, "a key that no framework sets, for example parallelism.zero");
    Condition& one = conditions.emplace_back(Condition{std::string(canonical(key)), {}});
    const auto* const list = std::get_if<std::vector<ConfigValue>>(&value.value);
    for (const ConfigValue& each : list ? std::span(*list) : std::span(&value, 1))
        one.values.push_back(checked_text(key, each));
}

constexpr const char* what_is_ruled =
    "a key of [runtime], of cluster.host, cluster.link.*.training, or workload.optimizer, "
    "workload.dropout, workload.head_share, workload.tied";

// The lines of one [[when]].
struct When {
    std::vector<Condition> when, unless;
    std::vector<Override> sets;
};

void take_when(When& all, const WhenPath& path, const ConfigValue& value) {
    if (path.part == "if") return take_condition(all.when, path.key, value);
    if (path.part == "unless") return take_condition(all.unless, path.key, value);
    if (path.part != "set") throw ConfigError("expected if, unless or set");
    const Key& key = key_that(path.key, may_be_ruled, what_is_ruled);
    all.sets.push_back({std::string(canonical(key)), ruled_text(key, value)});
}

void take_line(Framework& f, const std::string& path, const ConfigValue& value) {
    if (const OlderLine* const line = older_line(path)) return take_older_line(f, *line, value);
    const Key& key = key_that(path, may_be_ruled, what_is_ruled);
    set_rule(f, std::string(canonical(key)), ruled_text(key, value));
}

std::string conditions_text(const char* word, const std::vector<Condition>& conditions) {
    if (conditions.empty()) return "";
    std::vector<std::string> lines;
    for (const Condition& one : conditions) {
        std::vector<std::string> values;
        for (const std::string& value : one.values) values.push_back(toml_value(one.key, value));
        lines.push_back(values.size() == 1
                            ? fmt::format("{} = {}", one.key, values.front())
                            : fmt::format("{} = [{}]", one.key, joined(values, ", ")));
    }
    return fmt::format("{} = {{{}}}, ", word, joined(lines, ", "));
}

}  // namespace

bool is_framework_line(std::string_view key) {
    if (older_line(key) || when_path(key)) return true;
    const Key* const found = find_key(key);
    return found && !is_preset(*found) && may_be_ruled(canonical(*found));
}

std::vector<std::string> framework_line_names() {
    std::vector<std::string> names;
    for (const Key& key : all_keys())
        if (may_be_ruled(key.path)) names.emplace_back(key.path);
    for (const OlderLine& one : older_lines()) names.emplace_back(one.old);
    return names;
}

std::string_view framework_key(std::string_view path) {
    constexpr std::string_view table = "framework.";
    if (!path.starts_with(table) || !is_framework_line(path.substr(table.size()))) return {};
    return path.substr(table.size());
}

ConfigValue value_of_line(std::string_view path, const std::string& text) {
    const OlderLine* const line = older_line(path);
    const auto when = when_path(path);
    const Key* const key = find_key(line ? line->now : when ? when->key : path);
    // older words for a name were switches and numbers
    const bool switched = line && path != "expert_products" &&
                          (!key->type->names.empty() || path == "bucket_weights");
    if (!key || switched) return number_or_word_of(text);
    return key->type->typed(text);
}

void take_framework_lines(Framework& f, const std::vector<TomlEntry>& lines) {
    std::map<std::size_t, When> whens;
    for (const TomlEntry& line : lines)
        at_place(line.value_at + ": " + line.path, [&] {
            if (const auto path = when_path(line.path))
                take_when(whens[path->number], *path, line.value);
            else
                take_line(f, line.path, line.value);
        });
    for (const auto& [number, when] : whens)
        for (const Override& set : when.sets) f.rules.push_back({when.when, when.unless, set});
}

std::string framework_line(const Framework& f, std::string_view path) {
    const OlderLine* const line = older_line(path);
    const Key* const key = line ? nullptr : find_key(path);
    const std::string* const value = ruled_value(f, line  ? line->now
                                                    : key ? canonical(*key)
                                                          : path);
    if (!value || !line || line->if_true.empty()) return value ? *value : "";
    return *value == line->if_true ? "true" : "false";
}

std::string rules_text(const Framework& f, bool plain_alone) {
    std::string text, when;
    for (const FrameworkRule& rule : f.rules) {
        const std::string set =
            fmt::format("{} = {}", rule.set.key, toml_value(rule.set.key, rule.set.value));
        if (rule.when.empty() && rule.unless.empty())
            text += set + "\n";
        else
            when += fmt::format("  {{{}{}set = {{{}}}}},\n", conditions_text("if", rule.when),
                                conditions_text("unless", rule.unless), set);
    }
    return text + (when.empty() || plain_alone ? "" : "when = [\n" + when + "]\n");
}

}  // namespace stepcast
