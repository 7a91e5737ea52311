#include "import/launch/liger.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "import/launch/launch_flags.h"
#include "measured/read.h"
#include "model/base/lists.h"
#include "model/base/plain_text.h"
#include "model/base/text_search.h"
#include "model/experiment.h"
#include "model/framework.h"

namespace stepcast {
namespace {

// What the framework composes and no kernel has replaced yet.
class LigerKernels {
public:
    explicit LigerKernels(Translation& t) : t_(t) {
        Experiment e;
        if (t.framework.empty()) return;
        for (const FrameworkRule& rule : read_framework(t.framework).rules)
            if (rule.set.key == "runtime.composed" && rule.when.empty()) set_key(e, rule.set);
        composed_ = e.runtime.composed;
    }
    // The norm's kernel sums its weight's gradient itself.
    void norms(const NamedValue& by) { replace({Composed::norms, Composed::column_sums}, by); }
    void rotary(const NamedValue& by) { replace({Composed::rotary}, by); }
    void activation(const NamedValue& by) {
        replace({Composed::activation}, by);
        t_.set("runtime.fused_gate", "true", by.at);
    }
    void loss(const NamedValue& by) {
        replace({Composed::loss}, by);
        t_.set("runtime.loss.fused", "true", by.at);
    }
    void logits(LogitsKept way, const NamedValue& by) {
        t_.set("runtime.loss.logits", std::string(to_string(way)), by.at);
    }

private:
    void replace(std::initializer_list<Composed> ops, const NamedValue& by) {
        for (const Composed op : ops) std::erase(composed_, op);
        if (const auto* compiled = t_.find("runtime.composed"); compiled && compiled->value == "[]")
            return;
        std::vector<std::string> names;
        for (const Composed op : composed_) names.push_back(fmt::format("\"{}\"", to_string(op)));
        t_.set("runtime.composed", fmt::format("[{}]", fmt::join(names, ", ")), by.at);
    }

    Translation& t_;
    std::vector<Composed> composed_;
};

// Whether the loss is made of logits that the program asks for (LLaMA-Factory 0.9.5,
// model/loader.py: require_logits; axolotl 0.19.0: rl, whose losses are TRL's).
bool needs_logits(Document& d) {
    const std::string stage = d.text("stage", "sft");
    return d.states("rl") || (stage != "sft" && stage != "pt");
}

// liger-kernel 0.8.5, transformers/monkey_patch.py: apply_liger_kernel_to_llama and its like.
void take_all(const NamedValue& by, bool keeps_logits, LigerKernels& kernels) {
    kernels.norms(by);
    kernels.rotary(by);
    kernels.activation(by);
    keeps_logits ? kernels.loss(by) : kernels.logits(LogitsKept::chunks, by);
}

// axolotl 0.19.0, integrations/liger/args.py, plugin.py; integrations/cut_cross_entropy/args.py,
// whose plugin is on where it is named.
void take_axolotl(Document& d, LigerKernels& kernels) {
    if (const auto* by = d.on("liger_rms_norm")) kernels.norms(*by);
    if (const auto* by = d.on("liger_rope")) kernels.rotary(*by);
    for (const char* name : {"liger_glu_activation", "liger_swiglu"})
        if (const auto* by = d.on(name)) kernels.activation(*by);
    if (const auto* by = d.on("liger_cross_entropy")) kernels.loss(*by);
    if (needs_logits(d)) return;
    if (const auto* by = d.on("liger_fused_linear_cross_entropy"))
        kernels.logits(LogitsKept::chunks, *by);
    const auto* plugins = d.find("plugins");
    const bool cut = plugins && has(lower_case(plugins->value), "cutcrossentropy");
    const auto* stated = d.find("cut_cross_entropy");
    const bool off = stated && !d.on("cut_cross_entropy");
    if (cut && !off) kernels.logits(LogitsKept::recomputed, *plugins);
}

}  // namespace

void take_liger(const Tool& tool, Document& d, Translation& t) {
    const auto* ranks = t.find("parallelism.tp");
    const std::string program = d.text("trl_script");
    if ((ranks && ranks->value != "1") || (!program.empty() && !has(program, "sft"))) return;
    LigerKernels kernels(t);
    if (tool.id == "axolotl") return take_axolotl(d, kernels);
    for (const char* name : {"use_liger_kernel", "enable_liger_kernel"})
        if (d.states("liger_kernel_config"))
            return;  // some of them, in a table of its own
        else if (const auto* by = d.on(name))
            take_all(*by, needs_logits(d), kernels);
}

}  // namespace stepcast
