// A contrastive captioner: parameters, groups, pieces and arithmetic by hand, and the step that
// follows from them.

#include <map>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/recorded/coca/blocks.h"
#include "model/recorded/coca/parts.h"
#include "model/recorded/coca/tensors.h"
#include "model/runtime_rules.h"
#include "model/step.h"

using namespace stepcast;

namespace {

Experiment coca(std::vector<Override> overrides = {}) {
    return read_experiment("coca_zero1", overrides);
}

// Tasks by name and phase.
std::map<std::pair<std::string, Phase>, int> task_counts(const TaskGraph& graph) {
    std::map<std::pair<std::string, Phase>, int> counts;
    for (TaskId t = 0; t < graph.size(); ++t)
        ++counts[{std::string(graph.name(t)), graph.phase(t)}];
    return counts;
}

double host_calls(const TaskGraph& graph, HostWork::Kind kind) {
    double calls = 0;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (const auto* work = std::get_if<HostWork>(&graph.op(t)); work && work->kind == kind)
            calls += work->calls;
    return calls;
}

Flops flops_in(const TaskGraph& graph, Phase phase) {
    Flops sum;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.phase(t) == phase) sum += flops_of(graph.op(t));
    return sum;
}

}  // namespace

// Vision, h = 768, f = 2048, 197 positions:
//   a block: q, k, v, out 4 h h, biases q, v, out 3 h; norms 1, 2, inner 6 h; w1, w2, w3 3 h f,
//   biases 2 f + h, norm
//     2 f: 4 h h + 3 h f + 10 h + 4 f = 2359296 + 4718592 + 7680 + 8192 = 7093760; 12 of them
//     85125120
//   class token h, positions 197 h, patches 768 h + h: 768 + 151296 + 590592 = 742656
//   pooler to 512: query 256 x 512, q 512 x 512, k and v 512 x 768 each, bias 1536, out 512 x 512 +
//   512, norms 1024 +
//     1536: 131072 + 262144 + 786432 + 1536 + 262656 + 2560 = 1446400
//   contrastive pooler: query 512, 4 x 512 x 512, biases 2048, norms 2048: 512 + 1048576 + 4096 =
//   1053184 final norm 1024, projection 262144. In all 88630528
// Text, h = 512, f = 2048: a block 4 h h + 2 h f + 9 h + f (norms 4 h; biases of q, k, v, out 4 h,
// of the feed-forward
//   f + h): 1048576 + 2097152 + 4608 + 2048 = 3152384; 12 of them 37828608; embedding 49408 h =
//   25296896; positions 77 h = 39424; final norm 2 h = 1024, projection h h = 262144. In all
//   63428096
// Decoder: 12 x (3152384 + 3152384 + 2 h for the norm of the keys) = 75669504; logits 25296896,
// final norm 1024: 100967424 And the scale of the contrastive logits: 253026049.
TEST_CASE("CoCa-B-16 has the parameters that the log states, tower by tower") {
    const auto groups = parameter_groups(coca());
    CHECK(elements_of(groups, "vision") == 88630528);
    CHECK(elements_of(groups, "text") == 63428096);
    CHECK(elements_of(groups, "decoder") == 100967424);
    CHECK(elements_of(groups) == 253026049);
    std::size_t tensors = 0;
    for (const ParameterGroup& group : groups) tensors += group.size();
    CHECK(tensors == 744);
}

// Buckets of 20 MB, one after the other; each gradient is reduced once, to the rank that owns it.
TEST_CASE("buckets of a captioner reduce every gradient once") {
    const Experiment e = coca({{"runtime.gradients.bucket", "20 MB"}});
    const TaskGraph graph = build_step(e, routing_of(e));
    double bytes = 0;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.name(t) == "gradient_reduce") bytes += std::get<Reduce>(graph.op(t)).bytes.si();
    CHECK(bytes == Approx(253026049 * size_of(gradient_type(e)).si()));
}

// Two groups for each of 12 layers in three towers, two for each end of vision and text, two at the
// decoder's, one for the scale: 72 + 4 + 4 + 2 + 1.
TEST_CASE("each layer makes a group that decays and one that does not") {
    CHECK(parameter_groups(coca()).size() == 83);
    const auto joined = parameter_groups(coca({{"runtime.optimizer.groups", "1"}}));
    REQUIRE(joined.size() == 1);
    CHECK(joined.front().size() == 744);
    CHECK(elements_of(joined) == 253026049);
    CHECK_THROWS_WITH(
        coca({{"runtime.optimizer.groups", "84"}}),
        Catch::StartsWith("--set runtime.optimizer.groups=84: 84, but the layers make 83 groups"));
}

