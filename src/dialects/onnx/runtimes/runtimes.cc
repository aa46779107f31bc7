#include "dialects/onnx/refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "dialects/onnx/node_types.h"
#include "sardonyx/error.h"
#include "support/nearest.h"

namespace sardonyx::onnx {
namespace {

constexpr auto kRuntimes = [] {
  std::array runtimes{
#define SX_RUNTIME(name, opset, ir_version) Runtime{name, opset, ir_version},
#define SX_KERNEL(...)
#define SX_EXPANDED(...)
#include "dialects/onnx/generated/runtime_kernels.gen.inc"
#undef SX_RUNTIME
#undef SX_KERNEL
#undef SX_EXPANDED
  };
  for (size_t i = 0; i < runtimes.size(); ++i) runtimes[i].number = static_cast<int>(i);
  return runtimes;
}();

// The part of `text` up to `end`, without leading blanks.
constexpr std::string_view take(std::string_view& text, char end) {
  const size_t n = std::min(text.find(end), text.size());
  std::string_view piece = text.substr(0, n);
  text.remove_prefix(std::min(n + 1, text.size()));
  while (piece.starts_with(' ')) piece.remove_prefix(1);
  return piece;
}

// The bit of an element type, given its name in the table.
constexpr uint64_t bit_of(std::string_view name) {
  using enum DType;
  constexpr std::pair<std::string_view, DType> kNames[] = {{"f32", kF32},
                                                           {"f64", kF64},
                                                           {"f16", kF16},
                                                           {"bf16", kBF16},
                                                           {"i64", kI64},
                                                           {"i32", kI32},
                                                           {"i16", kI16},
                                                           {"i8", kI8},
                                                           {"i4", kI4},
                                                           {"i2", kI2},
                                                           {"u64", kU64},
                                                           {"u32", kU32},
                                                           {"u16", kU16},
                                                           {"u8", kU8},
                                                           {"u4", kU4},
                                                           {"u2", kU2},
                                                           {"str", kString},
                                                           {"bool", kBool},
                                                           {"f8e4m3fn", kF8E4M3FN},
                                                           {"f8e4m3fnuz", kF8E4M3FNUZ},
                                                           {"f8e5m2", kF8E5M2},
                                                           {"f8e5m2fnuz", kF8E5M2FNUZ},
                                                           {"f8e8m0", kF8E8M0}};
  for (const auto& [known, type] : kNames) {
    if (known == name) return uint64_t{1} << static_cast<unsigned>(type);
  }
  throw std::invalid_argument("no element type");  // does not compile: the table is read at compile time
}

// "T: f32 f64; I: i64"
consteval Kernel parse_kernel(std::string_view text) {
  Kernel k;
  for (size_t i = 0; !text.empty(); ++i) {
    std::string_view names = take(text, ';');
    Kernel::Variable& v = k.variables.at(i);
    v.name = take(names, ':');
    while (!names.empty()) {
      if (const auto name = take(names, ' '); !name.empty()) v.types |= bit_of(name);
    }
  }
  return k;
}

struct Row {
  std::string_view op;
  int first_version = 0, last_version = 0;  // last 0: the kernel's range is open, see serves()
  int first_runtime = 0, last_runtime = 0;
  Kernel kernel;
  bool is_expanded = false;  // no kernel: expands the function of that version, only in models of that opset

