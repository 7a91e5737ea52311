// Activations and their gradients on their way between stages.
#pragma once

#include <map>

#include "model/transformer/stages.h"

namespace stepcast {

// A micro-batch at a position of its path, on its way forward or back.
struct At {
    int micro_batch, direction, position;
    bool back;
    friend auto operator<=>(const At&, const At&) = default;
};

class Hops {
public:
    Hops(TaskGraph& graph, const LayerContext& context, const Stages& stages, const std::vector<Path>& paths);

    // From where the micro-batch is to the next piece of its path, or back to the one before.
    void send(StageState& state, const At& at);
    // What comes next on the stage follows the arrival; false while it is not written yet.
    bool take_arrived(StageState& state, const At& at);

private:
    TasksByRank write(StageState& from, StageState& to, const At& at);
    TasksByRank gathered(StageState& state, const At& at, const TasksByRank& parts);
    [[nodiscard]] bool scatters() const;
    OpId send_op(bool back);

    TaskGraph& graph_;
    const LayerContext& context_;
    const Parallelism& p_;
    const Stages& stages_;
    const std::vector<Path>& paths_;
    std::map<At, TasksByRank> arrived_;
    NameId forward_name_, backward_name_;
    OpId forward_op_ = 0, backward_op_ = 0, gather_op_ = 0;
};

}  // namespace stepcast
