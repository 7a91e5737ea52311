#include <algorithm>

#include <fmt/format.h>

#include "model/cluster.h"
#include "model/errors.h"
#include "model/keys/key_values.h"
#include "model/keys/keys.h"
#include "model/layers.h"
#include "model/machine/priors.h"
#include "model/records/provenance.h"

namespace stepcast {
namespace {

bool is_fitted(const std::string& path) { return path == "fitted" || path.starts_with("fitted."); }

// "fitted.parameters.2.key" -> the third element of `rows`, field "key"; nullptr for another table.
template <class Row>
Row* row_of(std::vector<Row>& rows, const std::string& path, const std::string& table, std::string& name) {
    if (!path.starts_with(table)) return nullptr;
    const auto dot = path.find('.', table.size());
    if (dot == std::string::npos) return nullptr;
    const auto digits = path.substr(table.size(), dot - table.size());
    if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos)
        return nullptr;
    const auto index = static_cast<std::size_t>(std::stoul(digits));
    if (index >= rows.size()) rows.resize(index + 1);
    name = path.substr(dot + 1);
    return &rows[index];
}

bool read_parameter(const std::string& name, const ConfigValue& value, FittedParameter& p) {
    if (name == "key")
        read_value(value, p.key);
    else if (name == "value")
        read_value(value, p.value);
    else if (name == "prior")
        read_value(value, p.prior);
    else if (name == "relative_error")
        read_value(value, p.relative_error);
    else if (name == "determined")
        read_value(value, p.determined);
    else
        return false;
    return true;
}

bool read_error(const std::string& name, const ConfigValue& value, HeldOutError& e) {
    if (name == "kind")
        read_value(value, e.kind);
    else if (name == "method")
        read_value(value, e.method);
    else if (name == "samples")
        read_value(value, e.samples);
    else if (name == "mape")
        read_value(value, e.mape);
    else if (name == "bias")
        read_value(value, e.bias);
    else if (name == "worst")
        read_value(value, e.worst);
    else if (name == "median")
        read_value(value, e.median);
    else
        return false;
    return true;
}

bool read_range(const std::string& name, const ConfigValue& value, FittedRange& r) {
    if (name == "what")
        read_value(value, r.what);
    else if (name == "least")
        read_value(value, r.least);
    else if (name == "most")
        read_value(value, r.most);
    else
        return false;
    return true;
}

bool read_constants(const std::string& name, const ConfigValue& value, FittedConstants& c) {
    if (name == "what")
        read_value(value, c.what);
    else if (name == "count")
        read_value(value, c.count);
    else if (name == "from")
        read_value(value, c.from);
    else
        return false;
    return true;
}

const std::vector<ConfigValue>& texts_in(const ConfigValue& value, const char* of) {
    const auto* texts = std::get_if<std::vector<ConfigValue>>(&value.value);
    if (!texts) throw ConfigError(fmt::format("found no array; expected an array of {}", of));
    return *texts;
}

void read_rows(const ConfigValue& value, Fitted& fitted) {
    for (const auto& line : texts_in(value, "lines of hashes")) {
        std::string text;
        read_value(line, text);
        fitted.rows = joined(std::move(fitted.rows), read_hash_line(text));
    }
}

bool read_fitted_entry(const TomlEntry& entry, Fitted& fitted) {
    std::string name;
    if (auto* p = row_of(fitted.parameters, entry.path, "fitted.parameters.", name))
        return read_parameter(name, entry.value, *p);
    if (auto* e = row_of(fitted.errors, entry.path, "fitted.errors.", name)) return read_error(name, entry.value, *e);
    if (auto* r = row_of(fitted.ranges, entry.path, "fitted.ranges.", name)) return read_range(name, entry.value, *r);
    if (auto* c = row_of(fitted.constants, entry.path, "fitted.constants.", name))
        return read_constants(name, entry.value, *c);
    if (entry.path == "fitted.date")
        read_value(entry.value, fitted.date);
    else if (entry.path == "fitted.samples")
        read_value(entry.value, fitted.samples);
    else if (entry.path == "fitted.condition")
        read_value(entry.value, fitted.condition);
    else if (entry.path == "fitted.correlation")
        read_value(entry.value, fitted.correlation);
    else if (entry.path == "fitted.sources" || entry.path == "fitted.measured") {
        auto& texts = entry.path == "fitted.sources" ? fitted.sources : fitted.measured;
        for (const auto& text : texts_in(entry.value, "text")) read_value(text, texts.emplace_back());
    } else if (entry.path == "fitted.rows.hashes")
        read_rows(entry.value, fitted);
    else
        return false;
    return true;
}

// `at` says where a field of the parameter stands. The prior is only tried: the nameplate holds it already.
template <class Where>
void lay_parameter(Layers& layers, const std::string& prefix, const FittedParameter& p, Where at) {
    const auto* key = find_key(prefix + p.key);
    if (!key || is_preset(*key))
        throw ConfigError(at("key") + ": fitted.parameters: \"" + p.key + "\": " + unknown_key(p.key, prefix));
    const auto assign_at = [&](const std::string& name, const std::string& text, Experiment& experiment) {
        try {
            assign_text(*key, experiment, text);
        } catch (const ConfigError& e) {
            throw ConfigError(at(name) + ": " + p.key + ": " + e.what());
        }
    };
    Experiment scratch;
    if (!p.prior.empty()) assign_at("prior", p.prior, scratch);
    assign_at("value", p.value, layers.experiment);
    layers.set_at[prefix + p.key] = at("value");
    layers.origin[prefix + p.key] = Origin::fitted;
}

Fitted lay_fitted(Layers& layers, const std::string& prefix, const std::vector<TomlEntry>& entries) {
    Fitted fitted;
    std::map<std::string, std::string> value_at;  // path -> where
    for (const auto& entry : entries) {
        bool known = false;
        try {
            known = read_fitted_entry(entry, fitted);
        } catch (const ConfigError& e) {
            throw ConfigError(entry.value_at + ": " + entry.path + ": " + e.what());
        }
        if (!known)
            throw ConfigError(entry.key_at + ": " + entry.path +
                              ": unknown key; docs/formats.md lists those of [fitted]");
        value_at[entry.path] = entry.value_at;
    }
    for (std::size_t i = 0; i < fitted.parameters.size(); ++i) {
        const auto row = "fitted.parameters." + std::to_string(i);
        lay_parameter(layers, prefix, fitted.parameters[i], [&](const std::string& name) {
            auto at = value_at.find(row + "." + name);
            if (at == value_at.end()) at = value_at.lower_bound(row);  // a missing field: what stands near it
            return at == value_at.end() ? value_at.begin()->second : at->second;
        });
    }
    return fitted;
}

// Keys of the top level first, then each table once, in the order of the key table.
std::string nameplate(const Experiment& holder, std::span<const Key> keys, const std::string& prefix) {
    std::vector<std::pair<std::string, std::string>> tables{{"", ""}};  // name, lines
    for (const auto& key : keys) {
        if (is_preset(key) || is_unset(key, holder)) continue;
        const auto path = std::string(key.path.substr(prefix.size()));
        const auto dot = path.find_last_of('.');
        const auto own = dot == std::string::npos ? "" : path.substr(0, dot);
        auto table = std::find_if(tables.begin(), tables.end(), [&](const auto& t) { return t.first == own; });
        if (table == tables.end()) table = tables.insert(table, {own, "\n[" + own + "]\n"});
        table->second += path.substr(dot == std::string::npos ? 0 : dot + 1) + " = " + toml_text_of(key, holder) + "\n";
    }
    std::string text;
    for (const auto& [name, lines] : tables) text += lines;
    return text;
}

// What the nameplate said before the fit.
void lay_nameplate(Experiment& holder, const std::string& prefix, const Fitted& fitted) {
    for (const auto& p : fitted.parameters) {
        const auto* key = find_key(prefix + p.key);
        if (!key) throw std::logic_error("write: fitted parameter \"" + p.key + "\" is no key");
        if (!p.prior.empty()) assign_text(*key, holder, p.prior);
    }
}

std::string text_of_fit(const Fitted& fitted) {
    std::string text = "\n[fitted]\ndate = " + quoted_toml(fitted.date) + "\nsources = [";
    for (std::size_t i = 0; i < fitted.sources.size(); ++i) text += (i ? ", " : "") + quoted_toml(fitted.sources[i]);
    text += fmt::format("]\nsamples = {}\ncondition = {}\n", fitted.samples, value_text(fitted.condition));
    if (!fitted.measured.empty()) {
        text += "measured = [";
        for (std::size_t i = 0; i < fitted.measured.size(); ++i)
            text += (i ? ", " : "") + quoted_toml(fitted.measured[i]);
        text += "]\n";
    }
    if (!fitted.correlation.empty()) text += "correlation = " + value_text(fitted.correlation) + "\n";
    for (const auto& p : fitted.parameters)
        text += fmt::format(
            "\n[[fitted.parameters]]\nkey = {}\nvalue = {}\nprior = {}\nrelative_error = {}\ndetermined = {}\n",
            quoted_toml(p.key), quoted_toml(p.value), quoted_toml(p.prior), value_text(p.relative_error), p.determined);
    for (const auto& e : fitted.errors)
        text += fmt::format(
            "\n[[fitted.errors]]\nkind = {}\nmethod = {}\nsamples = {}\n{}mape = {}\nbias = {}\nworst = {}\n",
            quoted_toml(e.kind), quoted_toml(e.method), e.samples,
            e.median > 0 ? "median = " + value_text(e.median) + "\n" : "", value_text(e.mape), value_text(e.bias),
            value_text(e.worst));
    for (const auto& r : fitted.ranges)
        text += fmt::format("\n[[fitted.ranges]]\nwhat = {}\nleast = {}\nmost = {}\n", quoted_toml(r.what),
                            value_text(r.least), value_text(r.most));
    for (const auto& c : fitted.constants)
        text += fmt::format("\n[[fitted.constants]]\nwhat = {}\ncount = {}\nfrom = {}\n", quoted_toml(c.what), c.count,
                            quoted_toml(c.from));
    if (fitted.rows.empty()) return text;
    text +=
        "\n# The rows that were fitted, by content: stepcast list rows FILE.csv prints those of a "
        "file.\n[fitted.rows]\nhashes = [\n";
    for (const std::string& line : hash_lines(fitted.rows)) text += "  \"" + line + "\",\n";
    return text + "]\n";
}

}  // namespace

