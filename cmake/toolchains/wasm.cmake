# Compiles for WebAssembly (WASI preview 1, with its exceptions) with the clang and the sources of C and C++ libraries
# that zig carries. zig's own build of libc++ for WASI has neither exceptions nor files: cmake/SardonyxWasm.cmake
# compiles those sources again.
#
#   cmake -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/wasm.cmake -DSARDONYX_ZIG=/path/to/zig -DSARDONYX_ZIG_LIB=/path/to/zig's/lib

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SARDONYX_ZIG SARDONYX_ZIG_LIB)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_SYSTEM_NAME WASI)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")  # Platform/WASI.cmake

set(CMAKE_C_COMPILER "${SARDONYX_ZIG}" clang)
set(CMAKE_CXX_COMPILER "${SARDONYX_ZIG}" clang)
set(CMAKE_USER_MAKE_RULES_OVERRIDE "${CMAKE_CURRENT_LIST_DIR}/wasm_rules.cmake")

set(wasm_flags "--target=wasm32-wasip1 -fwasm-exceptions -mllvm -wasm-enable-eh -mbulk-memory -mnontrapping-fptoint")
string(APPEND wasm_flags " -msign-ext -mmutable-globals -nostdinc -D_WASI_EMULATED_MMAN")
# Sizes are 64-bit numbers, of which memory has 32 bits: lists of initializers are narrowed as all other values are.
string(APPEND wasm_flags " -Wno-c++11-narrowing")
set(wasm_includes "")
foreach(folder include libc/include/wasm-wasi-musl libc/include/generic-musl libc/include/wasm32-wasi-any
               libc/include/any-wasi-any)
  string(APPEND wasm_includes " -isystem ${SARDONYX_ZIG_LIB}/${folder}")
endforeach()
set(wasm_libcxx " -isystem ${SARDONYX_ZIG_LIB}/libcxx/include -isystem ${SARDONYX_ZIG_LIB}/libcxxabi/include")
foreach(setting ABI_VERSION=1 ABI_NAMESPACE=__1 HAS_THREADS=1 HAS_THREAD_API_PTHREAD=1 HAS_MONOTONIC_CLOCK=1 HAS_TERMINAL=0
                HAS_MUSL_LIBC=1 HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0 HAS_FILESYSTEM=1 HAS_RANDOM_DEVICE=1
                HAS_LOCALIZATION=1 HAS_UNICODE=1 HAS_WIDE_CHARACTERS=1 DISABLE_VISIBILITY_ANNOTATIONS=1
                HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_IGNORE
                PSTL_BACKEND_SERIAL=1)
  string(APPEND wasm_libcxx " -D_LIBCPP_${setting}")
endforeach()
set(CMAKE_C_FLAGS_INIT "${wasm_flags}${wasm_includes}")
set(CMAKE_CXX_FLAGS_INIT "${wasm_flags}${wasm_libcxx}${wasm_includes} -D_LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS")

set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE NEVER)
