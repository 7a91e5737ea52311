// What is read and what was made of it so far, while Megatron's arguments are translated, and the parts of that work. Defaults
// and names: megatron/training/arguments.py, megatron/core/transformer/transformer_config.py of Megatron-LM d98e8a64, the
// launcher's YAML of NeMo 1 (26e42fa9), configuration classes of Megatron-Bridge (067f987d). Internal to translate/.
#pragma once

#include "translate/readers.h"

namespace stepcast {

struct MegatronSource {
    Document& d;
    MegatronDialect dialect;
    long ranks = 0;     // of the launch; 0 = not told
    Translation t = {};
    bool sized = true;  // the file describes the model, so its defaults count
    bool full = false;  // every argument is stated, those left at their defaults too: the dump of a run

    [[nodiscard]] bool lm() const { return dialect == MegatronDialect::lm; }
    // As the file says; defaults only where it describes the model.
    void take(const std::string& ours, const NamedValue* value, const KeyText& read, const std::string& otherwise = "") {
        t.take(ours, value, read, sized ? otherwise : "");
    }
};

void take_model(MegatronSource& source);
void take_experts(MegatronSource& source);
void take_data_parallel(MegatronSource& source);
void take_precision(MegatronSource& source);
void take_recompute(MegatronSource& source);

}  // namespace stepcast
