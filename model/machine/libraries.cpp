#include "model/machine/libraries.h"

#include "model/input/fields.h"
#include "model/input/presets.h"
#include "model/machine/generation.h"

namespace stepcast {
namespace {

struct LibraryFile {
    KEY_NAMED(std::vector<Lack>, lacks, {}, "lack", "");
    KEY(ProcessContext, context, {}, "");
    KEY_NAMED(std::vector<ProductWorkspace>, workspaces, {}, "workspace", "");
    KEY(NcclBuffers, nccl, {}, "");
    KEY_NAMED(std::vector<NcclChannels>, channels, {}, "channels", "");
    KEY(LayerLaunches, layer, {}, "");
};

const LibraryFile& library_file() {
    static const LibraryFile file =
        read_table<LibraryFile>(libraries_path(), "a file of what libraries lack and hold");
    return file;
}

// Of the rules that hold, the one of the newest capability that the device has; {} if none does.
template <class Rule>
const Rule& newest(const std::vector<Rule>& rules, int has, const auto& holds) {
    static const Rule none{};
    const Rule* best = &none;
    for (const Rule& rule : rules)
        if (rule.capability <= has && rule.capability >= best->capability && holds(rule))
            best = &rule;
    return *best;
}

}  // namespace

std::span<const Lack> known_lacks() { return library_file().lacks; }

const LayerLaunches& layer_launches() { return library_file().layer; }

Bytes context_in(const Gpu& gpu) {
    return capability(gpu) > 0 ? library_file().context.bytes : Bytes(0);
}

Bytes product_workspace(const Gpu& gpu) {
    return newest(library_file().workspaces, capability(gpu), [](const auto&) { return true; })
        .bytes;
}

const NcclBuffers& nccl_buffers() { return library_file().nccl; }

const NcclChannels& nccl_channels(const Gpu& gpu, bool linked) {
    return newest(library_file().channels, capability(gpu),
                  [&](const NcclChannels& rule) { return rule.linked == linked; });
}

int capability(const Gpu& gpu) {
    switch (generation(gpu)) {
        case Generation::other: return 0;
        case Generation::volta: return 70;
        case Generation::ampere: return 80;
        case Generation::hopper: return 89;
        case Generation::blackwell: return 100;
        case Generation::blackwell_ultra: return 103;
    }
    return 0;
}

const Lack* lack_of(const Gpu& gpu, std::string_view key, std::string_view value) {
    const int has = capability(gpu);
    if (has == 0) return nullptr;
    for (const Lack& lack : known_lacks())
        if (has < lack.capability && lack.key == key && lack.value == value) return &lack;
    return nullptr;
}

}  // namespace stepcast
