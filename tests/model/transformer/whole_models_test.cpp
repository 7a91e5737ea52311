// The recorded whole models: what their operations move, and MoE systems between the plans of a
// step.
#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/step.h"
#include "model/transformer/counts.h"
#include "model/transformer/step.h"
#include "tests/model/block/plan_lines.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

double parameters(const std::string& experiment) {
    return count_parameters(read_experiment(experiment).workload).total();
}

// Four layers, 4 heads, 128 tokens of width 64 in bf16 on one rank, operation by operation.
Experiment unfused() {
    Experiment e = small_gpt();
    e.runtime.kernels = KernelStyle::operations;
    e.runtime.gradients.fused_accumulation = false;
    return e;
}

struct Moved {
    int tasks = 0;
    double read = 0, written = 0;
    friend bool operator==(const Moved&, const Moved&) = default;
};

Moved moved(const Experiment& e, std::string_view name) {
    const TaskGraph graph = build_step(e, routing_of(e));
    Moved sum;
    for (TaskId t = 0; t < graph.size(); ++t) {
        if (graph.name(t) != name) continue;
        const auto* pass = std::get_if<MemoryPass>(&graph.op(t));
        if (!pass) continue;
        ++sum.tasks;
        sum.read += pass->read.si();
        sum.written += pass->written.si();
    }
    return sum;
}

// Four experts a layer on four ranks.
Experiment with_system(MoeSystem system) {
    Experiment e = unfused();
    e.workload.moe.experts = 4;
    e.workload.moe.top_k = 2;
    e.parallelism.dp = e.parallelism.ep = 4;
    e.parallelism.moe_system = system;
    return e;
}

}  // namespace

// BERT-base: words 30522 x 768 + positions 512 x 768 + types 2 x 768 + norm 2 x 768; a layer 4
// (768^2 + 768) + 2 x 768 x 3072 + 3072 + 768 + 4 x 768 = 7,087,872; head 2 x 768 + 2. GPT-2 with
// 50259 words: 124,439,808 + 2 x 768. Transformer-XL: a layer 512 x 1536 + 2 x 512^2 (output,
// positions) + 2 x 512 x 2048 + 2048 + 512 + 4 x 512 = 3,412,480; 12 of them, 204 x 512 symbols,
// 204 biases of the logits, two biases of 512 for the queries.
TEST_CASE("the recorded models have their weights to the parameter") {
    CHECK(parameters("bert_naive") == 23440896.0 + 393216 + 1536 + 1536 + 12 * 7087872.0 + 1538);
    CHECK(parameters("bert_naive") == 108893186);
    CHECK(parameters("gpt2_ddp") == 124441344);
    CHECK(parameters("transformer_xl_naive") == 12 * 3412480.0 + 104448 + 204 + 1024);
    CHECK(parameters("transformer_xl_naive") == 41055436);
}

// One expert of BERT is the feed-forward block that it replaces, 4,722,432 weights; there are 64 in
// each of 4 layers, with a router of 64 x 768 + 64. Transformer-XL: 2,099,712 in each of 12 layers,
// router 64 x 512 + 64.
TEST_CASE("with experts the dense blocks of their layers are replaced") {
    CHECK(parameters("bert_fastermoe") - parameters("bert_naive") ==
          4 * (63 * 4722432.0 + 64 * 769));
    CHECK(parameters("transformer_xl_mix_moe") - parameters("transformer_xl_naive") ==
          12 * (63 * 2099712.0 + 64 * 513));
}

// 4 heads x 128 x 128 = 65,536 scores per layer. Causal: the mask selects among 16-bit scores (2 +
// 2 bytes), softmax writes fp32 (2 + 4). Not causal: adding the mask makes them fp32 (2 + 4),
// softmax 4 + 4. Without casting all is 2 + 2.
TEST_CASE("automatic casting widens scores where the framework does") {
    const double scores = 4 * 65536;
    Experiment e = unfused();
    CHECK(moved(e, "softmax") == Moved{4, 2 * scores, 2 * scores});
    CHECK(moved(e, "cast").tasks == 0);
    e.runtime.autocast = true;
    CHECK(moved(e, "mask") == Moved{4, 2 * scores, 2 * scores});
    CHECK(moved(e, "softmax") == Moved{4, 2 * scores, 4 * scores});
    e.workload.causal = false;
    CHECK(moved(e, "mask") == Moved{4, 2 * scores, 4 * scores});
    CHECK(moved(e, "softmax") == Moved{4, 4 * scores, 4 * scores});
}

