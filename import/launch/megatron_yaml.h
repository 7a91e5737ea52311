// Reads Megatron's names in YAML: configurations of Megatron-Bridge, for one run or as a table of
// several, and of NeMo.
#pragma once

#include "import/launch/document.h"
#include "import/launch/translate.h"

namespace stepcast {

// YAML of NeMo, and of Megatron-Bridge; `variant` ("h100,64,bf16") selects a row if the file is a
// table.
Translation translate_nemo(Document document);
Translation translate_bridge(Document document, const std::string& variant);

// Removes Megatron-Bridge's sections, also used in overrides of its scripts, from names that only
// one section has.
void drop_bridge_sections(Document& document);

}  // namespace stepcast
