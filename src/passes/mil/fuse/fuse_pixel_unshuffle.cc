//   x ── reshape [N,C,H,b,W,b] ── transpose<0,1,3,5,2,4> ── reshape [N,C*b*b,H,W]    =>    x ── pixel_unshuffle<b>
//
// PyTorch's pixel_unshuffle, for which ONNX has no operator. From iOS 16 on. The inner reshape and the
// transpose must have no other user; sizes must be known to match. coremltools has no such pass: it gets the
// op from PyTorch.
#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

using namespace pattern;
constexpr Var x{"x"}, six{"six"}, transpose_op{"transpose_op"};

// The size of a block; 0 if the ops do something else.
int64_t block(const Match& found, PassContext& context) {
  const Type *in = found.type(x), *split = found.type(six), *out = found.root().result()->type();
  if (in == nullptr || split == nullptr || out == nullptr || !in->ranked() || !split->ranked() || !out->ranked()) return 0;
  if (in->rank() != 4 || split->rank() != 6 || out->rank() != 4) return 0;
  if (Transpose(found.node(transpose_op), context.facts).perm() != std::vector<int64_t>{0, 1, 3, 5, 2, 4}) return 0;
  Dims& dims = found.dims();
  const auto i = in->dims(), s = split->dims(), o = out->dims();
  const Dim b = s[3];
  if (!b.is_int() || b.value() < 2 || !(s[5] == b)) return 0;
  const bool cut = i[0] == s[0] && i[1] == s[1] && dims.mul(s[2], b) == i[2] && dims.mul(s[4], b) == i[3];
  const bool joined = o[0] == s[0] && o[1] == dims.mul(s[1], dims.mul(b, b)) && o[2] == s[2] && o[3] == s[4];
  return cut && joined ? b.value() : 0;
}

}  // namespace

Pass fuse_pixel_unshuffle() {
  namespace m = pattern::mil;
  return Rule{
      .match = m::reshape(sole(m::transpose(sole(m::reshape(x)).as(six))).as(transpose_op)),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        constexpr int kIos16 = 7;
        const int64_t size = block(found, b.context());
        if (size == 0 || b.version() < kIos16 || !is_float(found[x]->dtype())) return nullptr;
        return b.pixel_unshuffle(found[x], {.downscale_factor = size});
      },
  };
}

}  // namespace sardonyx::mil
