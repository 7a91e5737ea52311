#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "import/launch/translate.h"
#include "model/transformer/chunks.h"
#include "model/transformer/counts.h"
#include "model/transformer/step.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

std::map<std::string, int> names_of(const TaskGraph& graph, Phase phase) {
    std::map<std::string, int> counts;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.phase(t) == phase) ++counts[std::string(graph.name(t))];
    return counts;
}

double flops_of_step(const TaskGraph& graph) {
    double sum = 0;
    for (TaskId t = 0; t < graph.size(); ++t)
        sum += flops_of(graph.op(t)).si() *
               graph.multiplicity()[static_cast<std::size_t>(graph.places(t).front().rank())];
    return sum;
}

double bytes_of(const TaskGraph& graph, std::string_view name) {
    double sum = 0;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.name(t) == name) sum += bytes_moved(graph.op(t)).si();
    return sum;
}

// Bytes that the memory passes of one name read and write.
double passed_over(const TaskGraph& graph, std::string_view name) {
    double sum = 0;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (const auto* pass = std::get_if<MemoryPass>(&graph.op(t)); pass && graph.name(t) == name)
            sum += (pass->read + pass->written).si();
    return sum;
}

}  // namespace

// Plain attention computes all scores, as the model's count assumes; forward and backward make
// three times the forward's products.
TEST_CASE("the matrix products of a step are the model's operations, however it is split") {
    Experiment e = small_gpt();
    e.parallelism.dp = 2;
    e.parallelism.global_batch = 8;
    const double whole = model_flops(e.workload, 8).si();
    CHECK(flops_of_step(build_transformer_step(e, {})) == Approx(whole));
    e.parallelism.tp = 2;
    CHECK(flops_of_step(build_transformer_step(e, {})) == Approx(whole));
    e.parallelism.pp = 2;
    CHECK(flops_of_step(build_transformer_step(e, {})) == Approx(whole));
    e.parallelism.vp = 2;
    CHECK(flops_of_step(build_transformer_step(e, {})) == Approx(whole));
    for (const Schedule schedule : {Schedule::zb_v, Schedule::dualpipe}) {
        e.parallelism.schedule = schedule;
        CHECK(flops_of_step(build_transformer_step(e, {})) == Approx(whole));
    }
}

// Per token and layer, with h = 64 and s = 128: matrices 12 h^2 = 49,152 frozen weights, 2
// operations each forward and 2 backward. Adapters of rank 8 beside 3 h x h and h x h: 8 (h + 3 h +
// h + h) = 3,072 weights, 6 operations each. Scores 4 s h forward, twice that backward. The logits'
// 64,000 weights are frozen too.
TEST_CASE(
    "frozen matrices take no gradient of their weights, in the graph and in the model's "
    "operations") {
    Experiment e = small_gpt();
    e.workload.adapter_rank = 8;
    const double layer = 4 * 49152 + 6 * 3072 + 3 * 4.0 * 128 * 64;
    CHECK(model_flops(e.workload).si() == Approx(128 * (4 * layer + 4 * 64000)));
    CHECK(flops_of_step(build_transformer_step(e, {})) == Approx(model_flops(e.workload).si()));
}

// All weights, frozen or not, are gathered forward and backward, 2 bytes each; the 4 x 3,072 of
// adapters send gradients of 4 bytes.
TEST_CASE("zero 3 gathers frozen weights as any, and scatters the gradients of adapters alone") {
    Experiment e = small_gpt();
    e.workload.adapter_rank = 8;
    e.parallelism.dp = e.parallelism.global_batch = 4;
    e.parallelism.zero = 3;
    const TaskGraph graph = build_transformer_step(e, {});
    CHECK(bytes_of(graph, "gather_parameters") ==
          Approx(2 * 2 * (count_parameters(e.workload).total() + 4 * 3072)));
    CHECK(bytes_of(graph, "gradient_reduce_scatter") == Approx(4 * 4 * 3072));
}

