#include "io/mlir/vhlo_attributes.h"

#include <algorithm>
#include <array>
#include <limits>

#include "io/mlir/text_attributes.h"
#include "support/files/mapped_file.h"

namespace sardonyx::mlir {
namespace {

constexpr int kMaxDepth = 200;  // of attributes inside each other
constexpr int64_t kDynamic = std::numeric_limits<int64_t>::min();

// Codes of attributes and types in the builtin dialect.
enum class Builtin : uint64_t {
  kArray = 0,
  kDictionary = 1,
  kString = 2,
  kStringWithType = 3,
  kFlatSymbolRef = 4,
  kType = 6,
  kUnit = 7,
  kCallSiteLoc = 10,
  kFileLineColLoc = 11,
  kFusedLoc = 12,
  kFusedLocWithMetadata = 13,
  kNameLoc = 14,
  kUnknownLoc = 15,
  kFileLineColRange = 22,
};

enum class BuiltinType : uint64_t {
  kInteger = 0,
  kIndex = 1,
  kBF16 = 3,
  kF16 = 4,
  kF32 = 5,
  kF64 = 6,
  kComplex = 9,
  kRankedTensor = 13,
  kRankedTensorWithEncoding = 14,
  kUnrankedTensor = 16,
};

// Codes of attributes in VHLO.
enum class Vhlo : uint64_t {
  kArray = 1,
  kBoolean = 2,
  kComparisonDirection = 3,
  kComparisonType = 4,
  kCustomCallApiVersion = 5,
  kDictionary = 6,
  kFftType = 7,
  kFloat = 8,
  kInteger = 9,
  kOutputOperandAlias = 10,
  kPrecision = 11,
  kRngAlgorithm = 12,
  kRngDistribution = 13,
  kString = 14,
  kTensor = 15,
  kTranspose = 16,
  kType = 17,
  kTypeExtensions = 18,
  kResultAccuracyMode = 19,
  kResultAccuracy = 20,
  kLast = 25,  // the newest that is known; those between are of meshes
};

enum class VhloType : uint64_t {
  kComplex = 1,
  kRankedTensor = 20,
  kRankedTensorWithEncoding = 21,
  kUnrankedTensor = 25,
  kLast = 42,
};

struct Keywords {
  Vhlo code;
  std::array<std::string_view, 6> words;
};

constexpr Keywords kKeywords[] = {
    {Vhlo::kComparisonDirection, {"EQ", "NE", "GE", "GT", "LE", "LT"}},
    {Vhlo::kComparisonType, {"NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED", ""}},
    {Vhlo::kFftType, {"FFT", "IFFT", "RFFT", "IRFFT", "", ""}},
    {Vhlo::kPrecision, {"DEFAULT", "HIGH", "HIGHEST", "", "", ""}},
    {Vhlo::kRngAlgorithm, {"DEFAULT", "THREE_FRY", "PHILOX", "", "", ""}},
    {Vhlo::kRngDistribution, {"", "UNIFORM", "NORMAL", "", "", ""}},
    {Vhlo::kTranspose, {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT", "", ""}},
    {Vhlo::kResultAccuracyMode, {"DEFAULT", "HIGHEST", "TOLERANCE", "", "", ""}},
};

struct TypeRow {
  uint64_t code;
  std::string_view name;  // what MLIR's text calls it
};

constexpr TypeRow kTypes[] = {
    {0, "i1"},
    {2, "bf16"},
    {3, "f16"},
    {4, "f32"},
    {5, "f64"},
    {6, "f8E4M3FN"},
    {7, "f8E5M2"},
    {8, "a function"},
    {9, "index"},
    {10, "i4"},
    {11, "i8"},
    {12, "i16"},
    {13, "i32"},
    {14, "i64"},
    {15, "ui4"},
    {16, "ui8"},
    {17, "ui16"},
    {18, "ui32"},
    {19, "ui64"},
    {22, "!stablehlo.token"},
    {23, "tuple"},
    {24, "!quant.uniform"},
    {26, "witness"},
    {27, "f8E4M3FNUZ"},
    {28, "f8E5M2FNUZ"},
    {29, "f8E4M3B11FNUZ"},
    {30, "!quant.uniform"},
    {31, "i2"},
    {32, "ui2"},
    {33, "none"},
    {34, "tf32"},
    {35, "f8E4M3"},
    {36, "f8E3M4"},
    {37, "f4E2M1FN"},
    {38, "f6E2M3FN"},
    {39, "f6E3M2FN"},
    {40, "f8E8M0FNU"},
    {41, "memref"},
    {42, "!stablehlo.future"},
};

std::string_view type_name(uint64_t code) {
  const auto* row = std::ranges::find(kTypes, code, &TypeRow::code);
  return row == std::end(kTypes) ? "tensor" : row->name;
}

[[noreturn]] void unsupported(const ByteReader& in, std::string message) {
  throw Error(ErrorCode::kUnsupported, std::move(message), {fmt::format("at byte {}", in.position())});
}

// An integer of a known number of bits; for floats, their bits.
int64_t known_width(ByteReader& in, DType dtype) {
  if (bit_width(dtype) > 8) return in.signed_varint();
  const uint8_t byte = in.byte();
  return is_signed(dtype) ? static_cast<int8_t>(byte) : byte;
}

// A rough count of what a copy costs.
uint64_t weight_of(const Attr& a) {
  if (const auto* s = a.get<std::string>()) return 1 + s->size() / 64;
  if (const auto* ints = a.get<Attr::Ints>()) return 1 + ints->size() / 8;
  return 1;
}

}  // namespace

VhloAttributes::VhloAttributes(BytecodeSource source, ModuleBuilder& builder)
    : source_(std::move(source)), builder_(builder), budget_(source_.bytes.size()) {}

std::string_view VhloAttributes::string(ByteReader& in) const {
  const uint64_t index = in.varint();
  if (index >= strings.size()) in.fail(fmt::format("it has {} strings and no number {}", strings.size(), index));
  return strings[index];
}

VhloAttributes::AttributeEntry& VhloAttributes::entry(uint64_t index, std::string_view what) {
  if (index >= attributes_.size()) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("the bytecode is damaged: it has {} attributes and no number {} for {}",
                                                      attributes_.size(), index, what));
  }
  AttributeEntry& e = attributes_[index];
  if (e.open)
    throw Error(ErrorCode::kInvalidModel, fmt::format("the bytecode is damaged: attribute {} contains itself", index));
  if (depth_ == kMaxDepth) throw Error(ErrorCode::kLimit, fmt::format("attributes nest more than {} levels", kMaxDepth));
  return e;
}

Attr VhloAttributes::attribute(uint64_t index) {
  AttributeEntry& e = entry(index, "an attribute");
  if (!e.value) {
    e.open = true;
    ++depth_;
    const uint64_t before = budget_.spent();
    ByteReader in(e.bytes, source_.bytes.data());
    e.value = read_attribute(in, e);
    e.weight = weight_of(*e.value) + (budget_.spent() - before);
    --depth_;
    e.open = false;
  }
  budget_.spend(e.weight);
  return *e.value;
}

Attr VhloAttributes::read_attribute(ByteReader& in, const Entry& e) {
  if (!e.is_encoded) return {OpaqueAttr{std::string(reinterpret_cast<const char*>(e.bytes.data()), e.bytes.size())}};
  const uint64_t code = in.varint();
  if (e.dialect == "builtin") return builtin_attribute(in, code);
  if (e.dialect == "vhlo") return vhlo_attribute(in, code);
  return {OpaqueAttr{fmt::format("#{}", e.dialect)}};
}

std::string VhloAttributes::string_attribute(uint64_t index) {
  const Attr a = attribute(index);
  const auto* text = a.get<std::string>();
  if (text == nullptr)
    throw Error(ErrorCode::kInvalidModel, fmt::format("the bytecode is damaged: attribute {} is no string", index));
  return *text;
}

AttrDict VhloAttributes::dictionary(ByteReader& in) {
  AttrDict items;
  for (size_t n = in.count(); n > 0; --n) {
    std::string name = string_attribute(in.varint());
    items.emplace_back(std::move(name), attribute(in.varint()));
  }
  return items;
}

Attr VhloAttributes::builtin_attribute(ByteReader& in, uint64_t code) {
  switch (static_cast<Builtin>(code)) {
    case Builtin::kArray: {
      AttrList items;
      for (size_t n = in.count(); n > 0; --n) items.push_back(attribute(in.varint()));
      return list_of(std::move(items));
    }
    case Builtin::kDictionary: return {dictionary(in)};
    case Builtin::kString:
    case Builtin::kStringWithType: return {string(in)};
    case Builtin::kFlatSymbolRef: return attribute(in.varint());
    case Builtin::kUnit: return {true};
    default: return {OpaqueAttr{fmt::format("builtin attribute {}", code)}};
  }
}

Attr VhloAttributes::vhlo_attribute(ByteReader& in, uint64_t code) {
  const auto kind = static_cast<Vhlo>(code);
  for (const Keywords& k : kKeywords) {
    if (k.code != kind) continue;
    const uint64_t value = in.varint();
    if (value >= k.words.size() || k.words[value].empty()) in.fail(fmt::format("an enumeration has no value {}", value));
    return {k.words[value]};
  }
  switch (kind) {
    case Vhlo::kArray: {
      AttrList items;
      for (size_t n = in.count(); n > 0; --n) items.push_back(attribute(in.varint()));
      return list_of(std::move(items));
    }
    case Vhlo::kBoolean: return {in.varint() != 0};
    case Vhlo::kCustomCallApiVersion: return {static_cast<int64_t>(in.varint())};
    case Vhlo::kDictionary: return {dictionary(in)};
    case Vhlo::kFloat: {
      const DType dtype = element(in.varint());
      if (!is_float(dtype)) in.fail("a float attribute has another type");
      const int64_t bits = known_width(in, dtype);
      std::byte stored[8];
      std::memcpy(stored, &bits, sizeof bits);
      return {decode_element(dtype, stored, 0)};
    }
    case Vhlo::kInteger: {
      const DType dtype = element(in.varint());
      return {known_width(in, dtype)};
    }
    case Vhlo::kString: return {string(in)};
    case Vhlo::kTensor: return {tensor(in)};
    default: break;
  }
  if (kind > Vhlo::kLast) {
    unsupported(in, fmt::format("the bytecode has an attribute of kind {}, which is newer than StableHLO 1.20", code));
  }
  return {OpaqueAttr{fmt::format("vhlo attribute {}", code)}};
}

TensorPtr VhloAttributes::tensor(ByteReader& in) {
  const Type* t = type(in.varint());
  const auto stored = in.blob();
  if (!t->is_static()) in.fail("elements need a type whose sizes are numbers");
  std::vector<int64_t> shape;
  for (Dim d : t->dims()) shape.push_back(d.value());
  try {
    return stored_tensor(t->dtype(), std::move(shape),
                         {stored, source_.keepalive, source_.file != nullptr ? source_.file->range_of(stored) : std::nullopt});
  } catch (const Error& e) {
    throw e.with_note(fmt::format("at byte {}", in.position()));
  }
}

// --- types

const Type* VhloAttributes::type(uint64_t index) {
  if (index >= types_.size()) {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("the bytecode is damaged: it has {} types and no number {}", types_.size(), index));
  }
  TypeEntry& e = types_[index];
  if (e.type == nullptr) {
    ByteReader in(e.bytes, source_.bytes.data());
    e.type = read_type(in, e);
  }
  return e.type;
}

