# What is asked once a command is optimised less than what is asked a million times (model and sim): a quarter less time to build.
function(optimise_less target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# Compiles what nearly every file includes, and HEADER..., once: a quarter less time to build. The first target of a level of
# optimisation does it for all of that level. Files include what they use all the same: preset dev compiles each without this, and
# so does a build with a compiler cache, which serves several folders only then.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()
function(precompile_headers target level)
  get_property(first GLOBAL PROPERTY headers_of_${level})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY headers_of_${level} ${target})
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <cmath> <cstdint> <functional> <map> <numeric> <optional>
        <set> <span> <string> <string_view> <utility> <variant> <vector> <fmt/format.h> "${PROJECT_SOURCE_DIR}/model/experiment.h" ${ARGN})
  endif()
endfunction()
