#include "translate/devices.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "model/keys/fields.h"
#include "model/presets.h"

namespace stepcast {
namespace {

struct DeviceFile {
    KEY_NAMED(std::vector<KnownDevice>, devices, {}, "device", "");
};

// Lower case; a name's letters and digits stay together, but "RTX3090" is two words as "RTX 3090" is.
std::set<std::string> name_words(const std::string& text) {
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
    return read_table<DeviceFile>(home_folder() + "/model/presets/devices.toml", "a file of devices").devices;
}

std::optional<KnownDevice> device_named(const std::string& text) {
    const auto words = name_words(text);
    std::optional<KnownDevice> best;
    std::size_t most = 0;
    for (const KnownDevice& device : known_devices()) {
        const auto needed = name_words(device.name);
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
