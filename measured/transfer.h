// Constants of a machine that nobody measured, from measured machines that are like it.
#pragma once

#include <vector>

#include "model/cluster.h"

namespace stepcast {

// A time on an SM (filling the loops over keys and k) counts more elements with faster tensor
// cores. Passes around an expert layer's products count more bytes with faster memory. Attention's
// passes wait for the memory and then for the SM, which copies 38 GB/s. Exponentials take the same
// cycles on all SMs of the maker that has generations, so in head widths they scale with the
// operations per cycle. With fewer widths, the products' share of the peak rises, to at most 0.95.
// Blackwell Ultra is twice as fast in exponentials as other Blackwell (NVIDIA, "Inside NVIDIA
// Blackwell Ultra", 2025).
AttentionKernel moved(AttentionKernel kernel, const Gpu& from, const Gpu& to);
ExpertKernel moved(ExpertKernel kernel, const Gpu& from, const Gpu& to);

// An SM does a power of two of 16-bit tensor operations per cycle, and known devices run at 1.4
// to 2.6 GHz, so the datasheet rate gives both. Equal powers are equal SMs: mma.sync cards (1,024),
// A100 (2,048), Hopper (4,096), data-centre Blackwell (8,192).
bool same_sms(const Gpu& a, const Gpu& b);

// A launch takes about 4,000 cycles on all devices. Equal SMs launch equally fast: short kernels
// exceed the datasheet clock.
double launch_ratio(const Gpu& from, const Gpu& to);
double launch_ratio(const std::vector<Cluster>& from, const Gpu& to);  // the median

// Distance between the SM rates of two devices, as a logarithm; 0 if one states no number of SMs.
double rate_distance(const Gpu& a, const Gpu& b);

// A cast runs at the speed of the memory or of SM copies, whichever is slower. The SM's rate is the
// median over the machines.
CastCosts moved_casts(const std::vector<Cluster>& from, CastCosts casts, const Gpu& to);

// Ratio of the share of the datasheet bandwidth that products reach to that on `near`. An SM with
// more bandwidth can use a smaller share. Uses one slope, fitted to the logarithms of both over all
// machines.
double traffic_ratio(const std::vector<Cluster>& all, const std::vector<Cluster>& near,
                     const Gpu& to);

// Ratio of a 16-bit tile's loss from waiting for operands to that on `near`. All SMs receive the
// same operand bytes per cycle. If registers feed the tensor cores, the loss grows with operations
// per cycle. If shared memory does, tiles have grown as well: 1.
double reuse_ratio(const std::vector<Cluster>& near, const Gpu& to);

// How many times slower the SMs of `to` are than those of `near`, in 16 bits (the median; 1 if a
// file states no SMs). Products with unaligned rows run on kernels of older generations, whose rate
// is an SM's and no share of the peak.
double slower_sms(const std::vector<Cluster>& near, const Gpu& to);

// Ratio of the share of the peak that products of a type reach to that on `near`. On all machines,
// in 16, 8 and 4 bits, an operation takes its time at the peak plus a constant time to feed
// registers and shared memory, so 1 / share is a line over the rate of an SM: 0.95 / (1 + rate / 76
// TFLOP/s) over all eight machines, with 15 of 18 points within 10 %.
double efficiency_ratio(const std::vector<Cluster>& all, const std::vector<Cluster>& near,
                        const Gpu& to, Dtype dtype);

}  // namespace stepcast
