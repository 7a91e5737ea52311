#include <chrono>
#include <set>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/input/presets.h"
#include "model/runtime_rules.h"
#include "model/step.h"
#include "sim/memory/allocator_forecast.h"
#include "sim/memory/lifetimes.h"
#include "sim/memory/memory_parts.h"
#include "sim/memory/transformer_memory.h"
#include "tests/sim/drawn_experiments.h"
#include "tests/sim/memory/live_bytes.h"
#include "tests/sim/memory/two_layers.h"

using namespace stepcast;

namespace {

using EventKind = AllocatorEvent::Kind;

Experiment experiment_of(const std::string& name, const std::vector<Override>& keys = {}) {
    return read_experiment(name, keys);
}

// Bytes by kind that live at the end of the list.
std::map<TensorKind, double> lasting(const Lifetimes& list) {
    std::vector<bool> lives(list.tensors.size());
    for (const AllocatorEvent& event : list.events)
        if (event.kind == EventKind::allocate || event.kind == EventKind::free)
            lives[event.id] = event.kind == EventKind::allocate;
    std::map<TensorKind, double> bytes;
    for (std::size_t id = 0; id < lives.size(); ++id)
        if (lives[id]) bytes[list.tensors[id].kind] += static_cast<double>(list.tensors[id].bytes);
    return bytes;
}

// The list's peak over the closed form's, without the libraries' workspaces.
std::vector<double> ratios(const Experiment& e) {
    const Routing routing = routing_of(e);
    const double workspaces = 128.0 * mebibyte,
                 listed = (e.workload.moe.experts > 0 ? 128.0 : 64.0) * mebibyte;
    std::vector<double> all;
    const auto stages = memory_of_stages(e, routing);
    for (std::size_t s = 0; s < stages.size(); ++s)
        all.push_back((peak_of(lifetimes_of(e, routing, static_cast<int>(s))) - listed) /
                      (stages[s].peak.si() / e.runtime.reserved - workspaces));
    return all;
}

}  // namespace

// GPT with two layers, hidden 64, 2 heads, inner 256, 32 tokens, vocabulary 1000, tied, fp16, fused
// loss, plain attention. An outer tensor has 32 x 64 x 2 = 4096 bytes. A layer keeps: norm 2 x
// 4096; queries, keys, values, result 4 x 4096; scores 2 x 32 x 32 x 2 = 4096; norm 2 x 4096; inner
// vectors before and after GELU 2 x 16384. That is 69,632 bytes. The ends keep 2 x 4096 of the
// final norm and 32 x 1000 x 2 = 64,000 of logits.
TEST_CASE("a forward makes what automatic differentiation keeps, tensor by tensor") {
    const Lifetimes list = lifetimes_of(two_layers(), {}, 0);
    double kept = 0, logits = 0, seconds_layer = 0;
    for (const StepTensor& t : list.tensors) {
        if (t.step != 1 || t.phase != Phase::forward) continue;
        const auto bytes = static_cast<double>(t.bytes);
        if (t.kind == TensorKind::activations) kept += bytes;
        if (t.kind == TensorKind::logits) logits += bytes;
        if (t.kind == TensorKind::activations && t.layer == 1) seconds_layer += bytes;
    }
    CHECK(seconds_layer == 69632);
    CHECK(kept == 2 * 69632 + 2 * 4096);
    CHECK(logits == 64000);
}

// Adam's fp32 moments take 8 bytes a weight and are made by the first update: 124,439,808 weights
// of GPT-2. 16-bit weights and an fp32 copy: 2 + 4.
TEST_CASE("the first update makes the optimizer's moments") {
    const Lifetimes list = lifetimes_of(experiment_of("one_gpu_gpt2_124m"), {}, 0);
    double moments = 0, later = 0;
    for (const StepTensor& t : list.tensors)
        if (t.kind == TensorKind::optimizer && t.phase == Phase::optimizer)
            (t.step == 0 ? moments : later) += static_cast<double>(t.bytes);
    CHECK(moments == Approx(8 * 124439808.0).epsilon(1e-6));
    CHECK(later == 0);
}

TEST_CASE("after a step only weights, states, buffers and workspaces are left") {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        std::string taken;
        const Experiment e = drawn_experiments::draw(seed, taken);
        if (e.workload.kind != Workload::Kind::transformer || runs_script(e)) continue;
        CAPTURE(seed, taken);
        for (const auto& [kind, bytes] : lasting(lifetimes_of(e, routing_of(e), 0))) {
            CAPTURE(to_string(kind), bytes);
            CHECK(kind != TensorKind::activations);
            CHECK(kind != TensorKind::logits);
            CHECK(kind != TensorKind::gathered);
        }
    }
}

