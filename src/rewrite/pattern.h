// Patterns: what a rule looks for, as a value. See docs/passes.md for how to write a rule.
//
//   using namespace pattern;
//   static constexpr Var x{"x"}, s{"s"};
//   Pattern p = Mul(x, sole(Reciprocal(Sqrt(any).as(s))));
//
// An operator in upper case is ONNX's, of any version; one in lower case is Core ML's. A commutative operator
// matches with its operands in either order. Each pattern describes the value that a node defines; operands that a pattern does not
// mention must be absent, unless it ends in `rest`.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/attr.h"
#include "sardonyx/op.h"

namespace sardonyx {

// The name of a value that a pattern binds. The same Var twice must be the same value, or equal constants.
struct Var {
  std::string_view name;
};

// An operator as patterns know it: its name in each dialect, empty where the dialect has no such operator.
struct PatternOp;

class Pattern {
 public:
  enum class Kind : uint8_t {
    kAny,       // every value
    kConstant,  // a value with a payload
    kSplat,     // a constant whose elements all are `number`, rounded to its dtype (within 1 ulp)
    kOp,        // a result of a node of operator `op` whose operands match
    kTrait,     // a result of a node with the trait, one operand of which matches the only child
    kAnyOf,     // the first child that leads to a match
    kAbsent,    // an operand that is not there
    kRest,      // the operands from here on, whatever they are
  };

  Pattern(Var v);

  // Also binds the value.
  Pattern as(Var v) const;
  // The node's attribute (or the operator's default) equals `value`.
  Pattern attr(std::string_view name, Attr value) const;
  // In a replacement: takes all attributes of the node that defines v.
  Pattern attrs_of(Var v) const;
  // Result `index` of the node instead of the first.
  Pattern result(uint32_t index) const;
  // Only versions of the operator from this one on: where an older one means something else.
  Pattern since(int version) const;

  // What rules do not need: for the compiler, the printer and the generator of random graphs.
  struct Data {
    Kind kind = Kind::kAny;
    bool sole = false;      // its value must have one reader
    double number = 0;      // kSplat
    double tolerance = 0;   // kSplat: 0 = within 1 ulp
    Trait trait{};          // kTrait
    uint32_t result = 0;    // kOp
    int since = 1;          // kOp
    std::string_view onnx;  // kOp: the operator's name in each dialect
    std::string_view mil;
    std::string_view domain;
    std::vector<std::string_view> vars;  // bound to the value
    std::vector<std::pair<std::string, Attr>> attrs;
    std::string_view attrs_of;
    std::vector<Pattern> children;
  };
  const Data& data() const { return *data_; }
  explicit Pattern(Data d) : data_(std::make_shared<const Data>(std::move(d))) {}

 private:
  std::shared_ptr<const Data> data_;
};

// "Mul(%x, sole(Reciprocal(Sqrt(_) as %s)))"
std::string to_string(const Pattern& p);

struct PatternOp {
  std::string_view onnx, mil, domain;

  template <class... Operands>
  Pattern operator()(const Operands&... operands) const {
    return make({Pattern(operands)...});
  }

 private:
  Pattern make(std::initializer_list<Pattern> operands) const;
};

namespace pattern {

inline const Pattern any{Pattern::Data{}};
inline const Pattern constant{Pattern::Data{.kind = Pattern::Kind::kConstant}};
inline const Pattern absent{Pattern::Data{.kind = Pattern::Kind::kAbsent}};
inline const Pattern rest{Pattern::Data{.kind = Pattern::Kind::kRest}};

// A constant whose elements all have this value, whatever its shape; within 1 ulp where its dtype can only round the value.
Pattern splat(double value);
// The same within an absolute tolerance: for Core ML's passes, whose sources say how far off models may be.
Pattern near(double value, double tolerance);
// The value has no other reader: the node goes when the rule has fired.
Pattern sole(const Pattern& p);
Pattern any_of(std::vector<Pattern> alternatives);
template <class... P>
Pattern any_of(const Pattern& first, const P&... others) {
  return any_of(std::vector<Pattern>{first, Pattern(others)...});
}
// A node with this trait that reads p in any position; its other operands are free. Bind it, and rebuild it with Rewriter::like.
Pattern with_operand(Trait trait, const Pattern& p);
// An operator of another domain than ONNX's own.
Pattern op(std::string_view domain, std::string_view name, std::vector<Pattern> operands);

// ONNX's operators: Add, MatMul, ...
#define SX_FAMILY(domain, name, first, count) inline constexpr PatternOp name{#name, {}, domain};
#include "dialects/onnx/ops_families.gen.inc"
#undef SX_FAMILY

// Core ML's: namespace m = pattern::mil; m::mul(x, m::erf(y)). Operands are those of the first slots; the others (axes, modes) are
// parameters and are not looked at. Constants are matched as values, not by their op.
namespace mil {
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wkeyword-macro"
#endif
#define const const_  // the one op whose name is a word of C++
#define SX_FAMILY(name, first, count) inline constexpr PatternOp name{{}, #name, {}};
#include "dialects/mil/ops_families.gen.inc"
#undef SX_FAMILY
#undef const
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
}  // namespace mil

}  // namespace pattern
}  // namespace sardonyx
