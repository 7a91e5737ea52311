#include "exec/shared_collectives.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

#include <fmt/format.h>

#include "exec/footprint.h"
#include "exec/rank_group.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {

namespace {

void copy(std::span<const float> from, std::span<float> to) {
    std::copy(from.begin(), from.end(), to.begin());
}

struct SharedCollective {
    RankGroup& group;
    std::size_t index;
    std::span<float> input, output;

    // Between two meetings, `read` reads what the other ranks show while they read what this one
    // shows.
    template <typename Read>
    void show(std::span<float> values, Read read) const {
        group.publish(index, values);
        group.meet(index);
        read();
        group.meet(index);
    }
    // to[i] = sum over participants of what each shows at offset + i.
    void sum_shown(std::size_t offset, std::span<float> to) const {
        copy(group.shown(0).subspan(offset, to.size()), to);
        for (std::size_t source = 1; source < group.size(); ++source)
            std::ranges::transform(to, group.shown(source).subspan(offset, to.size()), to.begin(),
                                   std::plus{});
    }

    // Each rank sums its part of all inputs, then fetches the other parts.
    void operator()(const AllReduce&) const {
        show(input, [&] {
            const Part own = part_of(output.size(), index, group.size());
            sum_shown(own.begin, output.subspan(own.begin, own.size()));
        });
        show(output, [&] {
            for (const std::size_t source : indices_of(group)) {
                const Part part = part_of(output.size(), source, group.size());
                if (source != index)
                    copy(group.shown(source).subspan(part.begin, part.size()),
                         output.subspan(part.begin));
            }
        });
    }
    void operator()(const AllGather&) const {
        show(input, [&] {
            for (const std::size_t source : indices_of(group)) {
                const Part part = part_of(output.size(), source, group.size());
                copy(group.shown(source).first(part.size()), output.subspan(part.begin));
            }
        });
    }
    void operator()(const ReduceScatter&) const {
        const Part own = part_of(input.size(), index, group.size());
        show(input, [&] { sum_shown(own.begin, output.first(own.size())); });
    }
    void operator()(const Broadcast& op) const {
        show(input, [&] { copy(group.shown(as_index(op.root)).first(output.size()), output); });
    }
    void operator()(const Reduce&) const {
        show(input, [&] {
            if (!output.empty()) sum_shown(0, output);
        });
    }
    // Each rank shows what goes to target 0, 1, .. one after another, and takes what comes from
    // source 0, 1, ..
    void operator()(const AllToAll& op) const {
        show(input, [&] {
            std::size_t filled = 0;
            for (const std::size_t source : indices_of(group)) {
                std::size_t before = 0;
                for (std::size_t target = 0; target < index; ++target)
                    before += exchanged(op, source, target, group.size());
                const std::size_t count = exchanged(op, source, index, group.size());
                copy(group.shown(source).subspan(before, count), output.subspan(filled));
                filled += count;
            }
        });
    }
    // From participant 0 to participant 1, in pieces with a meeting before each.
    void operator()(const SendRecv& op) const {
        group.publish(index, input);
        const auto pieces = as_index(op.messages);
        for (std::size_t message = 0; message < pieces; ++message) {
            group.meet(index);
            const Part part = part_of(output.size(), message, pieces);
            copy(group.shown(0).subspan(part.begin, part.size()), output.subspan(part.begin));
        }
        group.meet(index);
    }
    void operator()(const Barrier&) const { group.meet(index); }
    void operator()(const LocalOp auto& op) const {
        throw std::logic_error(fmt::format("{} has places on several ranks", kind_name(op)));
    }
};

}  // namespace

void communicate(RankGroup& group, std::size_t index, const Op& op, const Operands& at) {
    std::visit(SharedCollective{group, index, at.in[0], at.out[0]}, op);
}

}  // namespace stepcast