// A forward of 128 tokens without adapters: 2 x 49,152 and 4 x 128 x 64 operations in each of 4
// layers, and 2 x 64,000 of logits.
TEST_CASE("a reference model takes its forwards more, without adapters and without a backward") {
    const double once = 128 * (4 * (2 * 49152 + 4.0 * 128 * 64) + 2 * 64000);
    for (const int rank : {0, 8})
        for (const int forwards : {1, 3}) {
            CAPTURE(rank, forwards);
            Experiment e = small_gpt();
            e.workload.adapter_rank = rank;
            const double trained = flops_of_step(build_transformer_step(e, {}));
            e.workload.reference = rank > 0 ? Reference::base : Reference::copy;
            e.workload.reference_forwards = forwards;
            const double all = trained + forwards * once;
            CHECK(flops_of_step(build_transformer_step(e, {})) == Approx(all));
            CHECK(model_flops(e.workload).si() == Approx(all));
        }
}

// Two bytes of every weight, in the forward, the reference's and the backward; nothing more is
// exchanged.
TEST_CASE("zero 3 gathers the weights of a reference for its forward") {
    Experiment e = small_gpt();
    e.parallelism.dp = e.parallelism.global_batch = 4;
    e.parallelism.zero = 3;
    const double scattered = bytes_of(build_transformer_step(e, {}), "gradient_reduce_scatter");
    e.workload.reference = Reference::copy;
    const TaskGraph graph = build_transformer_step(e, {});
    CHECK(bytes_of(graph, "gather_parameters") ==
          Approx(3 * 2 * count_parameters(e.workload).total()));
    CHECK(bytes_of(graph, "gradient_reduce_scatter") == Approx(scattered));
}

// Each of four ranks brings a quarter of all weights forward and backward: 2 bytes where the host
// casts (DeepSpeed), else the 4 of its masters. The gather follows on the same lane, and the update
// returns nothing. Alone, a rank brings everything and gathers nothing.
TEST_CASE("weights on the host come before they are gathered") {
    Experiment e = small_gpt();
    e.workload.optimizer = Optimizer::adam;
    e.runtime.optimizer.master_weights = true;
    e.parallelism.zero = 3;
    e.run.offload_optimizer = e.run.offload_parameters = true;
    const double weights = count_parameters(e.workload).total();
    for (const int dp : {4, 1})
        for (const bool casts : {true, false}) {
            e.parallelism.dp = e.parallelism.global_batch = dp;
            e.runtime.optimizer.host_gradients = casts;
            const TaskGraph graph = build_transformer_step(e, {});
            CHECK(passed_over(graph, "parameters_from_host") ==
                  Approx(2 * (casts ? 2 : 4) * weights / dp));
            CHECK(bytes_of(graph, "gather_parameters") == Approx(dp > 1 ? 2 * 2 * weights : 0));
            CHECK(passed_over(graph, "weights_from_host") == 0);
            for (TaskId t = 0; t < graph.size(); ++t)
                if (graph.name(t) == "gather_parameters")
                    CHECK(std::ranges::any_of(graph.predecessors(t), [&](TaskId p) {
                        return graph.name(p) == "parameters_from_host";
                    }));
        }
}

// Of two micro-batches each is read once, after its last backward kernel and before the next
// forward; a read waits for the device. Of four recomputed layers each has host work before its
// forward and before its second one.
TEST_CASE("the host reads losses and keeps what checkpoints need") {
    Experiment e = small_gpt();
    e.parallelism.global_batch = 2 * e.parallelism.micro_batch;
    const auto count = [&](std::string_view name, Phase phase) {
        const TaskGraph graph = build_transformer_step(e, {});
        long found = 0;
        for (TaskId t = 0; t < graph.size(); ++t)
            found += graph.name(t) == name && graph.phase(t) == phase ? 1 : 0;
        return found;
    };
    CHECK(count("loss_read", Phase::backward) == 0);
    e.runtime.loss.read = true;
    CHECK(count("loss_read", Phase::backward) == 2);
    e.parallelism.recompute = Recompute::full;
    CHECK(count("checkpoint", Phase::forward) == 0);
    e.cluster.host.recompute = Seconds(1e-3);
    CHECK(count("checkpoint", Phase::forward) == 2 * 4);
    CHECK(count("checkpoint", Phase::backward) == 2 * 4);
}

