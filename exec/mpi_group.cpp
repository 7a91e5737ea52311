#include "exec/mpi_group.h"

#include <limits>

#include <fmt/format.h>

#include "exec/footprint.h"
#include "model/errors.h"

namespace stepcast {

void check(int code) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    throw DeviceError(fmt::format("MPI: {}", std::string_view(text, static_cast<std::size_t>(length))));
}

int mpi_count(std::size_t count) {
    if (count > static_cast<std::size_t>(std::numeric_limits<int>::max()))
        throw ConfigError(
            fmt::format("execute: a buffer of {} elements, MPI takes at most {}; run the ranks as threads, "
                        "without the launcher",
                        count, std::numeric_limits<int>::max()));
    return static_cast<int>(count);
}

void finish(const MpiGroup& group, MPI_Request request, const std::vector<int>& waits_for) {
    const auto done = [&] {
        int flag = 0;
        check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        return flag != 0;
    };
    if (wait_until(done, group.patience, *group.failed)) return;
    std::vector<int> others;
    int own = 0;
    check(MPI_Comm_rank(MPI_COMM_WORLD, &own));
    for (const int rank : waits_for)
        if (rank != own) others.push_back(rank);
    throw DeviceError(fmt::format("{} {} did not arrive within {}", others.size() == 1 ? "rank" : "one of the ranks",
                                  fmt::join(others, ", "), to_string(group.patience.timeout)));
}

namespace {

struct Layout {
    std::vector<int> counts, offsets;
};

Layout layout(const std::vector<std::size_t>& sizes) {
    Layout made;
    std::size_t offset = 0;
    for (const std::size_t size : sizes) {
        made.counts.push_back(mpi_count(size));
        made.offsets.push_back(mpi_count(offset));
        offset += size;
    }
    return made;
}

Layout parts_of(const MpiGroup& group, std::size_t count) {
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < group.ranks.size(); ++i) {
        const Part part = part_of(count, i, group.ranks.size());
        sizes.push_back(part.end - part.begin);
    }
    return layout(sizes);
}

// Starts a call with the request to fill, then waits for it.
template <typename Start>
void run(const MpiGroup& group, Start start) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(start(&request));
    finish(group, request, group.ranks);
}

}  // namespace

void meet(const MpiGroup& group) {
    run(group, [&](MPI_Request* request) { return MPI_Ibarrier(group.comm, request); });
}

void all_reduce(const MpiGroup& group, std::span<float> input, std::span<float> output) {
    run(group, [&](MPI_Request* request) {
        return MPI_Iallreduce(input.data(), output.data(), mpi_count(output.size()), MPI_FLOAT, MPI_SUM, group.comm,
                              request);
    });
}

void all_gather(const MpiGroup& group, std::span<float> input, std::span<float> output) {
    const Layout parts = parts_of(group, output.size());
    run(group, [&](MPI_Request* request) {
        return MPI_Iallgatherv(input.data(), parts.counts[group.index], MPI_FLOAT, output.data(), parts.counts.data(),
                               parts.offsets.data(), MPI_FLOAT, group.comm, request);
    });
}

void reduce_scatter(const MpiGroup& group, std::span<float> input, std::span<float> output) {
    const Layout parts = parts_of(group, input.size());
    run(group, [&](MPI_Request* request) {
        return MPI_Ireduce_scatter(input.data(), output.data(), parts.counts.data(), MPI_FLOAT, MPI_SUM, group.comm,
                                   request);
    });
}

void broadcast(const MpiGroup& group, std::size_t root, std::span<float> values) {
    run(group, [&](MPI_Request* request) {
        return MPI_Ibcast(values.data(), mpi_count(values.size()), MPI_FLOAT, static_cast<int>(root), group.comm,
                          request);
    });
}

void reduce(const MpiGroup& group, std::size_t root, std::span<float> input, std::span<float> output) {
    run(group, [&](MPI_Request* request) {
        return MPI_Ireduce(input.data(), output.data(), mpi_count(input.size()), MPI_FLOAT, MPI_SUM,
                           static_cast<int>(root), group.comm, request);
    });
}

void all_to_all(const MpiGroup& group, const std::vector<std::size_t>& to, const std::vector<std::size_t>& from,
                std::span<float> input, std::span<float> output) {
    const Layout sent = layout(to), received = layout(from);
    run(group, [&](MPI_Request* request) {
        return MPI_Ialltoallv(input.data(), sent.counts.data(), sent.offsets.data(), MPI_FLOAT, output.data(),
                              received.counts.data(), received.offsets.data(), MPI_FLOAT, group.comm, request);
    });
}

void send_receive(const MpiGroup& group, int messages, std::span<float> values) {
    const auto pieces = static_cast<std::size_t>(messages);
    for (std::size_t message = 0; message < pieces; ++message) {
        const Part part = part_of(values.size(), message, pieces);
        float* begin = values.data() + part.begin;
        const int count = mpi_count(part.end - part.begin);
        run(group, [&](MPI_Request* request) {
            if (group.index == 0) return MPI_Isend(begin, count, MPI_FLOAT, 1, 0, group.comm, request);
            return MPI_Irecv(begin, count, MPI_FLOAT, 0, 0, group.comm, request);
        });
    }
}

}  // namespace stepcast
