// Which projections of a model have adapters (LoRA), as flags and files of tools name them: modules
// of transformers' models (config_files.toml, `adapted`), beside which PEFT puts such matrices.
#pragma once

#include <string>
#include <vector>

#include "import/launch/document.h"
#include "import/launch/translate.h"

namespace stepcast {

struct AdapterTargets {
    // values of workload.adapter_modules
    std::vector<std::string> modules = {};
    bool all = false;      // all linear layers
    bool of_peft = false;  // those that PEFT takes where none is named
    std::string at = {};   // of the last statement; "" = defaults alone

    // "q_proj,v_proj", "[self_attn.q_proj]", a regular expression, all-linear. What is no
    // projection of a block, or of some layers alone, is a problem.
    void add_named(const NamedValue& names, Translation& translation);
    // Ours, of a default or in place of a tool's word: "query value", "linear" (all of them) or
    // "unnamed".
    void add(const std::string& words);

private:
    void add_pattern(const NamedValue& names, Translation& translation);
};

// Sets workload.adapter_on or adapter_modules; nothing without adapters. After everything else is
// read, the model too.
void conclude(AdapterTargets targets, Translation& translation);

}  // namespace stepcast