// Inputs of four layers, 128 x 64 values of 2 bytes, leave after the forward and come back before
// the backward. Beside the passes, the third layer's forward waits for the first copy: two are on
// the device. Blocking, copies are on the lane of the passes.
TEST_CASE("inputs of recomputed layers wait on the host") {
    Experiment e = small_gpt();
    e.parallelism.recompute = Recompute::full;
    for (const auto how : {ActivationOffload::overlapped, ActivationOffload::blocking}) {
        e.run.offload_activations = how;
        const bool beside = how == ActivationOffload::overlapped;
        const TaskGraph graph = build_transformer_step(e, {});
        for (const char* name : {"activations_to_host", "activations_from_host"})
            CHECK(passed_over(graph, name) == 4 * 128 * 64 * 2);
        std::vector<TaskId> left;
        bool waits = false;
        for (TaskId t = 0; t < graph.size(); ++t) {
            if (graph.name(t) == "activations_to_host") {
                left.push_back(t);
                CHECK(graph.places(t).front().lane() == (beside ? Lane::copy : Lane::compute));
            }
            if (graph.label(t).layer == 2 && graph.phase(t) == Phase::forward && !left.empty())
                waits = waits || std::ranges::count(graph.predecessors(t), left.front()) > 0;
        }
        CHECK(left.size() == 4);
        CHECK(waits == beside);
    }
}

// Of four layers that do not run again all goes: two norms' inputs and results, queries, keys,
// values and attention's result, 8 x 64 values for each of 128 tokens, the inner vectors before and
// after GELU, 2 x 256, all of 2 bytes, and attention's fp32 sums of 4 heads. Where two of the
// layers run again, only their inputs go. The ends' tensors stay.
TEST_CASE("all that layers keep waits on the host where they do not run again") {
    Experiment e = small_gpt();
    e.runtime.attention = AttentionKind::flash;
    const double kept = 128 * ((8 * 64 + 2 * 256) * 2 + e.workload.heads * 4.0);
    for (const auto how : {ActivationOffload::overlapped, ActivationOffload::blocking}) {
        e.run.offload_activations = how;
        e.parallelism.recompute = Recompute::none;
        for (const char* name : {"activations_to_host", "activations_from_host"})
            CHECK(passed_over(build_transformer_step(e, {}), name) == 4 * kept);
        e.parallelism.recompute = Recompute::full;
        e.parallelism.recompute_layers = 2;
        for (const char* name : {"activations_to_host", "activations_from_host"})
            CHECK(passed_over(build_transformer_step(e, {}), name) == 2 * kept + 2 * 128 * 64 * 2);
        e.parallelism.recompute_layers = 0;
    }
}

// Two stages of two layers, two micro-batches. A split backward reads a layer's input in its first
// half, which runs the layer again, and not in that of the weights.
TEST_CASE("the weight gradients of a split backward bring no inputs from the host") {
    Experiment e = small_gpt();
    e.parallelism.pp = e.parallelism.global_batch = 2;
    e.parallelism.schedule = Schedule::zb_h1;
    e.parallelism.recompute = Recompute::full;
    for (const auto how : {ActivationOffload::overlapped, ActivationOffload::blocking}) {
        e.run.offload_activations = how;
        const TaskGraph graph = build_transformer_step(e, {});
        for (const char* name : {"activations_to_host", "activations_from_host"})
            CHECK(passed_over(graph, name) == 2 * 4 * 128 * 64 * 2);
    }
}

// Four heads of 16 begin at multiples of 8 elements, heads of 12 do not.
TEST_CASE("products of plain attention leave the tensor cores where heads are not aligned") {
    for (const int width : {16, 12}) {
        Experiment e = small_gpt();
        e.workload.head_dim = width;
        const TaskGraph graph = build_transformer_step(e, {});
        int products = 0;
        for (TaskId t = 0; t < graph.size(); ++t)
            if (const auto* gemm = std::get_if<Gemm>(&graph.op(t)); gemm && gemm->batch > 1) {
                CHECK(gemm->dtype == (width == 16 ? Dtype::bf16 : Dtype::fp32));
                ++products;
            }
        CHECK(products == 4 * 6);  // layers; two forward, four backward
    }
}

