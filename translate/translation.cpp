#include "translate/translation.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/files/plain_text.h"
#include "translate/document.h"
#include "translate/readers.h"

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
    if (!t.framework.empty()) text += fmt::format("\n[framework]\npreset = {}\n", quoted(t.framework));
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

// What changes a step's work or memory and has no key: one table for the files of all tools, so that none of them hides it among
// the flags that say nothing of a step.

namespace {

struct Unmodelled {
    std::string_view name, instead;  // with whatever sections before it; what the forecast has in its place
};
constexpr std::string_view on_device = "memory of the host is not modelled; the forecast keeps all on the device";
constexpr std::string_view moments = "the forecast keeps the optimizer's states in fp32";
constexpr std::string_view of_kinds = "layers of several kinds; the forecast has attention in each";
constexpr std::string_view exact = "ZeRO++'s quantized messages are not modelled; the forecast sends whole elements";
constexpr Unmodelled unmodelled[] = {{"optimizer_cpu_offload", on_device},
                                     {"cpu_optimizer", on_device},
                                     {"cpu_offloading", on_device},
                                     {"cpu_offloading_num_layers", on_device},
                                     {"fine_grained_activation_offloading", on_device},
                                     {"enable_cpu_offload", on_device},
                                     {"cpu_offload", on_device},
                                     {"cpu_offload_params", on_device},
                                     {"offload_optimizer.device", on_device},
                                     {"offload_param.device", on_device},
                                     {"cpu_checkpointing", on_device},
                                     {"exp_avg_dtype", moments},
                                     {"exp_avg_sq_dtype", moments},
                                     {"main_params_dtype", moments},
                                     {"zero_quantized_weights", exact},
                                     {"zero_quantized_gradients", exact},
                                     {"hybrid_layer_pattern", of_kinds},
                                     {"hybrid_override_pattern", of_kinds},
                                     {"is_hybrid_model", of_kinds},
                                     {"hybrid_attention_ratio", of_kinds},
                                     {"experimental_attention_variant", "the forecast has the usual attention"},
                                     {"linear_attention_type", "the forecast has the usual attention"},
                                     {"heterogeneous_layers_config_path", "layers of several sizes; the forecast has all alike"},
                                     {"decoder_num_layers", "the forecast has no decoder beside the layers"},
                                     {"moe_latent_size", "the forecast has experts on vectors of the hidden size"}};

bool is_named(std::string_view whole, std::string_view name) {
    return whole.ends_with(name) && (whole.size() == name.size() || whole[whole.size() - name.size() - 1] == '.');
}

// Off, or as it is without the flag.
bool changes_nothing(const std::string& value) {
    static constexpr std::array plain{"", "false", "no", "off", "none", "null", "fp32", "float32", "torch.float32"};
    const auto number = as_number<double>(value);
    return number ? *number == 0 : std::ranges::find(plain, lower_case(value)) != plain.end();
}

}  // namespace

void name_unmodelled(Document& d, Translation& t) {
    std::set<std::string> seen;
    for (const auto& value : d.values)
        for (const auto& [name, instead] : unmodelled) {
            if (!is_named(value.name, name) || !seen.insert(value.name).second) continue;
            const auto* v = d.find(value.name);
            if (!v || changes_nothing(v->value)) continue;
            t.problems.push_back(fmt::format("{} ({}): {}{}", v->name, v->at, instead == moments ? v->value + "; " : "", instead));
        }
}

void leave_rest(Document& d, Translation& t) {
    name_unmodelled(d, t);
    for (const auto& value : d.values)
        if (!value.used) t.ignored.push_back(value.name);
}

void set_optimizer(Translation& t, const NamedValue& value) {
    static constexpr std::array adams{"adam", "adamw", "fusedadam", "distributedfusedadam", "megatronfusedadam", "mcoredistributedoptim"};
    std::string name = lower_case(value.value);
    std::erase(name, '_');
    const bool sgd = name == "sgd", lamb = name.ends_with("lamb");
    const std::string taken = sgd ? "sgd" : lamb ? "lamb" : "adam";
    if (!sgd && name != "lamb" && name != "fusedlamb" && std::ranges::find(adams, name) == adams.end())
        t.problems.push_back(fmt::format("{} ({}): {} is not modelled; taken as {}", value.name, value.at, value.value, taken));
    t.set("workload.optimizer", taken, value.at);
}

}  // namespace stepcast
