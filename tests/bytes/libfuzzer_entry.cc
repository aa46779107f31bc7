// libFuzzer's entry point, for one of the targets.
#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sardonyx::bytes::SARDONYX_FUZZ_TARGET({data, size});
  return 0;
}