// Operations of other dialects, such as hints of sharding, have the types of the builtin dialect.
const Type* VhloAttributes::read_type(ByteReader& in, const Entry& e) {
  const uint64_t code = in.varint();
  if (e.is_encoded && e.dialect == "builtin") {
    switch (static_cast<BuiltinType>(code)) {
      case BuiltinType::kRankedTensor: return tensor_type(in, true, false);
      case BuiltinType::kRankedTensorWithEncoding: return tensor_type(in, true, true);
      case BuiltinType::kUnrankedTensor: return tensor_type(in, false, false);
      default: unsupported(in, fmt::format("a builtin type of kind {} is not supported, only tensors", code));
    }
  }
  if (!e.is_encoded || e.dialect != "vhlo") {
    unsupported(in, fmt::format("a type of the dialect '{}' is not supported", e.dialect));
  }
  switch (static_cast<VhloType>(code)) {
    case VhloType::kRankedTensor: return tensor_type(in, true, false);
    case VhloType::kRankedTensorWithEncoding: return tensor_type(in, true, true);
    case VhloType::kUnrankedTensor: return tensor_type(in, false, false);
    default: break;
  }
  if (code > static_cast<uint64_t>(VhloType::kLast)) {
    unsupported(in, fmt::format("the bytecode has a type of kind {}, which is newer than StableHLO 1.20", code));
  }
  unsupported(in, fmt::format("values of type '{}' are not supported, only tensors", type_name(code)));
}

