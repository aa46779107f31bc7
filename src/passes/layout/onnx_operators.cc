// How each ONNX operator follows a change of layout. One function per family: given the layout of operand 0 or of the results, it
// says all others, and rebuild() writes the parameters for it.
//
//   family         follows                                     parameters
//   elementwise    any order; lower ranks get axes of size 1   -
//   reduce, arg    any order                                   axes
//   softmax, TopK, CumSum, Concat, Split, Gather*, Quantize*   axis
//   Slice, Pad, Tile, Expand, Resize                           axes, or the list in another order
//   Squeeze, Unsqueeze, Reshape: axes that stay together       axes, shape
//   MatMul, LayerNormalization: leading axes                   -
//   MatMul: its last two axes change places                    the operands, in the other order
//   Shape          its result is put back in order by a Gather
//
// Left alone: what means its axes by position (Conv, pools, normalizations of channels). Bodies are in onnx_borders.cc.
#include "passes/layout/onnx_operators.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace sardonyx::layout {
namespace {

using Ints = std::vector<int64_t>;

enum class Family : uint8_t {
  kNone,
  kTranspose,
  kElementwise,
  kFirstOnly,
  kReduce,
  kArg,
  kAlongAxis,
  kCumSum,
  kTopK,
  kConcat,
  kSplit,
  kSlice,
  kPad,
  kExpand,
  kTile,
  kResize,
  kSqueeze,
  kUnsqueeze,
  kReshape,
  kGather,
  kGatherElements,
  kQuantize,
  kShape,
  kSize,
  kMatMul,
  kLayerNorm,
};

const std::unordered_map<std::string_view, Family>& families() {
  static const std::unordered_map<std::string_view, Family> all = {
      {"Transpose", Family::kTranspose},
      {"Clip", Family::kFirstOnly},
      {"CastLike", Family::kFirstOnly},
      {"ReduceL1", Family::kReduce},
      {"ReduceL2", Family::kReduce},
      {"ReduceLogSum", Family::kReduce},
      {"ReduceLogSumExp", Family::kReduce},
      {"ReduceMax", Family::kReduce},
      {"ReduceMean", Family::kReduce},
      {"ReduceMin", Family::kReduce},
      {"ReduceProd", Family::kReduce},
      {"ReduceSum", Family::kReduce},
      {"ReduceSumSquare", Family::kReduce},
      {"ArgMax", Family::kArg},
      {"ArgMin", Family::kArg},
      {"Softmax", Family::kAlongAxis},
      {"LogSoftmax", Family::kAlongAxis},
      {"Hardmax", Family::kAlongAxis},
      {"LpNormalization", Family::kAlongAxis},
      {"CumSum", Family::kCumSum},
      {"CumProd", Family::kCumSum},
      {"TopK", Family::kTopK},
      {"Concat", Family::kConcat},
      {"Split", Family::kSplit},
      {"Slice", Family::kSlice},
      {"Pad", Family::kPad},
      {"Expand", Family::kExpand},
      {"Tile", Family::kTile},
      {"Resize", Family::kResize},
      {"Squeeze", Family::kSqueeze},
      {"Unsqueeze", Family::kUnsqueeze},
      {"Reshape", Family::kReshape},
      {"Flatten", Family::kReshape},
      {"Gather", Family::kGather},
      {"GatherElements", Family::kGatherElements},
      {"ScatterElements", Family::kGatherElements},
      {"QuantizeLinear", Family::kQuantize},
      {"DequantizeLinear", Family::kQuantize},
      {"Shape", Family::kShape},
      {"Size", Family::kSize},
      {"MatMul", Family::kMatMul},
      {"LayerNormalization", Family::kLayerNorm},
      {"RMSNormalization", Family::kLayerNorm},
  };
  return all;
}

Family family_of(const Node& n) {
  const Op& op = n.op();
  if (!op.known) return Family::kNone;  // no operator of other domains that is known has such a name
  if (op.has(Trait::kUnary) || op.has(Trait::kBroadcasts)) return Family::kElementwise;
  const auto at = families().find(op.name);
  return at == families().end() ? Family::kNone : at->second;
}

std::optional<size_t> rank_of(const Value* v) {
  if (v == nullptr || !v->ranked() || v->type()->rank() > Layout::kMaxRank) return std::nullopt;
  return v->type()->rank();
}

// Whether a function's call says what an attribute is, so that it is not known here.
bool has_attr_of_call(const Node& n) {
  const auto& items = n.attrs().items();
  return std::any_of(items.begin(), items.end(), [](const NamedAttr& a) { return a.value.get<RefAttr>() != nullptr; });
}

// Counted from the front. Type inference has seen that it is in range.
std::optional<int64_t> axis_in(std::optional<int64_t> axis, size_t rank) {
  if (!axis) return std::nullopt;
  return *axis < 0 ? *axis + static_cast<int64_t>(rank) : *axis;
}

Ints axes_in(Ints axes, size_t rank) {
  for (int64_t& a : axes) a = *axis_in(a, rank);
  return axes;
}

Ints positions(const Layout& l, const Ints& axes) {
  Ints out;
  for (int64_t a : axes) out.push_back(static_cast<int64_t>(l.position(static_cast<size_t>(a))));
  return out;
}

// What a node looks like: filled by rebuild().
struct Spelling {
  std::vector<Value*> operands;
  std::vector<std::pair<std::string, Attr>> attrs;
  std::string_view op;  // empty: as it was
  bool drop_attrs = false;
};

class OnnxOperators : public Operators {
 public:
  explicit OnnxOperators(PassContext& context) : context_(context), dims_(context.model.dims()) {}

