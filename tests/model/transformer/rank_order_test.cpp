#include <catch2/catch.hpp>

#include <set>

#include "model/transformer/step.h"

using namespace stepcast;

namespace {

// tp 2, dp 2, pp 4 on 2 nodes of 8 ranks; 4 micro-batches.
Experiment small(const std::string& order) {
    Experiment e;
    auto& w = e.workload;
    w.kind = Workload::Kind::transformer;
    w.layers = 4;
    w.hidden = 64;
    w.heads = 4;
    w.ffn = 256;
    w.vocab = 1000;
    w.seq = 128;
    e.parallelism.tp = e.parallelism.dp = 2;
    e.parallelism.pp = 4;
    e.parallelism.global_batch = 8;
    e.parallelism.rank_order = order;
    e.cluster.nodes = 2;
    e.cluster.gpus_per_node = 8;
    return e;
}

// (stride, first) of the pairs that send activations to the next stage.
std::set<std::pair<int, int>> senders(const TaskGraph& graph) {
    std::set<std::pair<int, int>> pairs;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.name(t) == "send_activations") {
            const Group& group = graph.group(graph.group_id(t));
            CHECK(group.size() == 2);
            pairs.insert({group.stride, group.first});
        }
    return pairs;
}

}  // namespace

// Stages outermost: 4 ranks apart. Innermost: neighbours. Between tp and dp: 2 apart.
TEST_CASE("stages send to where the rank order puts the next one") {
    using Pairs = std::set<std::pair<int, int>>;
    CHECK(senders(build_transformer_step(small("tp-cp-dp-pp"), {})) ==
          Pairs{{4, 0}, {4, 4}, {4, 8}});
    CHECK(senders(build_transformer_step(small("pp-tp-cp-dp"), {})) ==
          Pairs{{1, 0}, {1, 1}, {1, 2}});
    CHECK(senders(build_transformer_step(small("tp-pp-cp-dp"), {})) ==
          Pairs{{2, 0}, {2, 2}, {2, 4}});
}
