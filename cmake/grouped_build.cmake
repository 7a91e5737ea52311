# build_in_groups(LIBRARY ALONE FILE...) compiles eight files of a library at once: headers cost more than what they serve,
# so that a build from nothing takes less than half as long. The files named have local names that neighbours use too.
# A compiler cache serves single files better, so none of this where one is set; nor in preset dev, which sees every file alone.
if(CMAKE_CXX_COMPILER_LAUNCHER OR NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  set(grouped OFF)
else()
  set(grouped ON)
endif()
option(STEPCAST_GROUPED "compile several files at once" ${grouped})

function(build_in_groups library)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ALONE")
  set_target_properties(${library} PROPERTIES UNITY_BUILD ${STEPCAST_GROUPED} UNITY_BUILD_BATCH_SIZE 8)
  set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
