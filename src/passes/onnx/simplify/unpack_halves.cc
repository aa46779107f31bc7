//   hi ── Cast ── BitShift<LEFT>(32) ──┐                                                    hi ── Cast ── move ── y
//                          lo ── Cast ── BitwiseOr ── move ── BitShift<RIGHT>(32) ── y   =>
//                                                     move ── BitwiseAnd(2^32 - 1) ── z     lo ── Cast ── move ── z
//
// hi and lo are unsigned and have 32 bits or fewer. A move only orders or chooses elements, or casts between
// u64 and i64: there may be several, or none. Keys of random numbers are packed in this way. Where only 32
// bits of an integer are held, as in Core ML, the packed number could not be taken apart again.
#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/simplify/halves.h"

namespace sardonyx::onnx {

Pass unpack_halves() {
  using namespace pattern;
  static constexpr Var x{"x"}, y{"y"};
  return Rule{
      .match = any_of(BitShift(x, y), BitwiseAnd(x, y)),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const Node& n = found.root();
        if (n.result()->dtype() != DType::kU64) return nullptr;
        if (n.is("BitShift")) return is_shift_of_half(n, "RIGHT") ? half_of(b, n.input(0), /*upper=*/true) : nullptr;
        for (size_t i : {0, 1}) {
          if (is_number(n.input(i), kLowerHalf)) return half_of(b, n.input(1 - i), /*upper=*/false);
        }
        return nullptr;
      },
  };
}

}  // namespace sardonyx::onnx
