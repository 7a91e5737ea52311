// Launch scripts: the command that they run, with the configurations that it names.
#pragma once

#include "import/launch/document.h"
#include "import/launch/translate.h"

namespace stepcast {

// A launch script, by the program that it starts.
Translation translate_script(const std::string& text, const std::string& path,
                             const TranslateOptions& options);

// Megatron-LM's recipes in YAML: flags below MODEL_ARGS or ARGS.
bool is_argument_block(const std::string& text);
Translation translate_argument_block(Document document);

bool is_configuration(const std::string& name);  // YAML or JSON
// beside the script or above it; "" = none
std::string found_file(const std::string& name, const std::string& script);

}  // namespace stepcast
