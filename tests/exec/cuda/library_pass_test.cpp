// Which passes of a graph kernels of training libraries run, and the bytes that these move.
#include "exec/cuda/library_pass.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "measured/read.h"
#include "model/step.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

struct Counted {
    Moved operator()(const StandIn&) const { return {}; }
    Moved operator()(const NormPass& p) const { return moved(p.shape, p.backward); }
    Moved operator()(const ActivationPass& p) const { return moved(p.shape, p.backward); }
    Moved operator()(const RotaryPass& p) const { return moved(p.shape); }
    Moved operator()(const DropoutPass& p) const {
        return moved(p.shape, p.residual, p.mask, p.backward);
    }
    Moved operator()(const LossPass& p) const { return moved_in_steps(p.shape, p.backward); }
    Moved operator()(const AdamwPass& p) const { return moved(p.shape); }
    Moved operator()(const CastPass& p) const { return moved(p.shape); }
    Moved operator()(const QuantizePass& p) const { return moved(p.shape); }
};

// The tasks of an experiment's first rank whose passes a kernel runs, by name, and the share of the
// bytes of all passes that are left to stand-ins. Each kernel moves as many bytes as its pass but
// for some numbers a row, which have fewer bytes than a hundredth.
struct Chosen {
    std::map<std::string, std::string> by_name;
    double left = 0;
};
Chosen chosen(const char* name, const std::vector<Override>& overrides = {}) {
    const Experiment experiment = read_experiment(name, overrides);
    const TaskGraph graph = build_step(experiment, routing_of(experiment), Folding::never);
    const CudaPlan plan = plan_cuda_memory(graph, 0, 60_MiB, Bytes(1e12), Bytes(1e12));
    const LibraryPasses passes(graph, 0, plan.common);
    CHECK(plan.scratch == passes.scratch());
    Chosen all;
    double bytes = 0, left = 0;
    for (TaskId task = 0; task < graph.size(); ++task) {
        const auto* op = std::get_if<MemoryPass>(&graph.op(task));
        if (op == nullptr || graph.places(task).front().rank() != 0) continue;
        const double of_pass = (op->read + op->written).si();
        bytes += of_pass;
        const LibraryPass& pass = passes.of(task);
        if (std::holds_alternative<StandIn>(pass)) {
            left += of_pass;
            all.by_name.emplace(graph.name(task), "-");
            continue;
        }
        all.by_name.emplace(graph.name(task), ran_by(pass));
        const Moved by = std::visit(Counted{}, pass);
        INFO(graph.name(task));
        CHECK(by.read == Approx(op->read.si()).epsilon(0.01));
        CHECK(by.written == Approx(op->written.si()).epsilon(0.01));
    }
    all.left = left / bytes;
    return all;
}

}  // namespace

// Llama 3 as a training library runs it. Of the softmax through memory, of gathers, of layouts and
// of sums over columns there is no kernel.
TEST_CASE("passes run by the kernels that their names, bytes and neighbours say") {
    const Chosen llama = chosen("one_gpu_llama3_4_layers");
    const std::map<std::string, std::string> wanted{
        {"activation", "own gated activation"},
        {"activation_backward", "own gated activation"},
        {"attention_norm", "own kernel for norms, rows of 4096"},
        {"attention_norm_backward", "own kernel for norms and their weights, rows of 4096"},
        {"embedding", "-"},
        {"embedding_gradient", "-"},
        {"ffn_norm", "own kernel for norms, rows of 4096"},
        {"ffn_norm_backward", "own kernel for norms and their weights, rows of 4096"},
        {"final_norm", "own kernel for norms, rows of 4096"},
        {"final_norm_backward", "own kernel for norms and their weights, rows of 4096"},
        {"gradient_norm", "-"},
        {"head_layout_backward", "-"},
        {"loss", "own cross entropy in steps, 128256 columns"},
        {"loss_backward", "own cross entropy in steps, 128256 columns"},
        {"optimizer", "own AdamW over a flat buffer"},
        {"residual", "own sum"},
        {"residual_backward", "own sum"},
        {"rotary", "own rotary kernel, heads of 128"},
        {"rotary_backward", "own rotary kernel, heads of 128"},
        {"softmax", "-"},
        {"softmax_backward", "-"},
        {"zero_gradients", "-"},
    };
    CHECK(llama.by_name == wanted);
    CHECK(llama.left < 0.38);
    CHECK(chosen("one_gpu_llama3_4_layers", {{"runtime.attention", "flash"}}).left < 0.26);
    CHECK(chosen("one_gpu_gpt2_124m").left < 0.43);
    CHECK(chosen("one_gpu_moe_layer").left < 0.29);
}

// A forward of BERT drops 0.1 and leaves a mask. Its LAMB reads 24 and writes 18 bytes a weight, as
// AdamW in fp32 would for half as many weights more. PyTorch's norms leave their weights' gradients
// to passes of their own, and its Adam writes no copy. CoCa's text towers cast around their norms,
// five reads and writes for one: more rows than the product behind has. It runs LAMB too.
TEST_CASE("what a name means differs with the bytes") {
    Chosen bert = chosen("one_gpu_bert_large");
    CHECK(bert.by_name["residual"] == "own dropout by Philox and sum");
    CHECK(bert.by_name["score_dropout_backward"] == "own dropout by Philox");
    CHECK(bert.by_name["activation"] == "own activation");
    CHECK(bert.by_name["optimizer"] == "-");
    Chosen script = chosen("one_gpu_gpt2_124m_pytorch");
    CHECK(script.by_name["attention_norm_backward"] == "own kernel for norms, rows of 768");
    CHECK(script.by_name["adam"] == "own AdamW over a flat buffer");
    CHECK(script.by_name["cast_logits"] == "own cast");
    CHECK(script.by_name["loss"] == "-");
    Chosen coca = chosen("coca_zero1");
    CHECK(coca.by_name["vision_norm1"] == "own kernel for norms, rows of 768");
    CHECK(coca.by_name["decoder_norm1"] == "-");
    CHECK(coca.by_name["vision_activation"] == "own activation");
    CHECK(coca.by_name["optimizer"] == "-");
}

