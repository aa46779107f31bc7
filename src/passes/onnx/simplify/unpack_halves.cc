//   hi ── Cast ── BitShift<LEFT>(32) ──┐                                                    hi ── Cast ── move ── y
//                          lo ── Cast ── BitwiseOr ── move ── BitShift<RIGHT>(32) ── y   =>
//                                                     move ── BitwiseAnd(2^32 - 1) ── z     lo ── Cast ── move ── z
//
// hi and lo are unsigned and have 32 bits or fewer. A move only orders or chooses elements, or casts between u64 and
// i64: there may be several, or none. Keys of random numbers are packed in this way. Where only 32 bits of an integer
// are held, as in Core ML, the packed number could not be taken apart again.
#include <algorithm>
#include <array>

#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

constexpr uint64_t kMask = 0xffffffff;
constexpr int kMostMoves = 32;
constexpr std::array<std::string_view, 9> kMoves = {"Expand", "Flatten", "Gather",    "Identity", "Reshape",
                                                    "Slice",  "Squeeze", "Transpose", "Unsqueeze"};

bool is_number(const Value* v, uint64_t number) {
  return v != nullptr && v->is_constant() && v->constant()->size() == 1 && !v->constant()->is_promise() &&
         is_integer(v->dtype()) && static_cast<uint64_t>(v->constant()->as_int(0)) == number;
}

bool is_shift(const Node& n, std::string_view direction) {
  const Attr* given = n.is("BitShift") ? n.attr("direction") : nullptr;
  const std::string* text = given != nullptr ? given->get<std::string>() : nullptr;
  return text != nullptr && *text == direction && is_number(n.input(1), 32);
}

// Whether v is a number of at most 32 bits as u64.
bool is_half(const Value* v) {
  const Node* n = v != nullptr ? v->def() : nullptr;
  if (n == nullptr || !n->is("Cast") || v->dtype() != DType::kU64) return false;
  const DType from = n->input(0)->dtype();
  return is_unsigned(from) && bit_width(from) <= 32;
}

Value* half_of(Rewriter& b, Value* x, bool upper, int moves = 0) {  // NOLINT(misc-no-recursion): at most kMostMoves
  Node* n = x->def();
  if (n == nullptr || n->unchecked() || moves > kMostMoves) return nullptr;
  if (n->is("BitwiseOr")) {
    for (size_t i : {0, 1}) {
      const Node* shift = n->input(i)->def();
      Value* lower = n->input(1 - i);
      if (shift == nullptr || !is_shift(*shift, "LEFT") || !is_half(shift->input(0)) || !is_half(lower)) continue;
      Value* half = upper ? shift->input(0) : lower;
      return half->type() == x->type() ? half : nullptr;
    }
    return nullptr;
  }
  const bool is_cast = n->is("Cast") && (x->dtype() == DType::kU64 || x->dtype() == DType::kI64) &&
                       (n->input(0)->dtype() == DType::kU64 || n->input(0)->dtype() == DType::kI64);
  if (!is_cast && std::ranges::find(kMoves, n->op().name) == kMoves.end()) return nullptr;
  Value* half = half_of(b, n->input(0), upper, moves + 1);
  if (half == nullptr || is_cast) return half;
  std::vector<Value*> operands{half};
  for (size_t i = 1; i < n->num_inputs(); ++i) operands.push_back(n->input(i));
  return b.like(*n, operands);
}

}  // namespace

Pass unpack_halves() {
  using namespace pattern;
  static constexpr Var x{"x"}, y{"y"};
  return Rule{
      .match = any_of(BitShift(x, y), BitwiseAnd(x, y)),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const Node& n = found.root();
        if (n.result()->dtype() != DType::kU64) return nullptr;
        if (n.is("BitShift")) return is_shift(n, "RIGHT") ? half_of(b, n.input(0), /*upper=*/true) : nullptr;
        for (size_t i : {0, 1}) {
          if (is_number(n.input(i), kMask)) return half_of(b, n.input(1 - i), /*upper=*/false);
        }
        return nullptr;
      },
  };
}

}  // namespace sardonyx::onnx
