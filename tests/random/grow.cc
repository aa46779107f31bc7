// grow(): from a pattern.
#include "random/grow.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace sardonyx {
namespace {

using Ints = std::vector<int64_t>;
using Kind = Pattern::Kind;
using Shape = std::vector<Dim>;

constexpr const char* kSymbols[] = {"B", "T", "N"};

TensorPtr tensor(DType t, Ints shape, Dice& dice) {
  const int64_t size = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  if (size > 4096 || t == DType::kString || is_complex(t) || bit_width(t) < 8) throw DeadEnd{};
  const bool same = dice.one_in(2);
  std::vector<std::byte> bytes(byte_size(t, static_cast<uint64_t>(size)));
  const double first = number(dice);
  const auto whole = static_cast<int64_t>(dice.below(6)) - (is_unsigned(t) || t == DType::kBool ? 0 : 2);
  const double scale = dice.one_in(3) ? 0.05 : 1;
  for (int64_t i = 0; i < size; ++i) {
    if (is_float(t)) {
      encode_element(t, bytes.data(), i, same ? first : scale * (dice.one_in(12) ? number(dice) : dice.normal()));
      continue;
    }
    int64_t v = same ? whole : static_cast<int64_t>(dice.below(6)) - (is_unsigned(t) || t == DType::kBool ? 0 : 2);
    if (t == DType::kBool) v = v != 0;
    const size_t width = bit_width(t) / 8;
    std::memcpy(bytes.data() + static_cast<size_t>(i) * width, &v, width);
  }
  return Tensor::own(t, std::move(shape), std::move(bytes));
}

TensorPtr filled(DType t, Ints shape, double v) {
  if (is_float(t)) return Tensor::full(t, std::move(shape), v);
  if (v != std::floor(v) || std::abs(v) > 100 || (v < 0 && (is_unsigned(t) || t == DType::kBool))) throw DeadEnd{};
  return Tensor::full(t, std::move(shape), v);
}

class Grower {
 public:
  Grower(const Rule& rule, Dice& dice) : rule_(rule), dice_(dice), model_(std::make_unique<Model>(DialectId::kOnnx)) {
    const int newest = dialect(DialectId::kOnnx).latest_version("");
    static constexpr int kUsual[] = {11, 13, 17, 18, 21, 23, 24};
    const int least = std::max(rule.opset, 7);
    int opset = dice.one_in(4) ? newest : dice.of(kUsual);
    if (dice.one_in(6)) opset = least + static_cast<int>(dice.below(static_cast<size_t>(newest - least) + 1));
    model_->set_opset_version("", std::max(opset, least));
    model_->add_function("main");
    builder_.emplace(model_->graph(), facts_);
    dtype_ = dice.one_in(8) ? std::optional<DType>() : dice.of(kFloats);
    whole_ = dice.one_in(6) ? DType::kI32 : DType::kI64;
    symbolic_ = dice.one_in(3);
    definitions(rule.match);
    base_ = shape(static_cast<size_t>(dice.one_in(10) ? dice.below(2) : 2 + dice.below(3)));
  }

  std::unique_ptr<Model> model() {
    Value* root = value(rule_.match, nullptr, 0, {});
    Node* n = root->def();
    if (n == nullptr) return nullptr;
    Graph& g = model_->graph();
    size_t outputs = 0;
    for (Value& r : n->results()) g.add_output(r, "y" + std::to_string(outputs++));
    for (Node& other : g.nodes()) {  // sometimes something in the middle is read elsewhere too
      if (&other != n && dice_.one_in(30)) g.add_output(*other.result(), "y" + std::to_string(outputs++));
    }
    return std::move(model_);
  }

 private:
  // Where a variable is bound to a node's result.
  void definitions(const Pattern& p) {
    const auto& d = p.data();
    if (!seen_.insert(&d).second) return;
    if (d.kind == Kind::kOp || d.kind == Kind::kAnyOf || d.kind == Kind::kTrait) {
      for (std::string_view v : d.vars) defined_.try_emplace(v, &p);
    }
    if (d.kind == Kind::kConstant || d.kind == Kind::kSplat) {
      for (std::string_view v : d.vars) defined_.try_emplace(v, &p);
    }
    for (const Pattern& c : d.children) definitions(c);
  }

  Dim size() {
    if (dice_.one_in(8)) return Dim::of(1);
    if (dice_.one_in(150)) return Dim::of(0);
    if (symbolic_ && dice_.one_in(3)) return model_->dims().symbol(dice_.of(kSymbols));
    return Dim::of(dice_.of(kSizes));
  }
  Shape shape(size_t rank) {
    Shape s;
    for (size_t i = 0; i < rank; ++i) s.push_back(size());
    return s;
  }

  static Ints numbers(std::span<const Dim> dims) {
    Ints out;
    for (Dim d : dims) {
      if (!d.is_int()) throw DeadEnd{};
      out.push_back(d.value());
    }
    return out;
  }