// 10 elements on 4 ranks are padded to 16, so a piece has 4. Of tensors with 3, 5 and 2, [0,3) is
// on rank 0; of [3,8) 1 is on rank 0 and 4 on rank 1; [8,10) is on rank 2; rank 3 has only padding.
TEST_CASE("a group is cut into equal pieces, padded to twice the ranks") {
    const ParameterGroup group{{3, ""}, {5, ""}, {2, ""}};
    CHECK(piece_elements(group, 4) == 4);
    CHECK(slices_of(group, 4) ==
          std::vector<std::vector<Slice>>{{{0, 3}}, {{0, 1}, {1, 4}}, {{2, 2}}});
    CHECK(tensors_on(group, 4, 0) == 2);
    CHECK(tensors_on(group, 4, 3) == 0);
}

// The log prints each group's piece on a rank: 38208 of the class token, positions and patch bias
// (768 + 151296 + 768 = 152832 = 4 x 38208), 147456 of the patches (589824 / 4), 1769472 of a
// vision layer's matrices (7077888 / 4).
TEST_CASE("pieces are those that the log prints") {
    const auto groups = parameter_groups(coca());
    CHECK(piece_elements(groups[0], 4) == 38208);
    CHECK(piece_elements(groups[1], 4) == 147456);
    CHECK(piece_elements(groups[3], 4) == 1769472);
    int on_first = 0;
    for (const auto& group : groups) on_first += tensors_on(group, 4, 0);
    CHECK(on_first == 269);
}

// What recompute runs again.
static Flops flops_again(const Workload& w) {
    return block_flops(vision_block(w)) + block_flops(text_block(w)) +
           block_flops(decoder_block(w)) + block_flops(cross_block(w));
}

// Per sample, in GFLOP, 2 per weight and position: vision 12 x (197 x 2 x 7077888 + 4 x 197^2 x
// 768) = 34.89; text and decoder 12 x (77 x 2 x 3145728 + 4 x 77^2 x 512) = 5.959 each; cross 12 x
// (77 x 2 x 2621440 + 256 x 2 x 524288 + 4 x 77 x 256 x 512) = 8.550; head 77 x 2 x 512 x 49408
// = 3.896; poolers 0.6816 + 0.2700 (queries 256 and 1); patches 196 x 2 x 768 x 768 = 0.231.
TEST_CASE(
    "forward arithmetic of a sample is 60.4 GFLOP, of which recompute runs the blocks again: 91.6 "
    "%") {
    const Workload w = coca().workload;
    CHECK(block_flops(vision_block(w)).si() == Approx(34.89e9).epsilon(5e-4));
    CHECK(block_flops(text_block(w)).si() == Approx(5.959e9).epsilon(5e-4));
    CHECK(block_flops(decoder_block(w)) == block_flops(text_block(w)));
    CHECK(block_flops(cross_block(w)).si() == Approx(8.550e9).epsilon(5e-4));
    CHECK((block_flops(pooler(w)) + block_flops(contrastive_pooler(w))).si() ==
          Approx(0.9516e9).epsilon(1e-3));
    CHECK(tower_flops(w).si() == Approx(60.4e9).epsilon(1e-3));
    CHECK(flops_again(w) / tower_flops(w) == Approx(0.916).epsilon(1e-3));
}

// Forward: 512 samples; two projections of one position of each sample (2 x 2 x 512^2) are not
// counted above. Backward: twice the forward but for the image, whose gradient nobody needs, the
// blocks once more, and both contrastive products (512 x 2048 x 512 each): forward 2, backward 4 of
// them.
TEST_CASE("the step does the model's arithmetic, and with recompute the blocks' once more") {
    const Experiment e = coca();
    const Flops again = flops_again(e.workload), patches_of_image(2.0 * 196 * 768 * 768);
    const TaskGraph graph = build_step(e, {});
    const Flops projections(2 * 2.0 * 512 * 512), similarity(2 * 2.0 * 512 * 2048 * 512);
    const Flops forward = 512 * (tower_flops(e.workload) + projections);
    CHECK(flops_in(graph, Phase::forward).si() == Approx(forward.si()));
    CHECK(flops_in(graph, Phase::between).si() == Approx(similarity.si()));
    const Flops backward = 2 * forward - 512 * patches_of_image + 512 * again + 2 * similarity;
    CHECK(flops_in(graph, Phase::backward).si() == Approx(backward.si()));
    const TaskGraph kept = build_step(coca({{"parallelism.recompute", "none"}}), {});
    CHECK((flops_in(graph, Phase::backward) - flops_in(kept, Phase::backward)).si() ==
          Approx(512 * again.si()));
}

