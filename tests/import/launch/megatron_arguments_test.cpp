#include <catch2/catch.hpp>

#include "import/launch/document.h"
#include "import/launch/shell_launch.h"
#include "import/launch/translate.h"
#include "tests/model/files.h"

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

// Above 16 MiB a file is no configuration, but may be the log of a run that began with its
// arguments; behind other output they may stand beyond the first 16 MiB. A line of 64 bytes 300,000
// times is 18 MiB.
TEST_CASE("the dump in a log of more than 16 MiB is found wherever it stands") {
    const TestFolder folder;
    std::string filler;
    for (int i = 0; i < 300'000; ++i) filler += std::string(63, i % 2 == 0 ? 'a' : 'b') + "\n";
    const std::string dump =
        "------------------------ arguments ------------------------\n"
        "  num_layers ...................... 4\n"
        "  hidden_size ..................... 64\n"
        "  num_attention_heads ............. 4\n"
        "  seq_length ...................... 16\n"
        "  micro_batch_size ................ 3\n"
        "  world_size ...................... 8\n"
        "-------------------- end of arguments ---------------------\n";
    for (const auto& [text, line] :
         {std::pair{dump + filler, 2}, {filler + dump + filler, 300'002}}) {
        const auto path = folder.write("run.log", text);
        CHECK(recognise_foreign(path) == ForeignFormat::megatron);
        const auto t = translate(path, {});
        const auto* layers = t.find("workload.layers");
        REQUIRE(layers);
        CHECK(layers->value == "4");
        CHECK(layers->at == path + ":" + std::to_string(line));
    }
    CHECK(recognise_foreign(folder.write("other.log", filler)) == ForeignFormat::none);
    CHECK(recognise_foreign(folder.write("trace.json", "{\"a\": 1}\n" + filler + dump)) ==
          ForeignFormat::none);
}
