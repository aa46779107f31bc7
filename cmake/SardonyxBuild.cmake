# Helpers of the build: source globs, compile options, ccache.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(CCACHE_PROGRAM ccache)
  if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # Key precompiled headers by their content, not by the time they were made. Comments count: gcc compares whole files when it asks
    # whether a precompiled header holds a header already, and defines everything twice otherwise.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_COMMENTS=1 ${CCACHE_PROGRAM})
  endif()
endif()

# sardonyx_glob(<variable> <folder>...): the .cc files below the folders, looked up again at each build.
function(sardonyx_glob variable)
  set(patterns ${ARGN})
  list(TRANSFORM patterns PREPEND "${PROJECT_SOURCE_DIR}/")
  list(TRANSFORM patterns APPEND "/*.cc")
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${patterns})
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# sardonyx_of_this_system(<variable>): without the files of other systems: NAME_windows.cc, NAME_posix.cc, NAME_linux.cc,
# NAME_wasi.cc, NAME_unix.cc (all but Windows) and their tests, NAME_posix_test.cc and so on.
function(sardonyx_of_this_system variable)
  set(files ${${variable}})
  set(others windows wasi)
  if(WIN32)
    set(others posix unix linux wasi)
  elseif(CMAKE_SYSTEM_NAME STREQUAL "WASI")
    set(others posix linux windows)
  elseif(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    list(APPEND others linux)
  endif()
  foreach(other IN LISTS others)
    list(FILTER files EXCLUDE REGEX "_${other}(_test)?\\.cc$")
  endforeach()
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

# What all our own targets are compiled with. Contraction of a*b+c would make results depend on the machine.
function(sardonyx_compile_options target)
  set_target_properties(
    ${target}
    PROPERTIES CXX_STANDARD 20
               CXX_STANDARD_REQUIRED ON
               CXX_EXTENSIONS OFF
               CXX_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON
               POSITION_INDEPENDENT_CODE ON)
  target_compile_options(
    ${target}
    PRIVATE -ffp-contract=off
            # Lets ccache see that a precompiled header is used.
            $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
            -Wall
            -Wextra
            -Wpedantic
            # A parameter may have a member's name, but a local must not hide another. Only gcc distinguishes them.
            $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>
            # Clang also warns about libstdc++'s own use of deprecated names.
            $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            -Wimplicit-fallthrough
            -Wextra-semi
            -Wcast-qual
            # Designated initializers leave fields at their defaults on purpose.
            -Wno-missing-field-initializers
            $<$<CXX_COMPILER_ID:Clang>:-Wno-missing-designated-field-initializers>
            # gcc 12 sees overlaps in std::string that are not there (gcc bug 105651).
            $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
            $<$<BOOL:${SARDONYX_WERROR}>:-Werror>)
  if(WIN32)
    target_compile_definitions(${target} PRIVATE _USE_MATH_DEFINES UNICODE _UNICODE)
  endif()
  if(SARDONYX_COVERAGE)
    target_compile_options(${target} PRIVATE -fprofile-instr-generate -fcoverage-mapping)
    target_link_options(${target} PUBLIC -fprofile-instr-generate)
  endif()
  if(SARDONYX_SANITIZE)
    # Instrumented code confuses gcc 12's flow analysis: std::regex alone warns.
    target_compile_options(${target} PRIVATE -fsanitize=${SARDONYX_SANITIZE} -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer
                                             $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_link_options(${target} PUBLIC -fsanitize=${SARDONYX_SANITIZE})
  endif()
endfunction()

# sardonyx_precompile_module_headers(<target>): with SARDONYX_PCH, what most sources of the Python module include.
function(sardonyx_precompile_module_headers target)
  if(NOT SARDONYX_PCH)
    return()
  endif()
  target_precompile_headers(
    ${target}
    PRIVATE
    <algorithm>
    <map>
    <unordered_map>
    <fmt/format.h>
    <nanobind/nanobind.h>
    <nanobind/stl/string.h>
    <nanobind/stl/string_view.h>
    <nanobind/stl/vector.h>
    <sardonyx/ir.h>)
endfunction()
