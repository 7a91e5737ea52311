// DeepSpeed's JSON configuration. Internal to translate/.
#pragma once

#include "translate/document.h"
#include "translate/translation.h"

namespace stepcast {

Translation translate_deepspeed(Document& document);

}  // namespace stepcast