// GELU written out: half (2 + 2), cast (2 + 4), then in fp32 cube and factor (8 + 8), sum (6 + 4),
// factor, tanh, plus one (12 + 12), product (6 + 4); the cast back has its own name. 128 x 256
// elements per layer; kernel counts 1, 2, 1, 3, 1.
TEST_CASE("an activation written out moves what its operations move") {
    Experiment e = unfused();
    e.runtime.autocast = true;
    const double inner = 4 * 128 * 256;
    CHECK(moved(e, "activation") == Moved{4, 2 * inner, 2 * inner});
    e.workload.activation = Activation::gelu_steps;
    CHECK(moved(e, "activation") ==
          Moved{20, (2 + 8 + 6 + 12 + 6) * inner, (2 + 8 + 4 + 12 + 4) * inner});
}

// 128 remembered tokens and the 128 of the sequence: twice the keys, 131,072 scores per layer and
// 256 projected rows. In bf16 the sum of both kinds of scores reads 2 x 2 bytes and writes 2.
TEST_CASE("memory is attended, projected and moved like the sequence") {
    Experiment e = unfused();
    e.workload.positions = Positions::relative;
    e.workload.memory = 128;
    const double scores = 4 * 131072.0, rows = 4 * 256 * 64.0;
    CHECK(moved(e, "sum") == Moved{4, 4 * scores, 2 * scores});
    CHECK(moved(e, "memory") == Moved{4, 2 * rows, 2 * rows});
    const auto forward = [graph = build_step(e, {})](const Gemm& gemm) {
        int tasks = 0;
        for (TaskId t = 0; t < graph.size(); ++t)
            tasks += graph.phase(t) == Phase::forward && graph.op(t) == Op(gemm);
        return tasks;
    };
    CHECK(forward({256, 192, 64, 1, Dtype::bf16}) == 4);  // queries, keys, values
    CHECK(forward({256, 64, 64, 1, Dtype::bf16}) == 4);   // positions of one sequence
    CHECK(forward({128, 256, 16, 4, Dtype::bf16}) == 8);  // scores of both kinds
}

// 128 x 1000 logits of 2 bytes in 8 slices: a slice's gradient is a whole of zeros with an eighth
// copied; 7 sums read two wholes and write one.
TEST_CASE("a loss added up over slices makes a whole gradient of each") {
    Experiment e = unfused();
    CHECK(moved(e, "loss_slices").tasks == 0);
    e.runtime.loss.pieces = 8;
    const double whole = 2 * 128 * 1000;
    CHECK(moved(e, "loss_slices") == Moved{2, (1 + 14) * whole, (9 + 7) * whole});
}

// Three times the bytes in the passes of a layer; those of the logits do not change if the loss is
// written step by step.
TEST_CASE("eager passes move more in the layers, not where a loss is written step by step") {
    Experiment e = small_gpt();
    e.runtime.loss.fused = false;
    Experiment eager = e;
    eager.runtime.kernels = KernelStyle::eager;
    eager.runtime.eager_traffic = 3;
    const Moved norm = moved(e, "ffn_norm");
    CHECK(moved(eager, "ffn_norm") == Moved{norm.tasks, 3 * norm.read, 3 * norm.written});
    CHECK(moved(eager, "loss") == moved(e, "loss"));
    e.runtime.loss.fused = eager.runtime.loss.fused = true;
    const Moved loss = moved(e, "loss");
    CHECK(moved(eager, "loss") == Moved{loss.tasks, 3 * loss.read, 3 * loss.written});
}