  std::optional<Layout> transposition(const Node& n) const override {
    if (!n.is("Transpose")) return std::nullopt;
    const auto rank = rank_of(n.input(0));
    if (!rank) return std::nullopt;
    if (n.attr("perm") == nullptr) {
      Ints reverse(*rank);
      std::iota(reverse.rbegin(), reverse.rend(), 0);
      return Layout::permutation(reverse);
    }
    const auto perm = ints_attr(n, "perm");
    return perm && perm->size() == *rank ? Layout::permutation(*perm) : std::nullopt;
  }

  std::optional<Move> from_operand(const Node& n, size_t slot, const Layout& l) override {
    const Family family = family_of(n);
    if (!follows_operand(n, family, slot)) return std::nullopt;
    return move(n, family, &l, nullptr, slot);
  }

  std::optional<Move> from_result(const Node& n, size_t index, const Layout& l) override {
    const Family family = family_of(n);
    if (index > 0 && family != Family::kSplit && family != Family::kTopK) return std::nullopt;
    return move(n, family, nullptr, &l, {});
  }

  Node& rebuild(Node& n, const Move& m, std::vector<Value*>* results) override {
    Graph& g = *n.graph();
    OnnxBuilder& b = builder(g, &n);
    b.set_provenance(n.provenance());
    Spelling s;
    for (const Use& u : n.operands()) s.operands.push_back(u.value);
    spell(n, m, b, s);
    for (size_t i = 0; i < m.operands.size(); ++i) {
      if (!m.operands[i].is_as_is()) s.operands[i] = nullptr;
    }
    AttrInit attrs;
    if (!s.drop_attrs) attrs.assign(n.attrs().items().begin(), n.attrs().items().end());
    for (auto& [name, value] : s.attrs) {
      const auto at = std::find_if(attrs.begin(), attrs.end(), [&](const NamedAttr& a) { return a.name == name; });
      if (at != attrs.end()) {
        at->value = std::move(value);
      } else {
        attrs.push_back(attr(name, std::move(value)));
      }
    }
    Model& model = context_.model;
    const Op& op = s.op.empty() ? n.op() : model.op("", s.op);
    Node& made = model.new_node(op, s.operands, n.num_results(), model.attrs(std::move(attrs)));
    g.insert_before(n, made);
    results->clear();
    for (Value& v : made.results()) results->push_back(&v);
    if (op.name == "Shape") {
      // The sizes of x come back in their order.
      const Layout inv = inverse(m.main);
      const auto rank = static_cast<int64_t>(m.main.rank);
      const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
      const int64_t start = clamp(int_attr(n, "start").value_or(0));
      const int64_t end = n.attr("end") != nullptr ? clamp(int_attr(n, "end").value_or(rank)) : rank;
      made.set_attrs(model.empty_attrs());
      made.result()->set_type(model.types().tensor(DType::kI64, {rank}));
      Ints at;
      for (int64_t i = start; i < end; ++i) at.push_back(inv.from[static_cast<size_t>(i)]);
      (*results)[0] = b.Gather(made.result(), b.i64s(at));
    }
    return made;
  }

