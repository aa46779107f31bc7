# Finds the libraries that Sardonyx is built with: as packages of the system, of Homebrew, conda or vcpkg, or as sources
# in the folder SARDONYX_DEPS, which scripts/packages/wheels.py fills for wheels of other systems.

set(SARDONYX_DEPS "" CACHE PATH "Folder with the sources of fmt, RE2 and others; empty: installed libraries are used")

# What to install for a library that is missing.    package of CMake or name | apt | dnf | brew and conda | vcpkg
set(sardonyx_packages
    "fmt|libfmt-dev|fmt-devel|fmt|fmt"
    "Eigen3|libeigen3-dev|eigen3-devel|eigen|eigen3"
    "nlohmann_json|nlohmann-json3-dev|json-devel|nlohmann-json|nlohmann-json"
    "protozero|libprotozero-dev|protozero-devel|protozero|protozero"
    "xxhash|libxxhash-dev|xxhash-devel|xxhash|xxhash"
    "re2|libre2-dev|re2-devel|re2|re2"
    "GTest|libgtest-dev|gtest-devel|googletest|gtest")
set(sardonyx_missing "")

macro(sardonyx_found name condition)
  if(NOT ${condition})
    list(APPEND sardonyx_missing ${name})
  endif()
endmacro()

# Stops with one message that names all missing libraries, in one line for each system.
function(sardonyx_report_missing)
  if(NOT sardonyx_missing)
    return()
  endif()
  foreach(entry IN LISTS sardonyx_packages)
    string(REPLACE "|" ";" names "${entry}")
    list(GET names 0 name)
    if(NOT name IN_LIST sardonyx_missing)
      continue()
    endif()
    foreach(system apt dnf brew vcpkg)
      list(POP_FRONT names)
      list(GET names 0 package)
      string(APPEND ${system}_names " ${package}")
    endforeach()
  endforeach()
  list(JOIN sardonyx_missing ", " all)
  message(
    FATAL_ERROR
      "Sardonyx needs libraries that are not installed: ${all}. Install them and configure again:\n"
      "  Debian, Ubuntu:  apt install${apt_names}\n"
      "  Fedora:          dnf install${dnf_names}\n"
      "  macOS:           brew install${brew_names}\n"
      "  Windows:         vcpkg install${vcpkg_names}\n")
endfunction()

if(SARDONYX_DEPS)
  if(CMAKE_SYSTEM_NAME STREQUAL "WASI")
    add_library(Threads::Threads INTERFACE IMPORTED)  # locks do nothing there
  else()
    set(THREADS_PREFER_PTHREAD_FLAG ON)
    find_package(Threads REQUIRED)
  endif()
  set(CMAKE_CXX_STANDARD 20)
  file(GLOB re2_sources CONFIGURE_DEPENDS "${SARDONYX_DEPS}/re2/re2/*.cc")
  add_library(sardonyx_bundled STATIC ${SARDONYX_DEPS}/fmt/src/format.cc ${re2_sources}
                                      ${SARDONYX_DEPS}/re2/util/rune.cc ${SARDONYX_DEPS}/re2/util/strutil.cc)
  set_target_properties(sardonyx_bundled PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                                    VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(sardonyx_bundled PRIVATE -w)
  target_include_directories(sardonyx_bundled SYSTEM PUBLIC ${SARDONYX_DEPS}/fmt/include ${SARDONYX_DEPS}/re2)
  add_library(fmt::fmt ALIAS sardonyx_bundled)
  set(RE2_TARGET sardonyx_bundled)
  add_library(sardonyx_headers INTERFACE)
  target_include_directories(sardonyx_headers SYSTEM INTERFACE ${SARDONYX_DEPS}/include ${SARDONYX_DEPS}/eigen3)
  add_library(Eigen3::Eigen ALIAS sardonyx_headers)
  add_library(nlohmann_json::nlohmann_json ALIAS sardonyx_headers)
  set(PROTOZERO_INCLUDE_DIR ${SARDONYX_DEPS}/include)
  set(XXHASH_INCLUDE_DIR ${SARDONYX_DEPS}/include)
  if(SARDONYX_TESTS)
    add_library(sardonyx_gtest STATIC EXCLUDE_FROM_ALL ${SARDONYX_DEPS}/googletest/src/gtest-all.cc
                                                       ${SARDONYX_DEPS}/googletest/src/gtest_main.cc)
    target_compile_options(sardonyx_gtest PRIVATE -w)
    target_include_directories(sardonyx_gtest SYSTEM PUBLIC ${SARDONYX_DEPS}/googletest/include
                                              PRIVATE ${SARDONYX_DEPS}/googletest)
    add_library(GTest::gtest ALIAS sardonyx_gtest)
    add_library(GTest::gtest_main ALIAS sardonyx_gtest)
  endif()
else()
  find_package(Threads REQUIRED)
  find_package(fmt QUIET)
  sardonyx_found(fmt fmt_FOUND)
  find_package(Eigen3 QUIET NO_MODULE)
  sardonyx_found(Eigen3 Eigen3_FOUND)
  find_package(nlohmann_json QUIET)
  sardonyx_found(nlohmann_json nlohmann_json_FOUND)
  find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_reader.hpp)
  sardonyx_found(protozero PROTOZERO_INCLUDE_DIR)
  find_path(XXHASH_INCLUDE_DIR xxhash.h)
  sardonyx_found(xxhash XXHASH_INCLUDE_DIR)
  # Debian has no package file for CMake. Elsewhere RE2 needs abseil, which only that file knows.
  find_package(re2 QUIET)
  if(TARGET re2::re2)
    set(RE2_TARGET re2::re2)
    sardonyx_found(re2 re2_FOUND)
  else()
    find_path(RE2_INCLUDE_DIR re2/re2.h)
    find_library(RE2_LIBRARY re2)
    set(RE2_TARGET ${RE2_LIBRARY})
    sardonyx_found(re2 RE2_LIBRARY)
  endif()
  if(SARDONYX_TESTS)
    find_package(GTest QUIET)
    sardonyx_found(GTest GTest_FOUND)
  endif()
  sardonyx_report_missing()
endif()
