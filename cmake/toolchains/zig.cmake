# Compiles for another system with zig (package ziglang of PyPI), which carries clang and the C and C++ libraries of all.
#
#   cmake -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/zig.cmake -DSARDONYX_PLATFORM=linux-aarch64 -DSARDONYX_ZIG=/path/to/zig
#
# SARDONYX_PLATFORM: linux-x86_64, linux-aarch64, musl-x86_64, windows-x86_64, macos-arm64, macos-x86_64.

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SARDONYX_PLATFORM SARDONYX_ZIG)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

set(zig_target_linux-x86_64 x86_64-linux-gnu.2.28)
set(zig_target_linux-aarch64 aarch64-linux-gnu.2.28)
set(zig_target_musl-x86_64 x86_64-linux-musl)
set(zig_target_windows-x86_64 x86_64-windows-gnu)
set(zig_target_macos-arm64 aarch64-macos.13.0)
set(zig_target_macos-x86_64 x86_64-macos.13.0)
set(target "${zig_target_${SARDONYX_PLATFORM}}")
if(NOT target)
  message(FATAL_ERROR "SARDONYX_PLATFORM is '${SARDONYX_PLATFORM}'; cmake/toolchains/zig.cmake lists the platforms")
endif()

if(SARDONYX_PLATFORM MATCHES "windows")
  set(CMAKE_SYSTEM_NAME Windows)
elseif(SARDONYX_PLATFORM MATCHES "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
else()
  set(CMAKE_SYSTEM_NAME Linux)
endif()
string(REGEX REPLACE "^[^-]*-" "" CMAKE_SYSTEM_PROCESSOR "${SARDONYX_PLATFORM}")

set(CMAKE_CXX_COMPILER "${SARDONYX_ZIG}" c++ -target ${target})
set(CMAKE_USER_MAKE_RULES_OVERRIDE_CXX "${CMAKE_CURRENT_LIST_DIR}/zig_rules.cmake")

# zig writes debug information unless told otherwise, which takes half of the time. It compiles its C++ library once
# for programs without symbols (-s) and once for others: let CMake's first trial be of the former kind already.
set(CMAKE_CXX_FLAGS_INIT "-g0 -s")

# A section for each function, so that the linker, which zig tells so, leaves out those that nothing uses.
string(APPEND CMAKE_CXX_FLAGS_INIT " -ffunction-sections -fdata-sections")

# Without symbols that nobody imports.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-s")
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-s")

# Headers and libraries of this machine are not those of the other.
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE NEVER)