  Value* store(Value& v, const Layout& l, Graph& g, Node* before) override {
    OnnxBuilder& b = builder(g, before);
    b.set_provenance(v.def() != nullptr ? v.def()->provenance() : 0);
    Value* out = &v;
    Ints perm, added;
    for (size_t i = 0; i < l.rank; ++i) {
      if (l.from[i] == Layout::kNew) {
        added.push_back(static_cast<int64_t>(i));
      } else {
        perm.push_back(l.from[i]);
      }
    }
    if (!std::is_sorted(perm.begin(), perm.end())) out = b.Transpose(out, {.perm = perm});
    if (!added.empty()) out = b.unsqueeze(out, added);
    return out;
  }

  bool reads_swapped(const Node& n, size_t /*slot*/) const override { return n.is("MatMul") && is_float(n.result()->dtype()); }

  Value* constant(Graph& g, TensorPtr payload, std::string_view name, Node* before) override {
    return builder(g, before).constant(std::move(payload), name);
  }

  std::vector<Border> borders(Node& n) override { return onnx_borders(n); }
  Dim trips(const Node& n) override { return onnx_trips(n, context_); }

 private:
  OnnxBuilder& builder(Graph& g, Node* before) {
    auto at = builders_.find(&g);
    if (at == builders_.end()) at = builders_.try_emplace(&g, g, context_.facts).first;
    at->second.set_insertion_point(before);
    return at->second;
  }

  static bool follows_operand(const Node& n, Family family, size_t slot) {
    switch (family) {
      case Family::kNone:
      case Family::kTranspose: return false;
      case Family::kElementwise:
      case Family::kConcat:
      case Family::kMatMul: return true;
      case Family::kGatherElements: return slot < n.num_inputs();
      default: return slot == 0;
    }
  }

  // A value whose elements all are one at every broadcast position.
  static bool is_one_element(const Value& v) {
    const auto dims = v.type()->dims();
    return std::all_of(dims.begin(), dims.end(), [](Dim d) { return d.is(1); });
  }

  // The constant elements of an integer operand.
  std::optional<Ints> ints(const Node& n, size_t slot) const {
    const Value* v = n.input(slot);
    return v != nullptr && v->is_constant() ? context_.ints(v) : std::nullopt;
  }

  // Whether the node has axes in an attribute that its version of the operator reads.
  static bool has_axes_attr(const Node& n) {
    const auto& specs = n.op().attrs;
    return n.attr("axes") != nullptr &&
           std::any_of(specs.begin(), specs.end(), [](const AttrSpec& a) { return a.name == "axes"; });
  }

  // Axes from an operand, else from the attribute; nullopt when they are neither.
  std::optional<Ints> axes_of(const Node& n, size_t slot, size_t rank) const {
    std::optional<Ints> axes;
    if (n.input(slot) != nullptr) {
      axes = ints(n, slot);
    } else if (has_axes_attr(n)) {
      axes = ints_attr(n, "axes");
    }
    return axes ? std::optional(axes_in(std::move(*axes), rank)) : std::nullopt;
  }

  static void set_axes(const Node& n, size_t slot, Ints axes, OnnxBuilder& b, Spelling& s) {
    if (n.input(slot) != nullptr) {
      s.operands[slot] = n.input(slot)->dtype() == DType::kI32 ? i32s(b, axes) : b.i64s(axes);
    } else {
      s.attrs.emplace_back("axes", std::move(axes));
    }
  }

  static Value* i32s(OnnxBuilder& b, const Ints& v) {
    const std::vector<int32_t> narrow(v.begin(), v.end());
    return b.constant(Tensor::of<int32_t>(DType::kI32, {static_cast<int64_t>(v.size())}, narrow));
  }

  // --- the families

  // Exactly one of in (the layout of operand `slot`) and out (of the results) is given.
  std::optional<Move> move(const Node& n, Family family, const Layout* in, const Layout* out, size_t slot) {
    Move m;
    m.operands.resize(n.num_inputs());
    m.results.resize(n.num_results());
    if (family != Family::kElementwise && has_attr_of_call(n)) return std::nullopt;
    if (!fill(n, family, in, out, slot, m)) return std::nullopt;
    bool moves = false;
    const auto settle = [&](Layout& l, const Value* v) {  // false when it would move what has axes that nobody knows
      if (l.is_identity()) l = Layout::as_is();
      moves |= !l.is_as_is();
      return l.is_as_is() || rank_of(v);
    };
    for (size_t i = 0; i < m.operands.size(); ++i) {
      if (!settle(m.operands[i], n.input(i))) return std::nullopt;
    }
    for (size_t i = 0; i < m.results.size(); ++i) {
      if (!settle(m.results[i], n.result(i))) return std::nullopt;
    }
    return moves ? std::optional(std::move(m)) : std::nullopt;
  }

