// Operators: slots, attributes, traits, a type rule. Dialects fill tables of these.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sardonyx/dtype.h"

namespace sardonyx {

class InferContext;
class Node;

enum class DialectId : uint8_t { kJax, kOnnx, kMil, kStablehlo };
inline constexpr DialectId kDialects[] = {DialectId::kJax, DialectId::kOnnx, DialectId::kMil, DialectId::kStablehlo};

// Facts for generic passes, as a bit set.
enum class Trait : uint32_t {
  kElementwise = 1u << 0,      // each result element depends on the operand elements at that (broadcast) position only
  kUnary = 1u << 1,            // elementwise with one tensor operand
  kBroadcasts = 1u << 2,       // operands broadcast as NumPy's
  kCommutative = 1u << 3,      // the first two operands may be swapped
  kPure = 1u << 4,             // no effects, no hidden state, not random: may be removed, merged, moved
  kRandom = 1u << 5,           // results differ from run to run or depend on a seed
  kShapePreserving = 1u << 6,  // result 0 has operand 0's shape
  kConstant = 1u << 7,         // ONNX Constant, MIL const: no operands, the result is a payload
  kCannotFail = 1u << 8,       // never raises an error at run time, whatever the operand values
  kSubgraphs = 1u << 9,        // has bodies: If, Loop, Scan, cond, while_loop, jit
};
using Traits = uint32_t;
constexpr Traits operator|(Trait a, Trait b) { return static_cast<Traits>(a) | static_cast<Traits>(b); }
constexpr Traits operator|(Traits a, Trait b) { return a | static_cast<Traits>(b); }
constexpr bool has(Traits set, Trait t) { return (set & static_cast<Traits>(t)) != 0; }

enum class Arity : uint8_t { kSingle, kOptional, kVariadic };

// A set of dtypes as bits 1 << DType for ONNX numbers, one for each kind of wrapper.
struct TypeSet {
  uint64_t tensor = 0;    // allowed element types of plain tensors
  uint64_t sequence = 0;  // of sequence(tensor(...))
  uint64_t optional = 0;  // of optional(tensor(...)) and optional(sequence(...))
  bool any = false;       // maps, opaque, sparse: not checked
};

struct Slot {
  std::string_view name{};
  Arity arity = Arity::kSingle;
  // Slots with the same non-empty variable have the same type ("T"); variadic ones only if homogeneous.
  std::string_view type_var{};
  TypeSet types{};
  bool homogeneous = true;
  bool parameter = false;  // MIL: must be constant when the program is compiled; ONNX uses attributes instead
};

enum class AttrKind : uint8_t {
  kInt,
  kFloat,
  kString,
  kTensor,
  kGraph,
  kSparseTensor,
  kType,
  kInts,
  kFloats,
  kStrings,
  kTensors,
  kGraphs,
  kTypes,
  kAny
};

struct AttrSpec {
  std::string_view name{};
  AttrKind kind = AttrKind::kAny;
  bool required = false;
  bool has_default = false;
  int64_t default_int = 0;
  double default_float = 0;
  std::string_view default_string{};
  std::span<const int64_t> default_ints{};
};

// A type rule: reads operands and attributes through the context and sets results. Throws Error
// (kInvalidModel) if the node is ill-typed.
using TypeRule = void (*)(InferContext&);

// One version of one operator. Known ops are in constant tables of the process; unknown ones are interned per
// model (traits 0, no rule, any number of operands and results).
struct Op {
  DialectId dialect = DialectId::kOnnx;
  std::string_view domain{};  // "" for ai.onnx; jax and mil: ""
  std::string_view name{};
  int since_version = 1;
  bool known = false;
  bool deprecated = false;
  Traits traits = 0;
  uint32_t id = 0;                     // dense over all known ops of the process; a model's unknown ops follow
  int min_inputs = 0, max_inputs = 0;  // max < 0: no bound
  int min_outputs = 0, max_outputs = 0;
  std::span<const Slot> inputs{}, outputs{};
  std::span<const AttrSpec> attrs{};  // MIL: default values of optional slots, by slot name
  TypeRule infer = nullptr;

  bool has(Trait t) const { return sardonyx::has(traits, t); }
};

// The slot of operand i of n; null if the op has no slots (any operands do). Lists of operands come last; if
// there are several, they have the same length.
constexpr const Slot* slot_of(const Op& op, size_t i, size_t n) {
  if (op.inputs.empty()) return nullptr;
  size_t lists = 0;
  while (lists < op.inputs.size() && op.inputs[op.inputs.size() - 1 - lists].arity == Arity::kVariadic) ++lists;
  const size_t singles = op.inputs.size() - lists;
  if (i < singles) return &op.inputs[i];
  if (lists == 0) return &op.inputs.back();
  const size_t length = n > singles ? (n - singles) / lists : 0;
  const size_t list = length == 0 ? 0 : (i - singles) / length;
  return &op.inputs[singles + (list < lists ? list : lists - 1)];
}

// A table of operators. One constant object per dialect, found with dialect(id).
class Dialect {
 public:
  virtual ~Dialect() = default;
  virtual DialectId id() const = 0;
  virtual std::string_view name() const = 0;  // "onnx"
  // The newest version of the op that is <= version, or nullptr.
  virtual const Op* find(std::string_view domain, std::string_view name, int version) const = 0;
  virtual std::span<const Op> ops() const = 0;
  // The newest version of a domain in the table; 0 if the domain is unknown.
  virtual int latest_version(std::string_view domain) const = 0;
};

// The number of known ops of all registered dialects; their ids are smaller.
uint32_t known_op_count();
const Dialect& dialect(DialectId id);
// Called once by the dialects layer, with a constant table of the process; ids of `ops` must continue
// known_op_count().
void register_dialect(const Dialect& d, uint32_t op_count);

}  // namespace sardonyx