const Type* VhloAttributes::tensor_type(ByteReader& in, bool ranked, bool encoded) {
  if (encoded) (void)in.varint();  // bounds of sizes that are '?' in the type
  std::vector<Dim> dims;
  if (ranked) {
    const size_t rank = in.count();
    check_rank(rank);
    for (size_t n = rank; n > 0; --n) {
      const int64_t size = in.signed_varint();
      if (size < 0 && size != kDynamic) in.fail(fmt::format("a size is {}", size));
      dims.push_back(size == kDynamic ? Dim() : Dim::of(size));
    }
  }
  const DType dtype = element(in.varint());
  Types& types = builder_.model().types();
  return ranked ? types.tensor(dtype, dims) : types.unranked(dtype);
}

// The name of an element type in the text of MLIR, "complex" included; empty for other types.
std::string VhloAttributes::element_name(ByteReader& in, const Entry& e) {
  if (!e.is_encoded) return {};
  const uint64_t code = in.varint();
  if (e.dialect == "vhlo") return std::string(code == static_cast<uint64_t>(VhloType::kComplex) ? "complex" : type_name(code));
  if (e.dialect != "builtin") return {};
  switch (static_cast<BuiltinType>(code)) {
    case BuiltinType::kInteger: {
      static constexpr std::string_view kSigns[] = {"i", "si", "ui"};
      const uint64_t width_and_sign = in.varint();
      const uint64_t sign = width_and_sign & 3;
      return sign < std::size(kSigns) ? fmt::format("{}{}", kSigns[sign], width_and_sign >> 2) : std::string();
    }
    case BuiltinType::kIndex: return "index";
    case BuiltinType::kBF16: return "bf16";
    case BuiltinType::kF16: return "f16";
    case BuiltinType::kF32: return "f32";
    case BuiltinType::kF64: return "f64";
    case BuiltinType::kComplex: return "complex";
    default: return {};
  }
}

