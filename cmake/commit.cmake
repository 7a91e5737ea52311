# Writes FILE with the commit of SOURCE as STEPCAST_COMMIT, but only where it changed: nothing is compiled again for nothing.
# Run at every build. Without git a tree from `git archive` knows its commit; any other says "unknown".
set(commit unknown)
file(STRINGS ${SOURCE}/cmake/archived_commit.txt archived REGEX "^[0-9a-f]+$")
if(archived)
  set(commit ${archived})
endif()
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND described)
    set(commit ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${FILE} CONTENT "#define STEPCAST_COMMIT \"${commit}\"\n")
