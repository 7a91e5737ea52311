#include "model/keys/keys.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "model/errors.h"
#include "model/keys/key_values.h"

namespace stepcast {
namespace {

// Fields are reached by non-const accessors; those who read through it do not write.
Experiment& writable(const Experiment& experiment) { return const_cast<Experiment&>(experiment); }

template <class T>
constexpr bool is_array = std::is_same_v<T, Curve> || std::is_same_v<T, std::vector<GemmPoint>> ||
                          std::is_same_v<T, std::vector<AttentionKernel>> || std::is_same_v<T, std::vector<ExpertKernel>> ||
                          std::is_same_v<T, std::vector<int>> ||
                          std::is_same_v<T, std::vector<double>> || std::is_same_v<T, std::vector<Schedule>> ||
                          std::is_same_v<T, std::vector<Recompute>>;

template <class T>
double number_in(const T& value) {
    if constexpr (requires { value.si(); })
        return value.si();
    else if constexpr (std::is_arithmetic_v<T>)
        return static_cast<double>(value);
    else
        return 0;
}

template <class T>
std::string bound_text(double bound) {
    if constexpr (requires(T v) { v.si(); })
        return to_string(T(bound));
    else
        return fmt::format("{}", bound);
}

template <class T>
void check_range(const Key& key, const T& value) {
    if constexpr (is_optional<T>) {
        if (value) check_range(key, *value);
    } else if constexpr ((std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || requires { value.si(); }) {
        const double number = number_in(value);
        if (!(number >= key.least && number <= key.most))
            throw ConfigError(fmt::format("{} is out of range; expected {} to {}", value_text(value),
                                          bound_text<T>(key.least), bound_text<T>(key.most)));
    }
}

// Bare or quoted words of the command line become what a file would hold; text stays text where text belongs.
template <class T>
ConfigValue typed(const std::string& raw) {
    const bool quoted = raw.size() >= 2 && (raw.front() == '"' || raw.front() == '\'') && raw.back() == raw.front();
    const auto text = quoted ? raw.substr(1, raw.size() - 2) : raw;
    if constexpr (is_optional<T>)
        return typed<typename T::value_type>(raw);
    else if constexpr (is_array<T>)
        return parse_toml_value(text);
    else if constexpr (std::is_same_v<T, std::string> || std::is_enum_v<T>)
        return {text};
    else {
        if (text == "true" || text == "false") return {text == "true"};
        const auto* end = text.data() + text.size();
        std::int64_t integer = 0;
        if (const auto r = std::from_chars(text.data(), end, integer); r.ec == std::errc() && r.ptr == end)
            return {integer};
        double number = 0;
        if (const auto r = std::from_chars(text.data(), end, number); r.ec == std::errc() && r.ptr == end)
            return {number};
        return {text};
    }
}

template <class T>
void assign_field(const Key& key, Field<T> get, Experiment& experiment, const ConfigValue& value) {
    T parsed{};
    read_value(value, parsed);
    check_range(key, parsed);
    get(experiment) = std::move(parsed);
}

// Enumerators count from 0; their names end where to_string() knows none.
template <class E>
std::string listed_names() {
    std::string text;
    for (int i = 0;; ++i) {
        try {
            const std::string name(to_string(static_cast<E>(i)));
            text += (text.empty() ? "" : ", ") + name;
        } catch (const std::logic_error&) {
            return text;
        }
    }
}

[[noreturn]] void preset_is_no_field(const Key& key) {
    throw std::logic_error(std::string(key.path) + " is no field: read_experiment() and set_key() load presets");
}

}  // namespace

const std::vector<Key>& all_keys() {
    static const std::vector<Key> keys = [] {
        std::vector<Key> all(workload_keys().begin(), workload_keys().end());
        all.insert(all.end(), cluster_keys().begin(), cluster_keys().end());
        all.insert(all.end(), framework_keys().begin(), framework_keys().end());
        return all;
    }();
    return keys;
}

const Key* find_key(std::string_view path) {
    for (const auto& key : all_keys())
        if (key.path == path) return &key;
    return nullptr;
}

std::string whole_key(const std::string& word) {
    if (word.empty() || find_key(word) || word.find('.') != std::string::npos) return word;
    std::string found;
    for (const char* table : {"workload", "parallelism", "cluster", "routing", "run"}) {
        const auto path = fmt::format("{}.{}", table, word);
        if (!find_key(path)) continue;
        if (!found.empty())
            throw ConfigError(fmt::format("{} may be {} or {}; expected the whole key", word, found, path));
        found = path;
    }
    return found.empty() ? word : found;
}

std::string unknown_key(const std::string& path, const std::string& prefix) {
    std::vector<std::string> valid;
    std::string beside;
    const auto table = path.substr(0, path.find_last_of('.') + 1);
    for (const auto& key : all_keys()) {
        const bool preset = std::holds_alternative<PresetField>(key.field);
        if (!key.path.starts_with(prefix) || (preset && !prefix.empty())) continue;
        const std::string shown(key.path.substr(prefix.size()));
        valid.push_back(shown);
        if (const auto dot = shown.find('.'); dot != std::string::npos) valid.push_back(shown.substr(0, dot));
        if (const auto rest = shown.substr(std::min(shown.size(), table.size()));
            !table.empty() && shown.starts_with(table) && rest.find('.') == std::string::npos)
            beside += (beside.empty() ? "" : ", ") + rest;
    }
    const auto near = did_you_mean(path, valid);
    if (!near.empty() || beside.empty()) return "unknown key" + near;
    return "unknown key; expected one of " + beside + " in " + table.substr(0, table.size() - 1);
}

void assign(const Key& key, Experiment& experiment, const ConfigValue& value) {
    std::visit(
        [&]<class F>(F get) {
            if constexpr (std::is_same_v<F, PresetField>)
                preset_is_no_field(key);
            else
                assign_field(key, get, experiment, value);
        },
        key.field);
}

void assign_text(const Key& key, Experiment& experiment, const std::string& text) {
    std::visit(
        [&]<class F>(F get) {
            if constexpr (std::is_same_v<F, PresetField>)
                preset_is_no_field(key);
            else
                assign_field(key, get, experiment, typed<std::remove_cvref_t<decltype(get(experiment))>>(text));
        },
        key.field);
}

std::string text_of(const Key& key, const Experiment& experiment) {
    return std::visit(
        [&]<class F>(F get) -> std::string {
            if constexpr (std::is_same_v<F, PresetField>)
                return "";
            else
                return value_text(get(writable(experiment)));
        },
        key.field);
}

std::string toml_text_of(const Key& key, const Experiment& experiment) {
    return std::visit(
        [&]<class F>(F get) -> std::string {
            if constexpr (std::is_same_v<F, PresetField>) {
                return "";
            } else {
                using T = std::remove_cvref_t<decltype(get(writable(experiment)))>;
                const auto text = value_text(get(writable(experiment)));
                if constexpr (std::is_arithmetic_v<T> || is_array<T> || std::is_same_v<T, std::optional<bool>> ||
                              std::is_same_v<T, std::optional<double>>)
                    return text;
                else
                    return quoted_toml(text);
            }
        },
        key.field);
}

std::string names_text(const Key& key) {
    return std::visit(
        []<class F>(F get) -> std::string {
            if constexpr (!std::is_same_v<F, PresetField>) {
                using T = std::remove_cvref_t<decltype(get(std::declval<Experiment&>()))>;
                if constexpr (std::is_enum_v<T>) return listed_names<T>();
            }
            return "";
        },
        key.field);
}

bool is_missing(const Key& key, const Experiment& experiment) {
    return std::visit(
        [&]<class F>(F get) {
            if constexpr (std::is_same_v<F, PresetField>)
                return false;
            else
                return number_in(get(writable(experiment))) < key.least;
        },
        key.field);
}

bool is_unset(const Key& key, const Experiment& experiment) {
    const auto text = text_of(key, experiment);
    return text == text_of(key, Experiment{}) &&
           (text.empty() || text == "[]" || text == "0" || text.starts_with("0 "));
}

std::vector<KeyDoc> key_docs() {
    std::vector<KeyDoc> docs;
    const Experiment defaults;
    for (const auto& key : all_keys()) {
        const auto kind = std::visit(
            []<class F>(F get) -> std::string {
                if constexpr (std::is_same_v<F, PresetField>)
                    return "preset";
                else
                    return std::string(kind_of<std::remove_cvref_t<decltype(get(std::declval<Experiment&>()))>>());
            },
            key.field);
        docs.push_back({std::string(key.path), kind, is_missing(key, defaults) ? "required" : text_of(key, defaults),
                        std::string(key.meaning), names_text(key)});
    }
    return docs;
}

}  // namespace stepcast