// The closed forms add buffers that are not full at the fullest moment, and the two layers around
// it that ZeRO 3 gathers. In models as small as the drawn ones these outweigh the rest. What layers
// keep waits on the host in two of three experiments that can send it there.
TEST_CASE("the closed form bounds the peak of the list, whatever the experiment") {
    std::vector<double> all;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        std::string taken;
        Experiment e = drawn_experiments::draw(seed, taken);
        const Parallelism& p = e.parallelism;
        if (e.workload.kind != Workload::Kind::transformer || runs_script(e)) continue;
        if (p.recompute != Recompute::alternate && !p.overlap_experts && p.cut == StageCut::layers)
            e.run.offload_activations = static_cast<ActivationOffload>(seed % 3);
        CAPTURE(seed, taken);
        for (const double ratio : ratios(e)) {
            CHECK(ratio <= 1 + 1e-9);
            CHECK(ratio > 0.5);
            all.push_back(ratio);
        }
    }
    std::ranges::sort(all);
    CHECK(all[all.size() / 2] > 0.9);
}

// Weights, gradients and states last, and at some moment of the schedule the closed form's kept
// activations live. Casts of weights (automatic casting) live only from forward to backward. Of the
// activations alone the closed form is no strict bound: in 15 of these stages the list keeps less,
// by up to 44 % of what these small models keep, for a reason that is not found; with the
// workspaces it holds.
TEST_CASE("what lasts and what is kept is a lower bound of the list, whatever the experiment") {
    int seen = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        std::string taken;
        const Experiment e = drawn_experiments::draw(seed, taken);
        if (e.workload.kind != Workload::Kind::transformer || runs_script(e)) continue;
        const Routing routing = routing_of(e);
        const auto stages = memory_of_stages(e, routing);
        for (std::size_t s = 0; s < stages.size(); ++s, ++seen) {
            CAPTURE(seed, taken, s);
            const MemoryUse& of = stages[s];
            const double casts = casts_weights(e) ? of.weights.si() / 3 : 0;
            const double lasts = (of.weights + of.gradients + of.optimizer).si() - casts,
                         peak = peak_of(lifetimes_of(e, routing, static_cast<int>(s)));
            const double workspaces = (e.workload.moe.experts > 0 ? 128.0 : 64.0) * mebibyte;
            CHECK(lasts <= (1 + 1e-9) * (peak - workspaces));
            CHECK(lasts + of.activations.si() <= (1 + 1e-9) * peak);
        }
    }
    CHECK(seen > 200);
}

TEST_CASE("for every preset the peak of the list is the closed form's within 8 %") {
    for (const std::string& name : preset_names(PresetKind::experiment)) {
        const Experiment e = read_experiment(name);
        if (e.workload.kind != Workload::Kind::transformer || runs_script(e)) continue;
        CAPTURE(name);
        for (const double ratio : ratios(e)) CHECK(ratio == Approx(1).margin(0.08));
    }
}

// The closed form has two gathered units and gradients of two beside the fullest moment of all; at
// FSDP's, that of the loss, only the logits' weights are there.
TEST_CASE("modules that run again leave list and closed form within 9 %") {
    const std::vector<std::string> modules{"[mlp]", "[moe]", "[layernorm, moe_act]",
                                           "[core_attn, moe, mlp]"};
    for (const char* name : {"mixtral_8x7b_h100", "llama3_8b_h100_fsdp"})
        for (const std::string& again : modules) {
            const Experiment e = read_experiment(
                name, std::vector<Override>{{"parallelism.recompute", "selective"},
                                            {"parallelism.recompute_modules", again}});
            CAPTURE(name, again);
            for (const double ratio : ratios(e)) CHECK(ratio == Approx(1).margin(0.09));
        }
}

namespace {

// Llama 8B over 8 tensor-parallel ranks that split the sequence: 4 sequences of 4,096 tokens. A
// whole tensor has 4 x 4096 x 4096 x 2 B = 128 MiB.
Experiment split_sequence(const char* lead, int micro_batches) {
    return experiment_of("llama3-8b",
                         {{"cluster.preset", "dgx-h100"},
                          {"cluster.gpus", "8"},
                          {"parallelism.tp", "8"},
                          {"parallelism.sequence_parallel", "true"},
                          {"parallelism.micro_batch", "4"},
                          {"workload.seq", "4096"},
                          {"runtime.host_lead", lead},
                          {"parallelism.global_batch", std::to_string(4 * micro_batches)}});
}
constexpr double whole_tensor = 128.0 * mebibyte;

}  // namespace

