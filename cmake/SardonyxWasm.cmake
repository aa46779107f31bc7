# libc++, libc++abi and the unwinder for WebAssembly, with exceptions and files, from the sources that zig carries.
enable_language(C)

set(libcxx "${SARDONYX_ZIG_LIB}/libcxx")
set(libcxxabi "${SARDONYX_ZIG_LIB}/libcxxabi")
file(GLOB runtime_sources "${libcxx}/src/*.cpp" "${libcxx}/src/filesystem/*.cpp" "${libcxx}/src/ryu/*.cpp"
     "${libcxxabi}/src/*.cpp")
# Without the parts that need another C++ runtime, atomic waits, or the runtime without exceptions.
list(FILTER runtime_sources EXCLUDE REGEX
     "/(new|cxa_noexception|int128_builtins|cxa_thread_atexit|barrier|fallback_malloc|strstream|random_shuffle)\\.cpp$")
list(APPEND runtime_sources "${libcxxabi}/src/fallback_malloc.cpp" "${SARDONYX_ZIG_LIB}/libunwind/src/Unwind-wasm.c")
add_library(sardonyx_wasm_runtime STATIC ${runtime_sources})
set_target_properties(sardonyx_wasm_runtime PROPERTIES CXX_STANDARD 23 CXX_EXTENSIONS ON)
target_include_directories(sardonyx_wasm_runtime PRIVATE "${libcxx}/src" "${libcxxabi}/src" "${SARDONYX_ZIG_LIB}/libunwind/include"
                                                         "${libcxx}/libc" "${libcxxabi}/include")
target_compile_definitions(
  sardonyx_wasm_runtime PRIVATE _LIBCPP_BUILDING_LIBRARY LIBCXX_BUILDING_LIBCXXABI _LIBCXXABI_BUILDING_LIBRARY
                                _LIBUNWIND_HIDE_SYMBOLS LIBCXXABI_NON_DEMANGLING_TERMINATE)
target_compile_options(sardonyx_wasm_runtime PRIVATE -w)
# There is no copy_file_range, though the C library comes from musl.
set_source_files_properties("${libcxx}/src/filesystem/operations.cpp" PROPERTIES COMPILE_OPTIONS
                            "-U_LIBCPP_HAS_MUSL_LIBC;-D_LIBCPP_HAS_MUSL_LIBC=0")
# clang 22 ends with a segmentation fault when it optimizes this file for exceptions of WebAssembly.
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/io/onnx_reader.cc" PROPERTIES COMPILE_OPTIONS -O0
                                                                                     SKIP_PRECOMPILE_HEADERS ON)
