# zig is one program with subcommands: how CMake makes archives and precompiled headers with it.
set(CMAKE_CXX_ARCHIVE_CREATE "\"${SARDONYX_ZIG}\" ar qc <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "\"${SARDONYX_ZIG}\" ar q <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "\"${SARDONYX_ZIG}\" ranlib <TARGET>")
set(CMAKE_CXX_COMPILE_OPTIONS_CREATE_PCH -Xclang -include -Xclang <PCH_HEADER> -x c++-header)
