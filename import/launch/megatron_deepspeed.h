// What Megatron-DeepSpeed has beside Megatron-LM's arguments. Names and defaults are those of
// megatron/arguments.py at 4efb479d and, for pad_vocab_size_to and pp_partition_method, of
// BigScience's fork.
#pragma once

#include "import/launch/document.h"
#include "import/launch/megatron_source.h"

namespace stepcast {

// Megatron-DeepSpeed's own flags.
bool is_of_deepspeed(Document& document);
void take_deepspeed_experts(MegatronSource& source);  // before the numbers that all dialects share
void take_deepspeed_split(MegatronSource& source);

// True if stages are cut as if embedding and logits were a layer each; names other ways to cut.
bool counts_embedding_as_layer(MegatronSource& source);

}  // namespace stepcast
