// Readers: the parameters of ONNX operators by name and type, over all versions. They come from the schemas
// that OnnxBuilder comes from, for the operators that somebody reads (READERS of
// scripts/tables/gen_onnx_facts.py).
//
//   if (const auto r = read::Reduce::of(n, facts)) use(r->axes());    // nullopt unless n is a reduction
//   const auto axis = read::Softmax(n).axis();                        // n must be one
//
// An attribute is what the node gives, else the operator's default. A parameter that some versions have as
// attribute and others as operand is read from either. It is nullopt if it is computed at run time, set by
// the call of the function around the node, or absent without a default. Axes count from the front; nullopt
// if one is out of range, or negative and the rank is unknown. Lists of axes are sorted, and name no axis
// twice. Without `facts`, only constant operands are known.
//
// The namespace is their own: pattern::Transpose is a pattern.
#pragma once

#include <array>

#include "ir/infer/known.h"
#include "sardonyx/error.h"

namespace sardonyx::onnx::read {

using Ints = std::vector<int64_t>;

// Reads attributes by name: for operators of several kinds that share one.
class OpReader {
 public:
  explicit OpReader(const Node& n) : node_(&n) {}
  OpReader(const Node& n, const ValueFacts& facts) : node_(&n), facts_(&facts) {}

  const Node& node() const { return *node_; }
  std::optional<size_t> axis_in(std::string_view name, std::optional<size_t> rank) const;
  // The axes that an operand lists, in its order.
  std::optional<Ints> axes_at(size_t operand, std::optional<size_t> rank) const;
  // The attribute or operand `axes` of an operator in a space of this rank; nullopt if it is absent or empty.
  std::optional<Ints> given_axes(std::optional<size_t> rank) const;

 protected:
  std::optional<bool> flag_in(std::string_view name) const;
  std::optional<int64_t> int_in(std::string_view name) const { return int_attr(*node_, name); }
  std::optional<double> float_in(std::string_view name) const { return float_attr(*node_, name); }
  std::optional<std::string> string_in(std::string_view name) const { return string_attr(*node_, name); }
  std::optional<Ints> ints_in(std::string_view name) const { return ints_attr(*node_, name); }
  std::optional<size_t> rank_at(size_t operand) const;
  std::optional<size_t> rank_of_result() const;
  std::optional<Ints> perm() const;          // reverses the axes unless given
  std::optional<Ints> reduced_axes() const;  // all axes unless given; nullopt if it reduces none

 private:
  const Node* node_;
  const ValueFacts* facts_ = nullptr;
};

// A reader of the operators that Op::kOps names.
template <class Op>
class ReaderOf : public OpReader {
 public:
  // Throws kInternal unless n is one.
  template <class... Facts>
  explicit ReaderOf(const Node& n, const Facts&... facts) : OpReader(n, facts...) {
    SX_CHECK(is_one(n), "the reader is for other operators");
  }
  // nullopt unless n is one and well-typed.
  template <class... Facts>
  static std::optional<Op> of(const Node& n, const Facts&... facts) {
    return is_one(n) && !n.unchecked() ? std::optional<Op>(std::in_place, n, facts...) : std::nullopt;
  }
  template <class... Facts>
  static std::optional<Op> of(const Node* n, const Facts&... facts) {
    return n != nullptr ? of(*n, facts...) : std::nullopt;
  }
  static bool is_one(const Node& n) {
    for (std::string_view op : Op::kOps) {
      if (n.is(op)) return true;
    }
    return false;
  }
};

#include "dialects/onnx/generated/readers.gen.inc"

}  // namespace sardonyx::onnx::read
