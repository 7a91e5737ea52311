#include "model/transformer/pieces.h"

namespace stepcast {
namespace {

// The v-th piece of stage s in forward order: round the stages (interleaved), down and up again (zb-v).
Piece place(const Parallelism& p, int global, int direction) {
    Piece piece;
    const int round = global / p.pp, at = global % p.pp;
    const bool back = (p.schedule == Schedule::zb_v && round % 2 == 1) || direction == 1;
    piece.stage = back ? p.pp - 1 - at : at;
    piece.index = p.schedule == Schedule::dualpipe ? direction : round;
    return piece;
}

int pieces_per_path(const Parallelism& p) {
    if (p.schedule == Schedule::zb_v) return 2 * p.pp;
    if (p.schedule == Schedule::dualpipe) return p.pp;
    return p.pp * p.vp;
}

}  // namespace

int directions(const Parallelism& p) { return p.schedule == Schedule::dualpipe ? 2 : 1; }

std::vector<Piece> pieces_of(const Workload& w, const Parallelism& p, int direction) {
    const int count = pieces_per_path(p);
    std::vector<Piece> pieces;
    for (int g = 0, layer = 0; g < count; ++g) {
        Piece& piece = pieces.emplace_back(place(p, g, direction));
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