// A lead of ten layers is 10 x (44 + 61) = 1,050 launches: 23.9 forwards of a layer or 17.2
// backwards. Each makes two whole tensors that wait for the device, inputs of qkv and up or their
// gradients: at the end of a backward 34 wait, beside four eighths of one for each, at the end of a
// forward 50 (streams are passed two layers at a time). In one micro-batch the host gets ahead of
// nothing.
TEST_CASE("what asynchronous collectives use stays until the device has passed") {
    const auto reserved = [](const char* lead, int micro_batches) {
        const Experiment e = split_sequence(lead, micro_batches);
        return static_cast<double>(replay(lifetimes_of(e, {}, 0).events, {}).peak.reserved) /
               whole_tensor;
    };
    CHECK(reserved("10", 16) - reserved("10", 1) > 34);
    CHECK(reserved("10", 16) - reserved("10", 1) < 60);
    CHECK(reserved("0", 4) - reserved("0", 1) < 2);
}

// Before a request fails the allocator itself waits for all streams and gives back what it has
// cached, so far from the limit nothing hangs on the driver; near it the pieces lie otherwise.
TEST_CASE("a verdict that hangs on whether the driver waits says so") {
    Experiment e = split_sequence("10", 16);
    const Lifetimes list = lifetimes_of(e, {}, 0);
    const auto fails = [&](std::int64_t capacity, Driver driver) {
        return replay(list.events, {}, capacity, Levels::peaks_only, driver).failed.has_value();
    };
    const std::int64_t peak = replay(list.events, {}).peak.allocated, step = peak / 64;
    CHECK((fails(peak / 2, Driver::waits) && fails(peak / 2, Driver::does_not_wait)));
    CHECK_FALSE((fails(peak * 2, Driver::waits) || fails(peak * 2, Driver::does_not_wait)));
    e.cluster.overheads.context = Bytes(1e9);
    const auto says = [&](std::int64_t capacity) {
        e.cluster.gpu.memory = Bytes(static_cast<double>(capacity)) + Bytes(1e9);
        return allocator_forecast(e).hangs_on_driver;
    };
    CHECK_FALSE(says(peak * 2));
    int hang = 0;
    for (std::int64_t capacity = peak * 9 / 10; capacity < peak * 3 / 2; capacity += step)
        if (fails(capacity, Driver::waits) != fails(capacity, Driver::does_not_wait)) {
            if (++hang == 1) CHECK(says(capacity));
        }
    CHECK((hang > 0 && hang < 20));
}

// One for inputs that qkv and up gather again, one for the gradients that out and down gather, from
// the first backward on.
TEST_CASE("an eager host gathers for its backwards into two buffers that stay") {
    const auto buffers = [](const char* lead) {
        const Lifetimes list = lifetimes_of(split_sequence(lead, 4), {}, 0);
        std::vector<bool> lives(list.tensors.size());
        for (const AllocatorEvent& event : list.events)
            if (event.kind == EventKind::allocate || event.kind == EventKind::free)
                lives[event.id] = event.kind == EventKind::allocate;
        double whole = 0;
        for (std::size_t id = 0; id < lives.size(); ++id)
            if (lives[id] && list.tensors[id].phase == Phase::backward &&
                list.tensors[id].kind == TensorKind::exchanged)
                whole += static_cast<double>(list.tensors[id].bytes) / whole_tensor;
        return whole;
    };
    CHECK(buffers("10") == 2);
    CHECK(buffers("0") == 0);
}

// Four layers, hidden 64, 2 heads, 32 tokens: a tensor of a layer has 32 x 64 x 2 = 4,096 bytes.
// Queries, keys and values stay three; stacked, the three of the projections' result and two copies
// of keys and values.
TEST_CASE("stacked heads keep the projections' result beside copies of keys and values") {
    Experiment e;
    Workload& w = e.workload;
    w.kind = Workload::Kind::transformer;
    w.layers = 4;
    w.hidden = 64;
    w.heads = 2;
    w.ffn = 256;
    w.seq = 32;
    w.vocab = 1000;
    e.runtime.attention = AttentionKind::flash;
    const auto kept = [&] {
        double bytes = 0;
        for (const StepTensor& t : lifetimes_of(e, {}, 0).tensors)
            if (t.step == 1 && t.layer == 1 && t.phase == Phase::forward &&
                t.kind == TensorKind::activations)
                bytes += static_cast<double>(t.bytes);
        return bytes;
    };
    const double apart = kept();
    e.runtime.stacked_heads = true;
    CHECK(kept() - apart == 2 * 4096);
    w.kv_heads = 1;  // a copy of each then
    const double stacked = kept();
    e.runtime.stacked_heads = false;
    CHECK(kept() == stacked);
}