// 82 groups are on all four ranks, the scale's single element on one: 82 x 4 + 1 runs. Host reads:
// 269 tensors are each checked and normed; each group sends a value and reads one, and so does the
// overflow: 2 x 269 + 2 x 83 + 2.
TEST_CASE(
    "the exchange is 744 copies, one division and 329 reductions; the optimizer reads 706 values") {
    const TaskGraph graph = build_step(coca(), {});
    auto counts = task_counts(graph);
    CHECK(counts[{"bucket_copy", Phase::gradient_sync}] == 744);
    CHECK(counts[{"bucket_divide", Phase::gradient_sync}] == 1);
    CHECK(counts[{"gradient_reduce", Phase::gradient_sync}] == 329);
    CHECK(counts[{"gather_parameters", Phase::optimizer}] == 83);
    CHECK(host_calls(graph, HostWork::Kind::read) == 706);
    CHECK(host_calls(graph, HostWork::Kind::flatten) == 83);
    CHECK(host_calls(graph, HostWork::Kind::update) == 83);
    CHECK(host_calls(graph, HostWork::Kind::gather) == 83);
    Bytes reduced, gathered;
    for (TaskId t = 0; t < graph.size(); ++t) {
        if (const auto* reduce = std::get_if<Reduce>(&graph.op(t))) reduced += reduce->bytes;
        if (const auto* gather = std::get_if<AllGather>(&graph.op(t));
            gather && graph.phase(t) == Phase::optimizer)
            gathered += gather->bytes;
    }
    CHECK(reduced == Bytes(2.0 * 253026049));
    CHECK(gathered == Bytes(2.0 * 253026056));  // the scale is padded to 8
}

// 253,026,049 elements of 2 bytes in buckets of 60 MB: embedding and logits (25.3 M each, 50.6 MB)
// nearly fill one each. With overlap the gradients leave in the order of the backward, so every
// copy is in the backward.
TEST_CASE("smaller buckets go one after another; with overlap they leave during the backward") {
    auto waiting = task_counts(build_step(coca({{"runtime.gradients.bucket", "60 MB"}}), {}));
    CHECK(waiting[{"bucket_divide", Phase::gradient_sync}] >= 9);
    CHECK(waiting[{"bucket_copy", Phase::gradient_sync}] == 744);
    auto overlapped = task_counts(build_step(
        coca({{"runtime.gradients.bucket", "60 MB"}, {"runtime.exchanges.gradients", "always"}}),
        {}));
    CHECK(overlapped[{"bucket_copy", Phase::backward}] == 744);
    CHECK(overlapped[{"bucket_copy", Phase::gradient_sync}] == 0);
    CHECK(overlapped[{"bucket_divide", Phase::backward}] >= 9);
}

// A bucket takes what comes next as long as that fits into 60 MB.
TEST_CASE("a bucket is closed when the next gradient would not fit") {
    const TaskGraph graph = build_step(coca({{"runtime.gradients.bucket", "60 MB"}}), {});
    Bytes filled, before;
    int closed = 0;
    for (TaskId t = 0; t < graph.size(); ++t) {
        if (graph.name(t) == "bucket_copy") {
            const Bytes more = std::get<MemoryPass>(graph.op(t)).read;
            CHECK(std::get<MemoryPass>(graph.op(t)).written == more);
            if (filled == Bytes(0) && closed > 0) CHECK(before + more > Bytes(60e6));
            filled += more;
            CHECK(filled <= Bytes(60e6));
        } else if (graph.name(t) == "bucket_divide") {
            CHECK(std::get<MemoryPass>(graph.op(t)) == MemoryPass{Bytes(60e6), Bytes(60e6)});
            before = filled;
            filled = Bytes(0);
            ++closed;
        }
    }
    CHECK(filled == Bytes(0));
}

