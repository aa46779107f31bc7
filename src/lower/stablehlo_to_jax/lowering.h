// The interface for lowerings from StableHLO to JAX's primitives: one operation, its lowered operands, and a
// builder of equations.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/builder.h"
#include "sardonyx/ir.h"
#include "sardonyx/lowering.h"

namespace sardonyx::stablehlo_to_jax {

class Context;

using Ints = std::vector<int64_t>;
using DimList = std::vector<Dim>;
using Values = std::vector<Value*>;

// A graph as a body of an equation, closed: the values that it used from outside are its first inputs.
struct Closed {
  Graph* graph = nullptr;
  Values consts;  // their values outside
};

class Lowering : public lower::LoweringOf<Context, Builder> {
 public:
  using LoweringOf::LoweringOf;

  // --- operands and results, in the tables of the jax model, with all sizes that are known
  const Type* in_type(size_t i) const { return in(i)->type(); }
  std::span<const Dim> in_dims(size_t i) const { return in_type(i)->dims(); }
  size_t in_rank(size_t i) const { return in_type(i)->rank(); }
  DType in_dtype(size_t i) const { return in_type(i)->dtype(); }
  DType out_dtype(size_t i = 0) const { return node.result(i)->dtype(); }
  size_t out_rank(size_t i = 0) const { return node.result(i)->type()->rank(); }
  // The type of result i: the module's sizes, and `dims` where it says "?". Refuses the operation if a size
  // remains unknown.
  const Type* out_type(size_t i, std::span<const Dim> dims) const;
  const Type* out_type(size_t i = 0) const { return out_type(i, {}); }  // for results without "?"
  // The type of an elementwise result. Operands of the result's rank have its sizes.
  const Type* map_type(size_t i = 0) const;

  // --- attributes. If one is missing or of another kind: an Error that names operation and attribute.
  const Attr& attr(std::string_view name) const;
  int64_t int_attr(std::string_view name) const;
  bool bool_attr(std::string_view name) const;
  double float_attr(std::string_view name) const;
  std::string string_attr(std::string_view name) const;
  Ints ints_attr(std::string_view name) const;
  Ints per_axis(std::string_view name) const;  // one integer for each axis of operand 0
  // A field of an attribute that is a structure.
  int64_t int_field(std::string_view attr, std::string_view field) const;
  Ints ints_field(std::string_view attr, std::string_view field) const;
  // Rows of an attribute of rank 2: (low, high) for each axis.
  std::vector<Ints> rows_attr(std::string_view name) const;
  // The body of that name; an Error if there is none.
  const Graph& body(std::string_view name) const;

  // --- numbers that the module computes from sizes
  // The elements of operand i. Refuses the operation if they are not known; `what` names them: "the shape".
  DimList sizes(size_t i, std::string_view what) const;
  Ints numbers(size_t i, std::string_view what) const;  // the same for integers

  // --- equations
  Value* make(std::string_view primitive, std::span<Value* const> xs, const Type* type, AttrInit params = {});
  Value* make(std::string_view primitive, std::initializer_list<Value*> xs, const Type* type, AttrInit params = {}) {
    return make(primitive, std::span<Value* const>(xs.begin(), xs.size()), type, std::move(params));
  }
  Values make(std::string_view primitive, std::span<Value* const> xs, std::span<const Type* const> types, AttrInit params = {},
              std::span<const Body> bodies = {});
  // An elementwise primitive whose result has the type of the first operand.
  Value* map(std::string_view primitive, std::initializer_list<Value*> xs, AttrInit params = {}) {
    return make(primitive, xs, (*xs.begin())->type(), std::move(params));
  }
  Value* compare(std::string_view primitive, Value* x, Value* y);  // of x's shape, bool
  Value* select(Value* condition, Value* if_true, Value* if_false);
  Value* cast(Value* x, DType to);
  Value* number(const Type* like, double v);    // a number of that element type, in its shape
  Value* integer(const Type* like, int64_t v);  // the same, exact
  Value* broadcast(Value* x, std::span<const int64_t> axes, const Type* type);
  Value* reshape(Value* x, std::span<const Dim> dims);
  Value* transpose(Value* x, std::span<const int64_t> perm);
  Value* reverse(Value* x, std::span<const int64_t> axes);
  Value* slice(Value* x, std::span<const Dim> from, std::span<const Dim> to, std::span<const int64_t> steps = {});
  // In the shape of `like`, if x is a scalar.
  Value* spread(Value* x, const Type* like);

  // --- bodies
  // Lowers `source` to a graph whose first inputs stand for the values `outer` of the module: at least all
  // that `source` uses from outside. The others are of the types `inputs`.
  Closed close(const Graph& source, std::span<const Type* const> inputs, std::string_view name,
               std::span<const Value* const> outer);
  Closed close(const Graph& source, std::span<const Type* const> inputs, std::string_view name);
  std::vector<Value*> inline_here(const Graph& source, std::span<Value* const> args) const {
    return inline_body(source, args, b);
  }

  const Type* tensor(DType d, std::span<const Dim> dims) const { return b.types().tensor(d, dims); }
  Dims& dims() const { return b.dims(); }
};

// Integers as a parameter, and sizes, which are integers where they can be.
Attr sizes_param(std::span<const Dim> dims);

// JAX's custom calls of these names.
Values lower_dynamic_reduce_window(Lowering& ctx);
Values lower_dynamic_rng_bit_generator(Lowering& ctx);
// top_k[k] of the last axis.
Values top_k(Lowering& ctx, Dim k);

// The values, constants aside, that `g` and the graphs inside use from outside, in order of first use.
std::vector<const Value*> captures(const Graph& g);

// The primitive that combines two elements in `body`, as its only operation: add, mul, max, min, and, or, xor
// or sub; "" if the body is another one. `second`: the body returns its second input.
std::string_view combiner(const Graph& body);
bool returns_second(const Graph& body);
// The primitive for elements of type `d` (a sum of bools is an or).
std::string_view for_elements(std::string_view combiner, DType d);
// Whether a value of the module counts 0, 1, 2, .. along `axis`.
bool counts_along(const Value& v, int64_t axis);
// Whether `v` is a constant with the neutral element of `primitive` everywhere.
bool is_neutral(std::string_view primitive, const Value& v);

}  // namespace sardonyx::stablehlo_to_jax
