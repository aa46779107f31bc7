#include "passes/onnx/simplify/halves.h"

#include <algorithm>
#include <array>

namespace sardonyx::onnx {

bool is_number(const Value* v, uint64_t number) {
  return v != nullptr && v->is_constant() && v->constant()->size() == 1 && !v->constant()->is_promise() &&
         is_integer(v->dtype()) && static_cast<uint64_t>(v->constant()->as_int(0)) == number;
}

bool is_shift_of_half(const Node& n, std::string_view direction) {
  const Attr* given = n.is("BitShift") ? n.attr("direction") : nullptr;
  const std::string* text = given != nullptr ? given->get<std::string>() : nullptr;
  return text != nullptr && *text == direction && is_number(n.input(1), 32);
}

namespace {

constexpr int kMostMoves = 32;
constexpr std::array<std::string_view, 9> kMoves = {"Expand", "Flatten", "Gather",    "Identity", "Reshape",
                                                    "Slice",  "Squeeze", "Transpose", "Unsqueeze"};

// Whether v is a number of at most 32 bits as u64.
bool is_half(const Value* v) {
  const Node* n = v != nullptr ? v->def() : nullptr;
  if (n == nullptr || !n->is("Cast") || v->dtype() != DType::kU64) return false;
  const DType from = n->input(0)->dtype();
  return is_unsigned(from) && bit_width(from) <= 32;
}

// The half that a BitwiseOr packs; null if it does something else.
Value* packed_half(const Node& n, bool upper) {
  for (size_t i : {0, 1}) {
    const Node* shift = n.input(i)->def();
    Value* lower = n.input(1 - i);
    if (shift == nullptr || !is_shift_of_half(*shift, "LEFT") || !is_half(shift->input(0)) || !is_half(lower)) continue;
    Value* half = upper ? shift->input(0) : lower;
    return half->type() == n.result()->type() ? half : nullptr;
  }
  return nullptr;
}

bool is_cast_of_wide(const Node& n) {
  const auto wide = [](const Value& v) { return v.dtype() == DType::kU64 || v.dtype() == DType::kI64; };
  return n.is("Cast") && wide(*n.result()) && wide(*n.input(0));
}

bool moves(const Node& n) { return std::ranges::find(kMoves, n.op().name) != kMoves.end(); }

// Casts and moves between x and the BitwiseOr that packs it, the last one first, and that node; empty if it
// is not packed.
std::vector<Node*> way_of(const Value* x) {
  std::vector<Node*> way;
  for (int i = 0; i < kMostMoves; ++i) {
    Node* n = x->def();
    if (n == nullptr || n->unchecked()) return {};
    way.push_back(n);
    if (n->is("BitwiseOr")) return packed_half(*n, true) != nullptr ? way : std::vector<Node*>();
    if (!is_cast_of_wide(*n) && !moves(*n)) return {};
    x = n->input(0);
  }
  return {};
}

}  // namespace

bool has_halves(const Value& x) { return !way_of(&x).empty(); }

Value* half_of(Rewriter& b, Value* x, bool upper) {
  const std::vector<Node*> way = way_of(x);
  if (way.empty()) return nullptr;
  Value* half = packed_half(*way.back(), upper);
  for (size_t i = way.size() - 1; i-- > 0;) {
    if (!moves(*way[i])) continue;
    std::vector<Value*> operands{half};
    for (size_t k = 1; k < way[i]->num_inputs(); ++k) operands.push_back(way[i]->input(k));
    half = b.like(*way[i], operands);
  }
  return half;
}

}  // namespace sardonyx::onnx
