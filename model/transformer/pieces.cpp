#include "model/transformer/pieces.h"

#include "model/pipeline/schedule.h"

namespace stepcast {

int directions(const Parallelism& p) { return traits(p.schedule).copies; }

int module_count(const Workload& w) { return w.layers * modules_per_layer + 2; }

int first_module(const Workload& w, const Parallelism& p, int stage) {
    const int apart = p.head_apart ? 1 : 0;
    if (p.head_apart && stage + 1 == p.pp) return module_count(w) - 1;
    return stage * ((module_count(w) - apart) / (p.pp - apart));
}

namespace {

// Modules 1 .. are the layers'. A piece that begins with the last module of a layer begins inside it.
void cut_by_modules(const Workload& w, const Parallelism& p, std::vector<Piece>& pieces) {
    const int count = static_cast<int>(pieces.size());
    const auto layer_of = [](int module) { return (module - 1) / modules_per_layer; };
    const auto inside = [](int module) { return (module - 1) % modules_per_layer == modules_per_layer - 1; };
    for (int g = 0; g < count; ++g) {
        Piece& piece = pieces[static_cast<std::size_t>(g)];
        if (const int begin = first_module(w, p, g); g > 0) {
            piece.begins_inside = inside(begin);
            piece.first = layer_of(begin) + (piece.begins_inside ? 1 : 0);
        }
        piece.last = w.layers;
        if (g + 1 == count) continue;
        const int end = first_module(w, p, g + 1);
        piece.ends_inside = inside(end);
        piece.last = layer_of(end) + (piece.ends_inside ? 1 : 0);
    }
}

void cut_by_layers(const Workload& w, const Parallelism& p, std::vector<Piece>& pieces) {
    const auto count = static_cast<long>(pieces.size());
    for (int g = 0, layer = 0; g < count; ++g) {
        Piece& piece = pieces[static_cast<std::size_t>(g)];
        piece.first = layer;
        layer = p.stage_layers.empty() ? static_cast<int>((g + 1) * static_cast<long>(w.layers) / count)
                                       : layer + p.stage_layers[static_cast<std::size_t>(g)];
        piece.last = layer;
    }
}

}  // namespace

std::vector<Piece> pieces_of(const Workload& w, const Parallelism& p, int direction) {
    const int count = model_pieces(p.schedule, p.pp, pieces_per_stage(p));
    std::vector<Piece> pieces(static_cast<std::size_t>(count));
    for (int g = 0; g < count; ++g) {
        Piece& piece = pieces[static_cast<std::size_t>(g)];
        piece.stage = stage_of(p.schedule, p.pp, direction * count + g);
        piece.index = piece_of(p.schedule, p.pp, direction * count + g);
    }
    pieces.front().embedding = pieces.back().head = true;
    if (p.cut == StageCut::modules)
        cut_by_modules(w, p, pieces);
    else
        cut_by_layers(w, p, pieces);
    return pieces;
}

}  // namespace stepcast
