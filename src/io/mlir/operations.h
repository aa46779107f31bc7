// What readers of StableHLO modules know about operations: attributes with their defaults, bodies, and the
// custom assembly form of the text. Attributes that an operation's row does not have are kept as they are.
// Sources: https://openxla.org/stablehlo/spec; the forms are those that StableHLO prints.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sardonyx::mlir {

// How an attribute is stored in the model (src/dialects/stablehlo/dialect.h).
enum class AttrKind : unsigned char {
  kInt,
  kInts,    // also of booleans: 0 and 1
  kBool,    // a unit attribute is true
  kString,  // also enumerations and symbols
  kStrings,
  kTensor,
  kDict,
  kStruct,  // a dict with all the fields of AttrRule::fields
  kAny,
};

// What stands for an attribute that the module does not have.
enum class AttrDefault : unsigned char {
  kRequired,
  kAbsent,   // nothing
  kZero,     // 0, false, an empty string, list or dict
  kOne,      // 1
  kTrue,     // true
  kLast,     // -1, the last axis
  kOnes,     // a 1 for each axis of the window
  kZeros,    // a 0 for each axis of the window
  kNoPad,    // zeros of shape [axes of the window, 2]
  kCompare,  // the comparison of the operands' element type
};

struct Field {
  std::string_view name;
  bool list = true;  // a list of integers, else one integer
};

struct AttrRule {
  std::string_view name;
  AttrKind kind = AttrKind::kAny;
  AttrDefault otherwise = AttrDefault::kRequired;
  std::span<const Field> fields;
};

// One step of an assembly form.
struct FormItem {
  enum class Kind : unsigned char {
    kLiteral,        // a word or punctuation
    kOperand,        // %x
    kOperands,       // %x, %y; possibly none
    kCommaOperands,  // %x, %y, with a comma behind each
    kAttribute,      // the value of the attribute `text`
    kPart,           // a piece of syntax of its own, <text>
    kTypes,          // the attribute dictionary, and the types in the manner `text`
    kOptional,       // read up to kEndOptional if the literal that follows is there
    kEndOptional,
  };
  Kind kind;
  std::string_view text;
};

struct Operation {
  std::string_view name;  // "stablehlo.add"
  std::vector<FormItem> form;
  std::vector<AttrRule> attributes;
  std::vector<std::string_view> bodies;  // their names
  bool body_list = false;                // any number of bodies with the one name
};

// Null for an operation without a row.
const Operation* find_operation(std::string_view name);

// Whether readers drop an attribute: hints for compilers that change no value.
bool is_dropped_attribute(std::string_view name);

}  // namespace sardonyx::mlir
