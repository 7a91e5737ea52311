#include "model/transformer/chunks.h"

#include <algorithm>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/recorded/opt_prime/modules.h"
#include "model/transformer/counts.h"
#include "model/transformer/schedule.h"

namespace stepcast {

int directions(const Parallelism& p) { return traits(p.schedule).copies; }

namespace {

std::vector<int> even_layers(int layers, int chunks) {
    std::vector<int> counts;
    const auto begin = [&](int g) { return as_int(g * static_cast<long>(layers) / chunks); };
    for (int g = 0; g < chunks; ++g) counts.push_back(begin(g + 1) - begin(g));
    return counts;
}

// Fills one chunk after the other up to `most` operations; the last takes the rest. Inner chunks
// have a layer at least.
std::vector<int> filled_layers(const std::vector<double>& work, int chunks, double most) {
    std::vector<int> counts(as_index(chunks), 0);
    std::size_t layer = 0;
    for (int g = 0; g + 1 < chunks; ++g) {
        double held = 0;
        const std::size_t leave = as_index(chunks - g - 2);  // one for each inner one
        int& count = counts[as_index(g)];
        while (layer + leave < work.size() && (count == 0 || held + work[layer] <= most)) {
            held += work[layer++];
            ++count;
        }
    }
    counts.back() = as_int(work.size() - layer);
    return counts;
}

// The least fullest chunk by bisection over what chunks may hold.
std::vector<int> balanced_layers(const Workload& w, int chunks) {
    std::vector<double> work;
    double whole = 0;
    for (int layer = 0; layer < w.layers; ++layer)
        whole += work.emplace_back(layer_forward_flops(w, layer).si());
    const double layer = work.empty() ? 0 : work.back(), logits = logits_forward_flops(w).si(),
                 end = logits * (1 + w.mtp_layers) + layer * w.mtp_layers;
    const auto fits = [&](double most) {
        const std::vector<int> counts = filled_layers(work, chunks, most);
        double last = end;
        for (int i = 0; i < counts.back(); ++i) last += work[work.size() - 1 - as_index(i)];
        return last <= most;
    };
    double below = 0, above = whole + end;
    for (int i = 0; i < 50; ++i) (fits((below + above) / 2) ? above : below) = (below + above) / 2;
    return filled_layers(work, chunks, above);
}

}  // namespace

std::vector<int> light_layers(int layers, int chunks, int first, int last) {
    const int all = layers + first + last;
    std::vector<int> counts;
    for (int g = 0; g < chunks; ++g) counts.push_back(all / chunks + (g < all % chunks ? 1 : 0));
    counts.front() -= first;
    counts.back() -= last;
    return counts;
}

std::vector<int> chunk_layers(const Workload& w, const Parallelism& p) {
    if (!p.stage_layers.empty()) return p.stage_layers;
    const int chunks = model_chunks(p);
    if (chunks == 1) return {w.layers};
    switch (p.layout) {
        case StageLayout::even: return even_layers(w.layers, chunks);
        case StageLayout::light_first: return light_layers(w.layers, chunks, 1, 0);
        case StageLayout::light_last: return light_layers(w.layers, chunks, 0, 1);
        case StageLayout::light_ends: return light_layers(w.layers, chunks, 1, 1);
        case StageLayout::balanced: return balanced_layers(w, chunks);
    }
    return {};
}

bool all_hold_layers(const std::vector<int>& layers) {
    for (const std::size_t g : indices_of(layers))
        if (layers[g] < (g == 0 || g + 1 == layers.size() ? 0 : 1)) return false;
    return true;
}

namespace {

void cut_by_layers(const Workload& w, const Parallelism& p, std::vector<Chunk>& chunks) {
    const std::vector<int> layers = chunk_layers(w, p);
    int layer = 0;
    for (const std::size_t g : indices_of(chunks)) {
        chunks[g].first = layer;
        layer += layers[g];
        chunks[g].last = layer;
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
    const int count = model_chunks(p);
    Path chunks(as_index(count));
    for (int g = 0; g < count; ++g) {
        Chunk& chunk = chunks[as_index(g)];
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
    std::vector<std::vector<Chunk>> chunks(as_index(stages));
    for (const Path& path : paths)
        for (const Chunk& chunk : path) chunks[as_index(chunk.stage)].push_back(chunk);
    return chunks;
}

bool hop_goes_up(const Path& path, int direction, int position, bool back) {
    const std::size_t middle = path.size() / 2;
    const bool turned =
        as_index(position) >= middle && path[middle - 1].stage == path[middle].stage;
    return back == (turned != (direction == 1));
}

}  // namespace stepcast
