# What is asked once a command is optimised less than what is asked a million times (model and sim): a quarter less time to build.
function(optimise_less target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# Batches of files that are compiled as one: for builds from nothing (scripts/build.sh, pyproject.toml). Off for who edits, as a
# changed file compiles its whole batch.
# Names local to a file are therefore unique in their library or test program.
option(STEPCAST_UNITY "compile batches of files: faster from nothing, slower after an edit" OFF)
function(compile_in_batches target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${STEPCAST_UNITY} UNITY_BUILD_BATCH_SIZE 12)
endfunction()

# Compiles what nearly every file includes, and HEADER..., once for the target: a quarter less time to build. Files include what they
# use all the same: preset dev compiles each without this, and so does a build with a compiler cache, which serves several folders
# only then. Targets can share it where their definitions are the same (REUSE_FROM): tests do, libraries' packages define too much.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()
function(precompile_headers target)
  compile_in_batches(${target})
  target_precompile_headers(${target} PRIVATE <algorithm> <array> <cmath> <cstdint> <functional> <map> <numeric> <optional>
      <set> <span> <string> <string_view> <utility> <variant> <vector> <fmt/format.h> "${PROJECT_SOURCE_DIR}/model/experiment.h" ${ARGN})
endfunction()

# Files that include Eigen: behind a precompiled header GCC's headers take a build without optimisation for one with it, and then
# refuse Eigen's prefetches ("second argument to '__builtin_prefetch' must be a constant").
function(compile_eigen)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()
