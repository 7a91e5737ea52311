// Reads DeepSpeed's JSON configuration. Defaults are those of
// deepspeed/runtime/{config,constants}.py and zero/config.py at edaa7221.
#pragma once

#include "import/launch/document.h"
#include "import/launch/translate.h"

namespace stepcast {

// DeepSpeed's JSON configuration. `replicas` (also below): those of the machine if the file leaves
// them open; 0 = unknown.
Translation translate_deepspeed(Document document, long replicas);

// Batch, ZeRO, precision and optimizer of such a file, which GPT-NeoX's has too.
void take_deepspeed_training(Document& document, Translation& translation, long replicas);

}  // namespace stepcast
