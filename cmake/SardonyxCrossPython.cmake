# The Python modules of a wheel for another system, whose Python cannot run here: _sardonyx_abi3 for the stable ABI of
# Python 3.12, _sardonyx_cp311 for Python 3.11. Headers of Python and nanobind's sources come from SARDONYX_DEPS.

sardonyx_glob(python_sources python/native)
list(FILTER python_sources EXCLUDE REGEX "_test\\.cc$")

function(sardonyx_cross_module abi headers)
  set(name _sardonyx_${abi})
  add_library(nanobind_${abi} OBJECT ${SARDONYX_DEPS}/nanobind/src/nb_combined.cpp)
  # Python's headers for the stable ABI do not include <stdio.h>, which nanobind expects of them.
  target_compile_options(nanobind_${abi} PRIVATE -w -fno-strict-aliasing "SHELL:-include stdio.h")
  target_compile_definitions(nanobind_${abi} PRIVATE NB_BUILD NB_COMPACT_ASSERTIONS)
  add_library(${name} MODULE ${python_sources})
  foreach(target nanobind_${abi} ${name})
    sardonyx_compile_options(${target})
    target_compile_options(${target} PRIVATE $<$<BOOL:${SARDONYX_SMALL}>:-Os>)
    target_compile_definitions(${target} PRIVATE ${ARGN})
    # Windows' pyconfig.h lies apart; on all other systems that are supported, the one of Linux holds.
    target_include_directories(
      ${target} SYSTEM
      PRIVATE ${SARDONYX_DEPS}/nanobind/include ${SARDONYX_DEPS}/nanobind/ext/robin_map/include
              $<IF:$<BOOL:${WIN32}>,${SARDONYX_DEPS}/${headers}/windows,${SARDONYX_DEPS}/${headers}/posix>
              ${SARDONYX_DEPS}/${headers}/Include)
  endforeach()
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/python")
  target_link_libraries(${name} PRIVATE sardonyx_inside nanobind_${abi})
  target_precompile_headers(${name} PRIVATE <cstdio>)
  sardonyx_precompile_module_headers(${name})
  if(APPLE)
    target_link_options(${name} PRIVATE -Wl,-undefined,dynamic_lookup)
  elseif(WIN32)
    target_link_libraries(${name} PRIVATE "${SARDONYX_DEPS}/${abi}.lib")
  endif()
  set_target_properties(${name} PROPERTIES PREFIX "" OUTPUT_NAME _sardonyx
                                           LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${abi}")
endfunction()

sardonyx_cross_module(abi3 python3.13 Py_LIMITED_API=0x030C0000)
sardonyx_cross_module(cp311 python3.11)
