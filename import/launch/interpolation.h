// OmegaConf's ${..} in YAML files of NeMo, torchtune and llm-foundry.
#pragma once

#include "import/launch/document.h"

namespace stepcast {

// Puts the values in place of their names, relative and absolute, and computes multiply and divide.
// What cannot be resolved stays as text.
void resolve_references(Document& document);

}  // namespace stepcast
