// Gradient exchange and optimizer under ZeRO stage 1, as in DeepSpeed (stage_1_and_2.py, 0.8), with
// n ranks:
//   exchange  each gradient is copied into a bucket buffer. When the next does not fit, or all are
//             there, the whole buffer is divided by n, and each run of elements with one owner is
//             reduced to that owner. Without overlap all this follows the backward, group by group.
//             With overlap each layer's gradients are sent when its backward has made them.
//   step      for each tensor that this rank owns a part of, the host waits for a value twice: is
//             it finite, what is its norm. For each group the norms of all ranks are added (one
//             value sent, one read). Then for each group the owned gradients are flattened and
//             unscaled, and the optimizer updates them. At last the ranks gather the parameters.
// Each of these costs the host one call per tensor or group, whatever their sizes. Source: ZeRO,
// arXiv 1910.02054.
#pragma once

#include <algorithm>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/recorded/coca/parts.h"
#include "model/recorded/coca/tensors.h"
#include "model/transformer/stage.h"

namespace stepcast {

class ZeroOne {
public:
    ZeroOne(TaskGraph& graph, const TowerContext& context, Stage& stage)
        : graph_(graph),
          context_(context),
          stage_(stage),
          groups_(parameter_groups(context.experiment)) {
        std::vector<int> tensors(as_index(ranks()));
        for (const ParameterGroup& group : groups_)
            for (int r = 0; r < ranks(); ++r) tensors[as_index(r)] += tensors_on(group, ranks(), r);
        fullest_ = as_int(std::ranges::max_element(tensors) - tensors.begin());
    }

    // Call after the backward of a unit was written.
    void gradients_ready(const std::string& unit) {
        if (overlaps())
            add(Phase::backward,
                [&](const ParameterTensor& tensor) { return tensor.unit == unit; });
    }

    // Call after the last backward.
    void finish_gradients() {
        if (!overlaps()) add(Phase::gradient_sync, [](const ParameterTensor&) { return true; });
        close();
        for (const TasksByRank& tasks : sent_) stage_.follow(tasks);
    }

    void update() {
        Planner planner(graph_);
        for (const ParameterGroup& group : groups_)
            read_norms(planner, group, "overflow_check", "overflow_read");
        add_up(planner, "overflow_send", "overflow_all_reduce", "overflow_read");
        for (const ParameterGroup& group : groups_) {
            read_norms(planner, group, "gradient_norm", "norm_read");
            add_up(planner, "norm_send", "norm_all_reduce", "norm_read");
        }
        for (const ParameterGroup& group : groups_)
            update_group(planner, piece_elements(group, ranks()));
        for (const ParameterGroup& group : groups_) {
            const Bytes all = ranks() * piece_elements(group, ranks()) * context_.element();
            planner.host("gather", HostWork{HostWork::Kind::gather, 1}, false);
            planner.collective("gather_parameters", AllGather{all}, context_.data);
        }
        stage_.stamp(planner.take(), Phase::optimizer);
    }

private:
    [[nodiscard]] int ranks() const { return context_.data.size(); }

    // Adds the gradients of the tensors that `meant` selects, group by group.
    template <typename Meant>
    void add(Phase phase, Meant meant) {
        if (ranks() == 1) return;
        for (const ParameterGroup& group : groups_) {
            const auto slices = slices_of(group, ranks());
            for (const std::size_t i : indices_of(group))
                if (meant(group[i])) add(group[i].elements, slices[i], phase);
        }
    }

    void add(double elements, const std::vector<Slice>& slices, Phase phase) {
        const Bytes element = size_of(gradient_type(context_.experiment));
        if (filled_ > 0 && (filled_ + elements) * element > bucket_bytes(context_.experiment))
            close();
        Planner planner(graph_);
        planner.compute("bucket_copy", MemoryPass{elements * element, elements * element});
        stage_.stamp(planner.take(), phase);
        filled_ += elements;
        for (const Slice& slice : slices) {
            if (!runs_.empty() && runs_.back().rank == slice.rank)
                runs_.back().elements += slice.elements;
            else
                runs_.push_back(slice);
        }
    }

    // The buffer is reused, so copies of the next bucket wait for these reductions. With overlap
    // there are two buffers, so they wait for the reductions of the bucket before.
    void close() {
        if (runs_.empty()) return;
        Planner planner(graph_);
        planner.compute("bucket_divide", MemoryPass{bucket_bytes(context_.experiment),
                                                    bucket_bytes(context_.experiment)});
        stage_.stamp(planner.take(), overlaps() ? Phase::backward : Phase::gradient_sync);
        const GroupId group = graph_.add_group(context_.data);
        TasksByRank done;
        const TasksByRank ready = stage_.last();
        for (const Slice& run : runs_) {
            NewTask task = graph_.task_of(
                "gradient_reduce", Phase::gradient_sync,
                Reduce{run.elements * size_of(gradient_type(context_.experiment)), run.rank});
            task.group = group;
            done = stage_.collective(task, Lane::data, ready);
        }
        sent_.push_back(std::move(done));
        const std::size_t buffers = overlaps() ? 2 : 1;
        if (sent_.size() >= buffers) stage_.follow(sent_[sent_.size() - buffers]);
        runs_.clear();
        filled_ = 0;
    }

    // A pass over this rank's piece of a group; the host reads one value for each of its tensors.
    void read_norms(Planner& planner, const ParameterGroup& group, std::string_view pass,
                    std::string_view read) const {
        planner.compute(
            pass,
            MemoryPass{piece_elements(group, ranks()) * size_of(gradient_type(context_.experiment)),
                       Bytes(0)},
            0);
        planner.host(
            read, HostWork{HostWork::Kind::read, real(tensors_on(group, ranks(), fullest_))}, true);
    }
    void add_up(Planner& planner, std::string_view send, std::string_view sum,
                std::string_view read) const {
        planner.host(send, HostWork{HostWork::Kind::read, 1}, true);
        planner.collective(sum, AllReduce{Bytes(4)}, context_.data);
        planner.host(read, HostWork{HostWork::Kind::read, 1}, true);
    }

    // Flatten r2 w2, to fp32 r2 w4, unscale r4 w4. LAMB reads the fp32 gradient, the master weight
    // and two moments, and writes the last three. It also writes its update, reads it for its norm
    // and applies it. Then the 16-bit weight is written.
    void update_group(Planner& planner, double n) const {
        const bool lamb = context_.workload().optimizer == Optimizer::lamb;
        planner.host("flatten", HostWork{HostWork::Kind::flatten, 1}, false);
        planner.compute("flatten_gradients", MemoryPass{n * Bytes(8), n * Bytes(10)}, 0);
        planner.host("update", HostWork{HostWork::Kind::update, 1}, false);
        planner.compute("optimizer",
                        MemoryPass{n * Bytes(lamb ? 24 : 16), n * Bytes(lamb ? 16 : 12),
                                   MemoryPass::Access::optimizer},
                        0);
        planner.compute("half_weights", MemoryPass{n * Bytes(4), n * Bytes(2)}, 0);
    }

    TaskGraph& graph_;
    const TowerContext& context_;
    [[nodiscard]] bool overlaps() const { return overlaps_gradients(context_.experiment); }
    const Parallelism& p_ = context_.experiment.parallelism;
    Stage& stage_;
    std::vector<ParameterGroup> groups_;
    int fullest_ = 0;
    double filled_ = 0;        // elements in the bucket
    std::vector<Slice> runs_;  // runs in the bucket; neighbours with one owner are joined
    std::vector<TasksByRank> sent_;
};

}  // namespace stepcast
