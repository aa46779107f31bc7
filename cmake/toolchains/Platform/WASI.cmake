set(CMAKE_EXECUTABLE_SUFFIX ".wasm")
# Programs are linked statically.
set(CMAKE_C_COMPILE_OPTIONS_PIC "")
set(CMAKE_CXX_COMPILE_OPTIONS_PIC "")