  const Type* ranked(const Value* v) const {
    if (v == nullptr || !v->ranked()) throw DeadEnd{};
    return v->type();
  }

  static const TensorPtr& payload(const Value* v) {
    if (v == nullptr || !v->is_constant()) throw DeadEnd{};
    return v->constant();
  }

  // Dims that broadcast with s.
  Shape beside(Shape s) {
    switch (dice_.below(8)) {
      case 0: return {};
      case 1: return {Dim::of(1)};
      case 2:
        if (!s.empty()) return {s.back()};
        return s;
      case 3:
        if (!s.empty()) s.erase(s.begin());
        return s;
      case 4:
        for (Dim& d : s) {
          if (dice_.one_in(2)) d = Dim::of(1);
        }
        return s;
      case 5:
        if (s.size() >= 2) {  // one number per channel
          Shape c(s.size() - 1, Dim::of(1));
          c[0] = s[1];
          return c;
        }
        return s;
      default: return s;
    }
  }

  // --- types of operands that are made to fit

  struct Wanted {
    DType dtype;
    Shape dims;
    bool constant = false;
    std::optional<Ints> ints;  // the elements
  };

  DType slot_dtype(const Op& op, size_t i, std::span<Value* const> siblings) {
    const Slot* slot = slot_of(op, i, std::max(siblings.size(), i + 1));
    if (slot == nullptr) return dtype_.value_or(DType::kF32);
    if (!slot->type_var.empty()) {
      for (size_t k = 0; k < siblings.size(); ++k) {
        const Slot* other = slot_of(op, k, siblings.size());
        if (siblings[k] != nullptr && other != nullptr && other->type_var == slot->type_var && siblings[k]->type() != nullptr)
          return siblings[k]->dtype();
      }
    }
    const auto allowed = [&](DType t) { return ((slot->types.tensor >> static_cast<int>(t)) & 1) != 0; };
    if (dtype_ && allowed(*dtype_)) return *dtype_;
    if (!dtype_ && allowed(whole_)) return whole_;
    std::vector<DType> types;
    for (DType t :
         {DType::kF32, DType::kI64, DType::kBool, DType::kI32, DType::kF16, DType::kF64, DType::kU8, DType::kI8, DType::kU64})
      if (allowed(t)) types.push_back(t);
    if (types.empty()) throw DeadEnd{};
    return dice_.one_in(2) ? types.front() : dice_.of(types);
  }