// Each of two ranks has two of four experts, in four layers: the host issues them in the forward,
// where it first reads their counts, and in the backward. A single rank has all four.
TEST_CASE("a framework that says what an expert costs the host runs them one after the other") {
    Experiment e = small_moe();
    const auto issued = [&] {
        const TaskGraph graph = build_transformer_step(e, {});
        std::vector<double> calls;
        for (TaskId t = 0; t < graph.size(); ++t)
            if (const auto* work = std::get_if<HostWork>(&graph.op(t));
                work && work->kind == HostWork::Kind::expert_layer &&
                graph.places(t).front().rank() == 0)
                calls.push_back(work->calls);
        return calls;
    };
    CHECK(issued().empty());
    e.runtime.experts.one_by_one = true;
    CHECK(issued() == std::vector<double>(8, 2));
    e.parallelism.dp = e.parallelism.ep = 1;
    CHECK(issued() == std::vector<double>(8, 4));
}

// Four layers of four heads over 128 tokens in two bytes: S = 131,072 bytes of scores. The softmax
// reads the half that a causal mask leaves and writes all; its backward reads two such halves;
// dropout reads and writes all and moves a mask of one byte. Gradients of queries, keys and values
// have 3 x 128 x 64 x 2 bytes, which are joined, and summed for the biases.
TEST_CASE("plain attention passes over its scores as often as it must, forward and backward") {
    Experiment e = small_gpt();
    e.workload.dropout = 0.1;
    const double S = 4.0 * 128 * 128 * 2, heads = 3.0 * 128 * 64 * 2;
    TaskGraph graph = build_transformer_step(e, {});
    CHECK(passed_over(graph, "softmax") == Approx(4 * 1.5 * S));
    CHECK(passed_over(graph, "softmax_backward") == Approx(4 * 2.0 * S));
    CHECK(passed_over(graph, "score_dropout") == Approx(4 * 2.5 * S));
    CHECK(passed_over(graph, "score_dropout_backward") == Approx(4 * 2.5 * S));
    CHECK(passed_over(graph, "head_layout") == Approx(4 * 2.0 * heads / 3));
    CHECK(passed_over(graph, "head_layout_backward") == Approx(4 * 2.0 * heads));
    CHECK(names_of(graph, Phase::backward)["softmax_backward"] == 4);
    CHECK(names_of(graph, Phase::backward)["scores"] == 2 * 4);
    CHECK(names_of(graph, Phase::backward)["values"] == 2 * 4);
    e.workload.causal = false;
    graph = build_transformer_step(e, {});
    CHECK(passed_over(graph, "softmax") == Approx(4 * 2.0 * S));
    CHECK(passed_over(graph, "softmax_backward") == Approx(4 * 3.0 * S));
}

// 16 layers in four chunks on two stages: five layers per stage are three of its first chunk and
// two of its second.
TEST_CASE("layers of a stage that run again are the first ones of each of its chunks") {
    Experiment e = small_gpt();
    e.workload.layers = 16;
    e.parallelism.pp = e.parallelism.vp = 2;
    e.parallelism.recompute = Recompute::full;
    const auto again = [&](int layers) {
        e.parallelism.recompute_layers = layers;
        std::vector<int> counts;
        for (const Chunk& chunk : chunks_of(e.workload, e.parallelism))
            counts.push_back(chunk.again - chunk.first);
        return counts;
    };
    CHECK(again(5) == std::vector{3, 3, 2, 2});
    CHECK(again(2) == std::vector{1, 1, 1, 1});
    CHECK(again(16) == std::vector{4, 4, 4, 4});
    CHECK(again(0) == std::vector{4, 4, 4, 4});
}

// Four layers, one micro-batch: full recompute runs each layer's forward once more, a third of the
// layers' 3 F.
TEST_CASE("full recompute adds the forward of the layers, selective the scores") {
    Experiment e = small_gpt();
    const double none = flops_of_step(build_transformer_step(e, {}));
    const double layers = 4 * layer_forward_flops(e.workload, 0).si() * e.workload.seq;
    e.parallelism.recompute = Recompute::full;
    CHECK(flops_of_step(build_transformer_step(e, {})) == Approx(none + layers));
    e.parallelism.recompute_layers = 1;
    CHECK(flops_of_step(build_transformer_step(e, {})) == Approx(none + layers / 4));
    e.parallelism.recompute_layers = 0;
    e.parallelism.recompute = Recompute::selective;
    // Two products of 2 s^2 h operations per layer.
    const double scores = 4 * 4.0 * e.workload.seq * e.workload.seq * e.workload.hidden;
    CHECK(flops_of_step(build_transformer_step(e, {})) == Approx(none + scores));
}