  bool fill(const Node& n, Family family, const Layout* in, const Layout* out, size_t slot, Move& m) {
    const auto rank = rank_of(n.input(0));
    const Layout& given = in != nullptr ? *in : *out;
    switch (family) {
      case Family::kNone:
      case Family::kTranspose: return false;
      case Family::kElementwise: return elementwise(n, in, given, slot, m);
      case Family::kFirstOnly: return same(m, given);
      case Family::kReduce: {
        if (!rank) return false;
        const auto axes = reduced_axes(n, *rank);
        return axes && drops(*axes, int_attr(n, "keepdims"), in, given, m);
      }
      case Family::kArg: {
        if (!rank) return false;
        const auto axis = axis_in(int_attr(n, "axis"), *rank);
        if (!axis || !drops({*axis}, int_attr(n, "keepdims"), in, given, m)) return false;
        m.slower = along(m.main, *axis, *rank);
        return true;
      }
      case Family::kAlongAxis: {
        if (!rank || (n.op().since_version < 13 && n.op().name != "LpNormalization")) return false;
        const auto axis = axis_in(int_attr(n, "axis"), *rank);
        if (!axis || !same(m, given)) return false;
        m.slower = along(given, *axis, *rank);
        return true;
      }
      case Family::kCumSum: {
        const auto axis = ints(n, 1);
        return rank && axis && same(m, given);
      }
      case Family::kTopK: {
        if (!rank) return false;
        const auto axis = axis_in(int_attr(n, "axis"), *rank);
        if (!axis || !same(m, given)) return false;
        m.slower = along(given, *axis, *rank);
        return true;
      }
      case Family::kConcat: {
        if (!rank || !int_attr(n, "axis")) return false;  // version 1 has no default
        std::fill(m.operands.begin(), m.operands.end(), given);
        return same(m, given);
      }
      case Family::kSplit: return rank && int_attr(n, "axis") && same(m, given);
      case Family::kSlice: return rank && slice_axes(n, *rank) && same(m, given);
      case Family::kPad: return rank && pads(n, *rank) && same(m, given);
      case Family::kTile: {
        if (!rank || !is_list_of(n.input(1), *rank)) return false;
        m.more_nodes = n.input(1)->is_constant() ? 0 : 1;
        return same(m, given);
      }
      case Family::kExpand: return expand(n, given, m);
      case Family::kResize: return rank && resize(n, *rank, given, m) && same(m, given);
      case Family::kSqueeze: {
        if (!rank) return false;
        const auto axes = squeezed(n, *rank);
        return axes && drops(*axes, 0, in, given, m);
      }
      case Family::kUnsqueeze: {
        const auto result = rank_of(n.result());
        if (!rank || !result) return false;
        const auto axes = axes_of(n, 1, *result);
        if (!axes) return false;
        m.results[0] = in != nullptr ? with_axes(given, *axes) : given;
        m.operands[0] = m.main = in != nullptr ? given : without_axes(given, *axes);
        return true;
      }
      case Family::kReshape: return reshape(n, in, given, m);
      case Family::kGather: return gather(n, in, given, m);
      case Family::kGatherElements: {
        if (!rank) return false;
        std::fill(m.operands.begin(), m.operands.end(), given);
        return same(m, given);
      }
      case Family::kQuantize: {
        const auto scales = rank_of(n.input(1));
        if (!rank || !scales || n.attr("block_size") != nullptr) return false;
        return (*scales == 0 || int_attr(n, "axis")) && same(m, given);  // version 10 has none
      }
      case Family::kShape:
        m.operands[0] = m.main = given;
        m.more_nodes = 1;
        return true;
      case Family::kSize: m.operands[0] = m.main = given; return true;
      case Family::kMatMul: return matmul(n, given, m);
      case Family::kLayerNorm: {
        if (!rank) return false;
        const auto axis = axis_in(int_attr(n, "axis"), *rank);
        for (size_t i = 1; i < n.num_results(); ++i) {
          if (n.result(i)->has_uses()) return false;
        }
        if (!axis) return false;
        for (auto i = static_cast<size_t>(*axis); i < *rank; ++i) {
          if (given.from[i] != static_cast<int8_t>(i)) return false;
        }
        m.results[0] = m.operands[0] = m.main = given;
        return true;
      }
    }
    return false;
  }

