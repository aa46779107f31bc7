//   x ── Reshape [N,b,b,C,H,W] ── Transpose(0,3,4,1,5,2) ── Reshape [N,C,H*b,W*b]   =>   DepthToSpace<b>(x)
//   x ── Reshape [N,C,b,b,H,W] ── Transpose(0,1,4,2,5,3) ── Reshape [N,C,H*b,W*b]   =>   DepthToSpace<b, "CRD">(x)
//   x ── Reshape [N,C,H,b,W,b] ── Transpose(0,3,5,1,2,4) ── Reshape [N,b*b*C,H,W]   =>   SpaceToDepth<b>(x)
//
// The second is PyTorch's pixel_shuffle; the others are TensorFlow's operators.
// What stops it: blocks that are not square, sizes that are not known to match, inner values with other
// users.
// Exact: elements only move. onnxruntime has no integer kernels of SpaceToDepth and DepthToSpace before opset
// 13.
#include "dialects/onnx/refusals.h"
#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, six{"six"}, moved{"moved"};

struct Block {
  std::string_view op, mode;
  int64_t size;
};

std::optional<Block> block(const Match& m) {
  const Value *in = m[x], *split = m[six];
  using P = std::vector<int64_t>;
  const auto perm = read::Transpose(m.node(moved)).perm();
  const bool dcr = perm == P{0, 3, 4, 1, 5, 2}, crd = perm == P{0, 1, 4, 2, 5, 3};
  if (!dcr && !crd && perm != P{0, 3, 5, 1, 2, 4}) return std::nullopt;
  if (!in->ranked() || !split->ranked() || in->type()->rank() != 4) return std::nullopt;
  if (!has_kernel(m.model(), dcr || crd ? "DepthToSpace" : "SpaceToDepth", in->dtype())) return std::nullopt;
  // The axes of x after the split. The driver checks the joined axes by comparing the result's type with the
  // operator's.
  Dims& dims = m.dims();
  const auto i = in->type()->dims(), s = split->type()->dims();
  if (!(i[0] == s[0])) return std::nullopt;
  if (dcr || crd) {
    const Dim b = s[2];
    if (!b.is_int() || b.value() < 2 || !(s[dcr ? 1 : 3] == b) || !(s[4] == i[2]) || !(s[5] == i[3])) return std::nullopt;
    return Block{"DepthToSpace", dcr ? "DCR" : "CRD", b.value()};
  }
  const Dim b = s[3];
  if (!b.is_int() || b.value() < 2 || !(s[5] == b) || !(s[1] == i[1])) return std::nullopt;
  if (!(dims.mul(s[2], b) == i[2]) || !(dims.mul(s[4], b) == i[3])) return std::nullopt;
  return Block{"SpaceToDepth", {}, b.value()};
}

}  // namespace

Pass fuse_depth_to_space() {
  return Rule{
      .match = Reshape(sole(Transpose(sole(Reshape(x, any).as(six))).as(moved)), any),
      .when = [](const Match& m) { return block(m).has_value(); },
      .build =
          [](Rewriter& b, const Match& m) {
            const Block k = *block(m);
            AttrInit attrs{attr("blocksize", k.size)};
            if (!k.mode.empty()) attrs.push_back(attr("mode", k.mode));
            return b.op(k.op, {m[x]}, attrs);
          },
      .opset = 13,
  };
}

}  // namespace sardonyx::onnx
