// torchtitan's TOML (v0.2.2). Internal to translate/.
#pragma once

#include "translate/document.h"
#include "translate/translation.h"

namespace stepcast {

// `model` names the sizes where model.name and model.flavor do not.
Translation translate_torchtitan(Document& document, const std::string& model);

}  // namespace stepcast
