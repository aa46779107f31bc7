# zig is one program with subcommands: how CMake makes archives and precompiled headers with it.
set(CMAKE_CXX_ARCHIVE_CREATE "\"${SARDONYX_ZIG}\" ar qc <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "\"${SARDONYX_ZIG}\" ar q <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "\"${SARDONYX_ZIG}\" ranlib <TARGET>")
set(CMAKE_CXX_COMPILE_OPTIONS_CREATE_PCH -Xclang -include -Xclang <PCH_HEADER> -x c++-header)

# zig 0.17 crashes when it links a bundle. dlopen, which loads Python's modules, takes a dynamic library as well; those of
# Rust are such.
if(CMAKE_SYSTEM_NAME STREQUAL "Darwin")
  set(CMAKE_SHARED_MODULE_CREATE_CXX_FLAGS "-dynamiclib -Wl,-headerpad_max_install_names")
endif()