  // Operand 0 and all results in one layout.
  static bool same(Move& m, const Layout& l) {
    m.operands[0] = m.main = l;
    std::fill(m.results.begin(), m.results.end(), l);
    return true;
  }

  // Runtimes copy there and back to work along an axis that is not the last.
  static double along(const Layout& l, int64_t axis, size_t rank) {
    const bool was_last = axis == static_cast<int64_t>(rank) - 1;
    const bool is_last = l.from[rank - 1] == axis;
    return was_last == is_last ? 0 : (was_last ? 2 : -2);
  }

  // How an operand is stored that is stretched to a result stored as `l`. What all axes repeat has none that could move.
  static Layout broadcast(const Value& v, const Layout& l) {
    Layout out;
    if (is_one_element(v)) return out;
    out.rank = 0;
    const int missing = static_cast<int>(l.rank - v.type()->rank());
    for (size_t k = 0; k < l.rank; ++k) {
      const int axis = l.from[k] - missing;
      if (axis >= 0 || out.rank > 0) out.from[out.rank++] = static_cast<int8_t>(std::max<int>(axis, Layout::kNew));
    }
    return out;
  }

  static bool elementwise(const Node& n, const Layout* in, const Layout& given, size_t slot, Move& m) {
    const auto rank = rank_of(n.result());
    if (!rank || given.rank != *rank) return false;
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      if (!rank_of(n.input(i))) return false;
      m.operands[i] = broadcast(*n.input(i), given);
      if (in != nullptr && i == slot && m.operands[i].is_as_is()) return false;
    }
    m.main = given;
    std::fill(m.results.begin(), m.results.end(), given);
    return true;
  }

  std::optional<Ints> reduced_axes(const Node& n, size_t rank) const {
    if (n.input(1) == nullptr && !has_axes_attr(n)) {
      if (int_attr(n, "noop_with_empty_axes").value_or(0) != 0) return std::nullopt;
      return Layout::identity(rank).perm();
    }
    auto axes = axes_of(n, 1, rank);
    if (axes && axes->empty()) return std::nullopt;
    return axes;
  }

  static bool drops(const Ints& axes, std::optional<int64_t> keepdims, const Layout* in, const Layout& given, Move& m) {
    if (!keepdims) return false;
    if (*keepdims != 0) return same(m, given);
    m.main = in != nullptr ? given : with_axes(given, axes);
    m.operands[0] = m.main;
    m.results[0] = in != nullptr ? without_axes(given, axes) : given;
    return true;
  }

  std::optional<Ints> squeezed(const Node& n, size_t rank) const {
    if (n.input(1) != nullptr || has_axes_attr(n)) return axes_of(n, 1, rank);
    return std::nullopt;
  }

  std::optional<Ints> slice_axes(const Node& n, size_t rank) const {
    if (n.input(3) != nullptr || has_axes_attr(n)) return axes_of(n, 3, rank);
    std::optional<size_t> length;
    const Type* t = n.input(1) != nullptr ? n.input(1)->type() : nullptr;
    const auto starts = n.attr("starts") != nullptr ? ints_attr(n, "starts") : std::nullopt;
    if (starts) {
      length = starts->size();
    } else if (t != nullptr && t->ranked() && t->dim(0).is_int()) {
      length = static_cast<size_t>(t->dim(0).value());
    }
    if (!length) return std::nullopt;
    Ints axes(*length);
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }

  // Pads as (axes, begins and ends), the axes given or all.
  std::optional<Ints> pads(const Node& n, size_t rank) const {
    if (n.op().since_version < 11) return ints_attr(n, "pads");
    return n.input(3) != nullptr ? axes_of(n, 3, rank) : ints(n, 1);
  }

  static bool is_list_of(const Value* v, size_t length) {
    return v != nullptr && v->ranked() && v->type()->rank() == 1 && v->type()->dim(0).is(static_cast<int64_t>(length));
  }

  bool expand(const Node& n, const Layout& given, Move& m) const {
    const auto rank = rank_of(n.input(0)), result = rank_of(n.result());
    if (!rank || !result || given.rank != *result) return false;
    const auto shape = ints(n, 1);
    if (!shape && !is_list_of(n.input(1), *result)) return false;
    m.more_nodes = shape ? 0 : 1;
    m.operands[0] = broadcast(*n.input(0), given);
    m.main = m.results[0] = given;
    return true;
  }