  // onnxruntime's rule: a kernel without a last version serves only its first one.
  bool serves(int version, int opset) const {
    if (is_expanded) return version == first_version && opset == first_version;
    return version == first_version || (last_version != 0 && first_version < version && version <= last_version);
  }
};

// Ordered by operator.
constexpr Row kRows[] = {
#define SX_RUNTIME(...)
#define SX_KERNEL(op, first_version, last_version, first_runtime, last_runtime, types) \
  {op, first_version, last_version, first_runtime, last_runtime, parse_kernel(types)},
#define SX_EXPANDED(op, version, first_runtime, last_runtime, types) \
  {op, version, version, first_runtime, last_runtime, parse_kernel(types), /*is_expanded=*/true},
#include "dialects/onnx/generated/runtime_kernels.gen.inc"
#undef SX_RUNTIME
#undef SX_KERNEL
#undef SX_EXPANDED
};
static_assert(std::ranges::is_sorted(kRows, {}, &Row::op));

}  // namespace

std::span<const Runtime> runtimes() { return kRuntimes; }
const Runtime& newest_runtime() { return kRuntimes.back(); }

const Runtime& runtime_named(std::string_view name) {
  constexpr std::string_view kLong = "onnxruntime-", kShort = "ort-";
  std::string wanted(name);
  if (wanted.starts_with(kLong)) wanted.replace(0, kLong.size(), kShort);
  if (std::ranges::count(wanted, '.') == 2) wanted.resize(wanted.rfind('.'));
  std::vector<std::string_view> names;
  for (const Runtime& r : kRuntimes) {
    if (r.name == wanted) return r;
    names.push_back(r.name);
  }
  // The nearest names; the stable sort keeps releases in order among equally near ones.
  std::ranges::stable_sort(names, {}, [&](std::string_view known) { return edit_distance(wanted, known); });
  names.resize(std::min<size_t>(names.size(), 3));
  throw Error(ErrorCode::kUnsupported, fmt::format("target \"{}\" is not known", name),
              {fmt::format("the nearest are {}", fmt::join(names, ", ")),
               fmt::format("help: targets are {} to {}", kRuntimes.front().name, kRuntimes.back().name)});
}

uint64_t Kernel::of(std::string_view variable) const {
  const auto found = std::ranges::find(variables, variable, &Variable::name);
  return found == variables.end() || variable.empty() ? ~uint64_t{0} : found->types;
}

std::vector<const Kernel*> kernels(const Runtime& runtime, const Op& op) { return kernels(runtime, op, /*opset=*/0); }

std::vector<const Kernel*> kernels(const Runtime& runtime, const Op& op, int opset) {
  std::vector<const Kernel*> found;
  if (!op.domain.empty()) return found;
  for (const Row& row : std::ranges::equal_range(kRows, op.name, {}, &Row::op)) {
    if (row.first_runtime <= runtime.number && runtime.number <= row.last_runtime && row.serves(op.since_version, opset))
      found.push_back(&row.kernel);
  }
  return found;
}

int opset_of(const Node& n) {
  return n.graph()->model().opset_version("").value_or(dialect(DialectId::kOnnx).latest_version(""));
}

std::string Refusal::text() const {
  return asks.empty() ? node + " has no kernel" : fmt::format("{}, whose kernel asks for {}", node, asks);
}

std::optional<Refusal> refusal(const Runtime& runtime, const Node& n) {
  const Op& op = n.op();
  if (!op.domain.empty() || !op.known || op.has(Trait::kConstant)) return std::nullopt;
  const TypesByVariable types = types_by_variable(n, op);
  const auto own_types = own_types_of(n);
  const auto described = [&] {
    std::string text = fmt::format("{}-{} of {}", op.name, op.since_version, to_string(types));
    for (auto it = own_types.begin(); it != own_types.end(); ++it)
      text += fmt::format("{} {}", it == own_types.begin() ? " with" : ",", to_string(it->second));
    return text;
  };
  if (const KernelFit fit = kernel_fit(runtime, n); fit.fit == Fit::kNo) return Refusal{described(), fit.asks};
  const auto takes = [](const Kernel& k, const auto& all) {
    return std::ranges::all_of(all, [&](const auto& t) {
      const auto [variable, type] = t;
      const auto shift = static_cast<unsigned>(type);
      return shift < 64 && (k.of(variable) >> shift & 1) != 0;
    });
  };
  const auto found = kernels(runtime, op, opset_of(n));
  if (std::ranges::any_of(found, [&](const Kernel* k) { return takes(*k, types) && takes(*k, own_types); }))
    return std::nullopt;
  return Refusal{described(), {}};
}

bool has_kernel(const Model& m, std::string_view op, DType t) {
  static const int oldest = runtime_named(kOldestSupported).number;
  const Dialect& onnx = dialect(DialectId::kOnnx);
  const int opset = m.opset_version("").value_or(onnx.latest_version(""));
  const Op* found = onnx.find("", op, opset);
  if (found == nullptr || found->inputs.empty()) return false;
  const std::string_view variable = found->inputs[op == "Where" ? 1 : 0].type_var;
  uint32_t having = 0;  // bit set of the releases that have a kernel
  static_assert(kRuntimes.size() < 32);
  for (const Row& row : std::ranges::equal_range(kRows, op, {}, &Row::op)) {
    if (!row.serves(found->since_version, opset)) continue;
    if ((row.kernel.of(variable) >> static_cast<unsigned>(t) & 1) == 0) continue;
    having |= (2u << row.last_runtime) - (1u << row.first_runtime);
  }
  return std::ranges::all_of(
      runtimes(), [&](const Runtime& r) { return r.number < oldest || opset > r.opset || (having >> r.number & 1) != 0; });
}

uint64_t types_in_standard(const Op& op, std::string_view variable) {
  uint64_t types = 0;
  for (std::span<const Slot> slots : {op.inputs, op.outputs}) {
    for (const Slot& s : slots) {
      if (s.type_var == variable) types |= s.types.any ? ~uint64_t{0} : s.types.tensor;
    }
  }
  return types == 0 ? ~uint64_t{0} : types;
}

std::span<const DType> holders(DType t) {
  using enum DType;
  static constexpr std::array kOfBool = {kBool, kU8, kI32};
  static constexpr std::array kOfI8 = {kI8, kI16, kI32, kI64};
  static constexpr std::array kOfI16 = {kI16, kI32, kI64};
  static constexpr std::array kOfI32 = {kI32, kI64};
  static constexpr std::array kOfI64 = {kI64};
  static constexpr std::array kOfU8 = {kU8, kU32, kI32, kI64};
  static constexpr std::array kOfU16 = {kU16, kU32, kI32, kI64};
  static constexpr std::array kOfU32 = {kU32, kU64, kI64};
  static constexpr std::array kOfU64 = {kU64, kI64};  // i64 only where is_modular()
  static constexpr std::array kOfBF16 = {kBF16, kF32};
  static constexpr std::array kOfF16 = {kF16, kF32};
  static constexpr std::array kOfF32 = {kF32};
  static constexpr std::array kOfF64 = {kF64};
  switch (t) {
    case kBool: return kOfBool;
    case kI8: return kOfI8;
    case kI16: return kOfI16;
    case kI32: return kOfI32;
    case kI64: return kOfI64;
    case kU8: return kOfU8;
    case kU16: return kOfU16;
    case kU32: return kOfU32;
    case kU64: return kOfU64;
    case kBF16: return kOfBF16;
    case kF16: return kOfF16;
    case kF32: return kOfF32;
    case kF64: return kOfF64;
    default: return {};
  }
}

bool is_composed(std::string_view op, DType t) {
  if (t == DType::kF64) return op == "Cos" || op == "ReduceL2";
  return t == DType::kU64 && (op == "Less" || op == "LessOrEqual" || op == "Greater" || op == "GreaterOrEqual" || op == "Div");
}

bool is_modular(std::string_view op) {
  static constexpr std::array<std::string_view, 24> kModular{
      "Add",    "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Concat", "Conv",  "ConvTranspose",
      "CumSum", "Einsum",     "Equal",      "Expand",    "Gemm",       "MatMul", "Mul",   "Neg",
      "OneHot", "Pad",        "ReduceProd", "ReduceSum", "Sub",        "Tile",   "Trilu", "Where"};
  return std::ranges::find(kModular, op) != kModular.end();
}

}  // namespace sardonyx::onnx
