# sx_unit: all C++ tests in one program. sx_test: the runner of the .sx cases beside the sources.

sardonyx_glob(unit_sources src tests/cpp python cli)
list(FILTER unit_sources INCLUDE REGEX "_test\\.cc$")
list(APPEND unit_sources "${PROJECT_SOURCE_DIR}/tests/bytes/replay_posix_test.cc"
     "${PROJECT_SOURCE_DIR}/tests/bytes/targets.cc" "${PROJECT_SOURCE_DIR}/tests/cases/sx_test_files.cc")
sardonyx_of_this_system(unit_sources)
if(unit_sources)
  add_executable(sx_unit ${unit_sources})
  sardonyx_compile_options(sx_unit)
  target_include_directories(sx_unit PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(sx_unit PRIVATE sardonyx_inside GTest::gtest GTest::gtest_main)
  if(SARDONYX_PCH)
    target_precompile_headers(sx_unit PRIVATE <gtest/gtest.h> <sardonyx/ir.h>)
  endif()
  # Tests find files by their path from the root.
  add_test(NAME unit COMMAND sx_unit --gtest_brief=1 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endif()

# Random graphs: for the rules (sx_test --fuzz) and for the passes (sx_fuzz).
file(GLOB random_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/random/*.cc")
add_library(sx_random STATIC ${random_sources})
sardonyx_compile_options(sx_random)
target_include_directories(sx_random PUBLIC "${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(sx_random PUBLIC sardonyx_inside)

file(GLOB runner_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/cases/*.cc")
if(runner_sources)
  add_executable(sx_test ${runner_sources})
  sardonyx_compile_options(sx_test)
  target_link_libraries(sx_test PRIVATE sx_random)
  add_test(NAME cases COMMAND sx_test "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  add_test(NAME rules COMMAND sx_test --fuzz "${PROJECT_SOURCE_DIR}/src/passes")
endif()

# Random graphs through every pass (make fuzz). A few with fixed seeds are a test.
file(GLOB fuzz_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*.cc")
if(fuzz_sources)
  add_executable(sx_fuzz ${fuzz_sources} tests/cases/sx_test_files.cc)
  sardonyx_compile_options(sx_fuzz)
  target_link_libraries(sx_fuzz PRIVATE sx_random)
  add_test(NAME fuzz COMMAND sx_fuzz --seed=1 --count=250)
  add_test(NAME fuzz_half COMMAND sx_fuzz --half --seed=1 --count=1000)
  add_test(NAME fuzz_half_mil COMMAND sx_fuzz --half --dialect=mil --seed=1 --count=500)
endif()

# Feeds bytes to the readers (make fuzz-bytes runs the same targets under libFuzzer).
if(EXISTS "${PROJECT_SOURCE_DIR}/tests/bytes/bytes_main.cc")
  add_executable(sx_bytes tests/bytes/bytes_main.cc tests/bytes/targets.cc)
  sardonyx_compile_options(sx_bytes)
  target_link_libraries(sx_bytes PRIVATE sardonyx_inside)
endif()

# A separate project that finds Sardonyx in an installed prefix. The test builds and runs it.
if(EXISTS "${PROJECT_SOURCE_DIR}/tests/consumer/CMakeLists.txt" AND NOT SARDONYX_SANITIZE)
  add_test(
    NAME consumer
    COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${PROJECT_BINARY_DIR} -DWORK_DIR=${PROJECT_BINARY_DIR}/consumer
            -DSOURCE_DIR=${PROJECT_SOURCE_DIR}/tests/consumer -DVERSION=${PROJECT_VERSION}
            -DCXX=${CMAKE_CXX_COMPILER} "-DLAUNCHER=${CCACHE_PROGRAM}" -DGENERATOR=${CMAKE_GENERATOR}
            -P ${PROJECT_SOURCE_DIR}/tests/consumer/run.cmake)
endif()
