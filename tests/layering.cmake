# Run as a test: every #include between folders must follow the order in which folders depend on each
# other. A file may include from its own folder and from those before it; kernels take nothing from
# partition. ROOT is the source tree.
set(order partition kernels comm model runtime launch)
set(mistakes "")
foreach(folder IN LISTS order)
  list(FIND order ${folder} own)
  file(GLOB_RECURSE sources RELATIVE ${ROOT} ${ROOT}/${folder}/*.h ${ROOT}/${folder}/*.cpp
       ${ROOT}/${folder}/*.cu)
  foreach(source IN LISTS sources)
    file(STRINGS ${ROOT}/${source} includes REGEX "^#include \"[a-z]+/")
    foreach(line IN LISTS includes)
      string(REGEX REPLACE "^#include \"([a-z]+)/.*" "\\1" target "${line}")
      list(FIND order ${target} at)
      if(at GREATER own OR at EQUAL -1 OR (folder STREQUAL kernels AND target STREQUAL partition))
        string(APPEND mistakes "  ${source}: ${line}\n")
      endif()
    endforeach()
  endforeach()
endforeach()
if(mistakes)
  string(REPLACE ";" " -> " arrows "${order}")
  message(FATAL_ERROR "includes against the order of folders (${arrows}):\n${mistakes}")
endif()
