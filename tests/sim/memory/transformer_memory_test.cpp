#include <catch2/catch.hpp>

#include "model/transformer/counts.h"
#include "model/transformer/layer_memory.h"
#include "model/transformer/rank_shape.h"
#include "model/transformer/schedule.h"
#include "sim/memory/allocator_forecast.h"
#include "sim/memory/lifetimes.h"
#include "sim/memory/transformer_memory.h"
#include "tests/sim/memory/live_bytes.h"

using namespace stepcast;

namespace {

Experiment gpt(int layers, int hidden, int heads, int seq, int vocab) {
    Experiment e;
    Workload& w = e.workload;
    w.kind = Workload::Kind::transformer;
    w.layers = layers;
    w.hidden = hidden;
    w.heads = heads;
    w.ffn = 4 * hidden;
    w.seq = seq;
    w.vocab = vocab;
    w.optimizer = Optimizer::adam;
    e.runtime.gradients.type = GradientType::fp16;
    return e;
}

// The most that lives at a time, by the list of tensors.
double list_peak(const Experiment& e) { return peak_of(lifetimes_of(e, {}, 0)); }

// GPT-2 of 124,439,808 weights.
Experiment gpt2() { return gpt(12, 768, 12, 1024, 50257); }

// GPT-3: s = 2048, h = 12288, a = 96, one sequence.
Experiment gpt3() {
    Experiment e = gpt(96, 12288, 96, 2048, 51200);
    e.workload.dropout = 0.1;
    return e;
}

// Llama-3 8B: 32 heads and 8 key heads of 128, f 14336.
Experiment llama_by_hand() {
    Experiment e = gpt(32, 4096, 32, 8192, 128256);
    Workload& w = e.workload;
    w.kv_heads = 8;
    w.ffn = 14336;
    w.gated = true;
    w.tied = w.linear_bias = w.qkv_bias = false;
    w.norm = Norm::rmsnorm;
    w.positions = Positions::rotary;
    e.runtime.attention = AttentionKind::flash;
    w.dtype = Dtype::bf16;
    return e;
}

// DeepSeek-V2's widths, 2 layers, the first of them dense.
Experiment deepseek() {
    Experiment e = llama_by_hand();
    Workload& w = e.workload;
    w.layers = 2;
    w.hidden = 5120;
    w.heads = w.kv_heads = 128;
    w.ffn = 12288;
    w.seq = 4096;
    w.mla = {1536, 512, 128, 64, 128};
    w.moe.experts = 160;
    w.moe.top_k = 6;
    w.moe.ffn = 1536;
    w.moe.shared_experts = 2;
    w.moe.dense_layers = 1;
    return e;
}

LayerMemory layer_of(const Experiment& e, int layer, const Routing& routing = {}) {
    return layer_memory({e, rank_shape(e), rank_groups(e.parallelism), routing}, layer);
}
Activations head_of(const Experiment& e) {
    return head_memory({e, rank_shape(e), rank_groups(e.parallelism), {}});
}

// The bytes that one layer keeps, in units of s b h.
double per_sbh(const Experiment& e) {
    return layer_of(e, 0).kept() / Bytes(1) / (2048.0 * 12288 * e.parallelism.micro_batch);
}

Bytes states(const MemoryUse& use) { return use.weights + use.gradients + use.optimizer; }

}  // namespace

TEST_CASE("the workspaces of libraries are there however small the step") {
    const MemoryUse use = transformer_memory(gpt(1, 64, 1, 8, 64));
    CHECK(use.buffers >= parse_bytes("128 MiB"));
    CHECK(use.buffers < parse_bytes("129 MiB"));
}

// ZeRO, section 3: 2 + 2 + 12 bytes per weight; over D = 8 ranks stage 1 leaves 4 + 12/8 = 5.5,
// stage 2 2 + 14/8 = 3.75, stage 3 16/8 = 2.
TEST_CASE("states of GPT-2 on eight ranks are those of ZeRO's table") {
    Experiment e = gpt2();
    e.parallelism.dp = 8;
    const double weights = 124439808;
    for (const auto& [zero, bytes] :
         {std::pair(0, 16.0), std::pair(1, 5.5), std::pair(2, 3.75), std::pair(3, 2.0)}) {
        CAPTURE(zero);
        e.parallelism.zero = zero;
        CHECK(states(transformer_memory(e)).si() == Approx(weights * bytes));
    }
}

