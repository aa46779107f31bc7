# Installs BUILD_DIR's library into a new prefix, builds the consumer in SOURCE_DIR against it, runs it.
file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}")
function(run)
  execute_process(COMMAND ${ARGV} WORKING_DIRECTORY ${WORK_DIR} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(status)
    message(FATAL_ERROR "${ARGV}\nended with ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix --component cpp)

# Installed headers need nothing that was not installed.
file(GLOB headers RELATIVE ${WORK_DIR}/prefix/include ${WORK_DIR}/prefix/include/sardonyx/*.h)
list(TRANSFORM headers REPLACE "(.+)" "#include \"\\1\"")
list(JOIN headers "\n" text)
file(WRITE ${WORK_DIR}/headers.cc "${text}\n")
run(${CXX} -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I${WORK_DIR}/prefix/include ${WORK_DIR}/headers.cc)

run(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix
    -DCMAKE_CXX_COMPILER=${CXX} "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
# As sardonyx.save_program() writes it.
file(WRITE ${WORK_DIR}/layer.sx [==[
graph jax "layer"(x: f32[B,3], w: f32[3,5], b: f32[5]) {
  %0: f32[B,5] = dot_general<dimension_numbers=(([1], [0]), ([], [])), preferred_element_type=f32>(x, w)
  %1: f32[1,5] = broadcast_in_dim<broadcast_dimensions=[1], shape=[1, 5]>(b)
  %2: f32[B,5] = add(%0, %1)
  %3: f32[B,5] = mul(f32 0.5, %2)
  %4: f32[B,5] = neg(%2)
  %5: f32[B,5] = mul(%4, f32 0.70710677)
  %6: f32[B,5] = erfc(%5)
  %7: f32[B,5] = mul(%3, %6)
  return y: f32[B,5] = %7
}
]==])
run(${WORK_DIR}/build/consumer)
set(expected "sardonyx ${VERSION}
optimized: 9 -> 3 nodes
arithmetic: 45*B
Add: 1 -> 0
Erf: 1 -> 0
Gelu: 0 -> 1
Gemm: 0 -> 1
MatMul: 1 -> 0
Mul: 3 -> 0
Neg: 1 -> 0
Sub: 1 -> 0
compared: equal
error (io): cannot open 'none.onnx': No such file or directory
")
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "the consumer printed\n${output}, expected\n${expected}")
endif()