// GPT-2's 124,439,808 weights on two ranks under zero 1: the rank's part, one of each rank and one
// of all, in 16 bits: 124,439,808 x (1 / 2 + 2 / 2 + 1) x 2 B. Without the key, and under zero 0,
// none.
TEST_CASE("flat gathers copy the weights once into parts and once into one") {
    const auto gathered = [](const char* flat, const char* zero) {
        double bytes = 0;
        const Experiment e =
            experiment_of("one_gpu_gpt2_124m", {{"cluster.gpus_per_node", "2"},
                                                {"parallelism.dp", "2"},
                                                {"parallelism.micro_batch", "4"},
                                                {"parallelism.zero", zero},
                                                {"runtime.optimizer.flat_gathers", flat}});
        const Lifetimes list = lifetimes_of(e, {}, 0);
        for (const StepTensor& t : list.tensors)
            if (list.names[static_cast<std::size_t>(t.what)] == "gathered weights" && t.step == 1)
                bytes += static_cast<double>(t.bytes);
        return bytes;
    };
    CHECK(gathered("true", "1") == Approx(124439808 * 2.5 * 2).epsilon(1e-6));
    CHECK(gathered("true", "0") == 0);
    CHECK(gathered("false", "1") == 0);
}

// Two layers of hidden 64 and inner 256, 32 tokens, fp32 weights under automatic casting. GELU in
// steps passes five fp32 tensors of 32 x 256 = 32,768 bytes, of which never more than two are
// there, and keeps three more, half of its input and its result (16,384 bytes each).
TEST_CASE("what a forward passes goes when the next is there") {
    Experiment e = two_layers();
    e.workload.activation = Activation::gelu_steps;
    e.runtime.kernels = KernelStyle::eager;
    e.runtime.autocast = true;
    e.runtime.composed = {Composed::activation};
    const Lifetimes list = lifetimes_of(e, {}, 0);
    int made = 0, most = 0, now = 0;
    for (const AllocatorEvent& event : list.events) {
        const StepTensor& t = list.tensors.at(event.id);
        if (t.step != 1 || t.layer != 1 || t.phase != Phase::forward || t.bytes != 32768 ||
            t.kind != TensorKind::work)
            continue;
        made += event.kind == EventKind::allocate ? 1 : 0;
        now += event.kind == EventKind::allocate ? 1 : event.kind == EventKind::free ? -1 : 0;
        most = std::max(most, now);
    }
    CHECK(made == 5);
    CHECK(most == 2);
    CHECK(now == 0);
}

// A cast of each layer's query, key and value (one product), output, and both feed-forward
// matrices: 16-bit ones of 3 x 64 x 64, 64 x 64 and 2 x 64 x 256 weights. Each goes with its own
// product's backward, so that after the first of a layer's products three are left.
TEST_CASE("automatic casting's copies go one by one") {
    Experiment e = two_layers();
    e.runtime.kernels = KernelStyle::eager;
    e.runtime.autocast = true;
    const Lifetimes list = lifetimes_of(e, {}, 0);
    std::multiset<std::int64_t> sizes;
    std::vector<std::size_t> freed;
    for (std::size_t i = 0; i < list.events.size(); ++i) {
        const StepTensor& t = list.tensors.at(list.events[i].id);
        if (t.step != 1 || t.layer != 1 || t.kind != TensorKind::weights) continue;
        if (list.events[i].kind == EventKind::allocate) sizes.insert(t.bytes);
        if (list.events[i].kind == EventKind::free) freed.push_back(i);
    }
    CHECK(sizes ==
          std::multiset<std::int64_t>{2 * 64 * 64, 2 * 3 * 64 * 64, 2 * 64 * 256, 2 * 64 * 256});
    REQUIRE(freed.size() == 4);
    for (std::size_t i = 1; i < freed.size(); ++i) CHECK(freed[i] > freed[i - 1] + 1);
}

