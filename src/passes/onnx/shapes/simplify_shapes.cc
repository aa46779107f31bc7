// unless empty ones are allowed), and 0 only if the operand's axis is provably the same, whatever allowzero
// was.
// Exact: no float element changes.
//                                                              x ── Reshape ── y: f32[B,T,6,8]
//     =>   Reshape(x, {0,0,6,8})
//
// Simplifies sizes that exporters compute at run time, where inference knows them:
//  - integers whose elements are all known become constants;
//  - Reshape's target becomes a constant with 0 (copies the operand's axis) and one -1, if equivalent;
//  - Expand's target becomes a constant with 1 where the operand already has the size; Slice's bounds count
//    from the end;
//  - Resize to multiples of the operand's sizes takes scales instead; Resize to constant sizes names the axes
//    that it resizes;
//  - Expand, Slice and Tile that change nothing disappear, as does an Expand whose users broadcast anyway;
//  - the rest is computed once: equal symbolic values share the first node that has them, and one Shape with
//    start and end yields a run of dims of one tensor.
// What stops it: sizes that inference cannot prove. It uses -1 only if no other size can be zero (named sizes
// are at least
#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <unordered_map>

#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/shapes/shape_target.h"

namespace sardonyx::onnx {
namespace {

using Key = std::vector<uint64_t>;
constexpr size_t kTries = 4;  // tensors to try as the source of a run of dims

class Shapes {
 public:
  Shapes(Graph& top, PassContext& context)
      : top_(top), context_(context), dims_(context.model.dims()), opset_(context.model.opset_version("")) {}

  bool run() {
    for (Graph* g : graphs_in(top_)) visit(*g);
    if (changes_ > 0) context_.log.count("dead", erase_dead_nodes(top_));
    return changes_ > 0;
  }

 private:
  // An axis that a run of dims can start from.
  struct Source {
    Value* tensor;
    size_t axis;
  };

  void visit(Graph& g) {
    known_.clear();
    sources_.clear();
    for (const Port& p : top_.inputs()) add_source(*p.value);
    Rewriter b(g, context_);
    for (Node& n : g.nodes()) {
      if (n.unchecked()) continue;
      b.set_insertion_point(&n);
      b.set_provenance(n.provenance());
      for (Value& v : n.results()) {
        if (v.has_uses()) value(v, n, b);
      }
      if (n.has(Trait::kBroadcasts)) broadcasting(n, b);
      if (n.is("Reshape")) reshape(n, b);
      if (n.is("Expand")) expand(n, b);
      if (n.is("Slice")) slice(n, b);
      if (n.is("Resize")) resize(n, b);
      if (n.is("Tile") && same_type(n)) replace(*n.result(), *n.input(0), "tile");
    }
  }

  void replace(Value& old, Value& made, std::string_view what) {
    old.def()->graph()->replace_uses(old, made);
    ++changes_;
    context_.log.count(what);
  }

  void set_input(Node& n, size_t i, Value* v, std::string_view what) {
    n.set_input(i, v);
    ++changes_;
    context_.log.count(what);
  }

  // Whether operand and result provably have the same type: the node copies, repeats or removes nothing.
  static bool same_type(const Node& n) {
    const Value* x = n.input(0);
    return x != nullptr && x->ranked() && Types::equal(x->type(), n.result()->type());
  }

  // --- values

  void value(Value& v, Node& n, Rewriter& b) {
    if (renames_result(n)) return;
    const SymbolicValue* known = context_.facts.find(v);
    if (const TensorPtr t = known_integers(v, context_.facts)) return replace(v, *b.constant(t), "constant");
    if (known == nullptr || v.type() == nullptr || !v.type()->is_static() || bit_width(v.dtype()) < 8) return;
    if (!is_integer(v.dtype()) && v.dtype() != DType::kBool) return;
    Key key{static_cast<uint64_t>(v.dtype()), static_cast<uint64_t>(known->scalar)};
    for (Dim d : known->elements) {
      if (d.is_anonymous()) return;
      key.push_back(d.word());
    }
    if (auto at = known_.find(key); at != known_.end()) {
      replace(v, *at->second, "shared");
      return;
    }
    Value* kept = &v;
    if (n.is("Shape")) {
      add_source(*n.input(0));
    } else if (Value* read = known->scalar || v.dtype() != DType::kI64 || joins_what_stays(n)
                                 ? nullptr
                                 : read_shape(known->elements, b)) {
      replace(v, *read, "shape");
      kept = read;
    }
    known_.emplace(std::move(key), kept);
  }