// Moments in 8 bits with an fp32 factor for each 256: 2 x (1 + 4/256) bytes a weight. Adafactor's
// rows and columns: 2 x 4 / 768. Both beside an fp32 copy of 4 bytes, where there is one.
TEST_CASE("optimizers with small states take what their libraries allocate") {
    Experiment e = gpt2();
    const double weights = 124439808;
    for (const auto& [optimizer, bytes] :
         {std::pair(Optimizer::adam8bit, 2.03125), std::pair(Optimizer::adafactor, 8.0 / 768)}) {
        e.workload.optimizer = optimizer;
        e.runtime.optimizer.master_weights = true;
        CHECK(transformer_memory(e).optimizer.si() == Approx(weights * (4 + bytes)));
        e.runtime.optimizer.master_weights = false;
        CHECK(transformer_memory(e).optimizer.si() == Approx(weights * bytes));
    }
}

// Muon keeps one moment of the 12 layers' 12 x 7,087,872 weights (norms counted with the matrices)
// and two of the others, beside the master.
TEST_CASE("Muon keeps one moment of a matrix") {
    Experiment e = gpt2();
    e.workload.optimizer = Optimizer::muon;
    e.runtime.optimizer.master_weights = true;
    const double weights = 124439808, layers = 12 * 7087872.0;
    CHECK(transformer_memory(e).optimizer.si() == Approx(weights * 12 - layers * 4));
    CHECK(memory_forecast(e).optimizer.si() == Approx(weights * 12 - layers * 4).epsilon(1e-3));
}

// Of ZeRO's 2 + 2 + 12 bytes a weight the last 12 are the host's. DeepSpeed keeps no gradients on
// the device either.
TEST_CASE("an optimizer on the host leaves the device weights and gradients") {
    Experiment e = gpt2();
    e.parallelism.dp = 8;
    e.parallelism.zero = 1;
    e.run.offload_optimizer = true;
    const double weights = 124439808;
    CHECK(states(transformer_memory(e)).si() == Approx(weights * 4));
    CHECK(states(memory_forecast(e)).si() == Approx(weights * 4).epsilon(1e-3));
    e.runtime.optimizer.host_gradients = true;
    CHECK(states(transformer_memory(e)).si() == Approx(weights * 2));
    CHECK(states(memory_forecast(e)).si() == Approx(weights * 2).epsilon(1e-3));
}

// Two moments of a byte and a scale of 4 for each 256 of them are the driver's; of GPT-2's
// 124,439,808 weights an fp32 copy stays.
TEST_CASE("paged moments are none of the allocator's") {
    Experiment e = gpt2();
    e.workload.optimizer = Optimizer::adam8bit;
    const MemoryUse held = transformer_memory(e);
    const double listed = list_peak(e), moments = 124439808 * 2 * (1 + 4.0 / 256);
    e.run.paged_optimizer = true;
    CHECK((held.optimizer - transformer_memory(e).optimizer).si() == Approx(moments));
    CHECK(listed - list_peak(e) == Approx(moments).epsilon(1e-5));
}

// Under zero 3 the host has the weights, too, and with them their gradients: nothing lasts on the
// device, but the weights of a unit in use and of the next are there, also where one rank shares
// with none. The largest unit is the embedding, 50257 x 768 + 1024 x 768 of 2 bytes.
TEST_CASE("weights on the host are on the device while they are used") {
    Experiment e = gpt2();
    e.parallelism.zero = 3;
    e.run.offload_optimizer = e.run.offload_parameters = true;
    for (const int dp : {8, 1}) {
        e.parallelism.dp = dp;
        CHECK(states(transformer_memory(e)) == Bytes(0));
        CHECK(states(memory_forecast(e)) == Bytes(0));
        CHECK(transformer_memory(e).buffers.si() > 2 * 2 * (50257 + 1024) * 768.0);
    }
}

