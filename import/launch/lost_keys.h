// What an emitted script does not say: it is read back as `import` would read it, and compared with
// the experiment key by key, so that no key can be forgotten, one that is added later included.
// Internal to translate/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "import/launch/emit.h"
#include "import/launch/translate.h"

namespace stepcast {

// The experiment that the script runs on the machine of `asked`. Where it is launched gives what it
// leaves open: replicas.
Experiment experiment_of_script(const Experiment& asked, const Translation& script);

// 0 for "follows from another key" becomes that value, and equal patterns of layers become the same
// keys.
Experiment with_values_written_out(Experiment experiment);

// Names in `out` every key that the script runs with another value than `asked` and that acts
// there.
void name_lost_keys(const Experiment& asked, EmitFormat format, Emission& out);

// False for names, for what only `execute` and `compare` use, and for the machine, which no script
// holds.
bool may_change_step(std::string_view key);
// False if the key belongs to something that the experiment has not, such as experts, a pipeline or
// a ZeRO stage.
bool acts(std::string_view key, const Experiment& experiment);

}  // namespace stepcast
