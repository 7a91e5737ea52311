#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/input/presets.h"
#include "model/step.h"
#include "sim/memory/flat_list.h"
#include "sim/memory/gathered_weights.h"
#include "sim/memory/lifetimes.h"
#include "sim/memory/transformer_memory.h"
#include "tests/sim/drawn_experiments.h"
#include "tests/sim/memory/live_bytes.h"

using namespace stepcast;

namespace {

using GatherPass = GatheredWeights::Direction;

// GPT-2 with 124,439,808 weights, tied, 16-bit gradients, on two ranks, two micro-batches a step.
constexpr double flat_weights = 124439808;
Experiment gpt2(const char* zero, const std::vector<Override>& more = {}) {
    std::vector<Override> keys{{"cluster.gpus_per_node", "2"},
                               {"parallelism.dp", "2"},
                               {"parallelism.micro_batch", "4"},
                               {"parallelism.global_batch", "16"},
                               {"parallelism.zero", zero},
                               {"runtime.gradients.type", "training"},
                               {"runtime.gradients.freed", "true"},
                               {"runtime.gradients.flat", "true"},
                               {"runtime.gradients.bucket", "1e6 weights"},
                               {"runtime.optimizer.copies", "[4, 4, 4, 3]"}};
    keys.insert(keys.end(), more.begin(), more.end());
    return read_experiment("one_gpu_gpt2_124m", keys);
}

// Bytes of each tensor of that name and kind that a step makes (-1: made before).
std::vector<double> made(const Lifetimes& list, const std::string& name, TensorKind kind,
                         int step) {
    std::vector<double> bytes;
    for (const StepTensor& t : list.tensors)
        if (t.step == step && t.kind == kind &&
            list.names[static_cast<std::size_t>(t.what)] == name)
            bytes.push_back(static_cast<double>(t.bytes));
    return bytes;
}
std::vector<double> made(const Experiment& e, const std::string& name, TensorKind kind, int step) {
    return made(lifetimes_of(e, {}, 0), name, kind, step);
}

double living(const Lifetimes& list) { return live_bytes(list).back(); }

// One operator for each number of weights, of two bytes.
UnitTape unit_of(const std::string& what, const std::vector<int>& elements) {
    UnitTape tape;
    tape.what = what;
    tape.blocks.emplace_back();
    for (const int count : elements) {
        OperatorTape op;
        op.weight_gradient = 2 * count;
        tape.blocks.back().operators.push_back(op);
    }
    return tape;
}

// What a forward of embedding (10 weights), two layers (4 and 6) and logits (10) leaves gathered.
double left_by_forward(bool again, bool tied, double reuse_distance) {
    const UnitModules layer{"layer", again, module_bytes(unit_of("layer", {4, 6}))};
    const std::vector<UnitModules> units{
        {"embedding", false, {20}}, layer, layer, {"head", false, {20}}};
    TensorRecorder tensors;
    GatheredWeights modules(tensors, units, tied, 2 * reuse_distance);
    for (std::size_t unit = 0; unit < units.size(); ++unit)
        for (std::size_t i = 0; i < units[unit].bytes.size(); ++i) {
            modules.before(unit, i, GatherPass::forward);
            modules.after(unit, i, GatherPass::forward);
        }
    const double left = living(tensors.out);
    for (std::size_t unit = units.size(); unit-- > 0;)
        for (std::size_t i = units[unit].bytes.size(); i-- > 0;) {
            modules.before(unit, i, GatherPass::backward);
            modules.after(unit, i, GatherPass::backward);
        }
    CHECK(living(tensors.out) == 0);
    return left;
}

// What lives after each event of a forward and a backward of two units.
std::vector<double> copied_out(bool first_stays) {
    const std::vector<UnitModules> units{{"embedding", false, {12}, {8, 4}, first_stays},
                                         {"layer", false, {6}, {6}}};
    TensorRecorder tensors;
    GatheredWeights weights(tensors, units, false, 0);
    for (const auto& [unit, direction] : {std::pair{0, GatherPass::forward},
                                          {1, GatherPass::forward},
                                          {1, GatherPass::backward},
                                          {0, GatherPass::backward}}) {
        weights.before(static_cast<std::size_t>(unit), 0, direction);
        weights.after(static_cast<std::size_t>(unit), 0, direction);
    }
    return live_bytes(tensors.out);
}

}  // namespace

