// Patterns describe what a rule looks for. See docs/inside/passes.md for how to write a rule.
//
//   using namespace pattern;
//   static constexpr Var x{"x"}, s{"s"};
//   Pattern p = Mul(x, sole(Reciprocal(Sqrt(any).as(s))));
//
// Upper-case operators are ONNX's, of any version; lower-case ones are Core ML's. Commutative operators match
// with their operands in either order. A pattern describes the value that a node defines. Operands that it
// does not mention must be absent, unless it ends in `rest`.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/op_bits.h"
#include "sardonyx/attr.h"
#include "sardonyx/op.h"

namespace sardonyx {

// The name of a value bound by a pattern. Two occurrences of a Var must be the same value, or equal
// constants.
struct Var {
  std::string_view name;
};

// An operator in patterns: its name in each dialect, empty if the dialect has no such operator.
struct PatternOp;

class Pattern {
 public:
  enum class Kind : uint8_t {
    kAny,       // every value
    kConstant,  // a value with a payload
    kSplat,     // a constant with all elements equal to `number` rounded to its dtype (within 1 ulp)
    kOp,        // a result of a node of operator `op` whose operands match
    kTrait,     // a result of a node with the trait that has an operand matching the only child
    kAnyOf,     // the first child that matches
    kAbsent,    // an operand that is not there
    kRest,      // any further operands
  };

  Pattern(Var v);
  // Out of line, as nearly all code of a rule is patterns that are copied and destroyed.
  Pattern(const Pattern&);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(const Pattern&);
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // Also binds the value.
  Pattern as(Var v) const;
  // The node's attribute (or the operator's default) equals `value`.
  Pattern attr(std::string_view name, Attr value) const;
  // In a replacement: takes all attributes of the node that defines v.
  Pattern attrs_of(Var v) const;
  // Matches result `index` of the node instead of the first.
  Pattern result(uint32_t index) const;
  // Matches only this version of the operator and later ones, where older ones differ in meaning.
  Pattern since(int version) const;

  // Internals, for the compiler, the printer and the generator of random graphs.
  struct Data {
    Kind kind = Kind::kAny;
    bool sole = false;      // the value must have exactly one use
    double number = 0;      // kSplat
    double tolerance = 0;   // kSplat: 0 = within 1 ulp
    Trait trait{};          // kTrait
    uint32_t result = 0;    // kOp
    int since = 1;          // kOp
    std::string_view onnx;  // kOp: the operator's name in each dialect
    std::string_view mil;
    std::string_view domain;
    uint16_t first_row = 0;  // kOp: its versions in the table of its dialect; no rows if given by name only
    uint16_t rows = 0;
    std::vector<std::string_view> vars;  // names bound to the value
    std::vector<std::pair<std::string, Attr>> attrs;
    std::string_view attrs_of;
    std::vector<Pattern> children;
    OpBits always;  // the operators that every match contains; set by the constructor of Pattern
  };
  const Data& data() const { return *data_; }
  explicit Pattern(Data d);

 private:
  std::shared_ptr<const Data> data_;
};

// "Mul(%x, sole(Reciprocal(Sqrt(_) as %s)))"
std::string to_string(const Pattern& p);

struct PatternOp {
  std::string_view onnx, mil, domain;
  uint16_t first_row, rows;

  template <class... Operands>
  Pattern operator()(const Operands&... operands) const {
    return make({Pattern(operands)...});
  }

 private:
  Pattern make(std::initializer_list<Pattern> operands) const;
};

namespace pattern {

extern const Pattern any, constant, absent, rest;

// A constant whose elements all equal `value`, of any shape; within 1 ulp if the dtype has to round it.
Pattern splat(double value);
// The same within an absolute tolerance, for Core ML's passes, whose originals define how far off a constant
// may be.
Pattern near(double value, double tolerance);
// The value has no other user, so its node dies when the rule fires.
Pattern sole(const Pattern& p);
Pattern any_of(std::vector<Pattern> alternatives);
Pattern any_of(std::initializer_list<Pattern> alternatives);
template <class... P>
Pattern any_of(const Pattern& first, const P&... others) {
  return any_of({first, Pattern(others)...});
}
// A node with this trait that has p as an operand in any position; its other operands are free. Bind it, and
// rebuild it with Rewriter::like.
Pattern with_operand(Trait trait, const Pattern& p);
// An operator of a domain other than ONNX's own.
Pattern op(std::string_view domain, std::string_view name, std::vector<Pattern> operands);

// ONNX's operators: Add, MatMul, ...
#define SX_FAMILY(domain, name, first, count) inline constexpr PatternOp name{#name, {}, domain, first, count};
#include "dialects/onnx/generated/ops_families.gen.inc"
#undef SX_FAMILY

// Core ML's: namespace m = pattern::mil; m::mul(x, m::erf(y)). Operands fill the first slots; the remaining
// slots (axes, modes) are parameters and are ignored. Constants are matched as values, not by their op.
namespace mil {
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wkeyword-macro"
#endif
#define const const_  // the only op whose name is a C++ keyword
#define SX_FAMILY(name, first, count) inline constexpr PatternOp name{{}, #name, {}, first, count};
#include "dialects/mil/generated/ops_families.gen.inc"
#undef SX_FAMILY
#undef const
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
}  // namespace mil

}  // namespace pattern
}  // namespace sardonyx
