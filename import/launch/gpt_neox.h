// EleutherAI's GPT-NeoX: YAML with underscores or hyphens, or JSON in it. Training and ZeRO are
// DeepSpeed's, sizes and split its own. Names and defaults are those of
// megatron/neox_arguments/neox_args.py of GPT-NeoX 2.0; the package is not on PyPI.
#pragma once

#include "import/launch/document.h"
#include "import/launch/translate.h"

namespace stepcast {

// GPT-NeoX's YAML, and Primus' (Megatron-LM's keys below modules.NAME.overrides).
Translation translate_gpt_neox(Document document, long replicas);
bool is_gpt_neox(const Document& document);

}  // namespace stepcast
