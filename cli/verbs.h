// The verbs: one file each.
#pragma once

#include "cli/argument.h"

namespace stepcast {

Verb simulate_verb();
Verb sweep_verb();
Verb execute_verb();
Verb calibrate_verb();
Verb compare_verb();
Verb diagnose_verb();
Verb import_verb();
Verb list_verb();
Verb show_verb();

}  // namespace stepcast
