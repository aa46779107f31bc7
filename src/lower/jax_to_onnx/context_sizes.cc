// Sizes at run time.
#include "lower/jax_to_onnx/context.h"

#include <fmt/format.h>

#include <algorithm>

namespace sardonyx::jax_to_onnx {

void Context::add_origins(Value& input) {
  const Type* t = input.type();
  for (size_t axis = 0; axis < t->rank(); ++axis) {
    const Dim d = t->dim(axis);
    if (!d.is_expr()) continue;
    const DimOrigin origin{&input, static_cast<int64_t>(axis)};
    if (sizes_by_graph_[0]->origins.emplace(d.word(), origin).second) origin_list_.emplace_back(d, origin);
    if (function_ == nullptr) {
      for (std::string& symbol : model().dims().symbols(d)) input_symbols_.insert(std::move(symbol));
    }
  }
}

// Sizes that depend on data are read from the first value that has them. Symbols of inputs are read from the
// inputs.
void Context::on_result(const Value& /*jax*/, Value& result, Builder& /*b*/, bool /*knows_more*/) {
  const Type* t = result.type();
  if (t == nullptr || !t->is_tensor() || !t->ranked() || !sizes_by_graph_.back()->seen.insert(t).second) return;
  for (size_t axis = 0; axis < t->rank(); ++axis) {
    const Dim d = t->dim(axis);
    if (!d.is_expr() || origin(d) != nullptr) continue;
    const std::string_view symbol = model().dims().symbol_name(d);
    if (symbol.empty() || root_->input_symbols_.contains(symbol)) continue;
    sizes_by_graph_.back()->origins.emplace(d.word(), DimOrigin{&result, static_cast<int64_t>(axis)});
  }
}

const DimOrigin* Context::origin(Dim d) const {
  for (size_t i = sizes_by_graph_.size(); i-- > 0;) {
    const auto& known = sizes_by_graph_[i]->origins;
    if (auto at = known.find(d.word()); at != known.end()) return &at->second;
  }
  return nullptr;
}

Context::InBody::InBody(Context& context, OnnxBuilder& b) : context_(context) {
  context_.sizes_by_graph_.push_back(std::make_unique<Sizes>(&b));
}

Context::InBody::~InBody() { context_.sizes_by_graph_.pop_back(); }

size_t Context::depth_of(Dim d) {
  for (size_t i = sizes_by_graph_.size() - 1; i > 0; --i) {
    const auto& known = sizes_by_graph_[i]->origins;
    if (known.empty()) continue;
    for (const std::string& symbol : model().dims().symbols(d)) {
      if (known.contains(model().dims().symbol(symbol).word())) return i;
    }
  }
  return 0;
}

Value* Context::dim_vector(Dim d) {
  Value* v = write(model().dims(), d);
  if (v == nullptr) throw Error(ErrorCode::kInvalidModel, "a size is not known, and the model needs it when it runs");
  return v;
}

Value* Context::known(Dim d) {
  if (!d.is_expr()) return nullptr;
  Sizes& sizes = sizes_of(d);
  if (auto at = sizes.vectors.find(d.word()); at != sizes.vectors.end()) return at->second;
  Value* v = nullptr;
  if (const DimOrigin* from = origin(d)) {
    v = sizes.b->Shape(from->value, {.end = from->axis + 1, .start = from->axis});
  } else if (!model().dims().symbol_name(d).empty()) {
    v = solve_symbol(d);
  }
  if (v != nullptr) sizes.vectors[d.word()] = v;
  return v;
}

Value* Context::dim_scalar(Dim d) {
  if (d.is_int()) return main_.i64(d.value());
  Sizes& sizes = sizes_of(d);
  if (auto at = sizes.scalars.find(d.word()); at != sizes.scalars.end()) return at->second;
  Value* v = sizes.b->Squeeze(dim_vector(d), sizes.b->i64s({0}));
  return sizes.scalars[d.word()] = v;
}

Value* Context::combine(Dim whole, const Dims::Parts& parts, Value* x, Value* y) {
  OnnxBuilder& b = *sizes_of(whole).b;
  Dims& dims = model().dims();
  switch (parts.form) {
    case Dims::Form::kAdd: return b.Add(x, y);
    case Dims::Form::kMul: return b.Mul(x, y);
    case Dims::Form::kMax: return b.Max({x, y});
    case Dims::Form::kMin: return b.Min({x, y});
    case Dims::Form::kFloorDiv: {
      // The divisor may be 0. Then no value has the size of the quotient, but the integer division must not
      // fail.
      const bool may_be_zero = dims.less_equal(Dim::of(0), parts.operands[1]) && !dims.less(Dim::of(0), parts.operands[1]);
      if (may_be_zero) y = b.Max({y, b.i64s({1})});
      const bool non_negative =
          dims.less_equal(Dim::of(0), parts.operands[0]) && dims.less_equal(Dim::of(0), parts.operands[1]);
      // Integer Div truncates. Mod has the divisor's sign, so x - Mod(x, y) divides without remainder.
      if (!non_negative) x = b.Sub(x, b.Mod(x, y));
      return b.Div(x, y);
    }
    default: return nullptr;
  }
}

// Solves for a symbol that is not itself the size of an input's axis, such as S in 2*S + 1.
Value* Context::solve_symbol(Dim symbol) {
  Dims& dims = model().dims();
  const std::string name(dims.symbol_name(symbol));
  for (const auto& [expr, from] : origin_list_) {
    auto at = [&](int64_t value) {
      return dims.substitute(expr,
                             [&](std::string_view s) { return s == name ? std::optional(Dim::of(value)) : std::nullopt; });
    };
    const Dim offset = at(0);
    const Dim slope = dims.sub(at(1), offset);
    if (!slope.is_int() || slope.value() == 0) continue;
    if (!(dims.add(dims.mul(slope, symbol), offset) == expr)) continue;
    Value* v = dim_vector(expr);
    if (!offset.is(0)) v = main_.Sub(v, dim_vector(offset));
    if (!slope.is(1)) v = main_.Div(v, main_.i64s({slope.value()}));
    return v;
  }
  if (function_ != nullptr) {  // the caller knows it
    sizes_.push_back(symbol);
    const Dim one = Dim::of(1);
    return main_.graph().add_input(fmt::format("size_{}", name), model().types().tensor(DType::kI64, {&one, 1}));
  }
  throw Error(ErrorCode::kUnsupported, fmt::format("the size '{}' cannot be computed from the shapes of the inputs", name),
              {"help: give an input a dimension that is this symbol, or linear in it"});
}

Value* Context::shape(std::span<const Dim> dims) {
  if (std::ranges::all_of(dims, [](Dim d) { return d.is_int(); })) {
    std::vector<int64_t> values;
    for (Dim d : dims) values.push_back(d.value());
    return main_.i64s(values);
  }
  std::vector<uint64_t> key;
  size_t depth = 0;
  for (Dim d : dims) {
    key.push_back(d.word());
    if (d.is_expr()) depth = std::max(depth, depth_of(d));
  }
  Sizes* sizes = sizes_by_graph_[depth].get();
  if (auto at = sizes->shapes.find(key); at != sizes->shapes.end()) return at->second;
  // A run of integers becomes one constant; a run of adjacent axes of one input becomes one Shape.
  OnnxBuilder& b = *sizes->b;
  std::vector<Value*> pieces;
  for (size_t i = 0; i < dims.size();) {
    if (dims[i].is_int()) {
      std::vector<int64_t> run;
      for (; i < dims.size() && dims[i].is_int(); ++i) run.push_back(dims[i].value());
      pieces.push_back(b.i64s(run));
      continue;
    }
    const DimOrigin* from = origin(dims[i]);
    size_t n = 1;
    if (from != nullptr) {
      const Type* t = from->value->type();
      for (size_t axis = static_cast<size_t>(from->axis) + 1; axis < t->rank() && i + n < dims.size(); ++axis, ++n) {
        if (!(t->dim(axis) == dims[i + n])) break;
      }
    }
    // A trailing run of constants is free as a constant: read it from the input only if a symbolic size
    // follows or the run covers all dims.
    while (n > 1 && dims[i + n - 1].is_int() && n != dims.size()) --n;
    if (n == 1) {
      pieces.push_back(dim_vector(dims[i]));
    } else {
      const int64_t end = from->axis + static_cast<int64_t>(n);
      const bool to_end = static_cast<size_t>(end) == from->value->type()->rank();
      pieces.push_back(b.Shape(from->value, {.end = to_end ? std::nullopt : std::optional(end), .start = from->axis}));
    }
    i += n;
  }
  Value* v = pieces.size() == 1 ? pieces[0] : b.Concat(pieces, {.axis = 0});
  return sizes->shapes[std::move(key)] = v;
}

}  // namespace sardonyx::jax_to_onnx
