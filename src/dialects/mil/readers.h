// Readers: the operands of one Core ML op by name and type. What MilBuilder writes, from the same tables.
//
//   if (const auto t = mil::Transpose::of(n, facts)) use(t->perm());    // nullopt unless n is a transpose
//   const mil::Concat concat(n, facts);                                 // n must be a concat
//
// Data is a Value*, null if absent. A parameter is its value: what the op gives, else its default. It is
// nullopt (a flag is false) if it is computed at run time, or absent without a default, as the axes of a
// reduction over all axes are. Axes count from the front; nullopt if one is out of range, or negative and the
// rank is unknown. value_in("pad_type") is a parameter as an operand, to give it to another op, and
// ints_in("perm") is a list as it is written.
#pragma once

#include "dialects/mil/infer/rule_util.h"
#include "dialects/mil/ops.h"

namespace sardonyx::mil {

// Reads slots by name: for ops of several kinds that share a slot.
class OpReader {
 public:
  OpReader(Node& n, ValueFacts& facts) : context_(n, facts, n.op().since_version) {}
  // Throws kInternal unless n's op is of this family.
  OpReader(Node& n, ValueFacts& facts, Family family);

  Node& node() const { return context_.node(); }
  Value* value_in(std::string_view slot) const;  // null if absent; not for lists
  std::vector<Value*> list_in(std::string_view slot) const;

  std::optional<int64_t> int_in(std::string_view slot) const { return rules::param_int(context_, slot); }
  std::optional<std::vector<int64_t>> ints_in(std::string_view slot) const { return rules::param_ints(context_, slot); }
  bool flag_in(std::string_view slot) const { return rules::param_bool(context_, slot); }
  std::optional<double> number_in(std::string_view slot) const { return rules::param_float(context_, slot); }
  // In lower case.
  std::optional<std::string> text_in(std::string_view slot) const { return rules::param_string(context_, slot); }

  // Counted from the front; nullopt as an unknown rank: see above.
  std::optional<size_t> axis_in(std::string_view slot, std::optional<size_t> rank) const;
  std::optional<std::vector<int64_t>> axes_in(std::string_view slot, std::optional<size_t> rank) const;

 protected:
  std::optional<size_t> rank_in(std::string_view slot) const;
  std::optional<size_t> rank_of_list(std::string_view slot) const;  // of its first element
  static std::optional<size_t> rank_with_one_more(std::optional<size_t> rank) {
    return rank ? std::optional(*rank + 1) : std::nullopt;
  }
  // A permutation.
  std::optional<std::vector<int64_t>> perm_in(std::string_view slot) const;
  // Axes that the op adds to those of the operand in slot `of`.
  std::optional<std::vector<int64_t>> added_axes_in(std::string_view slot, std::string_view of) const;
  // `count` elements; this one for all of them if the slot is empty.
  std::optional<std::vector<int64_t>> ints_in(std::string_view slot, std::optional<size_t> count, int64_t otherwise) const;
  std::optional<std::vector<bool>> flags_in(std::string_view slot, std::optional<size_t> count) const;
  // The axes of a convolution or pooling that are not batch and channels, times `each`.
  std::optional<size_t> spatial(size_t each = 1) const;

 private:
  InferContext context_;
};

// A reader of the ops of one family.
template <class Op, Family family>
class ReaderOf : public OpReader {
 public:
  ReaderOf(Node& n, ValueFacts& facts) : OpReader(n, facts, family) {}
  // nullopt unless n is one and well-typed.
  static std::optional<Op> of(Node& n, ValueFacts& facts) {
    return is(n.op(), family) && !n.unchecked() ? std::optional<Op>(std::in_place, n, facts) : std::nullopt;
  }
  static std::optional<Op> of(Node* n, ValueFacts& facts) { return n != nullptr ? of(*n, facts) : std::nullopt; }
};

#include "dialects/mil/generated/readers.gen.inc"

}  // namespace sardonyx::mil
