#include "import/launch/readers.h"

#include <catch2/catch.hpp>

using namespace stepcast;

namespace {

std::vector<std::string> shown(const Document& document) {
    std::vector<std::string> lines;
    for (const NamedValue& v : document.values)
        lines.push_back(v.name + " = " + v.value + " at " + v.at);
    return lines;
}

}  // namespace

// Flags with = and without, in full, begun, switched off, unknown; dotted names; words that are no
// flag.
TEST_CASE("arguments of a command line become names and values") {
    const std::vector<ShellArgument> arguments{{"pretrain.py", "t.sh:1"},
                                               {"--own-flag=1", "t.sh:2"},
                                               {"--hidden-si", "t.sh:3"},
                                               {"4096", "t.sh:3"},
                                               {"--bf16", "t.sh:4"},
                                               {"+model.own.depth='2'", "t.sh:5"},
                                               {"--own-list", "t.sh:6"},
                                               {"1", "t.sh:6"},
                                               {"2", "t.sh:6"}};
    CHECK(shown(megatron_arguments(arguments, "t.sh")) ==
          std::vector<std::string>{"own_flag = 1 at t.sh:2", "hidden_size = 4096 at t.sh:3",
                                   "bf16 = true at t.sh:4", "model.own.depth = 2 at t.sh:5",
                                   "own_list = 1 2 at t.sh:6"});
}

// Lines without dots say nothing; a value that is None is null; what stands after the end is not
// read.
TEST_CASE("a dump of arguments is read line by line, up to its end") {
    const std::string text =
        "starting\n------------------------ arguments ------------------------\n[default0]:  "
        "num_layers ...................... 32\n"
        "a line between\n  tied ............................ None\n-------------------- end of "
        "arguments ---------------------\n"
        "  seed ............................ 1\n";
    CHECK(is_argument_dump(text));
    CHECK_FALSE(is_argument_dump("num_layers ... 32"));
    CHECK_FALSE(is_argument_dump("--- arguments ---\n hidden_size ... 32"));
    const Document document = dumped_arguments(text, "run.log");
    CHECK(shown(document) ==
          std::vector<std::string>{"num_layers = 32 at run.log:3", "tied =  at run.log:5"});
    CHECK_FALSE(document.values[0].null);
    CHECK(document.values[1].null);
}