TEST_CASE("a loss outside the model belongs to the backward's time") {
    Experiment e = unfused();
    const auto phase_of_loss = [](const Experiment& x) {
        const TaskGraph graph = build_step(x, {});
        for (TaskId t = 0; t < graph.size(); ++t)
            if (graph.name(t) == "loss") return graph.phase(t);
        return Phase::optimizer;
    };
    CHECK(phase_of_loss(e) == Phase::forward);
    e.runtime.loss.in_forward = false;
    CHECK(phase_of_loss(e) == Phase::backward);
}

// Four layers with one local expert each have an exchange out and back in each pass: 4 x 2
// dispatches and combines, on all four ranks. Attention is there for every rank and layer, before
// and after the system's tasks.
TEST_CASE("a MoE system writes its layers between the plans of the step, on every rank") {
    const Experiment e = with_system(MoeSystem::fast_moe);
    const TaskGraph graph = build_step(e, routing_of(e));
    CHECK(graph.rank_count() == 4);
    CHECK(count_of(graph, "dispatch") == 8);
    CHECK(count_of(graph, "combine") == 8);
    CHECK(count_of(graph, "softmax") == 16);
    CHECK(count_of(graph, "ffn_up") == 0);
    for (TaskId t = 0; t < graph.size(); ++t) {
        if (graph.name(t) != "residual" || t == 0) continue;
        CHECK_FALSE(graph.predecessors(t).empty());  // all tasks after a system depend on it
    }
}

// Two ranks hold half of the experts each. 16 bytes are read and 14 written for each parameter that
// a rank updates, and 4 set to zero.
TEST_CASE("a rank updates its dense weights and its own experts") {
    const Experiment e = small_moe();
    const ParameterCount count = count_parameters(e.workload);
    const double own = count.total() - count.experts / 2;
    CHECK(moved(e, "optimizer").read == Approx(16 * own));
    CHECK(moved(e, "optimizer").written == Approx(14 * own));
    CHECK(moved(e, "zero_gradients").written == Approx(4 * own));
    CHECK(moved(e, "gradient_norm").read == Approx(4 * own));
}

// Both ranks copy all their gradients of 2 bytes once through buckets in each of two micro-batches,
// after the backward, and each updates half of them. The host waits three times: for the backward,
// for the check and for the norm.
TEST_CASE("gradients are copied on their way to a sharded update, and the host waits for them") {
    Experiment e = small_gpt();
    e.parallelism.dp = e.parallelism.zero = 2;
    e.parallelism.global_batch = 4;
    e.runtime.gradients.type = GradientType::bf16;
    const TaskGraph without = build_step(e, {});
    CHECK(count_of(without, "bucket_copies") + count_of(without, "copy_gradients") +
              count_of(without, "gradients_read") ==
          0);
    e.runtime.gradients.copies = e.runtime.optimizer.copies = {1};
    e.runtime.optimizer.waits = true;
    const double own = count_parameters(e.workload).total();
    CHECK(moved(e, "bucket_copies").read == Approx(2 * 2 * own));
    CHECK(moved(e, "copy_gradients").written == Approx(2 * own / 2));
    const TaskGraph graph = build_step(e, {});
    CHECK(count_of(graph, "backward_end") == 1);  // one rank represents both
    CHECK(count_of(graph, "gradients_read") == 2);
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.name(t) == "bucket_copies") CHECK(graph.phase(t) == Phase::gradient_sync);
}

// Two tensor-parallel ranks have the same activations: each sends half, and the receivers gather;
// not if the sequence is split.
TEST_CASE("activations are sent in parts where tensor-parallel ranks hold the same") {
    Experiment e = small_gpt();
    e.parallelism.pp = e.parallelism.tp = 2;
    e.runtime.exchanges.scatter_sends = true;
    const auto sent = [&] {
        const TaskGraph graph = build_step(e, {});
        double bytes = 0;
        for (const Op& op : graph.ops())
            if (const auto* send = std::get_if<SendRecv>(&op)) bytes = send->bytes.si();
        return std::pair{bytes, count_of(graph, "gather_activations")};
    };
    const double hidden = 128 * 64 * 2;
    CHECK(sent() == std::pair{hidden / 2, 2});  // forward and backward
    e.parallelism.sequence_parallel = true;
    CHECK(sent() == std::pair{hidden / 2, 0});
    e.parallelism.sequence_parallel = e.runtime.exchanges.scatter_sends = false;
    CHECK(sent() == std::pair{hidden, 0});
}