  // Runtimes resize the trailing axes of N,C,... tensors; other interpolations than `nearest` may know no other.
  bool resize(const Node& n, size_t rank, const Layout& l, Move& m) const {
    const std::string how = string_attr(n, "coordinate_transformation_mode").value_or("");
    if (how == "tf_crop_and_resize") return false;
    const size_t slot = n.op().since_version < 11 ? 1 : (is_given(n.input(3)) ? 3 : 2);
    const Type* in = n.input(0)->type();
    const Type* out = n.result()->type();
    if (out == nullptr || !out->ranked()) return false;
    if (!has_axes_attr(n)) {
      if (!is_list_of(n.input(slot), rank)) return false;
      m.more_nodes = n.input(slot)->is_constant() ? 0 : 1;
    }
    if (string_attr(n, "mode").value_or("nearest") == "nearest") return true;
    bool was_good = true, is_good = true;
    for (size_t i = 0; i < rank; ++i) {
      if (in->dim(i) == out->dim(i)) continue;
      if (i < 2) was_good = false;
      if (l.position(i) < 2) is_good = false;
    }
    return is_good || !was_good;
  }

  static bool is_given(const Value* v) {
    if (v == nullptr) return false;
    const Type* t = v->type();
    return !(t != nullptr && t->ranked() && t->dim(0).is(0));
  }

  // --- Reshape: axes that are split or joined stay together

  struct Group {
    Ints in, out;  // consecutive axes of both sides with one product
  };

  // Whether the one product needs more axes to become the other one.
  bool goes_into(Dim less, Dim more) {
    const Dim rest = dims_.sub(more, less);
    return rest.is_int() ? rest.value() > 0 : dims_.divide_exactly(more, less).has_value();
  }

  std::optional<std::vector<Group>> groups(const Node& n) {
    if (!n.input(0)->ranked() || !n.result()->ranked()) return std::nullopt;
    const auto a = n.input(0)->type()->dims(), b = n.result()->type()->dims();
    std::vector<Group> all;
    size_t i = 0, j = 0;
    while (i < a.size() || j < b.size()) {
      Group g;
      const auto take_in = [&] { g.in.push_back(static_cast<int64_t>(i++)); };
      const auto take_out = [&] { g.out.push_back(static_cast<int64_t>(j++)); };
      if (i < a.size() && j < b.size() && a[i] == b[j]) {
        take_in(), take_out();
      } else if (j < b.size() && b[j].is(1)) {
        take_out();
      } else if (i < a.size() && a[i].is(1)) {
        take_in();
      } else {
        if (i == a.size() || j == b.size()) return std::nullopt;
        Dim pa = a[i], pb = b[j];
        take_in(), take_out();
        while (!(pa == pb)) {
          if (j < b.size() && goes_into(pb, pa)) {
            pb = dims_.mul(pb, b[j]), take_out();
          } else if (i < a.size()) {
            pa = dims_.mul(pa, a[i]), take_in();
          } else {
            return std::nullopt;
          }
        }
      }
      all.push_back(std::move(g));
    }
    return all;
  }

  bool reshape(const Node& n, const Layout* in, const Layout& given, Move& m) {
    const auto known = groups(n);
    if (!known) return false;
    const bool forward = in != nullptr;
    const auto near = [&](const Group& g) -> const Ints& { return forward ? g.in : g.out; };
    const auto far = [&](const Group& g) -> const Ints& { return forward ? g.out : g.in; };
    // In the order in which the given side stores them.
    std::vector<const Group*> order;
    for (size_t i = 0; i < given.rank;) {
      const Group& g = *std::find_if(known->begin(), known->end(), [&](const Group& c) {
        return std::find(near(c).begin(), near(c).end(), given.from[i]) != near(c).end();
      });
      for (int64_t axis : near(g)) {
        if (given.from[i++] != axis) return false;
      }
      order.push_back(&g);
    }
    Ints other, alone;  // axes of the far side; those that have no counterpart
    for (const Group* g : order) other.insert(other.end(), far(*g).begin(), far(*g).end());
    for (const Group& g : *known) {
      if (near(g).empty()) alone.insert(alone.end(), far(g).begin(), far(g).end());
    }
    std::sort(alone.begin(), alone.end());
    for (int64_t axis : alone) other.insert(other.begin() + std::min<int64_t>(axis, static_cast<int64_t>(other.size())), axis);
    if (other.size() > Layout::kMaxRank) return false;
    const Layout across = layout_of(other);
    m.operands[0] = forward ? given : across;
    m.results[0] = forward ? across : given;
    m.main = m.operands[0];
    return target(n, m.operands[0], m.results[0]).has_value();
  }

