// Configuration files of tools whose keys have one meaning each, as data:
// model/presets/config_files.toml. Internal to translate/.
#pragma once

#include <string>
#include <vector>

#include "import/launch/document.h"
#include "import/launch/shell_launch.h"
#include "import/launch/translate.h"

namespace stepcast {

using WordPairs = std::vector<std::pair<std::string, std::string>>;  // theirs, ours

// One of `names` states `key`: a key of an experiment, or micro, accumulation, global, gpus, nodes,
// gpus_per_node, sequences (of an example that a batch counts), reference (forwards of one, or
// "copy": with weights of its own), model or ratio (of the inner width
// to the model's), without (what the forecast lacks), open (a doubt: its words' or the default),
// framework (in place of the tool's), or what trainer.cpp decides by.
struct ToolKey {
    std::string key, as;  // as: count, flag, text or inverse (of a flag)
    // a name that ends in a dot stands for any name below it
    std::vector<std::string> names;
    WordPairs words;  // their word, ours; "*" is any other
    // what the tool assumes, and where that is written
    std::string otherwise, source;
};

struct Tool {
    std::string id, name, framework, source;
    std::vector<std::string> signs;     // names of which each is there; "a|b": one of them
    std::vector<std::string> always;    // "parallelism.zero=3"
    std::vector<std::string> of_sizes;  // the same, where the file states the sizes itself
    std::vector<std::string> quiet;     // names and sections that do not change a step
    std::vector<std::string> open;
    // programs, modules and commands ("trl sft") that a launch line of it names
    std::vector<std::string> starts;
    // of a tool whose files and lines are not read: what to do; "" = they are
    std::string refused;
    // programs that are of the tool, and what the forecast of each is without
    WordPairs programs;
    // names of which one is stated, and such without which, all off, the tool trains nothing then:
    // "do_eval|do_predict=do_train"
    WordPairs untrained;
    // a name and a word of it with which flags of adapters count, "" = not stated; none: always
    WordPairs adapters;
    std::vector<ToolKey> keys;
};

struct ConfigFiles {
    std::vector<Tool> tools;
    // words of names that state sizes or degrees; and that switch something
    std::vector<std::string> sizes, switches;
    // names and sections of any tool without effect on a step
    std::vector<std::string> quiet;
    // parts of a model's name, as presets write them
    WordPairs models;
    // modules with adapters and the projections that they are; those of a model where none is named
    WordPairs adapted, adapted_unnamed;
};

// Read once. Throws ConfigError with the position of what it does not expect.
const ConfigFiles& config_files();

// The tool whose signs the document has; nullptr if none.
const Tool* tool_of(const Document& document);
const Tool& tool_named(std::string_view id);
// The tool that a launch line starts by its own program or module ("swift sft", "-m
// verl.trainer.main_ppo"), which may need no flag: all of the run may stand in a file. One that is
// not read before others; nullptr if none is known.
const Tool* tool_started(const std::vector<ShellArgument>& words);
// Throws ConfigError if files and lines of the tool are not read.
void require_read(const Tool& tool, const std::string& at);

// Throws ConfigError if the document is of an evaluation, a conversion or answers, not of a
// training.
void require_trains(const Tool& tool, Document& document);

// Takes what the data lists: values, defaults, batch and machine. `replicas`: those of the machine;
// 0 = unknown.
void take_listed(const Tool& tool, Document& document, Translation& translation, long replicas);
// what the data calls quiet
void set_aside(const Tool& tool, Document& document, Translation& translation);
Translation translate_tool(const Tool& tool, Document document, long replicas);

// Shards within a node, replicas across nodes; `gpus` of a node, 0 = not said.
void shard_in_node(long gpus, const Setting& by, Translation& translation);

// Whether a name says that it is a size, a degree or a switch of a step's work.
bool speaks_of_work(const std::string& name);
// Reports as problems what no rule has read though its name says that it is a size, a degree or a
// switch of a step's work.
void name_unread(Document& document, Translation& translation);

}  // namespace stepcast
