// Activations and their gradients on their way between stages. A hop forward carries the tensors of the cut: the hidden
// state between layers; inside a layer gate, up and residual. A model that a tracer cut by modules makes its mask and
// rotary tables (cosine, sine) once, in the first stage, and sends them along. With resend_first_stage every later hop
// carries the first stage's tensors whole, as a tuple of their own. Back go the gradients of the cut. A hop is
//   tuples x messages_per_tuple + tensors x messages_per_tensor
// messages; blocking_p2p: one task that holds the hosts of both ends, written once the receiver has come to it.
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

// What one hop carries.
struct HopLoad {
    int tensors = 0, tuples = 0;
    Bytes bytes;
    friend bool operator==(const HopLoad&, const HopLoad&) = default;
};
// From chunk `position` of the path to the next, or (`back`) from the next to it.
HopLoad hop_load(const LayerContext& context, const Path& path, int position, bool back);
int messages_of(const HopLoad& load, const Parallelism& parallelism);

class Hops {
public:
    Hops(TaskGraph& graph, const LayerContext& context, const Stages& stages, const std::vector<Path>& paths);

    // From where the micro-batch is to the next chunk of its path, or back to the one before.
    void send(StageState& state, const At& at);
    // Whether the arrival is written.
    [[nodiscard]] bool has_arrived(const At& at) const { return arrived_.contains(at); }
    // What comes next on the stage follows the arrival; false while it is not written yet.
    bool take_arrived(StageState& state, const At& at);

    // blocking_p2p: whether the stage waits in a send; meet() writes the sends whose receivers have come to the slot that
    // takes them, and says whether there were any.
    [[nodiscard]] bool holds(const StageState& state) const;
    bool meet(const std::vector<Order>& orders);

private:
    struct Waiting {
        int from, to;
        At at, arrival;
    };
    TasksByRank write(StageState& from, StageState& to, const At& at);
    TasksByRank gathered(StageState& state, const At& at, const TasksByRank& parts);
    [[nodiscard]] bool scatters() const;
    TasksByRank write_blocking(StageState& from, StageState& to, const At& at);
    OpId send_op(const At& at);

    TaskGraph& graph_;
    const LayerContext& context_;
    const Parallelism& p_;
    const Stages& stages_;
    const std::vector<Path>& paths_;
    std::map<At, TasksByRank> arrived_;
    NameId forward_name_, backward_name_;
    std::vector<Waiting> waiting_;
    std::map<At, OpId> ops_;  // by direction, position and way
    OpId gather_op_ = 0;
};

}  // namespace stepcast