  // The shape operand for a Reshape between the two layouts, spelled with at most one -1.
  static std::optional<Ints> target(const Node& n, const Layout& in, const Layout& out) {
    const Type* from = n.input(0)->type();
    const Type* to = n.result()->type();
    Ints shape;
    bool open = false;
    for (size_t i = 0; i < to->rank(); ++i) {
      const Dim d = to->dim(out.is_as_is() ? i : static_cast<size_t>(out.from[i]));
      if (d.is_int()) {
        if (d.value() == 0) return std::nullopt;
        shape.push_back(d.value());
      } else if (i < from->rank() && from->dim(in.is_as_is() ? i : static_cast<size_t>(in.from[i])) == d) {
        shape.push_back(0);
      } else {
        if (open) return std::nullopt;
        open = true;
        shape.push_back(-1);
      }
    }
    return shape;
  }

  static bool gather(const Node& n, const Layout* in, const Layout& given, Move& m) {
    const auto rank = rank_of(n.input(0)), k = rank_of(n.input(1));
    if (!rank || !k) return false;
    const auto axis = axis_in(int_attr(n, "axis"), *rank);
    if (!axis) return false;
    const auto extra = static_cast<int64_t>(*k);
    if (in != nullptr) {
      Ints out;
      for (const int64_t a : given.perm()) {
        if (a == *axis) {
          for (int64_t e = 0; e < extra; ++e) out.push_back(*axis + e);
        } else {
          out.push_back(a < *axis ? a : a + extra - 1);
        }
      }
      if (out.size() > Layout::kMaxRank) return false;
      m.operands[0] = m.main = given;
      m.results[0] = layout_of(out);
      return true;
    }
    if (extra == 0) {
      m.operands[0] = m.main = with_axes(given, {*axis});
    } else {  // the axes of the ids have to stay together
      const Ints order = given.perm();
      Ints from;
      for (size_t i = 0; i < order.size(); ++i) {
        const int64_t a = order[i];
        if (a < *axis || a >= *axis + extra) {
          from.push_back(a < *axis ? a : a - extra + 1);
        } else if (a == *axis) {
          for (int64_t e = 1; e < extra; ++e) {
            ++i;
            if (order[i] != *axis + e) return false;
          }
          from.push_back(a);
        } else {
          return false;
        }
      }
      m.operands[0] = m.main = layout_of(from);
    }
    m.results[0] = given;
    return true;
  }

  static bool matmul(const Node& n, const Layout& given, Move& m) {
    const auto ra = rank_of(n.input(0)), rb = rank_of(n.input(1)), rank = rank_of(n.result());
    if (!ra || !rb || !rank || *ra != *rank) return false;
    if (*rb == *rank && given.from[*rank - 1] == static_cast<int8_t>(*rank - 2) &&
        given.from[*rank - 2] == static_cast<int8_t>(*rank - 1)) {  // the transposed product of the transposed
      m.operands[0] = m.operands[1] = m.main = m.results[0] = given;
      m.swaps_operands = true;
      return true;
    }
    // Operand 1 with fewer axes than the result has none there.
    if (given.from[*rank - 1] != static_cast<int8_t>(*rank - 1)) return false;
    if (*rb == 2) {  // rows in any order
      m.operands[0] = m.main = m.results[0] = given;
      return true;
    }
    if (*rb != *rank || given.from[*rank - 2] != static_cast<int8_t>(*rank - 2)) return false;
    m.operands[0] = m.operands[1] = m.main = m.results[0] = given;
    return true;
  }

  // --- parameters for the new layout

