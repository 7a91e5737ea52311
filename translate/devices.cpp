#include "translate/devices.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "model/errors.h"
#include "model/keys/key_values.h"
#include "model/keys/toml_reader.h"
#include "model/presets.h"

namespace stepcast {
namespace {

std::string text_of(const ConfigValue& value) {
    std::string text;
    read_value(value, text);
    return text;
}

using Rule = std::function<void(KnownDevice&, const ConfigValue&)>;
Rule count(int KnownDevice::*member) {
    return [member](KnownDevice& d, const ConfigValue& v) { read_value(v, d.*member); };
}

const std::map<std::string, Rule>& rules() {
    static const std::map<std::string, Rule> all{
        {"name", [](KnownDevice& d, const ConfigValue& v) { d.name = text_of(v); }},
        {"cluster", [](KnownDevice& d, const ConfigValue& v) { d.cluster = text_of(v); }},
        {"pci",
         [](KnownDevice& d, const ConfigValue& v) {
             const auto* list = std::get_if<std::vector<ConfigValue>>(&v.value);
             if (list == nullptr) throw ConfigError("expected a list, for example [\"10de:2330\"]");
             for (const ConfigValue& id : *list) d.pci.push_back(text_of(id));
         }},
        {"sm", count(&KnownDevice::sm)},
        {"nvlinks", count(&KnownDevice::nvlinks)},
        {"nvlink", [](KnownDevice& d, const ConfigValue& v) { read_value(v, d.nvlink); }}};
    return all;
}

// "device.2.name" of [[device]].
void read_entry(const TomlEntry& entry, std::vector<KnownDevice>& devices) {
    constexpr std::string_view head = "device.";
    std::size_t index = 0;
    const char *end = entry.path.data() + entry.path.size(), *key = entry.path.data();
    if (entry.path.starts_with(head)) {
        const auto [after, error] = std::from_chars(key + head.size(), end, index);
        if (error == std::errc() && after != end && index < 1000) key = after + 1;
    }
    const std::string name(key, end);
    const auto rule = rules().find(name);
    if (rule == rules().end()) throw ConfigError(entry.key_at + ": \"" + entry.path + "\" is no key of a device");
    if (index >= devices.size()) devices.resize(index + 1);
    try {
        rule->second(devices[index], entry.value);
    } catch (const ConfigError& error) {
        throw ConfigError(entry.value_at + ": " + entry.path + ": " + error.what());
    }
}

// Lower case; a name's letters and digits stay together, but "RTX3090" is two words as "RTX 3090" is.
std::set<std::string> words_of(const std::string& text) {
    std::set<std::string> words;
    std::string word;
    for (const char raw : text + " ") {
        const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(raw)));
        if (std::isalnum(static_cast<unsigned char>(c))) {
            word += c;
            if (word == "rtx") words.insert(std::exchange(word, ""));
            continue;
        }
        if (!word.empty()) words.insert(std::exchange(word, ""));
    }
    return words;
}

}  // namespace

std::vector<KnownDevice> known_devices() {
    std::vector<KnownDevice> devices;
    for (const TomlEntry& entry : read_toml(home_folder() + "/model/presets/devices.toml").entries)
        read_entry(entry, devices);
    return devices;
}

std::optional<KnownDevice> device_named(const std::string& text) {
    const auto words = words_of(text);
    std::optional<KnownDevice> best;
    std::size_t most = 0;
    for (const KnownDevice& device : known_devices()) {
        const auto needed = words_of(device.name);
        if (needed.size() <= most || !std::ranges::includes(words, needed)) continue;
        most = needed.size();
        best = device;
    }
    return best;
}

std::optional<KnownDevice> device_of_pci(const std::string& id) {
    for (const KnownDevice& device : known_devices())
        if (std::ranges::find(device.pci, id) != device.pci.end()) return device;
    return std::nullopt;
}

std::optional<KnownDevice> device_of_links(int sm, int nvlinks) {
    if (sm == 0 && nvlinks == 0) return std::nullopt;
    const auto devices = known_devices();
    const auto only = [&](bool by_links) -> std::optional<KnownDevice> {
        std::vector<KnownDevice> fitting;
        for (const KnownDevice& d : devices)
            if ((sm == 0 || d.sm == sm) && (!by_links || d.nvlinks == nvlinks)) fitting.push_back(d);
        const auto family = [](const KnownDevice& d) { return d.name.substr(0, d.name.find(' ')); };
        if (fitting.empty()) return std::nullopt;
        // Forms of one device differ in clocks and memory: the first is the usual one.
        const bool alike = std::ranges::all_of(fitting, [&](const auto& d) { return family(d) == family(fitting.front()); });
        return alike ? std::optional(fitting.front()) : std::nullopt;
    };
    if (auto found = only(true)) return found;
    return sm > 0 ? only(false) : std::nullopt;
}

}  // namespace stepcast
