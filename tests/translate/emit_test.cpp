#include "translate/emit.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>

#include "model/errors.h"
#include "tests/model/files.h"
#include "translate/translate.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

class Dice {
public:
    explicit Dice(unsigned seed) : random_(seed) {}
    template <class T>
    T one_of(std::initializer_list<T> values) {
        return values.begin()[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random_)];
    }
    bool flip() { return one_of({true, false}); }

private:
    std::mt19937 random_;
};

// Llama 3 8B, or with experts, over 64 ranks; a split may be illegal, check_experiment() says.
Experiment any_split(Dice& dice, EmitFormat format) {
    Experiment e = read_unchecked_experiment(
        "llama3-8b", std::vector<Override>{{"cluster.preset", "dgx-h100"}, {"cluster.nodes", "8"}});
    auto& p = e.parallelism;
    auto& w = e.workload;
    const bool moe = format != EmitFormat::torchtitan && format != EmitFormat::deepspeed && dice.flip();
    if (moe) {
        w.moe.experts = dice.one_of({8, 16});
        w.moe.top_k = dice.one_of({1, 2});
        w.moe.ffn = dice.one_of({0, 2048});
        w.moe.dense_layers = dice.one_of({0, 2});
        p.ep = dice.one_of({1, 2, 4, 8});
        p.dispatch_once = dice.flip();
    }
    w.max_positions = w.seq = dice.one_of({2048, 8192});
    p.tp = dice.one_of({1, 2, 4, 8});
    p.pp = format == EmitFormat::deepspeed ? 1 : dice.one_of({1, 2, 4});
    p.vp = p.pp > 1 && format != EmitFormat::deepspeed ? dice.one_of({1, 2, 4}) : 1;
    p.cp = dice.one_of({1, 1, 2});
    p.dp = 64 / (p.tp * p.pp * p.cp);
    p.micro_batch = dice.one_of({1, 2});
    p.global_batch = p.dp * p.micro_batch * dice.one_of({1, 4, 8});
    p.sequence_parallel = p.tp > 1 && format != EmitFormat::deepspeed && (format == EmitFormat::torchtitan || dice.flip());
    p.overlap_tp = p.tp > 1 && format != EmitFormat::deepspeed && dice.flip();
    p.zero = dice.one_of({0, 1, 2, 3});
    p.overlap = format == EmitFormat::torchtitan || dice.flip();
    p.overlap_params = format == EmitFormat::torchtitan || (format != EmitFormat::deepspeed && dice.flip());
    if (format == EmitFormat::deepspeed && p.zero == 3) p.overlap_params = true;
    if (format != EmitFormat::deepspeed) 
        p.recompute = dice.one_of({Recompute::none, format == EmitFormat::torchtitan ? Recompute::alternate : Recompute::selective, Recompute::full});
    if (p.recompute == Recompute::full) p.recompute_layers = dice.one_of({0, 1, 2, 4});
    p.gradient_dtype = dice.one_of({Dtype::fp32, Dtype::bf16});
    if (format == EmitFormat::megatron) w.dtype = dice.one_of({Dtype::bf16, Dtype::fp8, Dtype::fp16});
    if (w.dtype == Dtype::fp16) p.gradient_dtype = dice.one_of({Dtype::fp32, Dtype::fp16});
    if (p.cp > 1 && format == EmitFormat::torchtitan) p.context_exchange = ContextExchange::all_gather;
    if (p.cp > 1 && format == EmitFormat::megatron) p.context_exchange = dice.one_of({ContextExchange::all_gather, ContextExchange::ring});
    if (moe && p.tp > 1) p.expert_tensor_parallel = dice.flip();
    if (format != EmitFormat::torchtitan) p.bucket = dice.one_of({Bytes(200e6), Bytes(400e6)});
    if (format == EmitFormat::torchtitan) p.eager = dice.flip();
    if (format == EmitFormat::torchtitan && w.dtype == Dtype::bf16) w.master_weights = dice.flip();
    return e;
}

// What no file of the framework says: it is the same on both sides before they are compared.
void forget(Experiment& e, EmitFormat format) {
    e.name = e.workload.name = "";
    e.workload.max_positions = e.workload.seq;
    e.parallelism.fused_accumulation = true;
    if (format == EmitFormat::torchtitan) e.workload.optimizer = Optimizer::adam;
    if (format == EmitFormat::deepspeed) e.workload.seq = e.workload.max_positions = 0;
}

bool decided(const Experiment& e, const std::string& key) {
    return std::ranges::any_of(e.framework.replaced, [&](const auto& one) { return one.key == key; });
}

struct Trip {
    int emitted = 0, refused = 0;
};