// The peak is in the logits, when the inputs of 12 layers wait: 1024 x 768 of 2 bytes each. Five
// are still on their way; the host waits for blocking copies.
TEST_CASE("inputs of recomputed layers on the host are not on the device") {
    Experiment e = gpt2();
    e.parallelism.recompute = Recompute::full;
    const MemoryUse closed = transformer_memory(e);
    const double listed = list_peak(e), input = 1024 * 768 * 2 * e.parallelism.micro_batch;
    for (const auto how : {ActivationOffload::overlapped, ActivationOffload::blocking}) {
        e.run.offload_activations = how;
        const int gone = how == ActivationOffload::overlapped ? 12 - 5 : 12;
        CHECK((closed.peak - transformer_memory(e).peak).si() == Approx(gone * input));
        CHECK(listed - list_peak(e) == gone * input);
    }
}

// What 12 layers keep, when nothing runs again: by the closed form the last one's is on its way
// when the loss is there, by the list the last five tensors of it are. A blocking copy leaves none.
TEST_CASE("what layers keep is not on the device where it waits on the host") {
    Experiment e = gpt2();
    const MemoryUse closed = transformer_memory(e);
    const Routing routing;
    const LayerContext c{e, rank_shape(e), rank_groups(e), routing};
    const double listed = list_peak(e), kept = layer_memory(c, 0).kept().si();
    e.run.offload_activations = ActivationOffload::overlapped;
    CHECK((closed.peak - transformer_memory(e).peak).si() == Approx(11 * kept));
    CHECK(listed - list_peak(e) > 11 * kept);
    CHECK(listed - list_peak(e) < 12 * kept);
    e.run.offload_activations = ActivationOffload::blocking;
    CHECK((closed.peak - transformer_memory(e).peak).si() == Approx(12 * kept));
    CHECK(listed - list_peak(e) == 12 * kept);
}

// GPT-2's 124,439,808 fp32 gradients take 498 MB. Of eight sequences the activations are larger, of
// one with full recompute and a hundredth of the logits smaller. With a second micro-batch the
// gradients of the first are there all the time.
TEST_CASE("gradients that are freed after the update meet no activations") {
    Experiment e = gpt2();
    e.runtime.gradients.type = GradientType::fp32;
    e.parallelism.micro_batch = 8;
    const MemoryUse both = transformer_memory(e);
    e.runtime.gradients.freed = true;
    const MemoryUse without_gradients = transformer_memory(e);
    CHECK(both.gradients.si() == Approx(4 * 124439808.0));
    CHECK(without_gradients.gradients == Bytes(0));
    CHECK(without_gradients.peak.si() == Approx((both.peak - both.gradients).si()));
    e.parallelism.global_batch = 2 * 8;
    CHECK(transformer_memory(e).peak == both.peak);
    e.parallelism.global_batch = 0;
    e.parallelism.micro_batch = 1;
    e.parallelism.recompute = Recompute::full;
    e.workload.head_share = 0.01;
    const MemoryUse at_the_end = transformer_memory(e);
    CHECK(at_the_end.gradients == both.gradients);
    CHECK(at_the_end.activations == Bytes(0));
    e.runtime.gradients.freed = false;
    CHECK(at_the_end.peak < transformer_memory(e).peak);
}

// An update in steps holds 2 + 4 bytes more for each of the 124,439,808 / 4 weights that a rank
// updates, beside 2 of gradients, when there are no activations: one short sequence has few of
// them. fp32 gradients need no cast: 4. Where activations are larger, nothing is added.
TEST_CASE("an update in steps holds its gradients flat and in fp32") {
    Experiment e = gpt2();
    e.parallelism.dp = 4;
    e.parallelism.zero = 1;
    e.runtime.gradients.freed = true;
    e.workload.seq = 32;
    e.workload.max_positions = 1024;
    for (const auto& [dtype, bytes] : {std::pair(Dtype::fp16, 6.0), {Dtype::fp32, 4.0}}) {
        e.runtime.gradients.type = parse_name<GradientType>(to_string(dtype));
        e.runtime.optimizer.copies = {};
        const MemoryUse usual = transformer_memory(e);
        e.runtime.optimizer.copies = {1};
        const MemoryUse in_steps = transformer_memory(e);
        CHECK(in_steps.activations == Bytes(0));
        CHECK((in_steps.buffers - usual.buffers).si() == Approx(bytes * 124439808.0 / 4));
    }
    e.parallelism.micro_batch = 8;
    e.workload.seq = 1024;
    const MemoryUse full = transformer_memory(e);
    e.runtime.optimizer.copies = {};
    CHECK(full == transformer_memory(e));
}

