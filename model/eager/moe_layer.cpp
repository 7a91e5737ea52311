// N tokens, each sent to k of E experts: S = N x k slots of width d, gathered expert by expert, two linear layers d -> h -> d
// with GELU between, put back, weighted and summed. Slices of the gathered slots and their gradients are views.
#include "model/builders.h"

#include <vector>

#include "model/eager/script.h"

namespace stepcast {
namespace {

using Access = MemoryPass::Access;

class Layer {
public:
    Layer(const Experiment& e, const Routing& routing)
        : tokens_(static_cast<long>(e.parallelism.micro_batch) * e.workload.seq),
          slots_(tokens_ * e.workload.moe.top_k),
          hidden_(e.workload.hidden),
          ffn_(e.workload.ffn),
          experts_(e.workload.moe.experts),
          graph_(1, e.cluster.launch_blocking),
          script_(graph_, e.workload.dtype) {
        for (int expert = 0; expert < routing.experts; ++expert)
            if (const int rows = routing.count(0, expert); rows > 0) rows_.push_back(rows);
    }

    TaskGraph write(int layers) {
        for (int l = 0; l < layers; ++l) {
            script_.begin(Phase::forward);
            route();
            for (const long rows : rows_) expert(rows);
            combine();
        }
        script_.begin(Phase::backward);
        for (int l = 0; l < layers; ++l) {
            loss();
            combine_backward();
            for (auto rows = rows_.rbegin(); rows != rows_.rend(); ++rows) expert_backward(*rows);
            route_backward();
        }
        return std::move(graph_);
    }

private:
    [[nodiscard]] double outer() const { return static_cast<double>(tokens_ * hidden_); }
    [[nodiscard]] double routed() const { return static_cast<double>(slots_ * hidden_); }
    [[nodiscard]] double slots() const { return static_cast<double>(slots_); }
    [[nodiscard]] double scores() const { return static_cast<double>(tokens_ * experts_); }
    [[nodiscard]] Linear gate() const { return {.name = "gate", .tokens = tokens_, .out = experts_, .in = hidden_, .bias = true}; }
    [[nodiscard]] Linear up(long rows) const { return {.name = "expert_up", .tokens = rows, .out = ffn_, .in = hidden_, .bias = true}; }
    [[nodiscard]] Linear down(long rows) const { return {.name = "expert_down", .tokens = rows, .out = hidden_, .in = ffn_, .bias = true}; }

    // Scores in fp32, their softmax and the k largest (two kernels); a histogram, which reads the least and the largest
    // expert first; a stable sort of the slots (eight kernels); the counts read by the host; the slots' tokens gathered.
    void route() {
        const Bytes e = script_.element(), wide(4);
        script_.linear(gate());
        script_.host(3 * issue::function);
        if (e != wide) script_.pass(0, "scores", scores(), e, wide);
        script_.pass(0, "scores", scores(), wide, wide, Access::rows);
        script_.small(0, "top_k", 2, scores());
        for (int i = 0; i < 2; ++i) {
            script_.small(issue::function, "histogram", 1, slots());
            script_.read("histogram");
        }
        script_.small(issue::function, "histogram", 2, slots());
        script_.small(issue::function, "sort", 8, slots());
        script_.read("counts");
        script_.small(2 * issue::function, "gather", 1, slots());
        script_.pass(0, "gather", routed(), e, e, Access::rows);
    }

    void expert(long rows) {
        script_.host(issue::views);
        script_.linear(up(rows));
        script_.gelu(static_cast<double>(rows * ffn_));
        script_.linear(down(rows));
    }

    // Concatenated; a tensor of zeros, copied and filled; weighted in the parameters' type and summed over k.
    void combine() {
        const Bytes e = script_.element();
        script_.pass(issue::function, "concatenate", routed(), e, e);
        script_.pass(issue::function, "scatter", routed(), Bytes(0), e);
        script_.pass(issue::function, "scatter", routed(), e, e);
        script_.pass(0, "scatter", routed(), e, e, Access::rows);
        script_.small(issue::views, "weigh", 1, slots());
        script_.pass(issue::operation, "weigh", routed(), e, e);
        script_.kernel(issue::operation, "sum_slots", MemoryPass{routed() * e, outer() * e});
    }

    // Cast to fp32, squared, its mean; backward: the mean's share, the square's factor (a copy and two products), the cast.
    void loss() {
        const Bytes e = script_.element(), wide(4);
        script_.host(issue::event + 3 * issue::operation);
        if (e != wide) script_.pass(0, "loss", outer(), e, wide);
        script_.pass(0, "loss", outer(), wide, wide);
        script_.pass(0, "loss", outer(), wide, Bytes(0), Access::rows);
        script_.small(issue::backward_start, "ones", 1);
        script_.pass(issue::node, "loss_backward", outer(), Bytes(0), wide);
        script_.pass(issue::node + 2 * issue::operation, "loss_backward", outer(), wide, wide);
        script_.pass(0, "loss_backward", outer(), wide, wide);
        script_.pass(0, "loss_backward", outer(), 2.0 * wide, wide);
        script_.host(issue::node);
        if (e != wide) script_.pass(0, "loss_backward", outer(), wide, e);
    }

    // Gradients of the experts' results, and of the weights: a product of the slots' size, summed over their width.
    void combine_backward() {
        const Bytes e = script_.element();
        script_.kernel(2 * issue::node, "weigh_backward", MemoryPass{outer() * e, routed() * e});
        script_.kernel(0, "weigh_backward", MemoryPass{(outer() + routed()) * e, routed() * e});
        script_.pass(0, "weigh_backward", routed(), e, Bytes(0), Access::rows);
        script_.small(issue::node, "weigh_backward", 1, slots());
        script_.pass(issue::node, "scatter_backward", routed(), e, e, Access::rows);
        script_.host(issue::node);
    }

    // The slots are gathered from an input that needs no gradient.
    void expert_backward(long rows) {
        script_.linear_backward(down(rows));
        script_.gelu_backward(static_cast<double>(rows * ffn_));
        script_.linear_backward(up(rows), false);
        script_.host(issue::node);
    }

    void route_backward() {
        const Bytes e = script_.element(), wide(4);
        script_.pass(issue::node, "top_k_backward", scores(), Bytes(0), wide);
        script_.small(0, "top_k_backward", 1, slots());
        script_.pass(issue::node, "scores_backward", scores(), 2.0 * wide, wide, Access::rows);
        script_.host(issue::node);
        if (e != wide) script_.pass(0, "scores_backward", scores(), wide, e);
        script_.linear_backward(gate(), false);
        script_.small(issue::event, "end_of_step", 1);
    }

    long tokens_, slots_, hidden_, ffn_, experts_;
    std::vector<long> rows_;
    TaskGraph graph_;
    EagerScript script_;
};

}  // namespace

TaskGraph build_eager_moe_step(const Experiment& e, const Routing& routing) {
    return Layer(e, routing).write(e.workload.layers);
}

}  // namespace stepcast