Trip round_trips(EmitFormat format, const std::string& file, int count) {
    const TestFolder folder;
    Dice dice(7);
    Trip trip;
    for (int i = 0; i < count; ++i) {
        Experiment e = any_split(dice, format);
        try {
            check_experiment(e);
        } catch (const ConfigError&) {
            continue;
        }
        std::string text;
        try {
            text = emit(e, format).text;
        } catch (const ConfigError&) {
            ++trip.refused;
            continue;
        }
        ++trip.emitted;
        const auto path = folder.write(file, text);
        TranslateOptions options;
        if (format == EmitFormat::torchtitan || format == EmitFormat::deepspeed) options.model = "llama3-8b";
        const auto translation = translate(path, options);
        std::vector<Override> machine{{"cluster.preset", "dgx-h100"}, {"cluster.nodes", "8"}};
        Experiment back = read_unchecked_experiment({path, experiment_text(translation)}, machine);
        forget(e, format);
        forget(back, format);
        INFO(text + experiment_text(translation));
        for (const auto& doc : key_docs()) {
            if ((!doc.key.starts_with("parallelism.") && !doc.key.starts_with("workload.")) || doc.kind == "preset") continue;
            // What no file of the framework says the framework decides, each in its own way.
            if (!translation.find(doc.key) && (decided(back, doc.key) || decided(e, doc.key))) continue;
            INFO(doc.key);
            CHECK(get_key(back, doc.key) == get_key(e, doc.key));
        }
        CHECK(back.cluster.nodes == e.cluster.nodes);
        CHECK(back.cluster.gpus_per_node == e.cluster.gpus_per_node);
    }
    return trip;
}

}  // namespace

TEST_CASE("what is emitted reads back to the same experiment") {
    const std::tuple<EmitFormat, const char*> all[] = {{EmitFormat::megatron, "flags.sh"},
                                                       {EmitFormat::nemo, "nemo.yaml"},
                                                       {EmitFormat::megatron_bridge, "bridge.yaml"},
                                                       {EmitFormat::torchtitan, "titan.toml"},
                                                       {EmitFormat::deepspeed, "ds.json"}};
    for (const auto& [format, file] : all) {
        const Trip trip = round_trips(format, file, 150);
        INFO(file);
        CHECK(trip.emitted > 20);
    }
}

TEST_CASE("a split that a framework cannot run is not emitted") {
    Experiment e = read_unchecked_experiment("llama3-8b", std::vector<Override>{{"cluster.preset", "dgx-h100"}, {"cluster.nodes", "8"}});
    const auto refusal = [&](EmitFormat format) { return complaint([&] { emit(e, format); }); };
    e.parallelism.pp = 4;
    e.parallelism.dp = 16;
    e.parallelism.global_batch = 256;
    e.parallelism.schedule = Schedule::zb_h1;
    for (const auto format : {EmitFormat::megatron, EmitFormat::nemo, EmitFormat::megatron_bridge, EmitFormat::torchtitan})
        CHECK_THAT(refusal(format), Contains("cannot run this split: ") && Contains("schedule zb-h1"));
    e.parallelism.schedule = Schedule::one_f_one_b;
    e.parallelism.zero = 1;
    CHECK_THAT(refusal(EmitFormat::torchtitan), Contains("zero 1"));
    e.parallelism.vp = 3;
    CHECK_THAT(refusal(EmitFormat::megatron), Contains("32 layers do not divide over pp x vp = 12"));
    e.parallelism.vp = 2;
    e.parallelism.recompute = Recompute::full;
    e.parallelism.recompute_layers = 3;
    CHECK_THAT(refusal(EmitFormat::megatron), Contains("3 layers of a stage computed again: it takes as many of each of 2 chunks"));
    e.parallelism.recompute_layers = 4;
    for (const auto& [format, two] : {std::pair{EmitFormat::megatron, "--recompute-num-layers 2\n"}, {EmitFormat::megatron_bridge, "recompute_num_layers: 2\n"},
                                      {EmitFormat::nemo, "activations_checkpoint_num_layers: 2\n"}})
        CHECK_THAT(emit(e, format).text, Contains(two));
    e.parallelism.vp = 1;
    e.parallelism.global_batch = 32;
    CHECK_THAT(refusal(EmitFormat::megatron), Contains("2 micro-batches for 4 stages"));
    CHECK_THAT(complaint([] { parse_name<EmitFormat>("megatorn"); }), Contains("did you mean \"megatron\"?"));
}

TEST_CASE("squared ReLU has a flag of Megatron-LM, ReLU none") {
    const TestFolder folder;
    Experiment e = read_unchecked_experiment("llama3-8b", std::vector<Override>{{"cluster.preset", "dgx-h100"}, {"workload.gated", "false"}});
    CHECK_THAT(emit(e, EmitFormat::megatron).text, !Contains("--squared-relu"));
    e.workload.activation = Activation::squared_relu;
    const std::string text = emit(e, EmitFormat::megatron).text;
    CHECK_THAT(text, Contains("--squared-relu"));
    const Translation back = translate(folder.write("flags.sh", text), {});
    CHECK((back.find("workload.activation") && back.find("workload.activation")->value == "squared_relu"));
    e.workload.activation = Activation::relu;
    CHECK_THAT(complaint([&] { emit(e, EmitFormat::megatron); }), Contains("activation relu"));
}

TEST_CASE("scores that are not dropped are emitted and read so") {
    const TestFolder folder;
    Experiment e = read_unchecked_experiment("llama3-8b", std::vector<Override>{{"cluster.preset", "dgx-h100"}, {"workload.dropout", "0.1"}, {"workload.score_dropout", "false"}});
    const std::string text = emit(e, EmitFormat::megatron).text;
    CHECK_THAT(text, Contains("--hidden-dropout 0.1") && Contains("--attention-dropout 0\n"));
    const Translation back = translate(folder.write("flags.sh", text), {});
    CHECK((back.find("workload.score_dropout") && back.find("workload.score_dropout")->value == "false"));
}
