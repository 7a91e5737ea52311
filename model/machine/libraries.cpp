#include "model/machine/libraries.h"

#include "model/input/fields.h"
#include "model/input/presets.h"
#include "model/machine/capability.h"

namespace stepcast {
namespace {

struct LibraryFile {
    KEY(ProcessContext, context, {}, "");
    KEY_NAMED(std::vector<ProductWorkspace>, workspaces, {}, "workspace", "");
    KEY(NcclBuffers, nccl, {}, "");
    KEY_NAMED(std::vector<NcclChannels>, channels, {}, "channels", "");
    KEY(LayerLaunches, layer, {}, "");
};

const LibraryFile& library_file() {
    static const LibraryFile file =
        read_table<LibraryFile>(libraries_path(), "a file of what libraries hold and launch");
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

}  // namespace stepcast
