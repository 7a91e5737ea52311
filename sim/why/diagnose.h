// Why a run is slower than its forecast (`stepcast diagnose`): the posterior over a closed list of
// causes (causes.h).
//
// Each cause is tried at several severities, each of which says what the step and its phases would
// take. The likelihood of a measured step is log-normal around that, as wide as the forecast's own
// interval (sim/interval.h), with a twentieth of it three times as wide; phases count relative to
// the step, since most of a forecast's error is common to them. If single steps are known, the run
// is taken apart: the quiet step is explained by causes that every step has, what the slow steps
// lose beyond it by causes that some steps have. notes/diagnose.md has the widths and how often
// it is right.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/results/diagnosis.h"
#include "sim/why/causes.h"

namespace stepcast {

// A collective as nccl-tests measured it: time over the forecast's.
struct MeasuredLink {
    bool between_nodes = false;
    double slower = 1;
    friend bool operator==(const MeasuredLink&, const MeasuredLink&) = default;
};

// What a device's clock was over the highest it can have, and what that is in a run of this kind
// without a cap.
struct MeasuredClock {
    double share = 1, usual = 1;
    friend bool operator==(const MeasuredClock&, const MeasuredClock&) = default;
};

// Another run of the same people. `sound`: it has none of the causes (a recipe's, of an older
// version, of another machine); else those that it can have.
struct OtherRun {
    std::string name;
    Experiment experiment;
    Seconds step;
    bool sound = false;
};

struct Observed {
    std::string name;
    Seconds step;                     // mean or median
    std::vector<Seconds> steps = {};  // single ones, in order, without warm-up; may be empty
    std::optional<Seconds> forward = {}, backward = {}, gradient_sync = {}, optimizer = {};
    std::optional<Seconds> passes = {};   // forward and backward
    std::vector<double> rank_times = {};  // what each rank computes in a step
    // what one rank's kernels take by their kind, as shares of the step
    std::optional<KernelShares> kinds = {};
    // the longest stretch of a step in which one rank's device does nothing, over the step
    std::optional<double> idle = {};
    // of the time, how much a device runs any kernel (nvidia-smi's utilisation)
    std::optional<double> busy = {};
    std::optional<Bytes> peak = {};  // memory that tensors took on the fullest device
    std::vector<MeasuredLink> links = {};
    std::vector<MeasuredClock> clocks = {};  // of devices
    // of the time, how much the run had its devices or cores for itself
    std::optional<double> device_share = {};
    // the step was reckoned from an MFU, from tokens a second, of these from those of all devices
    bool stated_rate = false, stated_tokens = false, stated_total = false;
};

StepPattern pattern_of(const std::vector<Seconds>& steps);

// A cause at one severity: what it says of everything that can be measured.
struct CauseGuess {
    double severity = 1;
    StepTimes times;  // step: with what the engine does not know
    // times over the forecast's: of collectives, and of the slowest rank's kernels
    double link_between = 1, link_inside = 1, slowest_rank = 1;
    SlowRanks ranks = SlowRanks::all;      // which are slow
    double kernels = 1;                    // what ranks compute, over the forecast
    KernelShares kinds = {};               // of what a rank computes
    double clock = 1;                      // over its usual one
    double device_share = 1;               // of the time
    double idle_least = 0, idle_most = 1;  // the longest stretch without work, over the step
    double busy = 1;                       // of the step, how much a device runs any kernel
    std::vector<Seconds> others = {};      // steps of the other runs
};
// The guess at a severity between two others, `share` of the way.
CauseGuess between(const CauseGuess& a, const CauseGuess& b, double share);
struct TriedCause {
    std::optional<Cause> cause;  // empty: nothing is wrong
    std::vector<CauseGuess> guesses;
    // memory of tensors on the fullest device, and the chance that it is too much; 0: not known
    Bytes peak = {};
    double out_of_memory = 0;
};
// All causes that are possible in an experiment and would show: what takes time, and is the same
// for everything that may be observed.
// What the experiment states, and how long the step would be without it, over what it is.
struct StatedCause {
    Cause cause;
    double without = 1;
    double out_of_memory = 0;  // chance, without it
};
struct TriedCauses {
    Interval forecast;
    Cluster cluster;
    Seconds kernels;                 // what the reporting rank computes as forecast
    Seconds computing;               // the same without the host's work
    std::vector<double> rank_times;  // what each rank computes; empty: as much
    std::vector<TriedCause> all;     // the first: nothing is wrong
    std::vector<Cause> of_some_steps;
    std::vector<StatedCause> stated = {};
    std::vector<OtherRun> others = {};
};
// Throws ConfigError if an experiment has no forecast.
TriedCauses try_causes(const Experiment& experiment, const std::vector<Cause>& causes,
                       int threads = 0, const std::vector<OtherRun>& others = {});
// Throws ConfigError if the observed step is not above 0.
Diagnosis diagnose(const TriedCauses& tried, const Observed& observed);

}  // namespace stepcast