DType VhloAttributes::element(uint64_t index) {
  const auto at = [this](uint64_t i) -> const TypeEntry& {
    if (i >= types_.size()) {
      throw Error(ErrorCode::kInvalidModel,
                  fmt::format("the bytecode is damaged: it has {} types and no number {}", types_.size(), i));
    }
    return types_[i];
  };
  const TypeEntry& e = at(index);
  ByteReader in(e.bytes, source_.bytes.data());
  std::string name = element_name(in, e);
  if (name == "complex") {
    const TypeEntry& part = at(in.varint());
    ByteReader inner(part.bytes, source_.bytes.data());
    const std::string part_name = element_name(inner, part);
    if (part_name == "f32") return DType::kC64;
    if (part_name == "f64") return DType::kC128;
    name = fmt::format("complex<{}>", part_name);
  }
  if (const auto dtype = element_type(name)) return *dtype;
  unsupported(in, fmt::format("element type '{}' is not supported{}", name.empty() ? e.dialect : name,
                              name.starts_with("!quant") ? ": dequantize the model first" : ""));
}

// --- locations

uint32_t VhloAttributes::location(uint64_t index) {
  AttributeEntry& e = entry(index, "a location");
  if (!e.location) {
    Location l = read_location(index);
    e.location = l == Location() ? 0 : builder_.add_location(std::move(l));
  }
  return *e.location;
}

Location VhloAttributes::read_location(uint64_t index) {
  AttributeEntry& e = entry(index, "a location");
  if (e.location) return builder_.location(*e.location);
  if (!e.is_encoded || e.dialect != "builtin") return {};
  ByteReader in(e.bytes, source_.bytes.data());
  e.open = true;
  ++depth_;
  Location l;
  switch (static_cast<Builtin>(in.varint())) {
    case Builtin::kCallSiteLoc: {
      const uint32_t callee = location(in.varint()), caller = location(in.varint());
      l = call_location(builder_.location(callee), builder_.location(caller));
      break;
    }
    case Builtin::kFileLineColLoc: {
      std::string file = string_attribute(in.varint());
      l = file_location(std::move(file), in.varint());
      break;
    }
    case Builtin::kFileLineColRange: {
      std::string file = string_attribute(in.varint());
      l = file_location(std::move(file), in.count() > 0 ? in.varint() : 0);
      break;
    }
    case Builtin::kFusedLoc:
    case Builtin::kFusedLocWithMetadata: {
      std::vector<Location> parts;
      for (size_t n = in.count(); n > 0; --n) parts.push_back(builder_.location(location(in.varint())));
      l = fused_location(parts);
      break;
    }
    case Builtin::kNameLoc: {
      std::string name = string_attribute(in.varint());
      const uint32_t child = location(in.varint());
      l = named_location(std::move(name), builder_.location(child));
      break;
    }
    default: break;  // unknown, or of no use
  }
  --depth_;
  e.open = false;
  return l;
}

}  // namespace sardonyx::mlir
