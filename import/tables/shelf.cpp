#include "import/tables/shelf.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <ranges>
#include <regex>
#include <sstream>

#include <fmt/format.h>

#include "import/tables/cluster.h"
#include "import/tables/row_parts.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/text_search.h"
#include "model/input/key_values.h"
#include "model/input/presets.h"
#include "model/input/toml_reader.h"

namespace stepcast {

const Cluster& Shelf::cluster(const std::string& preset_or_file) {
    const auto found = clusters_.find(preset_or_file);
    if (found != clusters_.end()) return found->second;
    return clusters_.emplace(preset_or_file, read_cluster(preset_or_file)).first->second;
}

const Framework& Shelf::framework(const std::string& preset_or_file) {
    const auto found = frameworks_.find(preset_or_file);
    if (found != frameworks_.end()) return found->second;
    return frameworks_.emplace(preset_or_file, read_framework(preset_or_file)).first->second;
}

const std::vector<ModelFamily>& Shelf::families() {
    if (!families_) families_ = read_families();
    return *families_;
}

const std::vector<NamedNetwork>& Shelf::networks() {
    if (networks_) return *networks_;
    // if one file is wrong nothing is kept, so that every row reports the error
    std::vector<NamedNetwork> read;
    const auto folder = std::filesystem::path(sources_path()).parent_path() / "networks";
    std::error_code missing;
    for (const auto& file : std::filesystem::directory_iterator(folder, missing)) {
        NamedNetwork& network = read.emplace_back();
        network.name = file.path().stem().string();
        for (const TomlEntry& entry : read_toml(file.path().string()).entries) {
            if (entry.path == "names") {
                read_value(entry.value, network.names);
                continue;
            }
            std::string text;
            read_value(entry.value, text);
            network.keys.push_back({"cluster." + entry.path, text});
        }
    }
    networks_ = std::move(read);
    return *networks_;
}

namespace {

std::vector<std::string> keys_of_words() {
    std::vector<std::string> keys = cells_of_words();
    for (const char* key : {"in", "phrase", "but_not", "at", "with", "said", "refuse", "source"})
        keys.emplace_back(key);
    return keys;
}

}  // namespace

// Arrays of tables are read as "rule.0.source".
const std::vector<SourceRow>& Shelf::sources(const std::string& table) {
    static const std::map<std::string, std::vector<std::string>> columns{
        {"word", keys_of_words()},
        {"unstated", {"phrase", "source"}},
        {"assumed", {"phrase", "source"}},
        {"module", {"name", "runs", "calls"}},
        {"script", {"cluster"}},
        {"rule", {"source", "word", "names", "zero", "experts", "since", "until", "framework"}},
        {"batches", {"source", "since", "until"}},
        {"device", {"family", "form", "cluster", "year"}},
        {"size", {"model", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "source"}},
        {"measured", {"source"}},
        {"met", {"source"}},
        {"memory", {"family", "size", "bandwidth"}},
        {"tuned", {"kernels", "form", "device", "shapes"}},
        {"scale_layout", {"kernels"}},
        {"compiler", {"word"}},
        {"release", {"library", "since", "exchange_small"}},
        {"recipe",
         {"source", "model", "device", "precision", "since", "recompute", "dispatch",
          "overlap_experts"}}};
    if (!sources_.empty()) return sources_.at(table);
    std::map<std::string, std::map<int, SourceRow>> found;
    std::vector<TomlEntry> entries = read_toml(sources_path()).entries;
    std::ranges::move(read_toml(table_words_path()).entries, std::back_inserter(entries));
    for (const TomlEntry& entry : entries) {
        const auto first = entry.path.find('.'), last = entry.path.rfind('.');
        const auto names = columns.find(entry.path.substr(0, first));
        if (names == columns.end())
            throw ConfigError(fmt::format("{}: {}: unknown table; expected [[{}]]", entry.key_at,
                                          entry.path, joined(std::views::keys(columns), "]], [[")));
        const auto name = entry.path.substr(last + 1);
        if (first == last || !contains(names->second, name))
            throw ConfigError(fmt::format("{}: {}: unknown key; expected {} of [[{}]]",
                                          entry.key_at, entry.path, joined(names->second, ", "),
                                          names->first));
        read_value(entry.value, found[names->first][std::stoi(entry.path.substr(first + 1))][name]);
    }
    for (const auto& [name, keys] : columns) {
        std::vector<SourceRow>& rows = sources_[name];
        for (auto& [number, row] : found[name]) {
            for (const auto& key : keys) row.try_emplace(key);
            rows.push_back(std::move(row));
        }
    }
    return sources_.at(table);
}

const RowWords& Shelf::words() {
    if (!words_) words_.emplace(sources("word"), sources("unstated"), sources("assumed"));
    return *words_;
}

const std::string& Shelf::stated_framework(const CaseRow& row) const {
    static const std::string none;
    if (!chosen_.empty()) return chosen_;
    const std::string& stated = row.cell("framework");
    return forgotten_.contains(stated) ? none : stated;
}

namespace {

// "megatron-lm" and "megatron_lm" name one source.
std::string source_name(std::string text) {
    for (char& c : text)
        if (c == '-' || c == ' ') c = '_';
    return text;
}

// The latest year in a date as "2025-10-21" or "_202510_" of what the row says of its origin; 0 if
// it has none.
int stated_year(const CaseRow& row) {
    static const std::regex date(R"(\b(20[12]\d)-[01]\d-[0-3]\d\b|_(20[12]\d)[01]\d_)");
    const auto text = row.cell("ref") + " " + row.cell("notes");
    int latest = 0;
    for (std::sregex_iterator at(text.begin(), text.end(), date), end; at != end; ++at)
        latest = std::max(latest, std::stoi((*at)[(*at)[1].matched ? 1 : 2]));
    return latest;
}

// One of the words is among the source's; true if there is none to have.
bool has_one_word(const std::string& source, const std::string& words) {
    std::istringstream each(words);
    std::string word;
    while (each >> word)
        if (has("_" + source + "_", "_" + word + "_")) return true;
    return words.empty();
}

// The ZeRO stage that the row states, as in "3 (prefetch on)", is one of the rule's.
bool in_stages(const SourceRow& rule, const CaseRow& row) {
    const auto stage = row.cell("zero").substr(0, 1);
    return rule.at("zero").empty() || (!stage.empty() && has(rule.at("zero"), stage));
}

// The longest of the rules' names whose words the source's name begins with: "nemo_automodel" is
// another software than "nemo", and "nemotron" is neither. Empty if none is known.
std::string known_name(const std::string& source, const std::vector<SourceRow>& rules) {
    std::string longest;
    for (const SourceRow& rule : rules) {
        const std::string name = source_name(rule.at("source"));
        if (name.size() > longest.size() && (source + "_").starts_with(name + "_")) longest = name;
    }
    return longest;
}

bool in_years(const SourceRow& rule, int year) {
    const auto limit = [&](const char* key, int none) {
        return rule.at(key).empty() ? none : std::stoi(rule.at(key));
    };
    return year >= limit("since", 0) && year <= limit("until", 9999);
}

}  // namespace

// Software is at least as young as the device that it runs on.
std::pair<int, std::string> Shelf::software_year(const CaseRow& row) {
    if (const int stated = stated_year(row)) return {stated, "as dated"};
    const auto family = device_family(row.cell("gpu"), *this);
    for (const SourceRow& device : sources("device"))
        if (device.at("family") == family && !device.at("year").empty())
            return {std::stoi(device.at("year")), "the year of its device, " + family};
    return {0, "no year known"};
}

bool Shelf::batches_as_stages(const CaseRow& row) {
    const auto from = source_name(lower_case(row.cell("source")));
    const int year = software_year(row).first;
    return std::ranges::any_of(sources("batches"), [&](const SourceRow& rule) {
        return has(from, source_name(rule.at("source"))) && in_years(rule, year);
    });
}

const SourceRow* Shelf::rule_of(const CaseRow& row) {
    const auto from = source_name(lower_case(row.cell("source")));
    const auto named = lower_case(row.cell("case_id") + " " + row.cell("notes"));
    const int year = software_year(row).first;
    const std::string known = known_name(from, sources("rule"));
    const auto& rules = sources("rule");
    const auto found = std::ranges::find_if(rules, [&](const SourceRow& rule) {
        const std::string of = source_name(rule.at("source"));
        return (of.empty() || of == known) && has(named, rule.at("names")) &&
               has_one_word(from, rule.at("word")) && in_stages(rule, row) &&
               in_years(rule, year) && (rule.at("experts").empty() || states(row, "experts")) &&
               !forgotten_.contains(rule.at("framework"));
    });
    return found == rules.end() ? nullptr : &*found;
}

const Framework& Shelf::framework_of(const CaseRow& row, std::string* why) {
    if (const auto& stated = stated_framework(row); !stated.empty())
        return at_place("framework", [&]() -> const Framework& { return framework(stated); });
    const SourceRow* const rule = rule_of(row);
    if (!rule) return framework(std::string(default_framework));
    if (why && !(rule->at("since") + rule->at("until")).empty()) {
        const auto [year, said] = software_year(row);
        *why = fmt::format("\"{}\" is read as {}, software of {} ({})", row.cell("source"),
                           rule->at("framework"), year, said);
    }
    return framework(rule->at("framework"));
}

bool Shelf::names_software(const CaseRow& row) {
    if (!stated_framework(row).empty()) return true;
    const SourceRow* const rule = rule_of(row);
    return rule && !(rule->at("source") + rule->at("word")).empty();
}

}  // namespace stepcast