  void spell(const Node& n, const Move& m, OnnxBuilder& b, Spelling& s) {
    const Layout& l = m.main;
    const size_t rank = *rank_of(n.input(0));
    const auto axis_attr = [&](size_t r) {
      const auto axis = axis_in(int_attr(n, "axis"), r);
      s.attrs.emplace_back("axis", static_cast<int64_t>(l.position(static_cast<size_t>(*axis))));
    };
    // A list with an element per axis, from a constant or put in order at run time.
    const auto reordered = [&](size_t slot, const Layout& by) {
      Value* list = n.input(slot);
      return b.Gather(list, b.i64s(by.perm()));
    };
    switch (family_of(n)) {
      case Family::kReduce: {
        if (n.input(1) == nullptr && !has_axes_attr(n)) return;
        Ints axes = positions(l, *reduced_axes(n, rank));
        std::sort(axes.begin(), axes.end());
        set_axes(n, 1, std::move(axes), b, s);
        return;
      }
      case Family::kArg:
      case Family::kAlongAxis:
      case Family::kTopK:
      case Family::kConcat:
      case Family::kSplit:
      case Family::kGatherElements:
      case Family::kGather: axis_attr(rank); return;
      case Family::kQuantize:
        if (*rank_of(n.input(1)) == 1) axis_attr(rank);
        return;
      case Family::kCumSum: {
        const auto axis = axis_in(ints(n, 1)->front(), rank);
        const Value* was = n.input(1);
        Value* now = b.scalar_int(was->dtype(), static_cast<int64_t>(l.position(static_cast<size_t>(*axis))));
        s.operands[1] = now;
        return;
      }
      case Family::kSlice: {
        Ints axes = positions(l, *slice_axes(n, rank));
        if (n.op().since_version < 10) {
          s.attrs.emplace_back("axes", std::move(axes));
          return;
        }
        s.operands.resize(std::max<size_t>(n.num_inputs(), 4));
        s.operands[3] = n.input(1)->dtype() == DType::kI32 ? i32s(b, axes) : b.i64s(axes);
        return;
      }
      case Family::kPad: {
        const auto known = pads(n, rank);
        if (n.input(3) != nullptr) {
          set_axes(n, 3, positions(l, *known), b, s);
          return;
        }
        Ints now;
        for (size_t side = 0; side < 2; ++side) {
          for (size_t i = 0; i < rank; ++i) now.push_back((*known)[side * rank + static_cast<size_t>(l.from[i])]);
        }
        if (n.op().since_version < 11) {
          s.attrs.emplace_back("pads", std::move(now));
        } else {
          s.operands[1] = b.i64s(now);
        }
        return;
      }
      case Family::kExpand:
      case Family::kTile: {
        if (const auto list = ints(n, 1)) {
          Ints now;
          const size_t missing = l.rank - list->size();
          for (const int64_t at : l.perm()) {
            const auto axis = static_cast<size_t>(at);
            now.push_back(axis < missing ? 1 : (*list)[axis - missing]);
          }
          s.operands[1] = b.i64s(now);
        } else {
          s.operands[1] = reordered(1, l);
        }
        return;
      }
      case Family::kResize: {
        if (has_axes_attr(n)) {
          s.attrs.emplace_back("axes", positions(l, axes_in(*ints_attr(n, "axes"), rank)));
          return;
        }
        const size_t slot = n.op().since_version < 11 ? 1 : (is_given(n.input(3)) ? 3 : 2);
        const TensorPtr& list = n.input(slot)->constant();
        if (list == nullptr) {
          s.operands[slot] = reordered(slot, l);
        } else if (is_float(list->dtype())) {
          std::vector<float> now;
          for (size_t i = 0; i < rank; ++i) now.push_back(static_cast<float>(list->as_double(l.from[i])));
          s.operands[slot] = b.constant(Tensor::of<float>(DType::kF32, {static_cast<int64_t>(rank)}, now));
        } else {
          Ints now;
          for (size_t i = 0; i < rank; ++i) now.push_back(list->as_int(l.from[i]));
          s.operands[slot] = b.i64s(now);
        }
        return;
      }
      case Family::kSqueeze: set_axes(n, 1, sorted(positions(l, *squeezed(n, rank))), b, s); return;
      case Family::kUnsqueeze: {
        const size_t result = *rank_of(n.result());
        const Layout out = m.results[0].is_as_is() ? Layout::identity(result) : m.results[0];
        set_axes(n, 1, sorted(positions(out, *axes_of(n, 1, result))), b, s);
        return;
      }
      case Family::kReshape:
        s.operands.resize(2, nullptr);
        s.operands[1] = b.i64s(*target(n, m.operands[0], m.results[0]));
        s.op = "Reshape";
        s.drop_attrs = true;
        return;
      default: return;
    }
  }

  static Ints sorted(Ints v) {
    std::sort(v.begin(), v.end());
    return v;
  }

  PassContext& context_;
  Dims& dims_;
  std::unordered_map<const Graph*, OnnxBuilder> builders_;
};

}  // namespace

std::unique_ptr<Operators> onnx_operators(PassContext& context) { return std::make_unique<OnnxOperators>(context); }

}  // namespace sardonyx::layout
