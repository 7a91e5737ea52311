#include "exec/cuda/processes.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "exec/cuda/check.h"
#include "exec/steady_clock.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"

namespace stepcast {

namespace {

constexpr std::size_t piece = std::size_t{1} << 16;  // bytes of a rank in one collective

template <typename T>
std::string bytes_of(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
}
template <typename T>
T value_in(const char* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

}  // namespace

CudaProcesses::CudaProcesses(Communicator& world, int gpu, Seconds timeout)
    : world_(world), gpu_(gpu), timeout_(timeout) {
    check(cudaSetDevice(gpu));
    check(cudaStreamCreateWithFlags(Out(stream_), cudaStreamNonBlocking));
    own_ = CudaBlock(piece);
    all_ = CudaBlock(piece * world.size());
}

Watch CudaProcesses::watch() const {
    return [this, begin = steady_now()] {
        world_.check_health();
        if (steady_now() - begin > timeout_)
            throw DeviceError(
                fmt::format("another process did not arrive within {}", to_string(timeout_)));
    };
}

void CudaProcesses::run(const Op& op) {
    if (world_.empty()) throw DeviceError("the run was given up");
    const Watch waits = watch();
    world_.run(op, {{own_.data()}, {all_.data()}}, stream_.get(), waits);
    cudaError_t state = cudaSuccess;
    while ((state = cudaStreamQuery(stream_.get())) == cudaErrorNotReady) {
        cudaGetLastError();  // it is no error, but the next check of a launch would take it for one
        waits();
    }
    check(state);
}

void CudaProcesses::meet() {
    check(cudaSetDevice(gpu_));
    run(Barrier{});
}

// At most a piece of each rank, padded to a whole one.
std::string CudaProcesses::exchange(std::string mine) {
    mine.resize(piece);
    std::string all(piece * world_.size(), '\0');
    check(cudaSetDevice(gpu_));
    check(cudaMemcpy(own_.data(), mine.data(), mine.size(), cudaMemcpyHostToDevice));
    run(AllGather{Bytes(real(all.size()))});
    check(cudaMemcpy(all.data(), all_.data(), all.size(), cudaMemcpyDeviceToHost));
    return all;
}

std::vector<std::string> CudaProcesses::all_gather(const std::string& mine) {
    const std::string sizes = exchange(bytes_of(mine.size()));
    std::vector<std::string> texts(world_.size());
    std::vector<std::size_t> size_of(world_.size());
    for (std::size_t rank = 0; rank < texts.size(); ++rank)
        size_of[rank] = value_in<std::size_t>(sizes.data() + rank * piece);
    for (std::size_t at = 0; at < std::ranges::max(size_of); at += piece) {
        const std::string all = exchange(mine.substr(std::min(at, mine.size()), piece));
        for (std::size_t rank = 0; rank < texts.size(); ++rank)
            texts[rank].append(all, rank * piece,
                               std::min(piece, size_of[rank] - std::min(at, size_of[rank])));
    }
    return texts;
}

Seconds CudaProcesses::clock_offset() {
    std::vector<double> differences;
    for (int trip = 0; trip < clock_trips; ++trip) {
        meet();
        const double own = steady_now().si();
        differences.push_back(value_in<double>(all_gather(bytes_of(own)).front().data()) - own);
    }
    std::ranges::sort(differences);
    return Seconds(differences[differences.size() / 2]);
}

}  // namespace stepcast
