#include "exec/mpi_group.h"

#include <stdexcept>

#include <fmt/format.h>

#include "exec/footprint.h"
#include "model/graph/op_kinds.h"

namespace stepcast {

namespace {

// One rank's share of a collective, on buffers from its memory.
struct Collective {
    const MpiGroup& group;
    HostMemory& memory;

    [[nodiscard]] std::span<float> in(std::size_t count) const { return memory.input.take(count); }
    [[nodiscard]] std::span<float> out(std::size_t count) const { return memory.output.take(count); }
    [[nodiscard]] std::size_t own_part(Bytes bytes) const {
        const Part part = part_of(float_count(bytes), group.index, group.ranks.size());
        return part.end - part.begin;
    }

    void operator()(const AllReduce& op) const {
        all_reduce(group, in(float_count(op.bytes)), out(float_count(op.bytes)));
    }
    void operator()(const AllGather& op) const {
        all_gather(group, in(own_part(op.bytes)), out(float_count(op.bytes)));
    }
    void operator()(const ReduceScatter& op) const {
        reduce_scatter(group, in(float_count(op.bytes)), out(own_part(op.bytes)));
    }
    void operator()(const Broadcast& op) const {
        const auto root = static_cast<std::size_t>(op.root);
        broadcast(group, root, group.index == root ? in(float_count(op.bytes)) : out(float_count(op.bytes)));
    }
    void operator()(const Reduce& op) const {
        const auto root = static_cast<std::size_t>(op.root);
        reduce(group, root, in(float_count(op.bytes)), out(group.index == root ? float_count(op.bytes) : 0));
    }
    void operator()(const AllToAll& op) const {
        const ExchangeCounts counts = exchange_counts(op, group.index, group.ranks.size());
        const Footprint sizes = footprint(op, group.index, group.ranks.size());
        all_to_all(group, counts.to, counts.from, in(static_cast<std::size_t>(sizes.input)),
                   out(static_cast<std::size_t>(sizes.output)));
    }
    void operator()(const SendRecv& op) const {
        send_receive(group, op.messages, group.index == 0 ? in(float_count(op.bytes)) : out(float_count(op.bytes)));
    }
    void operator()(const Barrier&) const { meet(group); }
    void operator()(const LocalOp auto& op) const {
        throw std::logic_error(fmt::format("{} has places on several ranks", kind_name(op)));
    }
};

}  // namespace

void communicate(const MpiGroup& group, HostMemory& memory, const Op& op) { std::visit(Collective{group, memory}, op); }

}  // namespace stepcast