  // Whether another Concat will absorb this one, and its pieces have other users. A Shape instead would add a
  // node.
  static bool joins_what_stays(const Node& n) {
    const Value& v = *n.result();
    if (!n.is("Concat") || !v.has_one_use() || !(*v.uses().begin()).owner->is("Concat")) return false;
    return std::ranges::all_of(n.operands(), [&](const Use& piece) {
      const auto stays = [&](const Use& u) { return u.owner != &n; };
      return piece.value->is_constant() || std::ranges::any_of(piece.value->uses(), stays);
    });
  }

  void add_source(Value& x) {
    if (!x.ranked()) return;
    for (size_t axis = 0; axis < x.type()->rank(); ++axis) {
      const Dim d = x.type()->dim(axis);
      auto& list = sources_[d.word()];
      if (list.size() < kTries) list.push_back({&x, axis});
    }
  }

  // One Shape that yields the elements as consecutive dims of one tensor; null if no tensor has them.
  Value* read_shape(std::span<const Dim> elements, Rewriter& b) {
    const auto first = static_cast<size_t>(std::find_if(elements.begin(), elements.end(), [](Dim d) { return !d.is_int(); }) -
                                           elements.begin());
    const auto at = sources_.find(elements[first].word());
    if (at == sources_.end()) return nullptr;
    for (const Source& s : at->second) {
      const auto dims = s.tensor->type()->dims();
      if (s.axis < first || s.axis - first + elements.size() > dims.size()) continue;
      const size_t start = s.axis - first, end = start + elements.size();
      if (!std::ranges::equal(elements, dims.subspan(start, elements.size()))) continue;
      const bool all = start == 0 && end == dims.size();
      if (!all && opset_ < 15) continue;
      AttrInit attrs;
      if (start != 0) attrs.push_back(attr("start", static_cast<int64_t>(start)));
      if (end != dims.size()) attrs.push_back(attr("end", static_cast<int64_t>(end)));
      return b.op("Shape", {s.tensor}, std::move(attrs));
    }
    return nullptr;
  }

  // --- operators

  // The result's type according to the target. The target takes precedence over a declared size, which may be
  // stale: only the target counts at run time.
  const Type* target_type(const Node& n) {
    const Type* y = n.result()->type();
    const auto asked = context_.symbolic(n.input(1));
    if (!asked) return y;
    std::vector<Dim> sizes(y->dims().begin(), y->dims().end());
    const auto copies = [&](Dim d) { return d.is(0) && n.attr("allowzero") == nullptr; };
    for (size_t i = 0; i < sizes.size(); ++i) {
      const Dim d = asked->elements[i];
      if (copies(d) && n.input(0)->ranked() && i < n.input(0)->type()->rank()) {
        sizes[i] = n.input(0)->type()->dim(i);
      } else if (d.is_expr()) {  // the result's type already has the numbers
        sizes[i] = d;
      }
    }
    return context_.model.types().with_dims(y, sizes);
  }

  // Whether the value is an input of the graph. It stays: nothing would disappear, and a constant would be
  // added.
  bool is_given(const Value& v) const { return v.def() == nullptr && !v.is_constant() && v.graph() == &top_; }