// Bytes per weight. fp32: weight 4 (its own master), gradient 4, moments 8. fp32 gradients beside
// 16-bit weights: 2 + 4 + 12. SGD: 2 + 2 and the master. Without masters in 16 bits: 2 + 2, and
// with Adam two moments of 2. fp8: 2 + 4 + 12, and two copies of one byte of the layers' weights:
// all but 2 x 128256 x 4096 of the embedding and logits and 4096 of the last norm.
TEST_CASE("states follow the weights' dtype, the gradients' and the optimizer") {
    Experiment e = gpt2();
    const double weights = 124439808;
    e.runtime.gradients.type = GradientType::fp32;
    CHECK(states(transformer_memory(e)).si() == Approx(18 * weights));
    e.workload.dtype = Dtype::fp32;
    CHECK(states(transformer_memory(e)).si() == Approx(16 * weights));
    e.workload.dtype = Dtype::fp16;
    e.runtime.gradients.type = GradientType::fp16;
    e.workload.optimizer = Optimizer::sgd;
    CHECK(states(transformer_memory(e)).si() == Approx(8 * weights));
    e.runtime.optimizer.master_weights = false;
    CHECK(states(transformer_memory(e)).si() == Approx(4 * weights));
    e.workload.optimizer = Optimizer::adam;
    CHECK(states(transformer_memory(e)).si() == Approx(8 * weights));
    e = llama_by_hand();
    e.workload.dtype = Dtype::fp8;
    e.runtime.gradients.type = GradientType::fp32;
    const double all = 8030261248, layers = all - 2.0 * 128256 * 4096 - 4096;
    CHECK(states(transformer_memory(e)).si() == Approx(18 * all + 2 * layers));
}

// Automatic casting: fp32 weights 4 and their casts 2, gradients 4, moments 8. Over 8 ranks stage 1
// leaves 6 + 4 + 8/8 = 11 bytes a weight. Of a frozen model only weights and casts are there: 6
// bytes of its 8,030,261,248 weights, beside the adapters.
TEST_CASE("states under automatic casting are fp32 weights with casts beside them") {
    Experiment e = gpt2();
    e.runtime.kernels = KernelStyle::eager;
    e.runtime.autocast = true;
    e.runtime.gradients.type = GradientType::fp32;
    const double weights = 124439808;
    MemoryUse use = transformer_memory(e);
    CHECK(use.weights.si() == Approx(6 * weights));
    CHECK(use.optimizer.si() == Approx(8 * weights));
    e.parallelism.dp = 8;
    e.parallelism.zero = 1;
    CHECK(states(transformer_memory(e)).si() == Approx(11 * weights));
    e = llama_by_hand();
    e.runtime.kernels = KernelStyle::eager;
    e.runtime.autocast = true;
    e.workload.adapter_rank = 16;
    use = transformer_memory(e);
    CHECK(use.weights.si() > 6 * 8030261248.0);
    CHECK(use.weights.si() < 6.2 * 8030261248.0);
}

// Two layers with 160 experts of 3 x 5120 x 1536 over ep 4 of dp 8: each rank holds 40, and 2 ranks
// share their optimizer states; 8 ranks share the other weights' states.
TEST_CASE("experts are sharded over their own data-parallel group") {
    Experiment e = deepseek();
    Parallelism& p = e.parallelism;
    p.dp = 8;
    p.ep = 4;
    p.zero = 1;
    const ParameterCount all = count_parameters(e.workload);
    const double experts = 40.0 * 3 * 5120 * 1536, rest = all.total() - all.experts;
    CHECK(all.experts == 4 * experts);
    CHECK(transformer_memory(e).weights.si() == Approx(2 * (experts + rest)));
    CHECK(transformer_memory(e).optimizer.si() == Approx(12 * (experts / 2 + rest / 8)));
}