std::optional<Fitted> lay_fitted_file(Layers& layers, TomlFile file, const std::string& prefix) {
    std::vector<TomlEntry> fitted;
    std::erase_if(file.entries, [&](TomlEntry& entry) {
        if (!is_fitted(entry.path)) return false;
        fitted.push_back(std::move(entry));
        return true;
    });
    std::erase_if(file.tables, [](const auto& table) { return is_fitted(table.first); });
    if (fitted.empty() && prefix == "cluster.") lay_priors(layers, file, prefix);
    lay_file(layers, file, prefix, Origin::preset);
    if (fitted.empty()) return std::nullopt;
    return lay_fitted(layers, prefix, fitted);
}

std::string file_text(Experiment holder, std::span<const Key> keys, const std::string& prefix,
                      const std::optional<Fitted>& fitted) {
    if (!fitted) return nameplate(holder, keys, prefix);
    lay_nameplate(holder, prefix, *fitted);
    return nameplate(holder, keys, prefix) + text_of_fit(*fitted);
}

void lay_cluster(Layers& layers, const std::string& path) {
    layers.files.push_back(path);
    auto fitted = lay_fitted_file(layers, read_toml(path), "cluster.");
    if (fitted) layers.experiment.cluster.fitted = std::move(fitted);
}

std::string write_cluster(const Cluster& cluster) {
    Experiment holder;
    holder.cluster = cluster;
    return file_text(holder, cluster_keys(), "cluster.", cluster.fitted);
}

std::string fitted_text(const Cluster& cluster) { return cluster.fitted ? text_of_fit(*cluster.fitted) : ""; }

}  // namespace stepcast