  void reshape(Node& n, Rewriter& b) {
    if (n.input(1) == nullptr || is_given(*n.input(1))) return;
    if (n.input(1)->is_constant()) {
      // Without a 0 in the target, allowzero has no effect.
      const auto target = n.attr("allowzero") != nullptr ? context_.ints(n.input(1)) : std::nullopt;
      if (!target || std::find(target->begin(), target->end(), 0) != target->end()) return;
      n.set_attrs(context_.model.without_attr(n.attrs(), "allowzero"));
      ++changes_;
      context_.log.count("allowzero");
      return;
    }
    if (!n.result()->ranked()) return;
    const auto target = constant_target(*n.input(0), *target_type(n), dims_);
    if (!target) return;
    set_input(n, 1, b.i64s(*target), "reshape");
    if (n.attr("allowzero") != nullptr) n.set_attrs(context_.model.without_attr(n.attrs(), "allowzero"));
  }

  void expand(Node& n, Rewriter& b) {
    Value& x = *n.input(0);
    if (same_type(n)) return replace(*n.result(), x, "expand");
    if (n.input(1)->is_constant() || is_given(*n.input(1)) || !x.ranked() || !n.result()->ranked()) return;
    const auto from = x.type()->dims(), to = n.result()->type()->dims();
    std::vector<int64_t> target;
    for (size_t i = 0; i < to.size(); ++i) {
      const size_t added = to.size() - from.size();
      if (i >= added && from[i - added] == to[i]) {
        target.push_back(1);
      } else if (to[i].is_int()) {
        target.push_back(to[i].value());
      } else {
        return;
      }
    }
    set_input(n, 1, b.i64s(target), "expand_target");
  }

  // Replaces computed sizes. A size that is a multiple of the operand's equals a scale, in every coordinate
  // mode.
  void resize(Node& n, Rewriter& b) {
    const Value* sizes = n.input(3);
    if (sizes == nullptr || sizes->is_constant() || n.attr("axes") != nullptr || !n.input(0)->ranked() ||
        string_attr(n, "coordinate_transformation_mode") == "tf_crop_and_resize" ||
        string_attr(n, "keep_aspect_ratio_policy").value_or("stretch") != "stretch")
      return;
    const auto asked = context_.symbolic(sizes);
    const auto has = n.input(0)->type()->dims();
    if (!asked) return;
    std::vector<float> scales;
    std::vector<int64_t> axes, fixed;
    for (size_t i = 0; i < has.size(); ++i) {
      const Dim to = asked->elements[i];
      const auto times = has[i] == to ? std::optional(Dim::of(1)) : dims_.divide_exactly(to, has[i]);
      if (times && times->is_int() && times->value() > 0) scales.push_back(static_cast<float>(times->value()));
      if (has[i] == to) continue;
      axes.push_back(static_cast<int64_t>(i));
      if (to.is_int()) fixed.push_back(to.value());
    }
    if (scales.size() == has.size()) {
      n.set_input(2, b.constant(Tensor::of<float>(DType::kF32, {static_cast<int64_t>(scales.size())}, scales)));
      set_input(n, 3, nullptr, "resize_scales");
    } else if (fixed.size() == axes.size() && n.op().since_version >= 18) {
      n.set_attrs(context_.model.with_attr(n.attrs(), "axes", axes));
      set_input(n, 3, b.i64s(fixed), "resize_axes");
    }
  }

  // The source of a repeated value: the operand of an Expand, or the number of a ConstantOfShape (no dims).
  struct Repeated {
    Value* value = nullptr;
    TensorPtr number;
    std::span<const Dim> dims;
  };
  static std::optional<Repeated> repeated(const Value* v) {
    const Node* e = v != nullptr ? v->def() : nullptr;
    if (e == nullptr || e->unchecked()) return std::nullopt;
    if (e->is("Expand") && e->input(0)->ranked()) return Repeated{e->input(0), nullptr, e->input(0)->type()->dims()};
    if (!e->is("ConstantOfShape")) return std::nullopt;
    TensorPtr number = repeated_number(*e);
    return number != nullptr ? std::optional(Repeated{nullptr, std::move(number), {}}) : std::nullopt;
  }

