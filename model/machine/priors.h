// What a machine without measurements is assumed to reach: what the fitted machines nearest to it have in common.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "model/keys/layers.h"

namespace stepcast {

// Lays them below a cluster file that states rates of a GPU: efficiencies of kernels and links (shares of the datasheet's rates), costs of calls and
// hosts, the energy that full clock takes, memory in addition to the tensors; and as noise.step how far such forecasts of steps are off. What the
// file states of these stays its own. Not below a file with constants of products, memory and links, which is complete. Internal to model/.
void lay_priors(Layers& layers, const TomlFile& cluster, const std::string& prefix, const std::string& left_out = {});

// Whether a key ("cluster.gpu.sms") is of the datasheet, not of measurements.
bool is_nameplate(std::string_view key);

// Shipped clusters whose kernels and links were measured, one a device.
std::vector<std::string> measured_machines();

// Of these, others whose chips have the same SMs.
std::vector<std::string> sisters_of(const std::string& machine);

// A shipped cluster from its nameplate and the constants of the others: how well they transfer.
Cluster cluster_from_others(const std::string& preset);

// Whether the measured machines, without itself, hold one of its fabric and generation.
bool has_like_machine(const Cluster& cluster);

// Constants of one GPU's kernels on another: an SM fills its pipelines, takes exponentials and copies equally fast on all
// measured devices, A100 to Arc; what differs is how fast its tensor cores and its share of the memory are against that.

// What is a time on an SM counts more elements where its tensor cores are faster: fill of loops over keys and k; and more bytes where its memory
// is: passes around an expert layer's products. Attention's passes wait for the memory and then for the SM, which copies 38 GB/s.
// Exponentials take cycles, the same on all SMs of the maker that has generations: as many widths of a head as tensor cores make operations in one. Where
// they are fewer, the products' share of the peak rises, to 0.95 of it at most.
// Blackwell Ultra takes exponentials twice as fast as other Blackwell (NVIDIA, "Inside NVIDIA Blackwell Ultra", 2025).
AttentionKernel moved(AttentionKernel kernel, const Gpu& from, const Gpu& to);
ExpertKernel moved(ExpertKernel kernel, const Gpu& from, const Gpu& to);

// An SM's tensor cores make a power of two operations a cycle in 16 bits, and all known ones have 1.4 to 2.6 GHz: the rate on the
// datasheet gives both. Of one power: mma.sync's cards (1,024), A100 (2,048), Hopper (4,096), data-centre Blackwell (8,192).
bool same_sms(const Gpu& a, const Gpu& b);

// Launching takes cycles, some 4,000 on all measured devices. SMs of one kind launch alike, as short kernels run above the clock of the datasheet.
double launch_ratio(const Gpu& from, const Gpu& to);
double launch_ratio(const std::vector<Cluster>& from, const Gpu& to);  // the median

// How far the rates of two devices' SMs are apart, as a logarithm; 0 where one states no SMs.
double rate_distance(const Gpu& a, const Gpu& b);

// A cast is as fast as the memory or as the SMs copy, whichever is slower: the rate of an SM is the median of the machines'.
CastCosts moved_casts(const std::vector<Cluster>& from, CastCosts casts, const Gpu& to);

// By what the share of the datasheet's bandwidth that products reach differs from that of `near`: the more of it an SM has, the less
// of it can one ask for. One slope over all machines of the logarithms of both.
double traffic_ratio(const std::vector<Cluster>& all, const std::vector<Cluster>& near, const Gpu& to);

// What a tile of 16 bits loses while it waits for operands, over what it loses on `near`. Operands come to an SM in bytes a cycle, as many on all; so where
// registers feed the tensor cores, a tile loses in the measure of their operations a cycle. Where shared memory does, tiles have grown with them: 1.
double reuse_ratio(const std::vector<Cluster>& near, const Gpu& to);

// By what the share of the datasheet peak in products of a type differs from that of `near`: an operation takes as long as at the peak and, on
// all machines and in 16, 8 and 4 bits alike, the same time more for what registers and shared memory feed. 1 / share is a line over the
// rate of an SM: 0.95 / (1 + rate / 76 TFLOP/s) over all eight, 15 of 18 points within 10 %.
double efficiency_ratio(const std::vector<Cluster>& all, const std::vector<Cluster>& near, const Gpu& to, Dtype dtype);

}  // namespace stepcast