// Korthikanti et al., table 2, with 5 a s / h = 80: none 34 + 80; tensor parallel t = 8: 10 + 24/8
// + 80/8; with sequence parallelism (34 + 80) / 8; selective recompute drops the 80: 10 + 24/8 and
// 34/8.
TEST_CASE("a layer of GPT-3 keeps what Korthikanti et al. count") {
    Experiment e = gpt3();
    Parallelism& p = e.parallelism;
    p.micro_batch = 2;
    CHECK(per_sbh(e) == Approx(34 + 80));
    p.tp = 8;
    CHECK(per_sbh(e) == Approx(10 + 24.0 / 8 + 80.0 / 8));
    p.recompute = Recompute::selective;
    CHECK(per_sbh(e) == Approx(10 + 24.0 / 8));
    p.sequence_parallel = true;
    CHECK(per_sbh(e) == Approx(34.0 / 8));
    p.recompute = Recompute::none;
    CHECK(per_sbh(e) == Approx((34 + 80) / 8.0));
}

// Without dropout there are no masks (2 s b h), score masks and dropped scores (3 a s^2 b): 32 + 2
// a s / h.
TEST_CASE("without dropout a layer of GPT-3 keeps no masks and the scores once") {
    Experiment e = gpt3();
    e.workload.dropout = 0;
    CHECK(per_sbh(e) == Approx(32 + 2 * 96 * 2048 / 12288.0));
}

// Per token: norms 2 x 2 x 4096, q 4096, k and v 1024, result 4096, 3 x 14336, two bytes each =
// 139264; 32 sums of 4 bytes.
TEST_CASE("a layer of Llama-3 8B keeps gate, up and product, and no scores") {
    Experiment e = llama_by_hand();
    CHECK(layer_of(e, 0).kept() == Bytes(8192.0 * (139264 + 128)));
    e.parallelism.cp = 4;
    CHECK(layer_of(e, 0).kept() == Bytes(2048.0 * (139264 + 128)));
}

// Per token: norms 2 bytes in, 1 out; q, k, v 2; result 2 and once more in fp8; gate and up 2,
// product 1: 3 x 4096 + 2 x 6144 + 3 x 4096 + 128 and 3 x 4096 + 5 x 14336.
TEST_CASE("fp8 keeps the inputs of matrix products in a byte") {
    Experiment e = llama_by_hand();
    e.workload.dtype = Dtype::fp8;
    const LayerMemory layer = layer_of(e, 0);
    CHECK(layer.attention.kept == Bytes(8192.0 * 36992));
    CHECK(layer.feed_forward.kept == Bytes(8192.0 * 83968));
}

// MLA, per token: norm 2 x 5120; latents 1536 + 576 and normed 1536 + 512; q and k 128 x 192, keys
// and values as projected 128 x 256, result 128 x 128: 112704 elements; 128 sums. Experts: norm 2 x
// 5120, 6 slots of 5120 + 3 x 1536, shared 3 x 3072: 77824 elements; router 160 x 9 bytes.
TEST_CASE("a layer of DeepSeek-V2 keeps latents, slots and the shared experts' inner vectors") {
    const LayerMemory layer = layer_of(deepseek(), 1);
    CHECK(layer.attention.kept == Bytes(4096.0 * (2 * 112704 + 512)));
    CHECK(layer.feed_forward.kept == Bytes(4096.0 * (2 * 77824 + 1440)));
    CHECK(layer_of(deepseek(), 0).feed_forward.kept == Bytes(4096.0 * 2 * (2 * 5120 + 3 * 12288)));
}

// tp 2 with sequence parallelism. Split experts see all 4096 x 6 slots at half their width: 5120 +
// 3 x 768 per slot. Whole experts see the rank's own half of the slots at full width: 5120 + 3 x
// 1536. The rest is halved either way.
TEST_CASE("split experts keep every slot, whole ones the slots of their rank") {
    Experiment e = deepseek();
    Parallelism& p = e.parallelism;
    p.tp = 2;
    p.sequence_parallel = true;
    const double rest = 2048.0 * (2 * (2 * 5120 + 3 * 3072) + 1440);
    CHECK(layer_of(e, 1).feed_forward.kept.si() ==
          Approx(rest + 4096.0 * 6 * 2 * (5120 + 3 * 768)));
    e.runtime.experts.tensor_parallel = ExpertSplit::none;
    CHECK(layer_of(e, 1).feed_forward.kept.si() ==
          Approx(rest + 2048.0 * 6 * 2 * (5120 + 3 * 1536)));
}