// 1e6 16-bit gradients have 2 MB, whatever is in the bucket. Zero 2 makes one in each of two
// backwards, and a second one where the exchange overlaps; zero 1 keeps one until the step's
// reduction; zero 3 has one from the beginning.
TEST_CASE("buckets are whole, one or two, of a backward, a step or all steps") {
    const auto buckets = [](const char* zero, const char* overlap, int step) {
        return made(gpt2(zero, {{"runtime.exchanges.gradients", overlap}}), "bucket",
                    TensorKind::exchanged, step);
    };
    CHECK(buckets("2", "never", 1) == std::vector<double>(2, 2e6));
    CHECK(buckets("2", "always", 1) == std::vector<double>(4, 2e6));
    CHECK(buckets("1", "never", 1) == std::vector<double>(1, 2e6));
    CHECK(buckets("3", "always", -1) == std::vector<double>(1, 2e6));
    CHECK(buckets("3", "always", 1).empty());
    CHECK(buckets("0", "always", 1).empty());
}

// Half of the weights, two bytes each: 124,439,808 B. Zero 2: in each backward. Zero 1: when the
// step's gradients are reduced. Zero 3: once for all.
TEST_CASE("a rank's part of the gradients is one tensor") {
    const auto parts = [](const char* zero, int step) {
        return made(gpt2(zero), "flat gradients", TensorKind::gradients, step);
    };
    CHECK(parts("2", 1) == std::vector<double>(2, flat_weights));
    CHECK(parts("1", 1) == std::vector<double>(1, flat_weights));
    CHECK(parts("3", -1) == std::vector<double>(1, flat_weights));
    CHECK(parts("3", 1).empty());
}

// fp32 masters of half of the weights: 4 B / 2 each; 16-bit weights whole or, under zero 3, half.
TEST_CASE("weights and masters are one tensor each, masters of zero 3 in pieces") {
    for (const char* zero : {"1", "3"}) {
        const Lifetimes list =
            lifetimes_of(gpt2(zero, {{"runtime.optimizer.part", "4e7 weights"}}), {}, 0);
        const bool third = std::string(zero) == "3";
        CHECK(made(list, "flat weights", TensorKind::weights, -1) ==
              std::vector<double>{(third ? 1 : 2) * flat_weights});
        const auto masters = made(list, "flat masters", TensorKind::optimizer, -1);
        if (third)
            CHECK(masters == std::vector<double>{4 * 4e7, 4 * (flat_weights / 2 - 4e7)});
        else
            CHECK(masters == std::vector<double>{4 * flat_weights / 2});
    }
}

// Zero 0 casts all gradients to fp32 and flattens these: 4 + 4 B a weight. Zero 1: a flat 16-bit
// copy of half of them, and one in fp32: (2 + 4) / 2 B. Zero 3: so for 1e7 weights at a time, of
// which 62,219,904 / 1e7 make 7 pieces.
TEST_CASE("an update holds flat copies of what it updates at a time") {
    const auto copies = [](const char* zero) {
        return made(gpt2(zero, {{"runtime.optimizer.part", "1e7 weights"}}), "flat gradients",
                    TensorKind::work, 1);
    };
    double all = 0;
    for (const double bytes : copies("0")) all += bytes;
    CHECK(all == Approx(8 * flat_weights));
    CHECK(copies("1") == std::vector<double>{2 * flat_weights / 2, 4 * flat_weights / 2});
    const auto pieces = copies("3");
    // no group is smaller than a tensor, of which GPT-2's 12 layers have some ten each
    CHECK(made(gpt2("3", {{"runtime.optimizer.part", "1 weights"}}), "flat gradients",
               TensorKind::work, 1)
              .size() <= 2 * (12 * 10 + 1));
    REQUIRE(pieces.size() == 14);
    CHECK(pieces[0] == 2e7);
    CHECK(pieces[1] == 4e7);
    CHECK(pieces[12] == 2 * (flat_weights / 2 - 6e7));
}

// Matrices of 12 layers have 12 x 12 x 768^2 weights, and the table 50257 x 768, which is there
// once: what the logits give waits for what the embedding adds.
TEST_CASE("a tied table has one gradient") {
    const double matrices = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
    double kept = 0;
    for (const StepTensor& t : lifetimes_of(gpt2("0"), {}, 0).tensors)
        if (t.step == 1 && t.kind == TensorKind::gradients) kept += static_cast<double>(t.bytes);
    CHECK(kept == 2 * matrices);
}

