// Gradient exchange and optimizer under ZeRO stage 1 as DeepSpeed runs them (stage_1_and_2.py, 0.8): with n ranks
//   exchange  each gradient is copied into a bucket buffer; when the next would not fit, or all are there, the whole
//             buffer is divided by n and each run of elements that one rank owns is reduced to it. Without overlap
//             all this follows the backward, group by group; with it each layer's gradients go as its backward has
//             made them, beside the rest
//   step      for each tensor that this rank owns a part of: is it finite, what is its norm: a value that the host
//             waits for each time; for each group the norms of all ranks are added (one value sent, one read); then
//             for each group the owned gradients are flattened and unscaled, the optimizer updates them, and at last
//             the ranks gather
// All of it costs the host a call a tensor or group whatever their sizes. Source: ZeRO, arXiv 1910.02054.
#pragma once

#include "model/multimodal/plans.h"
#include "model/multimodal/tensors.h"
#include "model/transformer/stage.h"

namespace stepcast {

class ZeroOne {
public:
    ZeroOne(TaskGraph& graph, const TowerContext& context, Stage& stage);

    void gradients_ready(const std::string& unit);  // its backward is written
    void finish_gradients();                        // after the last backward
    void update();

    [[nodiscard]] const std::vector<ParameterGroup>& groups() const { return groups_; }
    [[nodiscard]] int fullest_rank() const { return fullest_; }  // owns parts of the most tensors; logs of it are read

private:
    [[nodiscard]] int ranks() const { return context_.data.size(); }
    void add(const ParameterTensor& tensor, const std::vector<Slice>& slices, Phase phase);
    void close();
    void check_finite(Planner& planner) const;
    void add_norms(Planner& planner) const;
    void update_groups(Planner& planner) const;
    void gather_groups(Planner& planner) const;
    [[nodiscard]] double owned(const ParameterGroup& group) const { return piece_elements(group, ranks()); }
    [[nodiscard]] double owned_tensors(const ParameterGroup& group) const {
        return tensors_on(group, ranks(), fullest_);
    }

    TaskGraph& graph_;
    const TowerContext& context_;
    Stage& stage_;
    std::vector<ParameterGroup> groups_;
    int fullest_ = 0;
    double filled_ = 0;        // elements in the bucket
    std::vector<Slice> runs_;  // of the bucket, neighbours of one owner joined
    std::vector<TasksByRank> sent_;
};

}  // namespace stepcast