// Two expert-parallel ranks with 2 experts each; rank 1 receives 30 of 40 slots: 1.5 times the
// mean. With a capacity every expert keeps its padded slots, whatever arrives.
TEST_CASE("the rank that receives most slots counts, unless a capacity evens them out") {
    Experiment e = deepseek();
    e.workload.moe.experts = 4;
    e.workload.moe.top_k = 1;
    e.parallelism.dp = e.parallelism.ep = 2;
    Routing routing;
    routing.ranks = 2;
    routing.experts = 4;
    routing.counts = {5, 5, 5, 5, 0, 0, 10, 10};
    const Bytes slot = Bytes(2.0 * (5120 + 3 * 1536));
    const Bytes even = layer_of(e, 1).feed_forward.kept;
    CHECK((layer_of(e, 1, routing).feed_forward.kept - even).si() ==
          Approx(0.5 * 4096 * slot.si()));
    // experts 2, 3 and 0 where their tokens are: 20 slots on either rank
    e.parallelism.moe_system = MoeSystem::mix_moe;
    CHECK(layer_of(e, 1, routing).feed_forward.kept == even);
    e.parallelism.moe_system = MoeSystem::alltoall;
    e.workload.moe.capacity_factor = 1.25;
    CHECK((layer_of(e, 1, routing).feed_forward.kept - even).si() ==
          Approx(0.25 * 4096 * slot.si()));
}

// 8192 x 128256 logits. Fused loss: in place in 2 bytes. Step by step: 4 bytes of probabilities
// kept, and 2 more while it runs.
TEST_CASE("a loss step by step keeps probabilities in fp32 beside the logits") {
    Experiment e = llama_by_hand();
    const Activations fused = head_of(e);
    e.runtime.loss.fused = false;
    const Activations stepwise = head_of(e);
    const double logits = 8192.0 * 128256;
    CHECK(fused.kept == Bytes(8192.0 * 4096 * 2 * 2 + 2 * logits));
    CHECK(stepwise.kept - fused.kept == Bytes(2 * logits));
    CHECK(stepwise.work - fused.work == Bytes(2 * logits));
}

// Eager passes keep gate, up, the gate's activation and the product with up, 4 f in all; a fused
// pass keeps the first two and the product. The 8192 x 128256 logits take 2 bytes, their copy 4,
// its softmax 4, and the gradient 4 while it runs.
TEST_CASE("eager passes keep what each operation reads") {
    Experiment e = llama_by_hand();
    e.runtime.loss.fused = false;
    const Bytes fused = layer_of(e, 0).feed_forward.kept;
    e.runtime.kernels = KernelStyle::eager;
    CHECK(layer_of(e, 0).feed_forward.kept - fused == Bytes(8192.0 * 14336 * 2));
    const double logits = 8192.0 * 128256;
    const Activations head = head_of(e);
    CHECK(head.kept == Bytes(8192.0 * 4096 * 2 * 2 + (2 + 4 + 4) * logits));
    CHECK(head.work == Bytes(128256.0 * 4096 * 2 + 2 * 8192.0 * 4096 * 2 + 4 * logits));
    // GELU of one product keeps its input and its result, as in a fused pass.
    Experiment g = gpt2();
    const Bytes gelu = layer_of(g, 0).feed_forward.kept;
    g.runtime.kernels = KernelStyle::eager;
    CHECK(layer_of(g, 0).feed_forward.kept == gelu);
}