// 16-bit GPT-2 under mixed precision: masters are 4 B a weight beside 2 B. As the only weights fp32
// ones are 4 B, without masters, and a forward casts them to 2 B. Under zero 3 each of two ranks
// has half of them, and gathers cast.
TEST_CASE("fp32 weights alone are cast for each pass and have no masters") {
    const auto all = [](const char* zero, const char* wide, TensorKind kind, int step) {
        double bytes = 0;
        const Lifetimes list = lifetimes_of(gpt2(zero, {{"runtime.wide_weights", wide},
                                                        {"runtime.gradients.flat", "false"},
                                                        {"parallelism.global_batch", "8"}}),
                                            {}, 0);
        for (const StepTensor& t : list.tensors)
            if (t.step == step && t.kind == kind) bytes += static_cast<double>(t.bytes);
        return bytes / flat_weights;
    };
    CHECK(all("0", "false", TensorKind::weights, -1) == Approx(2).epsilon(1e-4));
    CHECK(all("0", "false", TensorKind::optimizer, -1) == Approx(4).epsilon(1e-4));
    CHECK(all("0", "true", TensorKind::weights, -1) == Approx(4).epsilon(1e-4));
    CHECK(all("0", "true", TensorKind::optimizer, -1) == 0);
    CHECK(all("0", "true", TensorKind::weights, 1) == Approx(2).epsilon(1e-4));
    CHECK(all("3", "true", TensorKind::weights, -1) == Approx(2).epsilon(1e-4));
    CHECK(all("3", "true", TensorKind::weights, 1) == 0);
}

// Adam's second moments have 4 B a weight, so have their roots; one kernel for all makes none.
TEST_CASE("an update by foreach makes the roots of all second moments") {
    const auto roots = [](const char* fused) {
        double bytes = 0;
        const Lifetimes list = lifetimes_of(gpt2("0", {{"runtime.optimizer.fused", fused}}), {}, 0);
        for (const StepTensor& t : list.tensors)
            if (t.step == 1 && list.names[static_cast<std::size_t>(t.what)] == "roots of moments")
                bytes += static_cast<double>(t.bytes);
        return bytes / flat_weights;
    };
    CHECK(roots("true") == 0);
    CHECK(roots("false") == Approx(4).epsilon(1e-6));
}

// A bucket of 100 weights: a gradient of 150 waits until the next one comes, one of 60 is copied,
// so that only bucket (200 B) and the rank's part are left, and 16-bit gradients of 150 have 300 B.
TEST_CASE("a gradient that no bucket takes stays until the next") {
    const Experiment e = gpt2("2", {{"runtime.gradients.bucket", "100 weights"},
                                    {"runtime.exchanges.gradients", "never"}});
    const Routing routing;
    const LayerContext c{e, rank_shape(e), rank_groups(e), routing};
    TensorRecorder tensors;
    FlatList flat(tensors, c, {400, 0});
    CHECK(flat.add("a", 60, false));
    CHECK(living(tensors.out) == 200);
    CHECK(flat.add("b", 150, false));  // 60 are reduced: this rank's part, 200 weights
    CHECK(living(tensors.out) == 200 + 400 + 300);
    CHECK(flat.add("c", 10, false));
    CHECK(living(tensors.out) == 200 + 400);
    flat.end_backward();
    CHECK(living(tensors.out) == 400);
}

// One bucket for all: 12 layers of 768 x (2304 + 768 + 2 x 3072) weights and the table of 50257 x
// 768 in 16 bits, after each of two micro-batches. The norm is of the table first, in fp64; a part
// of two is larger.
TEST_CASE("a bucket is copied to be reduced, a gradient for its norm") {
    constexpr double table = 50257 * 768, matrices = 12 * 768 * (2304 + 768 + 2 * 3072);
    for (const char* zero : {"1", "2", "3"}) {
        CAPTURE(zero);
        const Lifetimes list = lifetimes_of(gpt2(zero, {{"runtime.gradients.bucket", "one"},
                                                        {"runtime.optimizer.wide_norm", "true"}}),
                                            {}, 0);
        const std::size_t copies = *zero == '1' ? 1 : 2, norms = *zero == '3' ? 0 : 1;
        CHECK(made(list, "gradients", TensorKind::exchanged, 1) ==
              std::vector<double>(copies, 2 * (table + matrices)));
        CHECK(made(list, "gradient norm", TensorKind::work, 1) ==
              std::vector<double>(norms, 8 * table));
    }
}

