# SPDX-License-Identifier: Apache-2.0

# xrootd_plugin(NAME SOURCES... [LIBRARIES ...])
#
# One set of objects, used twice: lib<NAME>-5.so, which XRootD loads and which shows nothing but its entry points, and
# the shared library <NAME>Testing, in which unit tests see everything.
function(xrootd_plugin name)
  cmake_parse_arguments(PLUGIN "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${name}Objects OBJECT ${PLUGIN_SOURCES})
  set_target_properties(${name}Objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${name}Objects PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/src)
  target_include_directories(${name}Objects SYSTEM PUBLIC ${XROOTD_INCLUDE_DIRS})
  target_link_libraries(${name}Objects PUBLIC ${PLUGIN_LIBRARIES})

  set(exports ${CMAKE_CURRENT_SOURCE_DIR}/export-lib-symbols)
  add_library(${name} MODULE)
  target_link_libraries(${name} PRIVATE ${name}Objects)
  target_link_options(${name} PRIVATE "LINKER:--version-script=${exports}" "LINKER:--no-undefined")
  set_target_properties(${name} PROPERTIES OUTPUT_NAME ${name}-5 LINK_DEPENDS ${exports})

  add_library(${name}Testing SHARED EXCLUDE_FROM_ALL)
  target_link_libraries(${name}Testing PUBLIC ${name}Objects)
endfunction()
