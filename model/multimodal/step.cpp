#include "model/builders.h"

#include <functional>
#include <numeric>

#include "model/multimodal/parts.h"
#include "model/rank_groups.h"

namespace stepcast {
namespace {

using Write = std::function<void(Planner&)>;

// A layer or an end: its passes, and whose gradients are complete after its backward ("" = a later unit's).
struct Unit {
    Plan forward, backward;
    bool recomputed = false;
    std::string gradients;
};

class CocaStep {
public:
    CocaStep(const Experiment& e, bool folded)
        : e_(e),
          graph_(folded ? 1 : e.parallelism.dp, e.cluster.launch_blocking),
          context_{e, rank_groups(e.parallelism).data},
          stage_(graph_, ranks_of(graph_.rank_count()),
                 std::vector<int>(static_cast<std::size_t>(graph_.rank_count()))),
          zero_(graph_, context_, stage_) {
        if (folded) graph_.set_multiplicity({e.parallelism.dp});
        add_vision();
        add_text();
        add_decoder();
    }

    TaskGraph write() {
        for (const Unit& unit : units_) stage_.stamp(unit.forward, Phase::forward);
        stage_.stamp(plan([&](Planner& p) { plan_losses_forward(p, context_); }), Phase::between);
        stage_.stamp(plan([&](Planner& p) { plan_losses_backward(p, context_); }), Phase::backward);
        zero_.gradients_ready("scale");
        for (std::size_t i = units_.size(); i-- > 0;) {
            const Unit& unit = units_[i];
            if (unit.recomputed) stage_.stamp(unit.forward, Phase::backward);
            stage_.stamp(unit.backward, Phase::backward);
            zero_.gradients_ready(unit.gradients);
        }
        zero_.finish_gradients();
        if (e_.workload.optimizer != Optimizer::none) zero_.update();
        return std::move(graph_);
    }

private:
    static std::vector<int> ranks_of(int count) {
        std::vector<int> ranks(static_cast<std::size_t>(count));
        std::iota(ranks.begin(), ranks.end(), 0);
        return ranks;
    }
    Plan plan(const Write& write) {
        Planner planner(graph_);
        write(planner);
        return planner.take();
    }
    // The modules' own code costs the host once a pass.
    Plan block_plan(const Write& write) {
        return plan([&](Planner& p) {
            p.host("layer", HostWork{HostWork::Kind::layer, 1}, false);
            write(p);
        });
    }
    Unit block_unit(const TowerBlock& block, const std::string& gradients) {
        return {block_plan([&](Planner& p) { plan_block_forward(p, block, context_); }),
                block_plan([&](Planner& p) { plan_block_backward(p, block, context_); }),
                !block.pools() && e_.parallelism.recompute == Recompute::full, gradients};
    }
    using EndPlan = void (*)(Planner&, const TowerContext&);
    void add_end(EndPlan forward, EndPlan backward, const std::string& gradients) {
        units_.push_back({plan([&](Planner& p) { forward(p, context_); }),
                          plan([&](Planner& p) { backward(p, context_); }), false, gradients});
    }
    // The blocks of a layer in order; its gradients are complete after the backward of the first.
    void add_layers(const std::string& tower, const std::vector<TowerBlock>& blocks) {
        for (int layer = 0; layer < blocks.front().layers; ++layer)
            for (const TowerBlock& block : blocks)
                units_.push_back(
                    block_unit(block, &block == &blocks.front() ? tower + ".layer" + std::to_string(layer) : ""));
    }

    void add_vision() {
        add_end(plan_patches_forward, plan_patches_backward, "vision.start");
        add_layers("vision", {vision_block(e_.workload)});
        units_.push_back(block_unit(pooler(e_.workload), "vision.end"));
        units_.push_back(block_unit(contrastive_pooler(e_.workload), ""));
        add_end(plan_image_end_forward, plan_image_end_backward, "");
    }
    void add_text() {
        add_end(plan_tokens_forward, plan_tokens_backward, "text.start");
        add_layers("text", {text_block(e_.workload)});
        add_end(plan_text_end_forward, plan_text_end_backward, "text.end");
    }
    void add_decoder() {
        add_layers("decoder", {decoder_block(e_.workload), cross_block(e_.workload)});
        add_end(plan_caption_head_forward, plan_caption_head_backward, "decoder.end");
    }

    const Experiment& e_;
    TaskGraph graph_;
    TowerContext context_;
    Stage stage_;
    ZeroOne zero_;
    std::vector<Unit> units_;  // in the order of their forward
};

}  // namespace

TaskGraph build_coca_step(const Experiment& e, Folding folding) {
    const bool alike = lies_alike(rank_groups(e.parallelism).data, e.cluster.gpus_per_node);
    return CocaStep(e, folding == Folding::automatic && alike).write();
}

}  // namespace stepcast