// For n elements of a group's piece: 16-bit gradients are flattened and cast to fp32 (8 n read, 10
// n written); LAMB in fp32 moves 24 n and 16 n, Adam 16 n and 12 n; 16-bit weights 4 n and 2 n.
// Their launches are part of the host's work. The first group's piece has 38208 elements.
TEST_CASE("an update moves so many bytes for each element, and is issued by the host's own work") {
    for (const bool lamb : {true, false}) {
        const TaskGraph graph =
            build_step(coca({{"workload.optimizer", lamb ? "lamb" : "adam"}}), {});
        const double n = 38208;
        std::map<std::string, MemoryPass> first;
        for (TaskId t = 0; t < graph.size(); ++t) {
            const auto* pass = std::get_if<MemoryPass>(&graph.op(t));
            if (!pass || graph.phase(t) != Phase::optimizer) continue;
            first.emplace(graph.name(t), *pass);
            CHECK(graph.host_calls(t) == 0);
        }
        CHECK(first == std::map<std::string, MemoryPass>{
                           {"overflow_check", {Bytes(2 * n), Bytes(0)}},
                           {"gradient_norm", {Bytes(2 * n), Bytes(0)}},
                           {"flatten_gradients", {Bytes(8 * n), Bytes(10 * n)}},
                           {"optimizer",
                            {Bytes((lamb ? 24 : 16) * n), Bytes((lamb ? 16 : 12) * n),
                             MemoryPass::Access::optimizer}},
                           {"half_weights", {Bytes(4 * n), Bytes(2 * n)}}});
    }
}

TEST_CASE("one parameter group is four reductions and one gather") {
    auto counts = task_counts(build_step(coca({{"runtime.optimizer.groups", "1"}}), {}));
    CHECK(counts[{"gradient_reduce", Phase::gradient_sync}] == 4);
    CHECK(counts[{"gather_parameters", Phase::optimizer}] == 1);
}

TEST_CASE("unfolded, the captioner's step has every rank and one task for each collective") {
    const TaskGraph one = build_step(coca(), {}), all = build_step(coca(), {}, Folding::never);
    CHECK(one.rank_count() == 1);
    CHECK(one.multiplicity() == std::vector<int>{4});
    CHECK(all.rank_count() == 4);
    auto folded = task_counts(one), unfolded = task_counts(all);
    CHECK(unfolded[{"gradient_reduce", Phase::gradient_sync}] ==
          folded[{"gradient_reduce", Phase::gradient_sync}]);
    CHECK(unfolded[{"bucket_copy", Phase::gradient_sync}] == 4 * 744);
}

// Rows of 197 and 77 scores do not begin at multiples of 8 elements, rows of 256 do.
TEST_CASE("products over odd numbers of keys are unaligned") {
    const TaskGraph graph = build_step(coca(), {});
    for (TaskId t = 0; t < graph.size(); ++t) {
        const auto* gemm = std::get_if<Gemm>(&graph.op(t));
        if (!gemm) continue;
        const std::string name(graph.name(t));
        const bool odd = name == "vision_scores" || name == "vision_values" ||
                         name == "text_scores" || name == "text_values" ||
                         name == "decoder_scores" || name == "decoder_values" ||
                         name == "pooler_scores" || name == "pooler_values";
        CHECK(gemm->alignment == (odd ? Gemm::Alignment::odd : Gemm::Alignment::full));
    }
}

TEST_CASE("what a captioner's step does not model is refused, naming the key") {
    const auto refused = [](const std::string& key, const std::string& value) {
        CHECK_THROWS_WITH(coca({{key, value}}),
                          Catch::StartsWith("--set " + key + "=" + value + ":"));
    };
    refused("parallelism.zero", "2");
    refused("parallelism.recompute", "selective");
    refused("parallelism.global_batch", "4096");
    // 4 x 512
    CHECK_THROWS_WITH(coca({{"parallelism.global_batch", "4096"}}),
                      Catch::EndsWith("expected 0 or dp x micro_batch = 2048"));
    refused("workload.decoder.seq", "76");
    refused("workload.decoder.hidden", "768");
    refused("workload.vision.layers", "0");
    refused("workload.vision.heads", "7");
    refused("workload.moe.experts", "4");
    refused("runtime.attention", "flash");
    refused("workload.dropout", "0.1");
    refused("runtime.kernels", "eager");
    refused("runtime.exchanges.parameters", "true");
    CHECK_THROWS_WITH(coca({{"parallelism.tp", "2"}, {"parallelism.dp", "2"}}),
                      Catch::StartsWith("--set parallelism.tp=2:"));
}
