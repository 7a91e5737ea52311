// What GPU sweeps say about a cluster: tables that anybody can fit again, and the laws fitted to them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit_tables.h"
#include "calibrate/host_sweep.h"
#include "model/files/whole_files.h"
#include "model/graph/task_graph.h"

namespace stepcast {

// Calibrating GPUs: graphs of the same kind that a step is, one idea a graph. What they say is gpu_fit.h.

// Tasks by name, which tells what they are for. All but "head" and "align" are measured.
//   head       a long pass at the front, so that the host is ahead and kernels follow each other without a gap
//   align      a barrier
//   gemm       matrix products alone, plain and grouped
//   sustained  products inside a long sequence, as in a step: the clock that the power allows; attention
//   memory     passes of every access pattern
//   empty      kernels without work, issued one by one: the host's cost of a call
//   beside     products while a collective runs, and that collective
//   collectives go by their kind's name
//
// For `ranks` ranks that all run at once; with fp8 where the GPU has it. A graph takes some 50 ms, all of them with a
// dozen repetitions some two minutes on an H200. `bandwidth` is the memory's, 0 when unknown: a GPU eight times slower
// than an H200 gets shapes of half the length, so that it takes as long.
std::vector<TaskGraph> gpu_sweeps(int ranks, bool fp8, BytesPerSecond bandwidth);

// What the device says of itself.
struct Nameplate {
    std::string name;
    int multiprocessors = 0;
    Bytes memory;
    BytesPerSecond memory_bandwidth;  // 0 = it does not say
};

// An op that no building-block table has: a memory pass, a product inside a step, attention.
struct OpPoint {
    std::string kind;  // "memory_pass", "transpose", "optimizer", "sustained_gemm", "attention"
    Op op;
    Seconds time;
    friend bool operator==(const OpPoint&, const OpPoint&) = default;
};

// Medians over repetitions and ranks. `issue`: from one kernel to the next where the host issues them one by one.
struct GpuPoints {
    BuildingBlocks blocks;
    std::vector<OpPoint> ops;
    Seconds issue;
    Interference interference;
    double op_noise = 0, step_noise = 0;
    int ranks = 1, samples = 0;
    std::string device, date;
};
GpuPoints collect_gpu_points(std::span<const SweepResult> results);

// STEM-gemm.csv, STEM-memory.csv and, with several ranks, STEM-collectives.csv; the first and the last are what
// `calibrate --measurements` reads.
std::vector<PlannedFile> gpu_tables(const GpuPoints& points, const std::string& gpu, const std::string& stem);

// The datasheet to start from: `known` when it is of this GPU, else what was measured stands for it. One node with as
// many GPUs as were measured, a host without framework, nothing fitted.
struct Start {
    Cluster cluster;
    bool fitted_before = false;  // its constants come from other measurements of this GPU
};
Start start_cluster(const GpuPoints& points, const Nameplate& plate, const Cluster* known);

// Memory streams; GEMMs and collectives as fit_tables() does; then other passes and what a GEMM loses inside a step. A
// fifth of each kind is held out. Attention is fitted by nothing of its own: its errors are a test of the rest.
TablesFit fit_gpu(const Start& start, const GpuPoints& points, const Progress& progress = {});

}  // namespace stepcast
