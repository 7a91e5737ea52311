// GPUs by the names and numbers that descriptions of machines give them: model/presets/devices.toml. Internal to translate/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/keys/keyed.h"
#include "model/units.h"

namespace stepcast {

struct KnownDevice {
    KEY(std::string, name, {}, "all of whose words a description has");
    KEY(std::vector<std::string>, pci, {}, "\"10de:2330\"");
    KEY(int, sm, 0, "compute capability");
    KEY(int, nvlinks, 0, "of a device");
    KEY(BytesPerSecond, nvlink, {}, "of one link and direction");
    KEY(std::string, cluster, {}, "preset with its datasheet, and with constants where it was measured");
    friend bool operator==(const KnownDevice&, const KnownDevice&) = default;
};

std::vector<KnownDevice> known_devices();
// The device all of whose words are in the text, the one with most words: "NVIDIA A100-SXM4-80GB" is A100.
std::optional<KnownDevice> device_named(const std::string& text);
std::optional<KnownDevice> device_of_pci(const std::string& id);  // "10de:2330"
// The only device of this capability with so many NVLinks; nothing where several have. 0 = not told.
std::optional<KnownDevice> device_of_links(int sm, int nvlinks);

}  // namespace stepcast
