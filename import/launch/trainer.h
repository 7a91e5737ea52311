// Runs of Hugging Face's Trainer, of TRL and LLaMA-Factory on it, and of accelerate: flags of a
// launch line and the files that it names. Which flag states what is data (config_files.toml); here
// is what several of them decide together, as read in transformers 5.24 (training_args.py,
// integrations/deepspeed.py) and accelerate 1.15 (commands/launch.py, accelerator.py,
// utils/dataclasses.py).
#pragma once

#include "import/launch/document.h"
#include "import/launch/shell_launch.h"
#include "import/launch/translate.h"

namespace stepcast {

// Programs on Hugging Face's Trainer (TRL and LLaMA-Factory among them), and what accelerate
// starts: their flags, and the files that these name. `tool` read alone is one of these.
struct Tool;
bool is_of_trainer(const Tool& tool);
Translation translate_trainer(const Tool& tool, Document document, const TranslateOptions& options);
bool is_trainer_launch(const ShellLaunch& launch, const std::string& path);
Translation translate_trainer_launch(const ShellLaunch& launch, const std::string& path,
                                     const TranslateOptions& options);

}  // namespace stepcast