// arXiv 1909.08053: two all-reduces per layer forward and two backward, two more with full
// recompute; one for the embedding. arXiv 2205.05198: with sequence parallelism two all-gathers and
// two reduce-scatters instead; the backward gathers twice more, for the weight gradients.
TEST_CASE("tensor parallelism exchanges as often as its papers say") {
    Experiment e = small_gpt();
    e.parallelism.tp = 2;
    auto forward = names_of(build_transformer_step(e, {}), Phase::forward);
    auto backward = names_of(build_transformer_step(e, {}), Phase::backward);
    CHECK(forward["tp_all_reduce"] == 4 * 2 + 1);
    CHECK(backward["tp_all_reduce"] == 4 * 2 + 1);  // and one of the logits' input
    e.parallelism.recompute = Recompute::full;
    CHECK(names_of(build_transformer_step(e, {}), Phase::backward)["tp_all_reduce"] == 4 * 4 + 1);
    e.parallelism.recompute = Recompute::none;
    e.parallelism.sequence_parallel = true;
    forward = names_of(build_transformer_step(e, {}), Phase::forward);
    backward = names_of(build_transformer_step(e, {}), Phase::backward);
    CHECK(forward["tp_all_gather"] == 4 * 2 + 1);
    CHECK(forward["tp_reduce_scatter"] == 4 * 2 + 1);
    CHECK(backward["tp_all_gather"] == 4 * 4 + 1 + 1);
    CHECK(backward["tp_reduce_scatter"] == 4 * 2 + 1);
}

// The gradients of all weights are in fp32, four bytes each. zero 1 scatters them and gathers
// 2-byte parameters. zero 3 gathers before forward and backward of each of two micro-batches and
// scatters after each backward.
TEST_CASE("the data-parallel exchange carries every weight") {
    Experiment e = small_gpt();
    e.parallelism.dp = 2;
    const double weights = count_parameters(e.workload).total();
    CHECK(bytes_of(build_transformer_step(e, {}), "gradient_all_reduce") == Approx(4 * weights));
    e.parallelism.zero = 1;
    CHECK(bytes_of(build_transformer_step(e, {}), "gradient_reduce_scatter") ==
          Approx(4 * weights));
    CHECK(bytes_of(build_transformer_step(e, {}), "gather_parameters") == Approx(2 * weights));
    e.parallelism.zero = 3;
    e.parallelism.global_batch = 4;
    CHECK(bytes_of(build_transformer_step(e, {}), "gradient_reduce_scatter") ==
          Approx(2 * 4 * weights));
    CHECK(bytes_of(build_transformer_step(e, {}), "gather_parameters") ==
          Approx(2 * 2 * 2 * weights));
}

// Stage 1 of two (1F1B, four micro-batches): F0 F1 B0 F2 B1 F3 B2 B3. F0, F1 and each backward but
// the last gather, 5 times: F2, F3 and B3 follow a backward, whose weights are whole. Stage 2 runs
// F0 B0 F1 B1 ..: F0 and every backward, 5 times. Gradients are scattered once. Zero 2 gathers
// once.
TEST_CASE("a pipeline scatters gradients once, and gathers no weights behind a backward") {
    Experiment e = small_gpt();
    e.parallelism.dp = e.parallelism.pp = 2;
    e.parallelism.global_batch = 8;
    e.workload.tied = false;
    const double weights = count_parameters(e.workload).total();
    for (const auto& [zero, gathers] : {std::pair{3, 5}, {2, 1}}) {
        e.parallelism.zero = zero;
        const TaskGraph graph = build_transformer_step(e, {});
        CHECK(bytes_of(graph, "gradient_reduce_scatter") == Approx(4 * weights));
        CHECK(bytes_of(graph, "gather_parameters") == Approx(gathers * 2 * weights));
    }
}

