#include "exec/mpi_ops.h"

#include <stdexcept>

#include <fmt/format.h>

#include "exec/footprint.h"
#include "exec/mpi_group.h"
#include "exec/shared_collectives.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {

namespace {

// Counts and offsets of parts that are stored one after another.
struct Layout {
    std::vector<int> counts, offsets;
    explicit Layout(const std::vector<std::size_t>& sizes) {
        std::size_t offset = 0;
        for (const std::size_t size : sizes) {
            counts.push_back(mpi_count(size));
            offsets.push_back(mpi_count(offset));
            offset += size;
        }
    }
};

struct MpiCollective {
    const MpiGroup& group;
    std::span<float> input, output;

    [[nodiscard]] Layout parts_of(std::size_t count) const {
        std::vector<std::size_t> sizes;
        for (const std::size_t i : indices_of(group.ranks))
            sizes.push_back(part_of(count, i, group.ranks.size()).size());
        return Layout(sizes);
    }

    void operator()(const AllReduce&) const {
        run(group, group.ranks, [&](MPI_Request* request) {
            return MPI_Iallreduce(input.data(), output.data(), mpi_count(output.size()), MPI_FLOAT,
                                  MPI_SUM, group.comm, request);
        });
    }
    void operator()(const AllGather&) const {
        const Layout parts = parts_of(output.size());
        run(group, group.ranks, [&](MPI_Request* request) {
            return MPI_Iallgatherv(input.data(), parts.counts[group.index], MPI_FLOAT,
                                   output.data(), parts.counts.data(), parts.offsets.data(),
                                   MPI_FLOAT, group.comm, request);
        });
    }
    void operator()(const ReduceScatter&) const {
        const Layout parts = parts_of(input.size());
        run(group, group.ranks, [&](MPI_Request* request) {
            return MPI_Ireduce_scatter(input.data(), output.data(), parts.counts.data(), MPI_FLOAT,
                                       MPI_SUM, group.comm, request);
        });
    }
    void operator()(const Broadcast& op) const {
        const std::span<float> values = input.empty() ? output : input;
        run(group, group.ranks, [&](MPI_Request* request) {
            return MPI_Ibcast(values.data(), mpi_count(values.size()), MPI_FLOAT, op.root,
                              group.comm, request);
        });
    }
    void operator()(const Reduce& op) const {
        run(group, group.ranks, [&](MPI_Request* request) {
            return MPI_Ireduce(input.data(), output.data(), mpi_count(input.size()), MPI_FLOAT,
                               MPI_SUM, op.root, group.comm, request);
        });
    }
    void operator()(const AllToAll& op) const {
        const ExchangeCounts counts = exchange_counts(op, group.index, group.ranks.size());
        const Layout sent(counts.to), received(counts.from);
        run(group, group.ranks, [&](MPI_Request* request) {
            return MPI_Ialltoallv(input.data(), sent.counts.data(), sent.offsets.data(), MPI_FLOAT,
                                  output.data(), received.counts.data(), received.offsets.data(),
                                  MPI_FLOAT, group.comm, request);
        });
    }
    void operator()(const SendRecv& op) const {
        const std::span<float> values = input.empty() ? output : input;
        const auto pieces = as_index(op.messages);
        for (std::size_t message = 0; message < pieces; ++message) {
            const Part part = part_of(values.size(), message, pieces);
            run(group, group.ranks, [&](MPI_Request* request) {
                float* const begin = values.data() + part.begin;
                const int count = mpi_count(part.size());
                if (group.index == 0)
                    return MPI_Isend(begin, count, MPI_FLOAT, 1, 0, group.comm, request);
                return MPI_Irecv(begin, count, MPI_FLOAT, 0, 0, group.comm, request);
            });
        }
    }
    void operator()(const Barrier&) const { meet(group); }
    void operator()(const LocalOp auto& op) const {
        throw std::logic_error(fmt::format("{} has places on several ranks", kind_name(op)));
    }
};

}  // namespace

void meet(const MpiGroup& group) {
    run(group, group.ranks,
        [&](MPI_Request* request) { return MPI_Ibarrier(group.comm, request); });
}

void communicate(const MpiGroup& group, const Op& op, const Operands& at) {
    std::visit(MpiCollective{group, at.in[0], at.out[0]}, op);
}

}  // namespace stepcast
