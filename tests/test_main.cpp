// The one translation unit that owns Catch2's main.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

#include "tests/model/files.h"

// Not __FILE__, which compiler caches make relative to the build folder.
std::string stepcast::test_data() { return STEPCAST_TEST_DATA; }
