// Launch lines of NeMo 1, NeMo 2 and torchtitan.
#pragma once

#include "import/launch/document.h"
#include "import/launch/shell_launch.h"
#include "import/launch/translate.h"

namespace stepcast {

// Launch lines of other tools. NeMo 1's programs have a configuration of their own below Hydra's
// overrides (nemo_programs.toml); `nemo llm pretrain --factory RECIPE` of NeMo 2 a recipe
// (nemo_recipes.toml). torchtitan's launcher names a TOML file, and flags override it.
bool is_nemo_launch(const std::string& program, Document& arguments);
Translation translate_nemo_launch(const std::string& program, Document arguments,
                                  const std::string& path);
Translation translate_nemo_recipe(Document arguments);
bool is_titan_script(const ShellArgument& word);  // torchtitan's own launcher
bool is_titan_launch(const ShellLaunch& launch);
Translation translate_titan_launch(const ShellLaunch& launch, long per_node, long ranks,
                                   const std::string& path, const TranslateOptions& options);

}  // namespace stepcast
