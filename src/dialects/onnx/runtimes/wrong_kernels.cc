#include "dialects/onnx/runtimes/wrong_kernels.h"

#include <algorithm>
#include <vector>

namespace sardonyx::onnx {
namespace {

struct Wrong {
  std::string_view op;
  DType type;
  int first = 0, last = 0;  // indices of runtimes
};

const std::vector<Wrong>& table() {
  static const std::vector<Wrong> rows{
#define SX_WRONG(op, type, first, last) \
  Wrong{op, parse_dtype(type).value(), runtime_named(first).number, runtime_named(last).number},
#include "dialects/onnx/generated/wrong_kernels.gen.inc"
#undef SX_WRONG
  };
  return rows;
}

}  // namespace

bool is_wrong(std::string_view op, DType t, const Runtime* runtime) {
  return std::ranges::any_of(table(), [&](const Wrong& w) {
    return w.op == op && w.type == t && (runtime == nullptr || (w.first <= runtime->number && runtime->number <= w.last));
  });
}

}  // namespace sardonyx::onnx
