// AMD's Primus: Megatron-LM's keys below modules.NAME.overrides. What they override, and the model,
// are in other files, which it names.
#pragma once

#include "import/launch/document.h"
#include "import/launch/translate.h"

namespace stepcast {

bool is_primus(const Document& document);
Translation translate_primus(Document document);

}  // namespace stepcast
