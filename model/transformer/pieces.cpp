#include "model/transformer/pieces.h"

#include "model/pipeline/schedule.h"

namespace stepcast {

int directions(const Parallelism& p) { return p.schedule == Schedule::dualpipe ? 2 : 1; }

std::vector<Piece> pieces_of(const Workload& w, const Parallelism& p, int direction) {
    const int count = model_pieces(p.schedule, p.pp, pieces_per_stage(p));
    std::vector<Piece> pieces;
    for (int g = 0, layer = 0; g < count; ++g) {
        Piece& piece = pieces.emplace_back();
        piece.stage = stage_of(p.schedule, p.pp, direction * count + g);
        piece.index = piece_of(p.schedule, p.pp, direction * count + g);
        const bool even = p.stage_layers.empty();
        piece.first = layer;
        layer = even ? static_cast<int>(static_cast<long>(g + 1) * w.layers / count)
                     : layer + p.stage_layers[static_cast<std::size_t>(g)];
        piece.last = layer;
        piece.embedding = g == 0;
        piece.head = g + 1 == count;
    }
    return pieces;
}

}  // namespace stepcast
