// What a command line or a call from Python asks for. Each verb reads the options that are its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/startup.h"

namespace stepcast {

struct Options {
    std::string experiment, device, cluster, framework, fit, cross_validate, out, trace, graph,
        routing_out, pattern, system, model, step_range, op, gpu, variant, emit;
    std::string format = "auto", what = "presets", objective = "step";
    std::string tokens, training_steps, within, market;
    std::string log, profile, nccl_tests, gpu_samples, save, history, junit, false_alarms = "1%";
    std::vector<std::string> measured, rank_times, ruled_out, seen, sound, beside;
    std::string command;  // the whole line as a shell reads it
    std::vector<std::string> frameworks, inputs, set, measurements, step_inputs, phases, vary,
        where, environment;
    int gpus = 0, ranks = 0, nodes = 0, steps = 0, warmup = -1, top = 10, threads = 0;
    // texts of experiments that are no files, by the names that stand for them
    std::map<std::string, std::string> texts;
    Say say = say_on_stderr;
    bool json = false, explain = false, memory = false, levers = false, strict = false,
         medians = false, pareto = false, waterfall = false, gate = false, allow = false,
         tuned = false, resume = false, all = false;
};

}  // namespace stepcast