// The four layers, the embedding and the head each exceed a bucket: six exchanges; without a limit
// one.
TEST_CASE("buckets close in the order of the backward") {
    Experiment e = small_gpt();
    e.parallelism.dp = 2;
    e.runtime.gradients.bucket = BucketSize(Bytes(1));
    CHECK(names_of(build_transformer_step(e, {}), Phase::gradient_sync)["gradient_all_reduce"] ==
          6);
    e.runtime.gradients.bucket = BucketSize(Bytes(1e15));
    CHECK(names_of(build_transformer_step(e, {}), Phase::gradient_sync)["gradient_all_reduce"] ==
          1);
}

// Six buckets of one unit each, in five pieces: thirty collectives of the same bytes in all.
TEST_CASE("a bucket is reduced in equal pieces") {
    Experiment e = small_gpt();
    e.parallelism.dp = 2;
    e.runtime.gradients.bucket = BucketSize(Bytes(1));
    for (const int zero : {0, 1}) {
        const std::string name = zero == 0 ? "gradient_all_reduce" : "gradient_reduce_scatter";
        e.parallelism.zero = zero;
        e.runtime.gradients.pieces = 1;
        const double whole = bytes_of(build_transformer_step(e, {}), name);
        e.runtime.gradients.pieces = 5;
        const TaskGraph graph = build_transformer_step(e, {});
        CHECK(names_of(graph, Phase::gradient_sync)[name] == 30);
        CHECK(bytes_of(graph, name) == Approx(whole));
    }
}

// A layer has 12 x 64^2 weights, 9 x 64 biases and 4 x 64 of its norms: 49,984 elements of 4 bytes,
// less than the head and the embedding.
TEST_CASE("a bucket that is exactly full closes") {
    Experiment e = small_gpt();
    e.parallelism.dp = 2;
    e.runtime.gradients.bucket = BucketSize(Bytes(199936));  // the head, four layers, the embedding
    CHECK(names_of(build_transformer_step(e, {}), Phase::gradient_sync)["gradient_all_reduce"] ==
          6);
    e.runtime.gradients.bucket = BucketSize(Bytes(199937));  // two layers each
    CHECK(names_of(build_transformer_step(e, {}), Phase::gradient_sync)["gradient_all_reduce"] ==
          4);
}

// Every token goes to two of four experts, and each of two ranks has two of these: half of a rank's
// slots leave it, there and back, forward and backward. A slot is 64 elements of 2 bytes; each rank
// has 128 tokens x 2 slots.
TEST_CASE("balanced experts exchange half of the slots of two ranks, four times") {
    const TaskGraph graph = build_transformer_step(small_moe(), {});
    CHECK(names_of(graph, Phase::forward)["ep_all_to_all"] == 2 * 4);
    const double slots = 128 * 2, leaving = slots / 2 * 64 * 2;
    CHECK(bytes_of(graph, "ep_all_to_all") == Approx(4 * 4 * 2 * leaving));
}

// On stages 0 1 2 3 3 2 1 0 half of the forward hops go to the previous stage, where receives from
// the other direction would delay them. In an interleaved pipeline the last stage sends forward to
// the first one, as to a next one.
TEST_CASE("a hop takes the lanes of the side to which it goes") {
    Experiment e = small_gpt();
    e.workload.layers = 8;
    e.parallelism.pp = 4;
    e.parallelism.vp = 2;
    e.parallelism.global_batch = 8;
    for (const Schedule schedule : {Schedule::zb_v, Schedule::one_f_one_b}) {
        e.parallelism.schedule = schedule;
        const TaskGraph graph = build_transformer_step(e, {});
        int hops = 0;
        for (TaskId t = 0; t < graph.size(); ++t) {
            if (!std::holds_alternative<SendRecv>(graph.op(t))) continue;
            const Place from = graph.places(t)[0], to = graph.places(t)[1];
            const bool forward = graph.phase(t) == Phase::forward;
            const bool up = schedule == Schedule::zb_v ? to.rank() > from.rank() : forward;
            CHECK(from.lane() == (up ? Lane::send_up : Lane::send_down));
            CHECK(to.lane() == (up ? Lane::receive_up : Lane::receive_down));
            ++hops;
        }
        // 8 micro-batches, forward and back
        CHECK(hops == 8 * 2 * (schedule == Schedule::zb_v ? 6 : 7));
    }
}
