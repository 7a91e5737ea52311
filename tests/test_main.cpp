// Where the tests' files lie; Catch2's library has their main.
#include "tests/model/files.h"

// Not __FILE__, which compiler caches make relative to the build folder.
std::string stepcast::test_data() { return STEPCAST_TEST_DATA; }