// 2 bytes per weight of GPT-2 where replicas reduce in 16 bits what is accumulated in fp32; none on
// one rank, and none where products add to the accumulator directly.
TEST_CASE("eager data parallelism keeps its buckets beside an fp32 accumulator") {
    Experiment e = gpt2();
    e.runtime.kernels = KernelStyle::eager;
    e.runtime.gradients.fused_accumulation = false;
    e.runtime.gradients.type = GradientType::fp32;
    const Bytes alone = transformer_memory(e).buffers;
    e.parallelism.dp = 4;
    CHECK((transformer_memory(e).buffers - alone).si() == Approx(2.0 * 124439808));
    e.runtime.gradients.fused_accumulation = true;
    const Bytes fused = transformer_memory(e).buffers;
    e.parallelism.dp = 1;
    CHECK(transformer_memory(e).buffers == fused);
}

TEST_CASE("an allocator that holds 5 % more than tensors take holds 5 % more of all") {
    Experiment e = gpt2();
    const Bytes tensors = transformer_memory(e).peak;
    e.runtime.reserved = 1.05;
    const MemoryUse use = transformer_memory(e);
    CHECK(use.peak.si() == Approx(1.05 * tensors.si()));
    CHECK(
        use.peak.si() ==
        Approx((use.weights + use.gradients + use.optimizer + use.activations + use.buffers).si()));
}

// Four stages of 8 layers, 12 micro-batches; stage 1 has neither end of the model. In flight: GPipe
// 12, 1F1B 3 of the whole stage; ZB-H1 4, one of them with only the weight gradients to come;
// interleaved 9 of its two halves; DualPipe p + 1 = 5 chunks of a whole stage (stages 1 and 2,
// which have no ends either).
TEST_CASE("activations are those that the schedule keeps in flight") {
    Experiment e = llama_by_hand();
    Parallelism& p = e.parallelism;
    p.pp = 4;
    p.global_batch = 12;
    const double layer = layer_of(e, 0).kept().si();
    const auto layers_of_stage_1 = [&] { return memory_of_stages(e)[1].activations.si() / layer; };
    CHECK(layers_of_stage_1() == Approx(3 * 8));
    p.schedule = Schedule::gpipe;
    CHECK(layers_of_stage_1() == Approx(12 * 8));
    p.schedule = Schedule::zb_h1;
    CHECK(layers_of_stage_1() == Approx(3 * 8 + 8 * layer_of(e, 0).put_off.si() / layer));
    p.schedule = Schedule::dualpipe;
    CHECK(layers_of_stage_1() == Approx(5 * 8));
    p.schedule = Schedule::one_f_one_b;
    p.vp = 2;
    CHECK(layers_of_stage_1() == Approx(9 * 4));
}

// GPT-3 with flash attention and without dropout, 16 sequences, 8 stages of 12 layers, tensors and
// sequences split over 8. Stage s of zb-h1 delays the weight gradients of s micro-batches while it
// runs the input gradients of another. A delayed layer keeps 32 s b h bytes: 14 for the inputs of
// the four products and 18 for the gradients of their results (M_W of arXiv 2401.10241, table 1). A
// layer whose backward is to come keeps its input, 2 s b h.
TEST_CASE("what a split backward computed again stays until its weight gradients") {
    Experiment e = gpt3();
    Workload& w = e.workload;
    w.dropout = 0;
    e.runtime.attention = AttentionKind::flash;
    Parallelism& p = e.parallelism;
    p.pp = 8;
    p.tp = 8;
    p.micro_batch = 16;
    p.global_batch = 1024;
    p.sequence_parallel = true;
    p.schedule = Schedule::zb_h1;
    p.recompute = Recompute::full;
    const double sbh = 2048.0 * 16 * 12288 / 8;
    CHECK(layer_of(e, 50).put_off.si() == Approx(32 * sbh));
    CHECK(memory_of_stages(e)[6].activations.si() >= 7 * 12 * 32 * sbh);
    CHECK(memory_of_stages(e)[7].activations.si() >= 8 * 12 * 32 * sbh);
    // ends of blocks that are not split come on top
    const std::vector<SlotMemory> slots = memory_of_slots(e, {}, 6);
    const Order order = schedule_orders(p)[6];
    for (std::size_t i = 30; i < 60; ++i) {
        const double change = (slots[i].after - slots[i - 1].after).si() / (12 * sbh);
        CHECK(change == Approx(order[i].pass == Pass::forward          ? 2
                               : order[i].pass == Pass::input_backward ? 30
                                                                       : -32)
                            .margin(0.1));
    }
    p.recompute = Recompute::none;
    CHECK(memory_of_stages(e)[6].activations.si() >= 7 * 12 * 32 * sbh);
}