  Ints some_axes(size_t rank) {
    Ints axes;
    if (rank == 0) return axes;
    if (dice_.one_in(2)) {  // the last ones
      for (size_t i = rank - 1 - (dice_.one_in(3) ? dice_.below(rank) : 0); i < rank; ++i)
        axes.push_back(static_cast<int64_t>(i));
    } else if (rank > 2 && dice_.one_in(3)) {
      for (size_t i = 2; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
    } else {
      for (size_t i = 0; i < rank; ++i) {
        if (dice_.one_in(3)) axes.push_back(static_cast<int64_t>(i));
      }
      if (axes.empty()) axes.push_back(static_cast<int64_t>(dice_.below(rank)));
    }
    if (dice_.one_in(3)) {
      for (int64_t& a : axes) a -= static_cast<int64_t>(rank);
    }
    return axes;
  }
  Ints unit_axes(const Type& t) {
    Ints axes;
    for (size_t i = 0; i < t.rank(); ++i) {
      if (t.dim(i).is(1) && !dice_.one_in(4)) axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.empty()) throw DeadEnd{};
    return axes;
  }

  // What a Reshape of t may ask for.
  Ints target(const Type& t) {
    Shape dims(t.dims().begin(), t.dims().end());
    std::vector<std::optional<Dim>> out;
    Ints asked;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i].is(1) && dice_.one_in(2)) continue;
      if (dice_.one_in(5)) asked.push_back(1);
      if (dims[i].is_int() && dims[i].value() > 3 && dims[i].value() % 2 == 0 && dice_.one_in(4)) {
        asked.push_back(dice_.one_in(2) ? 2 : dims[i].value() / 2);
        asked.push_back(dims[i].value() / asked.back());
      } else if (i + 1 < dims.size() && dims[i].is_int() && dims[i + 1].is_int() && dice_.one_in(4)) {
        asked.push_back(dims[i].value() * dims[i + 1].value());
        ++i;
      } else if (dims[i].is_int()) {
        asked.push_back(asked.size() == i && dice_.one_in(6) ? 0 : dims[i].value());
      } else {
        asked.push_back(asked.size() == i ? 0 : -1);
      }
    }
    if (std::count(asked.begin(), asked.end(), -1) > 1) throw DeadEnd{};
    if (std::count(asked.begin(), asked.end(), -1) == 0 && !asked.empty() && dice_.one_in(3))
      asked[dice_.below(asked.size())] = -1;
    return asked;
  }

  static Wanted list(Ints v, bool constant = true) {
    return {DType::kI64, {Dim::of(static_cast<int64_t>(v.size()))}, constant, v};
  }
  static Wanted one(int64_t v) { return {DType::kI64, {}, true, Ints{v}}; }

  // Operand i of an operator, given those that are there already (null: not yet, or absent).
  Wanted wanted(const Op& op, size_t i, std::span<Value* const> siblings) {
    const std::string_view n = op.name;
    const auto other = [&](size_t k) { return k < siblings.size() ? siblings[k] : nullptr; };
    const auto is = [&](std::initializer_list<std::string_view> names) {
      return std::find(names.begin(), names.end(), n) != names.end();
    };
    const DType t = slot_dtype(op, i, siblings);
    const auto per_channel = [&]() -> Wanted {
      return {t, {ranked(other(0))->rank() > 1 ? other(0)->type()->dim(1) : Dim::of(1)}, !dice_.one_in(5), {}};
    };

    if (i == 1 && n == "Reshape") return list(target(*ranked(other(0))));
    if (i == 1 && n == "Expand") {
      Shape s = beside({ranked(other(0))->dims().begin(), other(0)->type()->dims().end()});
      for (Dim& d : s) {
        if (d.is(1) && dice_.one_in(2)) d = Dim::of(dice_.of(kSizes));
      }
      if (dice_.one_in(3)) s.insert(s.begin(), Dim::of(dice_.of(kSizes)));
      for (Dim& d : s) {
        if (!d.is_int()) d = Dim::of(1);
      }
      return list(numbers(s));
    }
    if (i == 1 && n == "Tile") {
      Ints r(ranked(other(0))->rank(), 1);
      for (int64_t& k : r) k = dice_.one_in(4) ? 2 : 1;
      return list(r);
    }
    if (i == 1 && n == "Squeeze") return list(unit_axes(*ranked(other(0))));
    if (i == 1 && n == "Unsqueeze") {
      const size_t rank = ranked(other(0))->rank();
      Ints axes{static_cast<int64_t>(dice_.below(rank + 1))};
      if (dice_.one_in(3)) axes = {0, static_cast<int64_t>(rank) + 1};
      return list(axes);
    }
    if (i == 1 && n.starts_with("Reduce")) return list(some_axes(ranked(other(0))->rank()));
    if (n == "Slice" && i >= 1) {
      if (i == 3) {
        const TensorPtr& starts = payload(other(1));
        Ints axes(ranked(other(0))->rank());
        std::iota(axes.begin(), axes.end(), 0);
        while (static_cast<int64_t>(axes.size()) > starts->size())
          axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(dice_.below(axes.size())));
        if (static_cast<int64_t>(axes.size()) < starts->size()) throw DeadEnd{};
        return list(axes);
      }
      size_t count = std::min<size_t>(1 + dice_.below(2), ranked(other(0))->rank());
      if (i > 1) count = static_cast<size_t>(payload(other(1))->size());
      Ints v;
      static constexpr int64_t kStarts[] = {0, 0, 1, -2, 2, -100};
      static constexpr int64_t kEnds[] = {3, INT64_MAX, 2, -1, 5, INT32_MAX};
      for (size_t k = 0; k < count; ++k)
        v.push_back(i == 1 ? dice_.of(kStarts) : i == 2 ? dice_.of(kEnds) : dice_.one_in(4) ? 2 : 1);
      return list(v);
    }
    if (n == "Pad" && i == 1) {
      Ints pads(2 * ranked(other(0))->rank(), 0);
      const bool none = dice_.one_in(4), spatial = dice_.one_in(2);
      for (size_t k = 0; k < pads.size(); ++k) {
        if (!none && !(spatial && k % (pads.size() / 2) < 2))
          pads[k] = static_cast<int64_t>(dice_.below(3)) - (dice_.one_in(8) ? 1 : 0);
      }
      return list(pads);
    }
    if (n == "Pad" && i == 2) return {t, {}, true, {}};
    if (n == "Split" && i == 1) throw DeadEnd{};  // see split()
    if (n == "Clip" && i >= 1) return {t, {}, !dice_.one_in(6), {}};
    if (n == "Trilu" && i == 1) return one(static_cast<int64_t>(dice_.below(3)) - 1);
    if (n == "TopK" && i == 1) return list({1});
    if (n == "CumSum" && i == 1) return one(static_cast<int64_t>(dice_.below(std::max<size_t>(ranked(other(0))->rank(), 1))));
    if (n == "ConstantOfShape") return list(numbers(shape(1 + dice_.below(3))));
    if (n == "OneHot" && i == 0) return {DType::kI64, shape(1 + dice_.below(2)), false, {}};
    if (n == "OneHot" && i == 1) return one(dice_.of(kSizes));
    if (n == "OneHot" && i == 2) return {t, {Dim::of(2)}, true, {}};
    if (n == "Dropout" && i == 1) return {t, {}, true, {}};
    if (n == "Dropout" && i == 2) return {DType::kBool, {}, true, Ints{dice_.one_in(3) ? 1 : 0}};
    if ((n == "Gather" || n == "GatherElements") && i == 1) {
      Wanted w{DType::kI64, shape(dice_.below(3)), dice_.one_in(2), {}};
      return w;
    }
    if (n == "MatMul" && i < 2) {
      const Value* o = other(1 - i);
      if (o == nullptr) {
        Shape s = base_;
        if (s.size() < 2) s = shape(2);
        if (dice_.one_in(3) && s.size() > 2) s.erase(s.begin(), s.end() - 2);
        return {t, s, dice_.one_in(5), {}};
      }
      if (ranked(o)->rank() < 2) throw DeadEnd{};
      const auto dims = o->type()->dims();
      const Dim k = i == 1 ? dims.back() : dims[dims.size() - 2];
      Shape s;
      if (dice_.one_in(2)) s.assign(dims.begin(), dims.end() - 2);
      if (dice_.one_in(20)) return {t, {k}, dice_.one_in(2), {}};
      s.push_back(i == 1 ? k : size());
      s.push_back(i == 1 ? size() : k);
      return {t, s, dice_.one_in(2), {}};
    }
    if (n == "Gemm") {
      if (i == 0 && other(1) == nullptr) return {t, shape(2), false, {}};
      if (i < 2) {
        const Type* o = ranked(other(1 - i));
        if (o->rank() != 2) throw DeadEnd{};
        Shape s{size(), size()};
        s[dice_.below(2)] = o->dim(dice_.below(2));
        return {t, s, dice_.one_in(2), {}};
      }
      const Type *a = ranked(other(0)), *b = ranked(other(1));
      return {t, beside({a->dim(0), b->dim(1)}), dice_.one_in(2), {}};
    }
    if (is({"Conv", "ConvTranspose"})) {
      if (i == 0) return {t, image(), false, {}};
      const Type* x = ranked(other(0));
      if (x->rank() < 3 || !x->dim(1).is_int()) throw DeadEnd{};
      const int64_t c = x->dim(1).value();
      if (i == 1) {
        const int64_t groups = c > 1 && dice_.one_in(4) ? (dice_.one_in(2) || c % 2 != 0 ? c : 2) : 1;
        Shape s = n == "Conv" ? Shape{Dim::of(groups * (1 + static_cast<int64_t>(dice_.below(3)))), Dim::of(c / groups)}
                              : Shape{Dim::of(c), Dim::of(1 + static_cast<int64_t>(dice_.below(3)))};
        groups_ = groups;
        for (size_t k = 2; k < x->rank(); ++k) s.push_back(Dim::of(1 + static_cast<int64_t>(dice_.below(3))));
        return {t, s, !dice_.one_in(6), {}};
      }
      const Type* w = ranked(other(1));
      if (!w->dim(0).is_int() || !w->dim(1).is_int()) throw DeadEnd{};
      return {t, {n == "Conv" ? w->dim(0) : Dim::of(w->dim(1).value() * groups_)}, !dice_.one_in(6), {}};
    }
    if (is({"MaxPool", "AveragePool", "GlobalAveragePool", "LpPool", "Resize", "LRN"}) && i == 0)
      return {t, image(), false, {}};
    if (is({"DepthToSpace", "SpaceToDepth"})) return {t, {size(), Dim::of(8), Dim::of(4), Dim::of(6)}, false, {}};
    if (n == "Resize" && i >= 2) throw DeadEnd{};
    if (is({"BatchNormalization", "InstanceNormalization", "GroupNormalization"})) {
      if (i == 0) return {t, image(), false, {}};
      return per_channel();
    }
    if (is({"LayerNormalization", "RMSNormalization"}) && i > 0) {
      const Type* x = ranked(other(0));
      if (x->rank() == 0) throw DeadEnd{};
      Wanted w{t, {x->dim(x->rank() - 1)}, !dice_.one_in(3), {}};
      if (x->rank() > 1 && dice_.one_in(4)) w.dims.insert(w.dims.begin(), dice_.one_in(2) ? Dim::of(1) : x->dim(x->rank() - 2));
      return w;
    }
    if (n == "Attention") {
      if (i < 3) {
        if (i > 0 && other(0) != nullptr) {
          Shape s(ranked(other(0))->dims().begin(), other(0)->type()->dims().end());
          if (s.size() != 4) throw DeadEnd{};
          if (i == 2 && other(1) != nullptr)
            s[2] = ranked(other(1))->dim(2);
          else if (dice_.one_in(2))
            s[2] = Dim::of(dice_.of(kSizes));
          return {t, s, false, {}};
        }
        return {t, {size(), Dim::of(2), size(), Dim::of(4)}, false, {}};
      }
      if (i == 3) {
        const Type *q = ranked(other(0)), *k = ranked(other(1));
        if (q->rank() != 4 || k->rank() != 4) throw DeadEnd{};
        return {dice_.one_in(2) ? DType::kBool : t, {q->dim(2), k->dim(2)}, dice_.one_in(2), {}};
      }
      throw DeadEnd{};
    }
    if (n == "Where" && i == 0) {
      for (size_t k : {size_t{1}, size_t{2}}) {
        if (other(k) != nullptr)
          return {
              DType::kBool, beside({ranked(other(k))->dims().begin(), other(k)->type()->dims().end()}), dice_.one_in(3), {}};
      }
    }
    if (n == "Einsum" || is({"QuantizeLinear", "DequantizeLinear"})) {
      if (i == 0) return {t, shape(2), false, {}};
      return {t, {}, true, {}};
    }
    if (n == "Concat") {
      for (size_t k = 0; k < siblings.size(); ++k) {
        if (siblings[k] != nullptr && siblings[k]->ranked())
          return {t, {siblings[k]->type()->dims().begin(), siblings[k]->type()->dims().end()}, dice_.one_in(5), {}};
      }
    }
    if (n == "Squeeze") {
      Shape s = base_;
      for (size_t k = 0; k < 1 + dice_.below(2); ++k)
        s.insert(s.begin() + static_cast<std::ptrdiff_t>(dice_.below(s.size() + 1)), Dim::of(1));
      return {t, s, false, {}};
    }
    // Elementwise, and whatever else takes one tensor: like a sibling, or of the graph's own shape.
    for (size_t k = 0; k < siblings.size(); ++k) {
      if (k != i && siblings[k] != nullptr && siblings[k]->ranked()) {
        const auto dims = siblings[k]->type()->dims();
        return {t, beside({dims.begin(), dims.end()}), dice_.one_in(4), {}};
      }
    }
    return {t, dice_.one_in(4) ? beside(base_) : base_, dice_.one_in(10), {}};
  }

  Shape image() {
    Shape s = base_.size() >= 3 && base_.size() <= 4 ? base_ : shape(3 + dice_.below(2));
    if (!s[1].is_int() || s[1].value() == 0) s[1] = Dim::of(dice_.of(kSizes));
    for (size_t i = 2; i < s.size(); ++i) {
      if (s[i].is_int() && s[i].value() < 3) s[i] = Dim::of(5);
    }
    return s;
  }

  Value* constant(TensorPtr t) { return model_->graph().add_constant(std::move(t)); }

  Value* leaf(const Wanted& w, bool must_be_constant) {
    if (w.ints) {
      TensorPtr t = w.dims.empty() ? Tensor::scalar(w.ints->front()) : Tensor::vector(*w.ints);
      if (w.dtype == DType::kBool) t = Tensor::full(DType::kBool, {}, static_cast<double>(w.ints->front()));
      if (!must_be_constant && dice_.one_in(15) && !w.dims.empty()) return input(DType::kI64, w.dims);
      return constant(t);
    }
    if (must_be_constant || w.constant) {
      const bool known = std::all_of(w.dims.begin(), w.dims.end(), [](Dim d) { return d.is_int(); });
      if (known) return constant(tensor(w.dtype, numbers(w.dims), dice_));
      if (must_be_constant) {
        Ints dims;
        for (Dim d : w.dims) dims.push_back(d.is_int() ? d.value() : 1);
        return constant(tensor(w.dtype, dims, dice_));
      }
    }
    Value* v = input(w.dtype, w.dims);
    if (dice_.one_in(12) && is_float(w.dtype)) {
      static constexpr const char* kBefore[] = {"Relu", "Exp", "Neg", "Identity", "Sigmoid"};
      return make(dice_.of(kBefore), std::array{v});
    }
    return v;
  }

  Value* input(DType t, const Shape& dims) {
    // Sometimes one that is there: the same value in several places.
    if (dice_.one_in(6)) {
      std::vector<Value*> same;
      for (const Port& p : model_->graph().inputs()) {
        if (p.declared->dtype() == t && std::ranges::equal(p.declared->dims(), dims, [](Dim a, Dim b) { return a == b; }))
          same.push_back(p.value);
      }
      if (!same.empty()) return dice_.of(same);
    }
    const size_t count = model_->graph().inputs().size();
    return model_->graph().add_input("x" + std::to_string(count), model_->types().tensor(t, dims));
  }

  Value* make(std::string_view name, std::span<Value* const> operands) {
    const Op* op = dialect(DialectId::kOnnx).find("", name, static_cast<int>(*model_->opset_version("")));
    if (op == nullptr) throw DeadEnd{};
    return builder_->make(*op, operands, 1, {}).result();
  }

  // --- patterns

  void bind(const Pattern::Data& d, Value* v) {
    for (std::string_view var : d.vars) vars_.try_emplace(var, v);
  }

  // A value for a pattern that is operand i of op; for the root op is null.
  Value* value(const Pattern& p, const Op* op, size_t i, std::span<Value* const> siblings) {
    const auto& d = p.data();
    for (std::string_view var : d.vars) {
      if (const auto known = vars_.find(var); known != vars_.end()) return known->second;
    }
    if (d.kind == Kind::kAbsent) return nullptr;
    if (const auto made = made_.find(&d); made != made_.end() && d.kind != Kind::kAny && !dice_.one_in(6)) return made->second;
    if (d.kind == Kind::kAny) {
      for (std::string_view var : d.vars) {
        const auto defined = defined_.find(var);
        if (defined != defined_.end() && &defined->second->data() != &d) return value(*defined->second, op, i, siblings);
      }
    }
    Value* v = nullptr;
    switch (d.kind) {
      case Kind::kAny:
        if (op == nullptr) throw DeadEnd{};
        v = leaf(wanted(*op, i, siblings), false);
        break;
      case Kind::kConstant:
        if (op == nullptr) throw DeadEnd{};
        v = leaf(wanted(*op, i, siblings), true);
        break;
      case Kind::kSplat: {
        if (op == nullptr) throw DeadEnd{};
        const Wanted w = wanted(*op, i, siblings);
        Ints dims;
        for (Dim x : w.dims) dims.push_back(x.is_int() ? x.value() : 1);
        if (dice_.one_in(2)) dims.clear();
        v = constant(filled(w.dtype, dims, d.number));
        break;
      }
      case Kind::kAnyOf: v = value(dice_.of(d.children), op, i, siblings); break;
      case Kind::kOp: v = node(d); break;
      case Kind::kTrait: v = trait(d); break;
      default: throw DeadEnd{};
    }
    bind(d, v);
    made_.try_emplace(&d, v);
    return v;
  }

  Value* trait(const Pattern::Data& d) {
    std::vector<const Op*> ops;
    const int opset = static_cast<int>(*model_->opset_version(""));
    for (const Op& op : dialect(DialectId::kOnnx).ops()) {
      if (op.has(d.trait) && op.domain.empty() && !op.deprecated && op.min_inputs >= 1 && op.min_inputs <= 2 &&
          dialect(DialectId::kOnnx).find("", op.name, opset) == &op)
        ops.push_back(&op);
    }
    if (ops.empty()) throw DeadEnd{};
    const Op& op = *dice_.of(ops);
    std::vector<Value*> operands(static_cast<size_t>(op.min_inputs), nullptr);
    const size_t at = dice_.below(operands.size());
    operands[at] = value(d.children.front(), &op, at, operands);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (i != at) operands[i] = leaf(wanted(op, i, operands), false);
    }
    return builder_->make(op, operands, 1, attributes(op, operands, {})).result();
  }

  // How soon an operand is grown: those that decide types and shapes first.
  static int turn(const Pattern& p) {
    switch (p.data().kind) {
      case Kind::kOp:
      case Kind::kTrait: return 0;
      case Kind::kAnyOf: {
        int soonest = 4;
        for (const Pattern& c : p.data().children) soonest = std::min(soonest, turn(c));
        return soonest;
      }
      case Kind::kAny: return 1;
      case Kind::kConstant: return 2;
      default: return 3;
    }
  }

  Value* node(const Pattern::Data& d) {
    const int opset = static_cast<int>(*model_->opset_version(""));
    if (!d.domain.empty()) throw DeadEnd{};
    const Op* op = dialect(DialectId::kOnnx).find(d.domain, d.onnx, opset);
    if (op == nullptr || op->since_version < d.since || op->deprecated || op->has(Trait::kSubgraphs)) throw DeadEnd{};
    const bool open = !d.children.empty() && d.children.back().data().kind == Kind::kRest;
    const size_t given = d.children.size() - (open ? 1 : 0);
    std::vector<Value*> operands(given, nullptr);
    std::vector<size_t> order(given);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto bound = [&](size_t i) {
        return std::any_of(d.children[i].data().vars.begin(), d.children[i].data().vars.end(),
                           [&](auto v) { return vars_.contains(v); });
      };
      const int x = bound(a) ? -1 : turn(d.children[a]), y = bound(b) ? -1 : turn(d.children[b]);
      return x < y;
    });
    for (size_t i : order) operands[i] = value(d.children[i], op, i, operands);
    if (op->has(Trait::kCommutative) && operands.size() == 2 && dice_.one_in(2)) std::swap(operands[0], operands[1]);
    if (open) {
      const size_t least = static_cast<size_t>(std::max(op->min_inputs, 0));
      size_t count = std::max(given, least);
      if (op->max_inputs < 0 || static_cast<size_t>(op->max_inputs) > count) {
        const size_t more = op->max_inputs < 0 ? 3 : static_cast<size_t>(op->max_inputs) - count;
        count += dice_.below(more + 1);
      }
      // Operands of lists that may be nested patterns of the same kind.
      while (operands.size() < count) {
        const size_t i = operands.size();
        const bool needed = i < least;
        const Slot* slot = slot_of(*op, i, i + 1);
        const bool shaping =
            op->name == "Reshape" || op->name == "Squeeze" || op->name == "Unsqueeze" || op->name.starts_with("Reduce");
        if (!needed && slot != nullptr && slot->arity == Arity::kOptional && !(shaping && i == 1) && dice_.one_in(2)) {
          operands.push_back(nullptr);
          continue;
        }
        if (op->name == "Split") break;
        Value* v = nullptr;
        if (slot != nullptr && slot->arity == Arity::kVariadic && dice_.one_in(3) && i > 0 && operands[0] != nullptr) {
          v = made_operand(*op, operands);
        } else {
          v = leaf(wanted(*op, i, operands), shaping && i == 1);
        }
        operands.push_back(v);
      }
      while (!operands.empty() && operands.back() == nullptr) operands.pop_back();
    }
    size_t results = static_cast<size_t>(std::max(op->min_outputs, 1));
    if (op->name == "Split") results = dice_.one_in(4) ? 1 : 2;
    results = std::max<size_t>(results, d.result + 1);
    AttrInit attrs = attributes(*op, operands, d.attrs);
    if (op->name == "Split") split(*op, operands, attrs, results);
    return builder_->make(*op, operands, results, std::move(attrs)).result(d.result);
  }

  // For lists: another node of the same operator as one of the operands.
  Value* made_operand(const Op& op, std::span<Value* const> operands) {
    std::vector<Value*> inner{leaf(wanted(op, 0, operands), false), leaf(wanted(op, 1, operands), false)};
    return builder_->make(op, inner, 1, attributes(op, inner, {})).result();
  }

  void split(const Op& op, std::vector<Value*>& operands, AttrInit& attrs, size_t results) {
    const Type* t = ranked(operands.front());
    if (t->rank() == 0) throw DeadEnd{};
    int64_t axis = 0;
    for (const NamedAttr& a : attrs) {
      if (a.name == "axis") axis = *a.value.get<int64_t>();
    }
    const Dim d = t->dim(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(t->rank()) : axis));
    if (!d.is_int() || d.value() < static_cast<int64_t>(results)) throw DeadEnd{};
    Ints sizes(results, 1);
    sizes.back() = d.value() - static_cast<int64_t>(results) + 1;
    std::erase_if(attrs, [](const NamedAttr& a) { return a.name == "split" || a.name == "num_outputs"; });
    if (op.since_version >= 13) {
      operands.resize(2);
      operands[1] = constant(Tensor::vector(sizes));
    } else {
      attrs.push_back(attr("split", sizes));
    }
  }

  AttrInit attributes(const Op& op, std::span<Value* const> operands, const std::vector<std::pair<std::string, Attr>>& given) {
    AttrInit attrs;
    for (const auto& [name, value] : given) attrs.push_back(attr(name, value));
    const Type* t = !operands.empty() && operands[0] != nullptr && operands[0]->ranked() ? operands[0]->type() : nullptr;
    const size_t rank = t != nullptr ? t->rank() : 0;
    for (const AttrSpec& s : op.attrs) {
      const auto is_given = [&](const auto& g) { return g.first == s.name; };
      if (std::any_of(given.begin(), given.end(), is_given)) continue;
      if (auto v = attribute(op, s, operands, t, rank)) attrs.push_back(attr(s.name, std::move(*v)));
    }
    return attrs;
  }

  std::optional<Attr> attribute(const Op& op, const AttrSpec& s, std::span<Value* const> operands, const Type* t, size_t rank) {
    const std::string_view n = op.name;
    const auto sometimes = [&](size_t k, Attr v) {
      return s.required || dice_.one_in(k) ? std::optional<Attr>(std::move(v)) : std::nullopt;
    };
    if (s.name == "axis") {
      const size_t places = n == "Unsqueeze" || n == "Flatten" ? rank + 1 : std::max<size_t>(rank, 1);
      int64_t axis = dice_.one_in(2) ? static_cast<int64_t>(places) - 1 : static_cast<int64_t>(dice_.below(places));
      if (n == "LayerNormalization" || n == "RMSNormalization") {
        const Type* w = operands.size() > 1 ? operands[1]->type() : nullptr;
        if (w == nullptr || !w->ranked() || w->rank() == 0 || w->rank() > rank) return std::nullopt;
        return Attr(-static_cast<int64_t>(w->rank()));
      }
      if (dice_.one_in(3)) axis -= static_cast<int64_t>(places);
      return sometimes(2, Attr(axis));
    }
    if (s.name == "perm") {
      if (dice_.one_in(8)) return std::nullopt;
      Ints perm(rank);
      std::iota(perm.begin(), perm.end(), 0);
      if (rank >= 2 && dice_.one_in(2)) {
        std::swap(perm[rank - 1], perm[rank - 2 - (dice_.one_in(3) && rank > 2 ? 1 : 0)]);
      } else if (!dice_.one_in(4)) {
        for (size_t i = rank; i > 1; --i) std::swap(perm[i - 1], perm[dice_.below(i)]);
      }
      return Attr(perm);
    }
    if (s.name == "keepdims") return sometimes(2, Attr(static_cast<int64_t>(dice_.below(3) != 0)));
    if (s.name == "axes" && t != nullptr && s.kind == AttrKind::kInts) {
      if (n == "Squeeze") return Attr(unit_axes(*t));
      if (n == "Unsqueeze") return Attr(Ints{static_cast<int64_t>(dice_.below(rank + 1))});
      if (n.starts_with("Reduce")) return dice_.one_in(6) ? std::nullopt : std::optional<Attr>(some_axes(rank));
    }
    if (s.name == "to") {
      static constexpr int64_t kTo[] = {1, 1, 7, 6, 9, 10, 11, 16, 3};
      return Attr(dice_.of(kTo));
    }
    if (s.name == "transA" || s.name == "transB") {
      const Type *a = ranked(operands[0]), *b = ranked(operands[1]);
      if (a->rank() != 2 || b->rank() != 2) throw DeadEnd{};
      const bool ta = a->dim(1) == b->dim(0) || a->dim(1) == b->dim(1) ? false : true;
      const bool tb = !(a->dim(ta ? 0 : 1) == b->dim(0));
      return Attr(static_cast<int64_t>(s.name == "transA" ? ta : tb));
    }
    if (s.name == "group") return groups_ != 1 ? std::optional<Attr>(groups_) : std::nullopt;
    if (s.name == "kernel_shape" && s.required && rank >= 2) return Attr(Ints(rank - 2, 2));
    if (s.name == "strides" && rank >= 2) return sometimes(5, Attr(Ints(rank - 2, 2)));
    if (s.name == "pads" && n != "Pad" && rank >= 2) return sometimes(4, Attr(Ints(2 * (rank - 2), 1)));
    if (s.name == "pads" && n == "Pad" && s.required) {
      Ints pads(2 * rank, 0);
      for (int64_t& p : pads) p = dice_.one_in(3) ? 1 : 0;
      return Attr(pads);
    }
    if (s.name == "alpha" || s.name == "beta" || s.name == "gamma" || s.name == "lambd" || s.name == "scale" ||
        s.name == "epsilon")
      return sometimes(3, Attr(static_cast<double>(static_cast<float>(
                              s.name == "epsilon" ? std::pow(10.0, -static_cast<double>(dice_.below(6))) : number(dice_)))));
    if (s.name == "blocksize") return Attr(int64_t{2});
    if (s.name == "num_groups") return Attr(int64_t{1});
    if (s.name == "mode" && n == "Pad") {
      static constexpr const char* kModes[] = {"constant", "reflect", "edge"};
      return sometimes(4, Attr(dice_.of(kModes)));
    }
    if (s.name == "mode" && (n == "DepthToSpace")) return sometimes(2, Attr("CRD"));
    if (s.name == "approximate") return sometimes(2, Attr("tanh"));
    if (s.name == "is_causal" || s.name == "upper" || s.name == "reverse" || s.name == "exclusive" ||
        s.name == "noop_with_empty_axes" || s.name == "count_include_pad" || s.name == "allowzero")
      return sometimes(4, Attr(int64_t{1}));
    if ((s.name == "min" || s.name == "max") && s.kind == AttrKind::kFloat)
      return sometimes(2, Attr(s.name == "min" ? -0.5 : 1.5));
    if (s.name == "equation") {
      static constexpr const char* kEquations[] = {"ij,jk->ik", "bij,bjk->bik",    "ij->ji",  "ij->j",
                                                   "ij,kj->ik", "bhqd,bhkd->bhqk", "ij,j->i", "ij,ij->ij"};
      return Attr(dice_.of(kEquations));
    }
    if (s.required) throw DeadEnd{};
    return std::nullopt;
  }

  const Rule& rule_;
  Dice& dice_;
  std::unique_ptr<Model> model_;
  ValueFacts facts_;
  std::optional<OnnxBuilder> builder_;
  std::optional<DType> dtype_;
  DType whole_ = DType::kI64;
  bool symbolic_ = false;
  Shape base_;
  int64_t groups_ = 1;
  std::set<const Pattern::Data*> seen_;
  std::map<std::string_view, const Pattern*> defined_;
  std::map<std::string_view, Value*> vars_;
  std::map<const Pattern::Data*, Value*> made_;
};

}  // namespace

std::unique_ptr<Model> grow(const Rule& rule, Dice& dice) {
  return model_or_null([&] { return Grower(rule, dice).model(); });
}

}  // namespace sardonyx
