// Variables of the environment in YAML and JSON, as recipes, launchers and OmegaConf write them.
#pragma once

#include <map>
#include <string>

#include "import/launch/document.h"

namespace stepcast {

// Puts values of `given` in place of variables: ${TP}, $TP, ${oc.env:TP}, with defaults ${TP:8},
// ${TP:-8}, ${oc.env:TP,8}. Names that the document itself has are left to its reader.
void fill_variables(Document& document, const std::map<std::string, std::string>& given);

}  // namespace stepcast
