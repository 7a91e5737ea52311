#include "import/launch/tool_files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <span>

#include <fmt/format.h>

#include "import/launch/adapter_targets.h"
#include "import/launch/interpolation.h"
#include "import/launch/launch_flags.h"
#include "import/launch/launch_script.h"
#include "import/launch/trainer.h"
#include "import/launch/translation.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"
#include "model/input/key_values.h"
#include "model/input/presets.h"
#include "model/input/toml_reader.h"

namespace stepcast {
namespace {

std::string text_of(const TomlEntry& entry) {
    if (const auto* text = std::get_if<std::string>(&entry.value.value)) return *text;
    throw ConfigError(entry.value_at + ": expected text");
}

std::vector<std::string> list_of(const TomlEntry& entry) {
    const auto* list = std::get_if<std::vector<ConfigValue>>(&entry.value.value);
    if (!list) return {text_of(entry)};
    std::vector<std::string> all;
    for (const ConfigValue& one : *list)
        if (const auto* text = std::get_if<std::string>(&one.value))
            all.push_back(*text);
        else
            throw ConfigError(entry.value_at + ": expected a list of texts");
    return all;
}

// "bf16-mixed=bf16": theirs and ours.
WordPairs words_in(const TomlEntry& entry) {
    WordPairs all;
    for (const std::string& pair : list_of(entry)) {
        const auto equals = pair.find('=');
        if (equals == std::string::npos)
            throw ConfigError(entry.value_at + ": " + pair + ": expected THEIRS=OURS");
        all.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
    }
    return all;
}

void take_entry(ToolKey& key, const std::string& name, const TomlEntry& entry) {
    if (name == "key")
        key.key = text_of(entry);
    else if (name == "names")
        key.names = list_of(entry);
    else if (name == "as")
        key.as = text_of(entry);
    else if (name == "words")
        key.words = words_in(entry);
    else if (name == "default")
        key.otherwise = text_of(entry);
    else if (name == "source")
        key.source = text_of(entry);
    else
        throw ConfigError(
            entry.key_at + ": " + name +
            " is no part of a key; expected key, names, as, words, default or source");
}

// What another tool's files have in common with this one's: all but its name and signs.
void take_like(Tool& tool, const std::string& id, const TomlEntry& entry,
               const std::vector<Tool>& others) {
    const auto other = first_with(others, id, &Tool::id);
    if (!other || other == &tool)
        throw ConfigError(entry.value_at + ": " + id + " is no tool above this one");
    const Tool own = tool;
    tool = *other;
    tool.id = own.id;
    tool.signs.clear();
}

void take_entry(Tool& tool, const std::string& name, const TomlEntry& entry,
                const std::vector<Tool>& others) {
    static const std::map<std::string_view, std::string Tool::*> texts{
        {"name", &Tool::name},
        {"framework", &Tool::framework},
        {"source", &Tool::source},
        {"refused", &Tool::refused}};
    static const std::map<std::string_view, std::vector<std::string> Tool::*> lists{
        {"signs", &Tool::signs}, {"always", &Tool::always}, {"of_sizes", &Tool::of_sizes},
        {"quiet", &Tool::quiet}, {"open", &Tool::open},     {"starts", &Tool::starts}};
    static const std::map<std::string_view, WordPairs Tool::*> pairs{
        {"programs", &Tool::programs},
        {"adapters", &Tool::adapters},
        {"untrained", &Tool::untrained}};
    if (name.starts_with("take.")) {
        const auto dot = name.find('.', 5);
        if (name.substr(dot + 1) == "key") tool.keys.emplace_back();  // the first of each
        if (tool.keys.empty()) throw ConfigError(entry.key_at + ": expected key = \"..\" first");
        take_entry(tool.keys.back(), name.substr(dot + 1), entry);
    } else if (const auto text = texts.find(name); text != texts.end()) {
        tool.*text->second = text_of(entry);
    } else if (const auto list = lists.find(name); list != lists.end()) {
        tool.*list->second = list_of(entry);
    } else if (name == "like") {
        take_like(tool, text_of(entry), entry, others);
    } else if (const auto pair = pairs.find(name); pair != pairs.end()) {
        tool.*pair->second = words_in(entry);
    } else {
        throw ConfigError(entry.key_at + ": " + name + " is no part of a tool");
    }
}

ConfigFiles read_config_files() {
    ConfigFiles files;
    const auto path =
        std::filesystem::path(home_folder()) / "model" / "presets" / "config_files.toml";
    for (const TomlEntry& entry : read_toml(path.string()).entries) {
        if (entry.path == "sizes")
            files.sizes = list_of(entry);
        else if (entry.path == "switches")
            files.switches = list_of(entry);
        else if (entry.path == "quiet")
            files.quiet = list_of(entry);
        else if (entry.path == "models")
            files.models = words_in(entry);
        else if (entry.path == "adapted")
            files.adapted = words_in(entry);
        else if (entry.path == "adapted_unnamed")
            files.adapted_unnamed = words_in(entry);
        else if (entry.path.starts_with("tools.")) {
            const auto dot = entry.path.find('.', 6);
            const auto id = entry.path.substr(6, dot - 6);
            if (files.tools.empty() || files.tools.back().id != id)
                files.tools.emplace_back().id = id;
            take_entry(files.tools.back(), entry.path.substr(dot + 1), entry, files.tools);
        } else
            throw ConfigError(entry.key_at + ": " + entry.path + " is not expected");
    }
    return files;
}

bool below(std::string_view name, std::string_view section) {
    return name == section ||
           (name.starts_with(section) && (section.ends_with('.') || name[section.size()] == '.'));
}

// ---- what a file says

const NamedValue* stated(Document& d, const ToolKey& key) {
    const NamedValue* first = nullptr;
    for (const std::string& name : key.names) {
        if (const auto* v = d.find(name); v && !first) first = v;
        if (!name.ends_with('.') || first) continue;
        for (NamedValue& value : d.values)
            if (value.name.starts_with(name)) return &value;
    }
    return first;
}

// YAML 1.1, which PyYAML reads, has further words for true and false.
std::string truth_word(const std::string& word, const WordPairs& listed) {
    if (contains(listed, word, &WordPairs::value_type::first)) return word;
    if (word == "yes" || word == "on") return "true";
    return word == "no" || word == "off" ? "false" : word;
}

// "" if the word is not known, which is then a problem.
std::string read_value(const ToolKey& key, const NamedValue& v, Translation& t) {
    const std::string word = truth_word(lower_case(v.value), key.words);
    // "*qlora*": any word with it
    const auto fits = [&](const std::string& theirs) {
        const std::string_view inner =
            theirs.size() > 2 && theirs.starts_with('*') && theirs.ends_with('*')
                ? std::string_view(theirs).substr(1, theirs.size() - 2)
                : std::string_view();
        return theirs == word || theirs == "*" || (!inner.empty() && has(word, inner));
    };
    for (const auto& [theirs, ours] : key.words)
        if (fits(theirs)) return ours;
    if (!key.words.empty()) {
        t.problem(v, fmt::format("\"{}\" is not known; taken as {}", v.value,
                                 key.otherwise.empty() ? "the usual" : key.otherwise));
        return "";
    }
    if (key.as == "flag") return flag_text(v);
    if (key.as == "inverse") return truth(!flag_in(v));
    return key.as == "text" ? v.value : integer_text(v);
}

struct Batch {
    std::string at;
    std::set<std::string> known;  // numbers that are stated, or have their first default
    long micro = 0, accumulation = 1, global = 0, nodes = 0, each = 0, gpus = 0;
    long sequences = 1;  // of an example that micro and global count
};

// A folder with the model's config.json, a name in a hub, or one of a module
// ("models.llama3.llama3_8b").
void take_model_name(const NamedValue& v, Translation& t) {
    if (const auto own = found_file(v.value + "/config.json", t.path); !own.empty())
        return t.set("workload.preset", std::filesystem::absolute(own).string(), v.at);
    for (const char* before : {"/", "."}) {
        std::string name = lower_case(v.value.substr(v.value.find_last_of(before) + 1));
        std::ranges::replace(name, '_', '-');
        for (const auto& [theirs, ours] : config_files().models)
            if (const auto at = name.find(theirs); at != std::string::npos)
                name.replace(at, theirs.size(), ours);
        if (has_preset(PresetKind::workload, name)) return t.set("workload.preset", name, v.at);
    }
    add_line(t.open,
             "{} ({}): {}: no preset has its sizes; name a preset or its config.json with --model",
             v.name, v.at, v.value);
}

// Numbers of batch and machine, which make keys together only. False if the key is none of them.
bool take_number(const ToolKey& key, const NamedValue* v, Batch& b, Translation& t) {
    static const std::map<std::string_view, long Batch::*> numbers{
        {"micro", &Batch::micro},        {"accumulation", &Batch::accumulation},
        {"global", &Batch::global},      {"nodes", &Batch::nodes},
        {"gpus_per_node", &Batch::each}, {"gpus", &Batch::gpus}};
    const auto number = numbers.find(key.key);
    if (number == numbers.end()) return false;
    long& into = b.*number->second;
    const bool automatic = v && (lower_case(v->value) == "auto" || v->value.empty());
    if (v && !automatic) {
        into = count_in(*v);
        b.known.insert(key.key);
        if (b.at.empty() || key.key == "global") b.at = v->at;
    } else if (!key.otherwise.empty() && b.known.insert(key.key).second) {
        into = std::stol(key.otherwise);
        add_line(t.defaulted, "{} = {}", key.names.front(), key.otherwise);
    }
    return true;
}

// An example of preferences has a chosen and a rejected answer, a sequence each.
bool take_sequences(const ToolKey& key, const NamedValue* v, Batch& b, Translation& t) {
    if (key.key != "sequences") return false;
    const std::string number = v ? read_value(key, *v, t) : "";
    if (number.empty() || number == "1") return true;
    b.sequences = std::stol(number);
    add_line(t.open,
             "{} ({}): {}: an example is {} sequences, a chosen and a rejected answer, so batches "
             "are {} times those of the file",
             v->name, v->at, v->value, number, number);
    return true;
}

// Forwards of the model that a loss of preferences compares with: a copy ("copy"), or what adapters
// stand beside.
struct ReferenceForwards {
    long number = 0;
    bool copied = false;
    std::string at;
};
bool take_reference(const ToolKey& key, const NamedValue* v, ReferenceForwards& r, Translation& t) {
    if (key.key != "reference") return false;
    const std::string word = v ? read_value(key, *v, t) : "";
    if (word == "copy") {
        r.copied = true;
    } else if (!word.empty()) {
        r.number = std::stol(word);
        r.at = v->at;
    }
    return true;
}
void conclude(const ReferenceForwards& r, Translation& t) {
    if (r.number == 0) return;
    const bool beside = t.count("workload.adapter_rank", 0) > 0 && !r.copied;
    t.set("workload.reference", beside ? "base" : "copy", r.at);
    if (r.number > 1) t.set("workload.reference_forwards", r.number, r.at);
}

bool take_adapters(const ToolKey& key, const NamedValue* v, AdapterTargets& targets,
                   Translation& t) {
    if (key.key != "adapters") return false;
    if (!v) {
        targets.add(key.otherwise);
    } else if (key.as == "modules") {
        targets.add_named(*v, t);
    } else {
        targets.add(read_value(key, *v, t));
        targets.at = v->at;
    }
    return true;
}

void take_machine(const Batch& b, Translation& t, long& replicas) {
    const long each = b.each > 0   ? b.each
                      : b.gpus > 0 ? b.gpus / std::max(1L, b.nodes)
                                   : 0,
               nodes = std::max(1L, b.nodes), split = t.ranks_of_split();
    if (const auto* dp = t.find("parallelism.dp"); dp && each == 0) {
        const long stated = t.count("parallelism.dp", 1);
        if (replicas > 0 && replicas != stated)
            add_line(t.problems,
                     "{} data-parallel replicas by the file ({}), but {} on as many GPUs as "
                     "asked; the forecast has those",
                     stated, dp->at, replicas);
        if (replicas == 0) replicas = stated;
        return add_line(t.open, "{} GPUs by its degrees", split * stated);
    }
    if (each == 0)
        return add_line(t.open, "how many GPUs: a multiple of {}; set it with --gpus", split);
    const std::string at = b.at.empty() ? t.path : b.at;
    t.set("cluster.nodes", nodes, at);
    t.set("cluster.gpus_per_node", each, at);
    if (nodes * each % split != 0)
        return add_line(t.problems, "{} GPUs cannot run a parallel layout over {}", nodes * each,
                        split);
    if (replicas == 0) replicas = nodes * each / split;
    t.set("parallelism.dp", replicas, at);
}

void take_batch(const Batch& b, Translation& t, long replicas) {
    const std::string at = b.at.empty() ? "default of " + t.format : b.at;
    constexpr long most = 1'000'000'000;
    if (b.micro > most / std::max(1L, b.accumulation) / std::max(1L, replicas))
        refuse("{}: found a step of {} x {} x {} sequences; expected at most 10^9", at, b.micro,
               b.accumulation, replicas);
    const long micro = b.micro * b.sequences;
    if (micro > 0)
        t.set("parallelism.micro_batch", micro, at);
    else
        t.open.emplace_back("sequences of a micro-batch: not stated; use --set micro_batch=N");
    if (b.global > 0)
        t.set("parallelism.global_batch", b.global * b.sequences, at);
    else if (micro > 0 && replicas > 0)
        t.set("parallelism.global_batch", micro * b.accumulation * replicas, at);
    else if (micro > 0)
        add_line(t.open, "global batch: {} x replicas; set it with --set global_batch=N, or --gpus",
                 micro * b.accumulation);
}

}  // namespace

const ConfigFiles& config_files() {
    static const ConfigFiles files = read_config_files();
    return files;
}

void shard_in_node(long gpus, const Setting& by, Translation& t) {
    if (gpus == 1) return;
    if (gpus == 0)
        t.open.emplace_back("shards are of one node's GPUs; use --set parallelism.shard=N");
    else if (by.at.starts_with("default of "))
        t.take_default("parallelism.shard", std::to_string(gpus));
    else
        t.set("parallelism.shard", gpus, by.at);
}

const Tool* tool_of(const Document& document) {
    std::set<std::string, std::less<>> names;
    for (const NamedValue& value : document.values) {
        names.insert(value.name);
        for (auto dot = value.name.find('.'); dot != std::string::npos;
             dot = value.name.find('.', dot + 1))
            names.insert(value.name.substr(0, dot));
    }
    for (const Tool& tool : config_files().tools) {
        const auto has = [&](const std::string& sign) {
            return std::ranges::any_of(
                words_of(sign, "|"), [&](const std::string& name) { return names.contains(name); });
        };
        if (!tool.signs.empty() && std::ranges::all_of(tool.signs, has)) return &tool;
    }
    return nullptr;
}

namespace {

// "swift", "verl.trainer", "trl sft": a program, a module or a program with its command. The value
// of a flag is no program.
bool begins(std::span<const ShellArgument> words, bool of_flag, const std::string& start) {
    const std::string& word = words.front().text;
    const std::string name = std::filesystem::path(word).filename().string();
    if (const auto blank = start.find(' '); blank != std::string::npos)
        return name == start.substr(0, blank) && words.size() > 1 &&
               words[1].text == start.substr(blank + 1);
    return !of_flag && (word == start || name == start || word.starts_with(start + ".") ||
                        word.ends_with("/" + start));
}

}  // namespace

const Tool* tool_started(const std::vector<ShellArgument>& words) {
    const Tool* found = nullptr;
    for (const std::size_t i : indices_of(words)) {
        const bool of_flag =
            i > 0 && words[i - 1].text.starts_with("--") && words[i - 1].text != "--module";
        const auto is_start = [&](const std::string& start) {
            return begins(std::span(words).subspan(i), of_flag, start);
        };
        for (const Tool& tool : config_files().tools)
            // a launcher may start another tool's program
            if ((!found || !tool.refused.empty()) && std::ranges::any_of(tool.starts, is_start))
                found = &tool;
        if (found && !found->refused.empty()) return found;
        if (!of_flag && words[i].text.ends_with(".py")) break;  // behind the program are its own
    }
    return found;
}

void require_read(const Tool& tool, const std::string& at) {
    if (!tool.refused.empty())
        refuse("{}: found {}, whose files and launch lines are not read; {}", at, tool.name,
               tool.refused);
}

void require_trains(const Tool& tool, Document& d) {
    const auto is_stated = [&](const NamedValue& v, const std::vector<std::string>& names) {
        return !v.null && lower_case(v.value) != "false" && lower_case(v.value) != "no" &&
               std::ranges::any_of(names,
                                   [&](const std::string& name) { return below(v.name, name); });
    };
    const auto first = [&](const std::string& names) -> const NamedValue* {
        const auto all = words_of(names, "|");
        const auto found =
            std::ranges::find_if(d.values, [&](const NamedValue& v) { return is_stated(v, all); });
        return found == d.values.end() ? nullptr : &*found;
    };
    for (const auto& [other, training] : tool.untrained)
        if (const NamedValue* v = first(other); v && !first(training))
            refuse(
                "{}: {}: found {}, and {} is not on: {} trains nothing with this file; expected "
                "one of a training",
                v->at, v->name, v->value.empty() ? "it" : v->value,
                joined(words_of(training, "|"), " or "), tool.name);
}

const Tool& tool_named(std::string_view id) {
    return *std::ranges::find(config_files().tools, id, &Tool::id);
}

namespace {

// The model's name, a ratio of widths, what the forecast is without, what it leaves open and which
// of a tool's frameworks runs. False if the key is none of them.
bool take_special(const ToolKey& key, const NamedValue* v, Translation& t) {
    if (key.key == "model") {
        if (v) take_model_name(*v, t);
    } else if (key.key == "without") {
        if (const std::string what = v ? read_value(key, *v, t) : ""; !what.empty())
            t.problem(*v, fmt::format("{}: the forecast is without {}", v->value, what));
    } else if (key.key == "framework") {
        if (const std::string own = v ? read_value(key, *v, t) : ""; !own.empty())
            t.framework = own;
    } else if (key.key == "open") {
        const std::string what = v ? read_value(key, *v, t) : key.otherwise;
        if (!what.empty()) add_once(t.open, what);
    } else if (key.key == "ratio") {
        if (t.find("workload.hidden"))
            t.set("workload.ffn",
                  std::lround((v ? number_in(*v) : std::stod(key.otherwise)) *
                              real(t.count("workload.hidden", 1))),
                  v ? v->at : "default of " + t.format);
    } else {
        return false;
    }
    return true;
}

}  // namespace

void take_listed(const Tool& tool, Document& d, Translation& t, long replicas) {
    Batch batch;
    AdapterTargets targets;
    ReferenceForwards reference;
    for (const ToolKey& key : tool.keys) {
        const auto* v = stated(d, key);
        if (take_number(key, v, batch, t) || take_sequences(key, v, batch, t) ||
            take_reference(key, v, reference, t) || take_adapters(key, v, targets, t) ||
            take_special(key, v, t))
            continue;
        const std::string text = v ? read_value(key, *v, t) : "";
        if (!text.empty())
            t.set(key.key, text, v->at);
        else if (!key.otherwise.empty())
            t.take_default(key.key, key.otherwise);
    }
    conclude(std::move(targets), t);
    conclude(reference, t);
    const auto zero = first_with(t.settings, "parallelism.zero", &Setting::key);
    const bool hybrid = zero && zero->value == "hybrid";
    if (hybrid) zero->value = "3";
    const auto fix = [&](const std::string& fixed) {
        t.take_default(fixed.substr(0, fixed.find('=')), fixed.substr(fixed.find('=') + 1));
    };
    std::ranges::for_each(tool.always, fix);
    if (t.find("workload.layers")) std::ranges::for_each(tool.of_sizes, fix);
    if (const auto* layers = t.find("workload.layers"))
        t.set("workload.kind", "transformer", std::string(layers->at));
    take_machine(batch, t, replicas);
    if (hybrid)
        shard_in_node(t.count("cluster.gpus_per_node", 0), Setting(*t.find("parallelism.zero")), t);
    take_batch(batch, t, replicas);
    append(t.open, tool.open);
}

void set_aside(const Tool& tool, Document& d, Translation& t) {
    for (NamedValue& value : d.values) {
        if (value.used || std::ranges::none_of(tool.quiet, [&](const std::string& name) {
                return below(value.name, name);
            }))
            continue;
        value.used = true;
        t.ignored.push_back(value.name);
    }
}

Translation translate_tool(const Tool& tool, Document d, long replicas) {
    require_read(tool, d.path);
    require_trains(tool, d);
    resolve_references(d);
    Translation t{.path = d.path, .format = tool.name, .framework = tool.framework};
    take_listed(tool, d, t, replicas);
    if (!t.find("workload.layers") && !t.find("workload.preset"))
        t.open.push_back(
            "layers and widths: not in this file; name a preset or a config.json with --model");
    if (!t.find("workload.seq"))
        t.open.emplace_back("sequence length: not stated; the model's own unless --set seq=N");
    set_aside(tool, d, t);
    leave_rest(d, t);
    return t;
}

namespace {

bool holds_any(const std::string& name, const std::vector<std::string>& words) {
    const std::string last = lower_case(name.substr(name.find_last_of('.') + 1));
    return std::ranges::any_of(words, [&](const std::string& word) { return has(last, word); });
}

}  // namespace

bool speaks_of_work(const std::string& name) {
    return holds_any(name, config_files().sizes) || holds_any(name, config_files().switches);
}

void name_unread(Document& d, Translation& t) {
    const ConfigFiles& files = config_files();
    std::set<std::string> seen;
    for (NamedValue& value : d.values) {
        if (value.used || value.null || !speaks_of_work(value.name) ||
            !seen.insert(value.name).second)
            continue;
        if (std::ranges::any_of(files.quiet, [&](const std::string& name) {
                return below(value.name, name) || value.name.ends_with("." + name);
            }))
            continue;
        const auto number = as_number<double>(value.value);
        const bool switched =
            holds_any(value.name, files.switches) && !changes_nothing(value.value);
        if (number ? *number <= 1 : lower_case(value.value) != "true" && !switched) continue;
        t.problem(value,
                  fmt::format("{} is not read by the reader of {}; the forecast leaves it out",
                              value.value.substr(0, 40), t.format));
        value.used = true;
    }
}

}  // namespace stepcast
