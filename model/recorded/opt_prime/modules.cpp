#include "model/recorded/opt_prime/modules.h"

#include "model/base/numbers.h"
#include "model/transformer/chunks.h"

namespace stepcast {

int module_count(const Workload& w) { return w.layers * modules_per_layer + 2; }

int first_module(const Workload& w, const Parallelism& p, int stage) {
    const int apart = p.head_apart ? 1 : 0;
    if (p.head_apart && stage + 1 == p.pp) return module_count(w) - 1;
    return stage * ((module_count(w) - apart) / (p.pp - apart));
}

// Modules 1 and up belong to the layers. A chunk that begins with a layer's last module begins
// inside that layer.
void cut_by_modules(const Workload& w, const Parallelism& p, std::vector<Chunk>& chunks) {
    for (std::size_t g = 1; g < chunks.size(); ++g) {
        const int before = first_module(w, p, as_int(g)) - 1;
        const bool inside = before % modules_per_layer == modules_per_layer - 1;
        chunks[g - 1].ends_inside = chunks[g].begins_inside = inside;
        chunks[g - 1].last = chunks[g].first = before / modules_per_layer + (inside ? 1 : 0);
    }
    chunks.back().last = w.layers;
}

}  // namespace stepcast
