// OmegaConf's ${..} in NeMo's YAML: relative and absolute names, multiply and divide. Internal to translate/.
#pragma once

#include "translate/document.h"

namespace stepcast {

// Values that name others take theirs; what cannot be told keeps its text.
void interpolate(Document& document);

}  // namespace stepcast