// DualPipe holds the weights of two chunks: for stage 1 its own and stage 2's.
TEST_CASE("DualPipe holds its weights twice") {
    Experiment e = llama_by_hand();
    e.parallelism.pp = 4;
    e.parallelism.global_batch = 12;
    const Bytes once = memory_of_stages(e)[1].weights;
    e.parallelism.schedule = Schedule::dualpipe;
    CHECK(memory_of_stages(e)[1].weights == 2.0 * once);
}

// One stage of 32 layers, one micro-batch: each recomputed layer keeps its input, 8192 x 4096 x 2
// bytes. The peak is at the loss or in the backward of the last layer, which adds all that the
// layer keeps and 8192 x 2 (2 f + 2 h).
TEST_CASE("full recompute keeps inputs, and by layer count the rest of the other layers") {
    Experiment e = llama_by_hand();
    e.workload.vocab = 256;  // the loss is not the fullest moment
    Parallelism& p = e.parallelism;
    p.recompute = Recompute::full;
    const Bytes input(8192.0 * 4096 * 2), layer = layer_of(e, 0).kept();
    CHECK(transformer_memory(e).activations.si() == Approx((31 * input + layer).si()));
    p.recompute_layers = 12;
    CHECK(transformer_memory(e).activations.si() == Approx((12 * input + 20.0 * layer).si()));
}

// Tied weights over two stages: the last stage has a copy of the embedding, 50257 x 768. With zb-v
// the first stage is also the last: one copy.
TEST_CASE("tied weights are held on the first and on the last stage") {
    Experiment e = gpt2();
    const double whole = transformer_memory(e).weights.si();
    e.parallelism.pp = 2;
    const double stages = (memory_of_stages(e)[0].weights + memory_of_stages(e)[1].weights).si();
    CHECK(stages - whole == Approx(2.0 * 50257 * 768));
    e.parallelism.schedule = Schedule::zb_v;
    const double meeting = (memory_of_stages(e)[0].weights + memory_of_stages(e)[1].weights).si();
    CHECK(meeting == Approx(whole));
}

TEST_CASE("the fullest stage counts, and its parts add up to the peak") {
    Experiment e = llama_by_hand();
    e.parallelism.pp = 4;
    e.parallelism.global_batch = 12;
    const MemoryUse fullest = transformer_memory(e);
    for (const MemoryUse& stage : memory_of_stages(e)) CHECK(stage.peak <= fullest.peak);
    CHECK(fullest == memory_of_stages(e)[0]);  // most micro-batches in flight
    CHECK(fullest.peak == states(fullest) + fullest.activations + fullest.buffers);
}

// Overheads: 1 GiB and a tenth of the tensors.
TEST_CASE("a step fits when its tensors and the overheads do, to the byte") {
    Experiment e = gpt2();
    e.cluster.overheads = {Bytes(1073741824), 0.1};
    const MemoryUse unlimited = transformer_memory(e);
    CHECK(unlimited.fits);
    CHECK(unlimited.overheads == Bytes(1073741824) + 0.1 * unlimited.peak);
    e.cluster.gpu.memory = unlimited.peak + unlimited.overheads;
    CHECK(transformer_memory(e).fits);
    e.cluster.gpu.memory -= Bytes(1);
    CHECK_FALSE(transformer_memory(e).fits);
}

TEST_CASE("sharding weights and gradients costs buffers for what is in use") {
    Experiment e = gpt2();
    e.parallelism.dp = 8;
    const Bytes none = transformer_memory(e).buffers;
    e.parallelism.zero = 3;
    // The largest unit is the embedding with its positions: (50257 + 1024) x 768 weights, twice
    // gathered and twice as gradients, in 2 bytes.
    CHECK((transformer_memory(e).buffers - none).si() ==
          Approx(2 * 2 * 2 * (50257.0 + 1024) * 768));
    e.parallelism.zero = 2;
    CHECK((transformer_memory(e).buffers - none).si() == Approx(2 * 2 * (50257.0 + 1024) * 768));
}
