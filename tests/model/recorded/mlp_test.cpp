#include "model/recorded/mlp.h"

#include <catch2/catch.hpp>

#include "model/experiment.h"
#include "tests/transformers.h"

using namespace stepcast;

// Three layers of 2 x 8 x 16 elements of 4 bytes, each a bucket of its own: three all-reduces of
// 1,024 bytes, or in four pieces twelve of 256.
TEST_CASE("gradients of a dense network are reduced in equal pieces of buckets") {
    Experiment e;
    e.workload.kind = Workload::Kind::mlp;
    e.workload.layers = 3;
    e.workload.hidden = 8;
    e.workload.ffn = 16;
    e.workload.seq = 4;
    e.workload.dtype = Dtype::fp32;
    e.parallelism.dp = 2;
    e.parallelism.micro_batch = 1;
    e.cluster.nodes = 1;
    e.cluster.gpus_per_node = 2;
    e.runtime.gradients.bucket = BucketSize(Bytes(1));
    for (const int pieces : {1, 4}) {
        e.runtime.gradients.pieces = pieces;
        const TaskGraph graph = build_mlp_step(e);
        int found = 0;
        for (TaskId t = 0; t < graph.size(); ++t)
            if (const auto* op = std::get_if<AllReduce>(&graph.op(t))) {
                ++found;
                CHECK(op->bytes == Bytes(1024.0 / pieces));
            }
        CHECK(found == 3 * pieces);
    }
}
