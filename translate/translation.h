// What a file of another tool says in stepcast's terms: settings with their origin, and what could not be carried over.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/experiment.h"

namespace stepcast {

struct Setting {
    std::string key, value;  // as for --set
    std::string at;          // "train.sh:14"
    friend bool operator==(const Setting&, const Setting&) = default;
};

struct NamedValue;
using KeyText = std::function<std::string(const NamedValue&)>;  // a stated value in our words

struct Translation {
    std::string path, format, framework;  // framework: a preset's name, "" = none
    std::vector<Setting> settings;        // one a key
    std::vector<std::string> defaulted;   // "schedule 1f1b: the default"
    std::vector<std::string> ignored;     // stated, and without a counterpart or effect
    std::vector<std::string> open;        // what the file leaves out and an experiment needs
    std::vector<std::string> problems;    // what could not run as it stands there, or is not forecast as it would

    void set(const std::string& key, const std::string& value, const std::string& at);
    void set(const std::string& key, long value, const std::string& at) { set(key, std::to_string(value), at); }
    // As `value` says; where it is nullptr, by default `otherwise`, "" = none.
    void take(const std::string& key, const NamedValue* value, const KeyText& read, const std::string& otherwise = "");
    // What the tool takes where the file says nothing.
    void take_default(const std::string& key, const std::string& value);
    [[nodiscard]] const Setting* find(const std::string& key) const;
    [[nodiscard]] long layers() const;  // stated, or of the preset that is named; 0 = neither
    // Checked by its key: throws ConfigError with its place, so that nothing is divided by a zero of the file.
    [[nodiscard]] long count(const std::string& key, long otherwise) const;
    [[nodiscard]] long ranks_of_split() const;  // tp x pp x cp; throws ConfigError where no cluster has as many
};

// As an experiment file whose every line says where its value comes from. Values are checked by the keys they belong to:
// throws ConfigError with their place.
std::string experiment_text(const Translation& translation);

// What was taken, defaulted, ignored, left open and wrong: lines for people.
std::vector<std::string> report(const Translation& translation);

}  // namespace stepcast
