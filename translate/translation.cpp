#include "translate/translation.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "model/errors.h"
#include "translate/document.h"

namespace stepcast {
namespace {

const std::map<std::string, std::string>& kinds() {
    static const std::map<std::string, std::string> all = [] {
        std::map<std::string, std::string> found;
        for (const KeyDoc& doc : key_docs()) found.emplace(doc.key, doc.kind);
        return found;
    }();
    return all;
}

bool is_bare(const std::string& kind) {
    return kind == "integer" || kind == "number" || kind == "boolean" || kind == "integers" || kind == "numbers";
}

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += static_cast<unsigned char>(c) < 32 ? ' ' : c;
    }
    return result + "\"";
}

// Checked by the key itself, so that a wrong value is told where it stands and not in what was made of it.
std::string toml_value(const Setting& setting) {
    const auto kind = kinds().find(setting.key);
    if (kind == kinds().end()) throw std::logic_error("translate: " + setting.key + " is no key");
    if (kind->second == "preset") return quoted(setting.value);
    Experiment scratch;
    try {
        set_key(scratch, {setting.key, setting.value});
    } catch (const ConfigError& error) {
        const std::string what = error.what();
        throw ConfigError(setting.at + ": " + what.substr(what.find(": ") + 2));
    }
    return is_bare(kind->second) ? setting.value : quoted(setting.value);
}

std::string one_line(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < 32) c = ' ';
    return text;
}

}  // namespace

void Translation::set(const std::string& key, const std::string& value, const std::string& at) {
    const auto found = std::ranges::find(settings, key, &Setting::key);
    if (found == settings.end())
        settings.push_back({key, value, at});
    else
        *found = {key, value, at};
}

void Translation::take(const std::string& key, const NamedValue* value, const KeyText& read, const std::string& otherwise) {
    if (value != nullptr) set(key, read(*value), value->at);
    else if (!otherwise.empty()) take_default(key, otherwise);
}

void Translation::take_default(const std::string& key, const std::string& value) {
    if (find(key)) return;
    settings.push_back({key, value, "default of " + format});
    defaulted.push_back(key + " = " + value);
}

const Setting* Translation::find(const std::string& key) const {
    const auto found = std::ranges::find(settings, key, &Setting::key);
    return found == settings.end() ? nullptr : &*found;
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
            throw ConfigError(fmt::format("{}: found a split over more ranks than {} ({} = {}); expected no more", path, most, key, count(key, 1)));
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
        text += fmt::format("\n[framework]\npreset = {}\n", quoted(t.framework));
    for (const char* table : {"workload", "parallelism", "cluster", "routing", "run"}) {
        std::string lines;
        const std::string prefix = std::string(table) + ".";
        for (const Setting& setting : t.settings)
            if (setting.key.starts_with(prefix))
                lines += fmt::format("{:<36}  # {}\n", setting.key.substr(prefix.size()) + " = " + toml_value(setting),
                                     one_line(setting.at));
        if (!lines.empty()) text += fmt::format("\n[{}]\n{}", table, lines);
    }
    return text;
}

std::vector<std::string> report(const Translation& t) {
    const auto stated = static_cast<std::size_t>(std::ranges::count_if(
        t.settings, [](const Setting& s) { return !s.at.starts_with("default of "); }));
    std::vector<std::string> lines{fmt::format("{}: {}, {} values taken, {} defaults, {} ignored", t.path, t.format,
                                               stated, t.defaulted.size(), t.ignored.size())};
    const auto list = [&](const char* what, const std::vector<std::string>& items, std::size_t most) {
        if (items.empty()) return;
        std::string text;
        for (std::size_t i = 0; i < std::min(most, items.size()); ++i) text += (i ? ", " : "") + one_line(items[i]);
        if (items.size() > most) text += fmt::format(" and {} more", items.size() - most);
        lines.push_back(fmt::format("{}: {}", what, text));
    };
    list("defaults", t.defaulted, 12);
    list("ignored", t.ignored, 12);
    for (const std::string& line : t.open) lines.push_back("open: " + line);
    for (const std::string& line : t.problems) lines.push_back("problem: " + line);
    return lines;
}

}  // namespace stepcast
