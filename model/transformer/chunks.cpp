#include "model/transformer/chunks.h"

#include <algorithm>

#include "model/transformer/schedule.h"

namespace stepcast {

int directions(const Parallelism& p) { return traits(p.schedule).copies; }

int module_count(const Workload& w) { return w.layers * modules_per_layer + 2; }

int first_module(const Workload& w, const Parallelism& p, int stage) {
    const int apart = p.head_apart ? 1 : 0;
    if (p.head_apart && stage + 1 == p.pp) return module_count(w) - 1;
    return stage * ((module_count(w) - apart) / (p.pp - apart));
}

namespace {

// Modules 1 and up belong to the layers. A chunk that begins with a layer's last module begins
// inside that layer.
void cut_by_modules(const Workload& w, const Parallelism& p, std::vector<Chunk>& chunks) {
    for (std::size_t g = 1; g < chunks.size(); ++g) {
        const int before = first_module(w, p, static_cast<int>(g)) - 1;
        const bool inside = before % modules_per_layer == modules_per_layer - 1;
        chunks[g - 1].ends_inside = chunks[g].begins_inside = inside;
        chunks[g - 1].last = chunks[g].first = before / modules_per_layer + (inside ? 1 : 0);
    }
    chunks.back().last = w.layers;
}

void cut_by_layers(const Workload& w, const Parallelism& p, std::vector<Chunk>& chunks) {
    const auto count = static_cast<long>(chunks.size());
    for (int g = 0, layer = 0; g < count; ++g) {
        Chunk& chunk = chunks[static_cast<std::size_t>(g)];
        chunk.first = layer;
        layer = p.stage_layers.empty()
                    ? static_cast<int>((g + 1) * static_cast<long>(w.layers) / count)
                    : layer + p.stage_layers[static_cast<std::size_t>(g)];
        chunk.last = layer;
    }
}

// If only some layers of a stage are recomputed, each of its chunks recomputes equally many, and
// the first chunks take the remainder. Megatron does the same; it counts the layers per chunk.
int layers_again(const Parallelism& p, int chunk) {
    const int chunks = chunks_per_stage(p);
    return p.recompute_layers / chunks + (chunk < p.recompute_layers % chunks ? 1 : 0);
}

}  // namespace

Path chunks_of(const Workload& w, const Parallelism& p, int direction) {
    const int count = model_chunks(p.schedule, p.pp, chunks_per_stage(p));
    Path chunks(static_cast<std::size_t>(count));
    for (int g = 0; g < count; ++g) {
        Chunk& chunk = chunks[static_cast<std::size_t>(g)];
        chunk.stage = stage_of(p.schedule, p.pp, direction * count + g);
        chunk.index = (direction * count + g) / p.pp;
        chunk.position = g;
    }
    chunks.front().embedding = chunks.back().head = true;
    if (p.cut == StageCut::modules)
        cut_by_modules(w, p, chunks);
    else
        cut_by_layers(w, p, chunks);
    for (Chunk& chunk : chunks)
        chunk.again = std::min(chunk.last, p.recompute_layers == 0
                                               ? chunk.last
                                               : chunk.first + layers_again(p, chunk.index));
    return chunks;
}

std::vector<Path> paths_of(const Workload& w, const Parallelism& p) {
    std::vector<Path> paths;
    for (int d = 0; d < directions(p); ++d) paths.push_back(chunks_of(w, p, d));
    return paths;
}

std::vector<std::vector<Chunk>> chunks_by_stage(const std::vector<Path>& paths, int stages) {
    std::vector<std::vector<Chunk>> chunks(static_cast<std::size_t>(stages));
    for (const Path& path : paths)
        for (const Chunk& chunk : path)
            chunks[static_cast<std::size_t>(chunk.stage)].push_back(chunk);
    return chunks;
}

bool hop_goes_up(const Path& path, int direction, int position, bool back) {
    const std::size_t middle = path.size() / 2;
    const bool turned = static_cast<std::size_t>(position) >= middle &&
                        path[middle - 1].stage == path[middle].stage;
    return back == (turned != (direction == 1));
}

}  // namespace stepcast
