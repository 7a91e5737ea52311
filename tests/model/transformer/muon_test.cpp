// Muon's products, matrix by matrix.
#include "model/transformer/muon.h"

#include <catch2/catch.hpp>

#include "model/transformer/step.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

// Fused projections of a gated layer: 192 x 64, 64 x 64, 256 x 64, 64 x 128. Two such layers.
Experiment two_layers() {
    Experiment e = small_gpt();
    Workload& w = e.workload;
    w.layers = 2;
    w.hidden = 64;
    w.heads = w.kv_heads = 4;
    w.ffn = 128;
    w.gated = true;
    w.optimizer = Optimizer::muon;
    e.parallelism = {};
    e.parallelism.dp = 2;
    e.cluster.nodes = 1;
    e.cluster.gpus_per_node = 2;
    e.runtime.optimizer.muon = Dtype::bf16;
    return e;
}

MuonMatrices::Update update_of(const Experiment& e) {
    const LayerContext c{e, rank_shape(e), rank_groups(e), {}};
    MuonMatrices matrices;
    for (int layer = 0; layer < e.workload.layers; ++layer) matrices.add_layer(c, layer);
    return matrices.update(c);
}

}  // namespace

// 12,288 + 4,096 + 16,384 + 8,192 elements a layer. With ZeRO 1 two ranks take turns from the
// largest on, 0 1 1 0: of two of each size the first rank gets one.
TEST_CASE("Muon's ranks update every matrix or their share of whole ones") {
    Experiment e = two_layers();
    CHECK(update_of(e).elements == 2 * 40960);
    e.parallelism.zero = 1;
    CHECK(update_of(e).elements == 40960);
    e.parallelism.dp = 16;  // more ranks than matrices: the largest alone
    e.cluster.gpus_per_node = 16;
    CHECK(update_of(e).elements == 16384);
}

// Five steps of X X^T (m x m over n), its square (m x m over m), and that by X (m x n over m): 5 (4
// m^2 n + 2 m^3) operations for each matrix whose smaller side is m.
TEST_CASE("a matrix is orthogonalized by five steps of three products") {
    const Experiment e = two_layers();
    double operations = 0;
    int kernels = 0;
    for (const auto& [g, count] : update_of(e).products) {
        CHECK(g.dtype == Dtype::bf16);
        operations += 2.0 * static_cast<double>(g.m * g.n * g.k) * count;
        kernels += count;
    }
    double expected = 0;
    for (const double n : {192, 64, 256, 128}) expected += 5 * (4 * 64 * 64 * n + 2 * 64 * 64 * 64);
    CHECK(operations == Approx(2 * expected));
    CHECK(kernels == 2 * 4 * 15);
    const TaskGraph graph = build_transformer_step(e, {});
    int tasks = 0;
    for (TaskId t = 0; t < graph.size(); ++t) tasks += graph.name(t) == "orthogonalize";
    CHECK(tasks % kernels == 0);
    CHECK(tasks > 0);
}
