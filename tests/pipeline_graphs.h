// Pipeline schedules as graphs: for tests against closed forms and, because they grow to any size,
// for benchmarks.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <vector>

#include "model/graph/task_graph.h"

namespace stepcast::graphs {

struct PipelineShape {
    enum class Schedule { one_f_one_b, gpipe };
    // one: every send and receive of a rank on its collective lane
    enum class SendLanes { one_a_direction, one };
    enum class Turns { first_stage_first, last_stage_first };
    int stages = 2;
    int micro_batches = 4;
    Schedule schedule = Schedule::one_f_one_b;
    SendLanes send_lanes = SendLanes::one_a_direction;
    // of the stages in a round of emission, hence the issue order
    Turns turns = Turns::first_stage_first;
};

struct PipelineSlot {
    bool backward = false;
    int micro_batch = 0;
};

// The k-th slot of a stage. 1F1B: stage s runs min(p - 1 - s, m) forwards ahead, then one forward
// and one backward in turn, then the backwards that are left. GPipe: all forwards, then all
// backwards.
inline PipelineSlot slot_of(const PipelineShape& shape, int stage, int k) {
    const int m = shape.micro_batches;
    const bool gpipe = shape.schedule == PipelineShape::Schedule::gpipe;
    const int ahead = gpipe ? m : std::min(shape.stages - 1 - stage, m);
    if (k < ahead) return {false, k};
    const int turn = k - ahead, turns = 2 * (m - ahead);
    if (turn >= turns) return {true, m - ahead + turn - turns};
    return turn % 2 == 0 ? PipelineSlot{false, ahead + turn / 2} : PipelineSlot{true, turn / 2};
}

// Emits slots round by round, each stage's next one once its input exists, so that id order is an
// issue order.
class PipelineBuilder {
public:
    explicit PipelineBuilder(const PipelineShape& shape)
        : shape_(shape),
          graph_(shape.stages),
          next_(count(shape.stages)),
          forward_(cells()),
          from_below_(cells()),
          from_above_(cells()),
          done_(count(shape.stages)) {
        forward_name_ = graph_.name_id("forward");
        backward_name_ = graph_.name_id("backward");
        send_name_ = graph_.name_id("send");
        forward_op_ = graph_.add_op(Gemm{16, 16, 16, 1, Dtype::fp32});
        backward_op_ = graph_.add_op(Gemm{16, 16, 32, 1, Dtype::fp32});
        send_op_ = graph_.add_op(SendRecv{Bytes(4096)});
    }

    TaskGraph build() {
        const int slots = 2 * shape_.micro_batches;
        for (bool progress = true; progress;) {
            progress = false;
            for (int turn = 0; turn < shape_.stages; ++turn) {
                const bool ascending = shape_.turns == PipelineShape::Turns::first_stage_first;
                const int stage = ascending ? turn : shape_.stages - 1 - turn;
                int& next = next_[count(stage)];
                if (next == slots || !has_input(stage, slot_of(shape_, stage, next))) continue;
                emit(stage, slot_of(shape_, stage, next++));
                progress = true;
            }
        }
        if (std::ranges::any_of(next_, [&](int next) { return next != slots; }))
            throw std::logic_error("pipeline_graphs: the schedule waits for itself");
        return std::move(graph_);
    }

private:
    struct Done {
        int forwards = 0, backwards = 0;
    };
    static std::size_t count(int n) { return static_cast<std::size_t>(n); }
    [[nodiscard]] std::size_t cells() const {
        return count(shape_.stages) * count(shape_.micro_batches);
    }
    [[nodiscard]] std::size_t cell(int stage, int m) const {
        return count(stage) * count(shape_.micro_batches) + count(m);
    }
    [[nodiscard]] bool is_last(int stage) const { return stage == shape_.stages - 1; }

    [[nodiscard]] bool has_input(int stage, PipelineSlot slot) const {
        if (slot.backward)
            return is_last(stage) ? done_[count(stage)].forwards > slot.micro_batch
                                  : done_[count(stage + 1)].backwards > slot.micro_batch;
        return stage == 0 || done_[count(stage - 1)].forwards > slot.micro_batch;
    }

    void emit(int stage, PipelineSlot slot) {
        slot.backward ? emit_backward(stage, slot.micro_batch)
                      : emit_forward(stage, slot.micro_batch);
    }

    void emit_forward(int stage, int m) {
        const std::size_t at = cell(stage, m);
        const std::array place{Place(stage, Lane::compute)};
        const std::span<const TaskId> input =
            stage == 0 ? std::span<const TaskId>() : std::span(&from_below_[at], 1);
        forward_[at] = graph_.add({forward_name_, Phase::forward, forward_op_}, place, input);
        if (!is_last(stage))
            from_below_[cell(stage + 1, m)] = send(stage, stage + 1, Phase::forward, forward_[at]);
        ++done_[count(stage)].forwards;
    }

    void emit_backward(int stage, int m) {
        const std::size_t at = cell(stage, m);
        const std::array place{Place(stage, Lane::compute)};
        const std::array input{forward_[at], from_above_[at]};
        const TaskId task = graph_.add({backward_name_, Phase::backward, backward_op_}, place,
                                       std::span(input).first(is_last(stage) ? 1 : 2));
        if (stage > 0)
            from_above_[cell(stage - 1, m)] = send(stage, stage - 1, Phase::backward, task);
        ++done_[count(stage)].backwards;
    }

    TaskId send(int from, int to, Phase phase, TaskId after) {
        const bool up = to > from, shared = shape_.send_lanes == PipelineShape::SendLanes::one;
        const Lane out = shared ? Lane::collective : up ? Lane::send_up : Lane::send_down;
        const Lane in = shared ? Lane::collective : up ? Lane::receive_up : Lane::receive_down;
        const std::array places{Place(from, out), Place(to, in)};
        return graph_.add({send_name_, phase, send_op_}, places, std::span(&after, 1));
    }

    PipelineShape shape_;
    TaskGraph graph_;
    std::vector<int> next_;
    std::vector<TaskId> forward_, from_below_, from_above_;  // by cell
    std::vector<Done> done_;
    NameId forward_name_ = 0, backward_name_ = 0, send_name_ = 0;
    OpId forward_op_ = 0, backward_op_ = 0, send_op_ = 0;
};

inline TaskGraph pipeline(const PipelineShape& shape) { return PipelineBuilder(shape).build(); }

}  // namespace stepcast::graphs
