// Calibrates GPUs: tables of what the sweeps measured, which anybody can fit again, and the laws
// fitted to them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit_tables.h"
#include "calibrate/host_sweep.h"
#include "model/base/whole_files.h"

namespace stepcast {

// What the device's driver reports.
struct Nameplate {
    std::string name;
    int multiprocessors = 0;
    Bytes memory;
    BytesPerSecond memory_bandwidth;  // 0 = not reported
};

// Medians over repetitions and ranks. `issue`: time from one kernel's start to the next where the
// host issues empty kernels one by one. `ops`: what no building-block table has, of kind
// "memory_pass", "transpose", "optimizer", "sustained_gemm", "attention" and others.
struct GpuPoints {
    BuildingBlocks blocks;
    std::vector<KernelRow> ops;
    Seconds issue;
    Interference interference;
    double op_noise = 0, step_noise = 0;
    int ranks = 1, samples = 0;
    std::string device, date;
};
GpuPoints collect_gpu_points(std::span<const SweepResult> results);

// STEM-gemm.csv, STEM-memory.csv and, with several ranks, STEM-collectives.csv; `calibrate
// --measurements` reads the first and the last.
std::vector<PlannedFile> gpu_tables(const GpuPoints& points, const std::string& gpu,
                                    const std::string& stem);

// The cluster to start from: the datasheet of `known` if it has this GPU, else the best rates
// measured. One node with as many GPUs as were measured, a host without framework costs, nothing
// fitted.
struct Start {
    Cluster cluster;
    bool fitted_before = false;  // its constants come from a fit to other measurements of this GPU
};
Start start_cluster(const GpuPoints& points, const Nameplate& plate, const Cluster* known);

// Fits memory streams; then GEMMs and collectives as fit_tables() does; then the other passes and
// what a GEMM loses inside a step. A fifth of each kind is held out. No constant is fitted to
// attention: its errors test the others.
TablesFit fit_gpu(const Start& start, const GpuPoints& points, const Progress& progress = {});

}  // namespace stepcast