// Hooks gather what comes next while less is there than the distance; at the end of the forward
// that is logits 10, the second layer's 6 and 4, the first's 6 and 4, table 10. With 21 the second
// layer's 6 stay, as 2 x 10 others lie before their backward, and the first's 6 had come while its
// 4 were used, which go (2 x 16 others). A layer that is computed again is used sooner, its 6 after
// 2 x 10 + 4 others.
TEST_CASE("weights stay gathered that are used again soon, and more come ahead") {
    CHECK(left_by_forward(false, false, 0) == 0);
    CHECK(left_by_forward(false, false, 20) == 2 * (10 + 6 + 4));
    CHECK(left_by_forward(false, false, 21) == 2 * (10 + 6 + 6));
    CHECK(left_by_forward(false, false, 40) == 2 * (10 + 6 + 4 + 6 + 4 + 10));
    CHECK(left_by_forward(true, false, 25) == 2 * (10 + 6 + 4 + 6));
}

// One unit of 12 bytes in two parameters, one of 6. Each comes in one tensor and is copied out to
// its parameters (8 + 4, 6). The forward's tensor goes once the next unit is copied out, the last
// one with the forward; in the backward it goes at once, before the unit in front is gathered.
TEST_CASE("FSDP copies what it has gathered out to parameters") {
    CHECK(copied_out(false) == std::vector<double>{12, 20, 24, 16, 12, 18, 24, 12, 6, 0,  //
                                                   6,  12, 6,  18, 12, 20, 24, 12, 4, 0});
}

// The first is the whole model's own: its parameters stay from its forward to its backward.
TEST_CASE("the root of FSDP is gathered once in a step") {
    CHECK(copied_out(true) == std::vector<double>{12, 20, 24, 30, 36, 24, 18, 12,  //
                                                  18, 24, 18, 12, 4, 0});
}

// Both layers have 20 weights: a table that is used again within 21 stays, and is the logits'.
TEST_CASE("a tied table stays gathered from end to end, or is gathered twice") {
    CHECK(left_by_forward(false, true, 19) == 2 * (10 + 6 + 4));
    CHECK(left_by_forward(false, true, 21) == 2 * (10 + 6 + 6));
}

// Flat tensors, gathers of modules and fp32 weights: for every way to shard that they concern, the
// closed form's peak is none that the list exceeds, but for tensors' sizes in whole bytes. Of
// gradients that are freed after an update it is no strict bound: half-way through a backward half
// of them and half of the activations live beside work that neither end has (lifetimes_test.cpp has
// the margin).
TEST_CASE("the closed form bounds the list of flat tensors and gathered modules") {
    int seen = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        std::string taken;
        Experiment e = drawn_experiments::draw(seed, taken);
        if (e.workload.kind != Workload::Kind::transformer || runs_script(e) ||
            e.parallelism.pp > 1 || e.workload.adapter_rank > 0)
            continue;
        e.parallelism.zero = static_cast<int>(seed % 4);
        e.runtime.gradients.flat = seed % 3 > 0;
        e.runtime.gradients.freed = false;
        e.runtime.gradients.bucket = BucketSize::of_weights(seed % 2 == 0 ? 1000 : 1e6);
        e.runtime.optimizer.copies = {4, 4, 4, 3};
        e.runtime.optimizer.part = BucketSize::of_weights(50000);
        e.runtime.module_hooks = seed % 5 > 0;
        e.runtime.reuse_distance = static_cast<double>(seed % 7) * 20000;
        e.runtime.wide_weights = seed % 3 == 0;
        e.runtime.optimizer.fused = seed % 11 > 0;
        CAPTURE(seed, taken);
        const Routing routing = routing_of(e);
        const double workspaces = 128.0 * mebibyte,
                     listed = (e.workload.moe.experts > 0 ? 128.0 : 64.0) * mebibyte;
        const double peak = peak_of(lifetimes_of(e, routing, 0));
        const MemoryUse closed = transformer_memory(e, routing);
        CHECK(peak - listed <= (1 + 1e-5) * (closed.peak.si() / e.runtime.reserved - workspaces));
        ++seen;
    }
    CHECK(seen > 50);
}