  // Removes an Expand of an operand if the other operands have the result's shape.
  void broadcasting(Node& n, Rewriter& b) {
    const Value& y = *n.result();
    if (!y.ranked()) return;
    const auto to = y.type()->dims();
    for (size_t k = 0; k < n.num_inputs(); ++k) {
      if (n.is("PRelu") && k == 0) continue;  // only the slope broadcasts
      const auto less = repeated(n.input(k));
      if (!less) continue;
      const auto dims_of = [&](size_t i) {
        if (i == k) return less->dims;
        return n.input(i) != nullptr && n.input(i)->ranked() ? n.input(i)->type()->dims() : std::span<const Dim>();
      };
      bool free = true, deep = to.empty();  // each size and the rank must come from another operand
      for (size_t back = 1; free && back <= to.size(); ++back) {
        free = to[to.size() - back].is(1);
        for (size_t i = 0; i < n.num_inputs(); ++i) {
          const auto dims = dims_of(i);
          if (dims.size() >= back) free |= dims[dims.size() - back] == to[to.size() - back];
          deep |= dims.size() == to.size();
        }
      }
      if (!free || !deep) continue;
      set_input(n, k, less->value != nullptr ? less->value : b.constant(less->number), "expand_before_broadcast");
    }
  }

  void slice(Node& n, Rewriter& b) {
    if (n.num_inputs() < 3) {
      if (same_type(n)) replace(*n.result(), *n.input(0), "slice");
      return;
    }
    if (n.input(4) != nullptr) {
      const auto steps = context_.ints(n.input(4));
      if (!steps || std::any_of(steps->begin(), steps->end(), [](int64_t s) { return s != 1; })) return;
    }
    if (same_type(n)) return replace(*n.result(), *n.input(0), "slice");
    if (!n.input(0)->ranked()) return;
    for (size_t k : {size_t{1}, size_t{2}}) {
      const auto bounds = n.input(k)->is_constant() ? std::nullopt : context_.symbolic(n.input(k));
      if (!bounds) continue;
      std::optional<std::vector<int64_t>> axes;
      if (n.input(3) != nullptr) {
        axes = read::OpReader(n, context_.facts).axes_at(3, n.input(0)->type()->rank());
        if (!axes) continue;
      }
      const DType dtype = n.input(k)->dtype();
      const int64_t last = dtype == DType::kI32 ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max();
      std::vector<int64_t> made;
      for (size_t i = 0; i < bounds->elements.size(); ++i) {
        const size_t axis = axes ? static_cast<size_t>((*axes)[i]) : i;
        if (const auto at = bound(bounds->elements[i], n.input(0)->type()->dim(axis), last)) made.push_back(*at);
      }
      if (made.size() == bounds->elements.size()) set_input(n, k, b.constant(int_tensor(dtype, false, made)), "slice_bound");
    }
  }

  // A slice bound for an axis of size d as an integer that is right for every d; nullopt if there is none.
  std::optional<int64_t> bound(Dim at, Dim d, int64_t last) {
    if (at.is_int()) return at.value();
    const Dim beyond = dims_.sub(at, d);
    if (!beyond.is_int()) return std::nullopt;
    if (beyond.value() >= 0) return last;
    if (dims_.range(d).min.value_or(0) + beyond.value() < 0) return std::nullopt;  // it would count from the end again
    return beyond.value();
  }

  Graph& top_;
  PassContext& context_;
  Dims& dims_;
  std::optional<int64_t> opset_;
  size_t changes_ = 0;
  std::map<Key, Value*> known_;
  std::unordered_map<uint64_t, std::vector<Source>> sources_;
};

}  // namespace

Pass simplify_shapes() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) {
    // A removal may expose further changes, so repeat. Each change removes a node or a computed operand.
    bool changed = false;
    while (Shapes(top, context).run()) changed = true;
    return changed;
  });
}

}  // namespace sardonyx::onnx