// Two layers and a head: the forward's first product is layer 0's, the backward's is the head's.
// Each takes 32 MiB once in two steps, and is asked for behind the product's result: of the
// projections 3 x 64 x 32 x 2 = 12,288 bytes, of the gradient of the head's input 64 x 32 x 2 =
// 4,096.
TEST_CASE("the first product of a forward and of a backward takes a workspace behind its result") {
    const Lifetimes list = lifetimes_of(two_layers(), {}, 0);
    std::vector<const StepTensor*> made;
    std::vector<std::size_t> workspaces;
    for (const AllocatorEvent& event : list.events) {
        if (event.kind != EventKind::allocate) continue;
        made.push_back(&list.tensors[event.id]);
        if (made.back()->kind == TensorKind::workspaces) workspaces.push_back(made.size() - 1);
    }
    REQUIRE(workspaces.size() == 2);
    const StepTensor &forward = *made[workspaces[0]], &backward = *made[workspaces[1]];
    CHECK(forward.bytes == 32 * mebibyte);
    CHECK(forward.step == 0);
    CHECK(forward.phase == Phase::forward);
    CHECK(forward.layer == 0);
    CHECK(backward.step == 0);
    CHECK(backward.phase == Phase::backward);
    CHECK(backward.layer == -1);
    CHECK(made[workspaces[0] - 1]->bytes == 12288);
    CHECK(made[workspaces[1] - 1]->bytes == 4096);
}

// GPT-2's 124,439,808 weights on two ranks with fp32 gradients: buckets of 16 bits have all of
// them, once from the beginning and once more at the second step, where the old ones are freed
// behind the last new one, before anything else is asked for.
TEST_CASE("buckets are rebuilt before the second step while the old ones are there") {
    const Experiment e =
        experiment_of("one_gpu_gpt2_124m", {{"cluster.gpus_per_node", "2"},
                                            {"parallelism.dp", "2"},
                                            {"parallelism.micro_batch", "4"},
                                            {"runtime.kernels", "eager"},
                                            {"runtime.gradients.type", "fp32"},
                                            {"runtime.gradients.fused_accumulation", "false"}});
    const Lifetimes list = lifetimes_of(e, {}, 0);
    const auto is_bucket = [&](const AllocatorEvent& event) {
        return list.names[static_cast<std::size_t>(list.tensors[event.id].what)] == "buckets";
    };
    double first = 0, rebuilt = 0;
    std::size_t of_first = 0, begin = 0;
    for (std::size_t i = 0; i < list.events.size(); ++i) {
        if (list.events[i].kind != EventKind::allocate || !is_bucket(list.events[i])) continue;
        const StepTensor& t = list.tensors[list.events[i].id];
        (t.step < 0 ? first : rebuilt) += static_cast<double>(t.bytes);
        if (t.step < 0) ++of_first;
        if (t.step == 1 && begin == 0) begin = i;
    }
    CHECK(first == Approx(2 * 124439808.0).epsilon(1e-6));
    CHECK(rebuilt == Approx(2 * 124439808.0).epsilon(1e-6));
    CHECK(of_first > 1);
    for (std::size_t i = begin; i < begin + 2 * of_first; ++i) {
        CHECK(is_bucket(list.events[i]));
        CHECK(list.events[i].kind ==
              (i < begin + of_first ? EventKind::allocate : EventKind::free));
    }
}

// What the micro-batches beyond those written would ask for, an earlier one has asked for already.
TEST_CASE("more micro-batches than it takes to repeat reserve no more") {
    const auto reserved = [](int micro_batches) {
        const Experiment e = experiment_of(
            "llama3-70b", {{"cluster.preset", "dgx-h100"},
                           {"cluster.gpus", "64"},
                           {"parallelism.tp", "8"},
                           {"parallelism.pp", "4"},
                           {"parallelism.global_batch", std::to_string(2 * micro_batches)}});
        return replay(lifetimes_of(e, {}, 0).events, {}).peak.reserved;
    };
    CHECK(reserved(12) == reserved(64));
    CHECK(reserved(12) > reserved(1));
}

// The bar is 50 ms on a machine that runs nothing else; here there is room for others.
TEST_CASE("a step of 70B with 64 micro-batches is replayed in 50 ms") {
    const Experiment e = experiment_of("llama3-70b", {{"cluster.preset", "dgx-h100"},
                                                      {"cluster.gpus", "64"},
                                                      {"parallelism.tp", "8"},
                                                      {"parallelism.pp", "4"},
                                                      {"parallelism.global_batch", "128"}});
    double least = 1;
    for (int i = 0; i < 3; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        CHECK(replay(lifetimes_of(e, {}, 0).events, {}).peak.reserved > 0);
        least = std::min(
            least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    CHECK(least < 0.15);
}