// A framework that fuses nothing multiplies the gate apart, and sums gradients. The first of eight
// stages has layers and no loss.
TEST_CASE("unfused passes of one stage run by kernels too") {
    Chosen stage = chosen("llama_1b_pp8");
    CHECK(stage.by_name["activation"] == "own activation");
    CHECK(stage.by_name["gate_product"] == "own product of two");
    CHECK(stage.by_name["gate_product_backward"] == "own product of two");
    CHECK(stage.by_name["accumulate_gradient"] == "own sum");
    CHECK(stage.by_name["input_gradient_sum"] == "own sum");
    CHECK(!stage.by_name.contains("loss"));
}

// Of products in fp8 every operand is cast by rows and by columns.
TEST_CASE("casts to fp8 run by one kernel for both ways") {
    Chosen llama = chosen("one_gpu_llama3_4_layers", {{"workload.dtype", "fp8"}});
    CHECK(llama.by_name["cast"] == "own cast to fp8 by one scale, by rows and by columns");
    CHECK(llama.by_name["ffn_norm"] == "own kernel for norms, rows of 4096");
}

// 16 rows of 20000 elements in bf16, which no kernel takes; of heads of 5 that have no pairs; a
// pass of twice the bytes, and one of the host.
TEST_CASE("a pass that no kernel takes is a stand-in, and says what it has too much of") {
    TaskGraph graph(1);
    const auto add = [&](std::string_view name, MemoryPass op) {
        return graph.add(name, Phase::forward, op, {Place(0, Lane::compute)}, {});
    };
    const auto product = [&](long k) {
        graph.add("gemm", Phase::forward, Gemm{16, 8, k, 1, Dtype::bf16}, {Place(0, Lane::compute)},
                  {});
    };
    const TaskId wide = add("ffn_norm", MemoryPass{640000_B, 640000_B});
    product(20000);
    const TaskId odd = add("rotary", MemoryPass{160_B, 160_B});
    product(5);
    const TaskId more = add("ffn_norm", MemoryPass{4096_B, 4096_B});
    const TaskId host = add("ffn_norm", MemoryPass{2048_B, 2048_B, MemoryPass::Access::host});
    const TaskId right = add("ffn_norm", MemoryPass{2048_B, 2048_B});
    product(64);
    const LibraryPasses passes(graph, 0, Element::bf16);
    const auto why = [&](TaskId task) { return std::get<StandIn>(passes.of(task)).why; };
    CHECK(why(wide) ==
          "rows of 20000 elements are wider than the 16384 that the kernel for norms takes");
    CHECK(why(odd) == "heads of 5 elements have no pairs");
    CHECK(why(host).empty());
    CHECK(std::get<NormPass>(passes.of(right)).shape.rows == 16);
    // as in fp32, where the product has 16 rows of 64
    CHECK(std::get<NormPass>(passes.of(more)).shape.element == Element::fp32);
}

// 3 rows of 8, bf16: x has 48 bytes; the forward leaves mean and scale, 8 a row.
TEST_CASE("the bytes that kernels move are counted") {
    const NormShape norm{Element::bf16, 3, 8, false, 1e-5f};
    CHECK(moved(norm, false) == Moved{48, 48 + 24});
    CHECK(moved(norm, true) == Moved{96 + 24, 48});
    CHECK(moved(NormShape{Element::fp32, 3, 8, true, 1e-5f}, false) == Moved{96, 96 + 12});
    const ActivationShape gated{Element::bf16, 3, 8, ActivationShape::Function::silu, true};
    CHECK(moved(gated, false) == Moved{96, 48});
    CHECK(moved(gated, true) == Moved{144, 96});
    CHECK(moved(RotaryShape{Element::bf16, 3, 2, 4, 2, 8}) == Moved{192, 192});
    const DropoutShape dropout{Element::fp16, 100, 0.1f, 0, 0};
    CHECK(moved(dropout, true, true, false) == Moved{400, 300});
    CHECK(moved(dropout, false, false, false) == Moved{200, 200});
    CHECK(moved(dropout, false, true, true) == Moved{300, 200});
    // 2 rows of 10; targets and losses have 4 bytes a row, log sums too
    const LossShape loss{Element::bf16, 2, 10, 1};
    CHECK(moved(loss, false) == Moved{40 + 8, 16});
    CHECK(moved(loss, true) == Moved{40 + 16, 40});
    CHECK(moved_in_steps(loss, false) == Moved{120 + 24, 80 + 24});
    CHECK(moved_in_steps(loss, true) == Moved{80 + 8, 40});
    AdamwShape adamw{Element::fp32, Element::bf16, 10};
    CHECK(moved(adamw) == Moved{160, 120});
    adamw.copies = true;
    CHECK(moved(adamw) == Moved{160, 140});
    CHECK(moved(CastShape{Element::fp32, Element::bf16, 10}) == Moved{40, 20});
    // 2 rows of 130: two blocks each, with a scale of 4 bytes
    QuantizeShape fp8{Element::bf16, 2, 130};
    CHECK(moved(fp8) == Moved{520, 260});
    fp8.by_columns = true;
    CHECK(moved(fp8) == Moved{520, 520});
    fp8.by_columns = false;
    fp8.scaling = QuantizeShape::Scaling::block;
    CHECK(moved(fp8) == Moved{520, 260 + 16});
}
