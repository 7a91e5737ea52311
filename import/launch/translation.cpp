#include "import/launch/translation.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "import/launch/document.h"
#include "import/launch/launch_flags.h"
#include "import/launch/tool_files.h"
#include "import/launch/translate.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/input/key_values.h"
#include "model/input/keys.h"

namespace stepcast {
namespace {

std::string one_line(std::string text) {
    std::ranges::replace_if(
        text, [](unsigned char c) { return c < 32; }, ' ');
    return text;
}

// The key itself checks the value, so that an error names the place where the value was stated.
std::string toml_value(const Setting& setting) {
    const Key* const key = find_key(setting.key);
    if (!key) throw std::logic_error("translate: " + setting.key + " is no key");
    if (is_preset(*key)) return quoted_toml(setting.value);
    Experiment scratch;
    try {
        set_key(scratch, {setting.key, setting.value});
    } catch (const ConfigError& error) {
        const std::string what = error.what();
        throw ConfigError(setting.at + ": " + what.substr(what.find(": ") + 2));
    }
    return key->type->quoted ? quoted_toml(setting.value) : setting.value;
}

}  // namespace

void Translation::problem(const NamedValue& value, const std::string& text) {
    add_line(problems, "{} ({}): {}", value.name, value.at, text);
}

void Translation::set(const std::string& key, const std::string& value, const std::string& at) {
    const auto found = first_with(settings, key, &Setting::key);
    if (!found) {
        settings.push_back({key, value, at});
        return;
    }
    *found = {key, value, at};
    std::erase_if(defaulted,
                  [&](const std::string& line) { return line.starts_with(key + " = "); });
}

void Translation::take(const std::string& key, const NamedValue* value, const KeyText& read,
                       const std::string& otherwise) {
    if (value != nullptr)
        set(key, read(*value), value->at);
    else if (!otherwise.empty())
        take_default(key, otherwise);
}

void Translation::take_default(const std::string& key, const std::string& value) {
    if (find(key)) return;
    settings.push_back({key, value, "default of " + format});
    defaulted.push_back(key + " = " + value);
}

const Setting* Translation::find(const std::string& key) const {
    return first_with(settings, key, &Setting::key);
}

long Translation::count(const std::string& key, long otherwise) const {
    const auto* setting = find(key);
    return setting ? std::stol(toml_value(*setting)) : otherwise;
}

long Translation::ranks_of_split() const {
    constexpr long most = 1'000'000;
    long ranks = 1;
    for (const char* key : {"parallelism.tp", "parallelism.pp", "parallelism.cp"}) {
        ranks *= count(key, 1);
        if (ranks > most)
            refuse(
                "{}: found a parallel layout over more ranks than {} ({} = {}); expected no more",
                path, most, key, count(key, 1));
    }
    return ranks;
}

long Translation::layers() const {
    if (const auto* preset = find("workload.preset")) {
        Experiment named;
        set_key(named, {"workload.preset", preset->value});
        return named.workload.layers;
    }
    return count("workload.layers", 0);
}

std::string experiment_text(const Translation& t) {
    std::string text = fmt::format("# {}: {}, translated\n", one_line(t.path), t.format);
    for (const auto& lines : {t.problems, t.open})
        for (const std::string& line : lines) text += "# " + one_line(line) + "\n";
    if (!t.framework.empty())
        text += fmt::format("\n[framework]\npreset = {}\n", quoted_toml(t.framework));
    for (const char* table : {"workload", "parallelism", "runtime", "cluster", "routing", "run"}) {
        std::string lines;
        const std::string prefix = std::string(table) + ".";
        for (const Setting& setting : t.settings)
            if (setting.key.starts_with(prefix))
                lines +=
                    fmt::format("{:<36}  # {}\n",
                                setting.key.substr(prefix.size()) + " = " + toml_value(setting),
                                one_line(setting.at));
        if (!lines.empty()) text += fmt::format("\n[{}]\n{}", table, lines);
    }
    return text;
}

std::vector<std::string> report(const Translation& t) {
    const auto stated = as_index(std::ranges::count_if(
        t.settings, [](const Setting& s) { return !s.at.starts_with("default of "); }));
    const bool less = stated < t.ignored.size() + t.problems.size();
    std::vector<std::string> lines{
        fmt::format("{}: {}, {} values taken, {} defaults, {} ignored{}", t.path, t.format, stated,
                    t.defaulted.size(), t.ignored.size(), less ? ": less is taken than left" : "")};
    const auto list = [&](const char* what, const std::vector<std::string>& items,
                          std::size_t most) {
        if (items.empty()) return;
        std::string text;
        for (std::size_t i = 0; i < std::min(most, items.size()); ++i)
            text += (i ? ", " : "") + one_line(items[i]);
        if (items.size() > most) text += fmt::format(" and {} more", items.size() - most);
        add_line(lines, "{}: {}", what, text);
    };
    list("defaults", t.defaulted, 12);
    list("ignored", t.ignored, 12);
    const auto each = [&](const char* what, const std::vector<std::string>& items) {
        for (const std::string& item : items)
            if (const auto line = what + item; !contains(lines, line)) lines.push_back(line);
    };
    each("open: ", t.open);
    each("problem: ", t.problems);
    return lines;
}

namespace {

bool is_named(std::string_view whole, std::string_view name) {
    return whole.ends_with(name) &&
           (whole.size() == name.size() || whole[whole.size() - name.size() - 1] == '.');
}

}  // namespace

// One table for all tools (launch_flags.h), which keeps a tool's reader from listing such settings
// among those without effect.
void name_unmodelled(Document& d, Translation& t) {
    std::set<std::string> seen;
    for (const auto& value : d.values)
        for (const auto& [name, flag] : launch_flags().problems) {
            if (!flag.everywhere || !is_named(value.name, name) ||
                (flag.unless_taken && value.used) || !seen.insert(value.name).second)
                continue;
            const auto* v = d.find(value.name);
            if (v && !changes_nothing(v->value, flag.usual))
                t.problem(*v, lower_case(v->value) == "true" ? flag.instead
                                                             : v->value + "; " + flag.instead);
        }
}

void leave_rest(Document& d, Translation& t) {
    name_unmodelled(d, t);
    name_unread(d, t);
    for (const auto& value : d.values)
        if (!value.used) t.ignored.push_back(value.name);
}

void keep_on_host(const NamedValue& value, Translation& t) {
    const auto* optimizer = t.find("workload.optimizer");
    if (t.count("parallelism.zero", 0) != 3 || t.count("parallelism.pp", 1) > 1 ||
        (optimizer && optimizer->value != "adam"))
        return t.problem(value,
                         "what the host keeps is modelled for weights that are sharded over all "
                         "ranks, one pipeline stage and Adam; the forecast keeps all on the "
                         "device");
    t.set("run.offload_optimizer", "true", value.at);
    t.set("run.offload_parameters", "true", value.at);
}

void set_optimizer(Translation& t, const NamedValue& value) {
    static constexpr std::array adams{"adam",
                                      "adamw",
                                      "fusedadam",
                                      "distributedfusedadam",
                                      "megatronfusedadam",
                                      "mcoredistributedoptim"};
    std::string name = lower_case(value.value);
    std::erase(name, '_');
    const bool sgd = name == "sgd", lamb = name.ends_with("lamb");
    const bool muon = name == "muon" || name == "distmuon";
    const std::string taken = sgd ? "sgd" : lamb ? "lamb" : muon ? "muon" : "adam";
    if (!sgd && !muon && name != "lamb" && name != "fusedlamb" && !contains(adams, name))
        t.problem(value, fmt::format("{} is not modelled; taken as {}", value.value, taken));
    t.set("workload.optimizer", taken, value.at);
}

}  // namespace stepcast
