#include "model/recorded/coca/step.h"

#include <functional>

#include "model/base/numbers.h"
#include "model/rank_groups.h"
#include "model/recorded/coca/block_passes.h"
#include "model/recorded/coca/blocks.h"
#include "model/recorded/coca/ends.h"
#include "model/recorded/coca/zero_one.h"
#include "model/step.h"

namespace stepcast {
namespace {

// A layer, an end or the losses: its passes, and the unit whose gradients are complete after its
// backward ("" = a later unit's).
struct UnitPlans {
    Plan forward, backward;
    std::string gradients;
    bool recomputed = false;
};

class CocaStep {
public:
    CocaStep(const Experiment& e, bool folded)
        : e_(e),
          graph_(folded ? 1 : e.parallelism.dp, e.cluster.launch_blocking),
          context_{e, rank_groups(e.parallelism).data},
          stage_(graph_, members({graph_.rank_count()}, 0),
                 std::vector<int>(as_index(graph_.rank_count()))),
          zero_(graph_, context_, stage_) {
        if (folded) graph_.set_multiplicity({e.parallelism.dp});
        const Workload& w = e.workload;
        add(plan_patches, "vision.start");
        add_layers("vision", {vision_block(w)});
        add_block(pooler(w), "vision.end");
        add_block(contrastive_pooler(w), "");
        add(plan_image_end, "");
        add(plan_tokens, "text.start");
        add_layers("text", {text_block(w)});
        add(plan_text_end, "text.end");
        add_layers("decoder", {decoder_block(w), cross_block(w)});
        add(plan_caption_head, "decoder.end");
        add(plan_losses, "scale");
    }

    TaskGraph write() {
        for (const UnitPlans& unit : units_)
            // the last unit holds the losses
            stage_.stamp(unit.forward, &unit == &units_.back() ? Phase::between : Phase::forward);
        for (std::size_t i = units_.size(); i-- > 0;) {
            const UnitPlans& unit = units_[i];
            if (unit.recomputed) stage_.stamp(unit.forward, Phase::backward);
            stage_.stamp(unit.backward, Phase::backward);
            zero_.gradients_ready(unit.gradients);
        }
        zero_.finish_gradients();
        if (e_.workload.optimizer != Optimizer::none) zero_.update();
        return std::move(graph_);
    }

private:
    void add(const std::function<void(const PassWriter&, const TowerContext&)>& write,
             const std::string& gradients) {
        Planner ahead(graph_), behind(graph_);
        const BackwardPlanners back{behind, behind};
        write({&ahead, nullptr}, context_);
        write({nullptr, &back}, context_);
        units_.push_back({ahead.take(), behind.take(), gradients});
    }
    // The Python code of the modules costs the host time once per pass.
    void add_block(const TowerBlock& block, const std::string& gradients) {
        add(
            [&](const PassWriter& out, const TowerContext& c) {
                out.planner().host("layer", HostWork{HostWork::Kind::layer, 1}, false);
                plan_tower_block(out, block, c);
            },
            gradients);
        units_.back().recomputed = runs_again(e_.parallelism, block);
    }
    // Adds the blocks of each layer in order. The layer's gradients are complete after the backward
    // of its first block.
    void add_layers(const std::string& tower, const std::vector<TowerBlock>& blocks) {
        for (int layer = 0; layer < blocks.front().layers; ++layer)
            for (const TowerBlock& block : blocks)
                add_block(block, &block == &blocks.front()
                                     ? tower + ".layer" + std::to_string(layer)
                                     : "");
    }

    const Experiment& e_;
    TaskGraph graph_;
    TowerContext context_;
    Stage stage_;
    ZeroOne zero_;
    std::vector<UnitPlans> units_;  // in forward order
};

}  // namespace

TaskGraph build_coca_step(const Experiment& e, Folding folding) {
    const bool alike = lies_alike(rank_groups(e.parallelism).data, e.cluster.gpus_per_node);
    return CocaStep(e, folding == Folding::automatic && alike).write();
}

}  // namespace stepcast
