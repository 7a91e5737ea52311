// torchtitan's TOML (v0.2.2). Internal to translate/.
#pragma once

#include "translate/document.h"
#include "translate/translation.h"

namespace stepcast {

Translation translate_torchtitan(Document& document);

}  // namespace stepcast
