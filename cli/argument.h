// Arguments and verbs as values: one description serves the parser, --help, the man page and the
// completion of shells.
#pragma once

#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include "cli/options.h"

namespace stepcast {

// Group of positional arguments and of options that stand in none.
inline constexpr const char* ungrouped = "Options";

// What few arguments have; named where one is stated.
struct Traits {
    bool required = false;
    bool comma = false;               // of a list: one option holds A,B,..
    bool many = false;                // of a list: one option holds several words
    int least = 1, most = 1'000'000;  // of a count
};

struct Argument {
    const char* name;  // "--trace", or EXPERIMENT of a positional one
    std::variant<std::string Options::*, std::vector<std::string> Options::*, int Options::*,
                 bool Options::*>
        value;
    const char* type = "";  // of the value; "" of flags and positional arguments
    const char* help = "";
    const char* group = ungrouped;  // heading of --help; "" of what old command lines have
    Traits traits = {};
};
using Arguments = std::vector<Argument>;

struct Verb {
    const char* name;
    const char* purpose;
    const char* example;
    Arguments arguments;                 // in the order of --help
    int (*run)(const Options& options);  // returns the exit code; throws ConfigError, DeviceError
};

// Headings of --help.
inline constexpr const char *of_machine = "Machine, model and keys", *of_output = "Output",
                            *of_training = "Days and money of a training",
                            *of_tools = "Files of other tools",
                            *of_own_steps = "Your own measured steps";

// Arguments that several verbs share.
Arguments experiment_argument();
Arguments override_arguments();  // --cluster, --gpus, --framework, --set
// The same with a --framework that may stand there several times, whose answers are compared.
Arguments override_arguments_of_several();
Arguments foreign_arguments();   // --model, --variant, --env
Arguments campaign_arguments();  // --tokens, --steps, --market
Argument trace_argument();
Argument json_argument();
Argument emit_argument();
Argument out_argument(const char* help);

Arguments joined(std::initializer_list<Arguments> parts);

}  // namespace stepcast