// Two stages with both directions hold all four layers, each with one of four experts per rank, and
// both ends. Copies are summed in fp32.
TEST_CASE("the copies of dualpipe are summed, experts among them") {
    Experiment e = small_moe();
    e.workload.moe.top_k = 1;
    e.parallelism.pp = 2;
    e.parallelism.dp = e.parallelism.ep = 4;
    e.parallelism.schedule = Schedule::dualpipe;
    e.parallelism.global_batch = 16;
    const ParameterCount count = count_parameters(e.workload);
    const auto summed = [&](int zero) {
        e.parallelism.zero = zero;
        const TaskGraph graph = build_step(e, {});
        double bytes = 0;
        for (TaskId t = 0; t < graph.size(); ++t)
            if (graph.name(t) == "copy_all_reduce")
                bytes = std::max(bytes, bytes_moved(graph.op(t)).si());
        return bytes;
    };
    CHECK(summed(0) == Approx(4 * (count.total() - count.experts + count.experts / 4)));
    // They are first scattered over four ranks, and each expert is on one rank: a quarter of all
    // remains.
    for (const int zero : {1, 2, 3}) CHECK(summed(zero) == Approx(4 * count.total() / 4));
}

// The number of layers times the number of micro-batches.
TEST_CASE(
    "a step of expert layers has each of them forward and backward, micro-batch by micro-batch") {
    for (const MoeSystem system :
         {MoeSystem::fast_moe, MoeSystem::faster_moe, MoeSystem::mix_moe, MoeSystem::alltoall}) {
        Experiment e = small_gpt();
        e.workload = {};
        e.workload.hidden = 64;
        e.workload.ffn = 128;
        e.workload.seq = 64;
        e.workload.moe.experts = 8;
        e.parallelism.dp = e.parallelism.ep = 4;
        e.parallelism.moe_system = system;
        const auto gates = [&](Phase phase) {
            const TaskGraph graph = build_step(e, routing_of(e));
            int count = 0;
            for (TaskId t = 0; t < graph.size(); ++t) count += graph.phase(t) == phase;
            return count;
        };
        const int ahead = gates(Phase::forward), back = gates(Phase::backward);
        REQUIRE(ahead > 0);
        REQUIRE(back > 0);
        e.workload.layers = 3;
        e.parallelism.global_batch = 8;  // two micro-batches on each rank
        CHECK(gates(Phase::forward) == 2 * 3 * ahead);
        CHECK(gates(Phase::backward) == 2 * 3 * back);
    }
}

// The four ranks' dense weights are all-reduced in fp32, their experts are not.
TEST_CASE("experts stay out of the gradient exchange") {
    const Experiment e = with_system(MoeSystem::faster_moe);
    const ParameterCount count = count_parameters(e.workload);
    const TaskGraph graph = build_step(e, routing_of(e));
    double bytes = 0;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.name(t) == "gradient_all_reduce") bytes += bytes_moved(graph.op(t)).si();
    CHECK(bytes == Approx(4 * (count.total() - count.experts)));
}

TEST_CASE("every layer with a system has a gate of its own, and a draw a skew of its own") {
    Experiment e = with_system(MoeSystem::mix_moe);
    e.routing.kind = RoutingSpec::Kind::random_gate;
    const Routing routing = routing_of(e, 3);
    REQUIRE(routing.further.size() == 3);
    CHECK(routing.further[0] != routing.counts);
    CHECK(routing.further[1] != routing.further[0]);
    CHECK(routing_of_layer(routing, 0).counts == routing.counts);
    CHECK(routing_of_layer(routing, 2).counts == routing.further[1]);
    CHECK(routing_of(e, 3) == routing);
    e.routing.skew_spread = 0.5;
    CHECK(routing_of(e, 3) != routing);
    CHECK(routing_of(e, 3) == routing_of(e, 3));
}
