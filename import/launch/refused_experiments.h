// What `simulate` would refuse in an experiment that is translated, said by the import already.
#pragma once

#include "import/launch/translate.h"

namespace stepcast {

// Adds to the problems the rule between keys that `simulate` would refuse the experiment by.
void name_what_is_refused(Translation& translation);

}  // namespace stepcast
