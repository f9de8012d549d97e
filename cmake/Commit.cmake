# Writes the commit that is built into a source file, if it has changed: cmake -DSOURCE=... -DOUTPUT=... -P
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=7 OUTPUT_VARIABLE commit
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
set(text "const char* passing_commit() { return \"${commit}\"; }\n")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT "${before}" STREQUAL "${text}")
  file(WRITE ${OUTPUT} "${text}")
endif()
