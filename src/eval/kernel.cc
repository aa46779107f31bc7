#include "eval/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>
#include <stdexcept>

#include "dialects/onnx/ops.h"
#include "eval/mil/mil_kernel.h"

namespace sardonyx::eval {
namespace {

struct FamilyRange {
  uint32_t first, count;
};
constexpr FamilyRange kRanges[] = {
#define SX_FAMILY(domain, name, first, count) {first, count},
#include "dialects/onnx/generated/ops_families.gen.inc"
#undef SX_FAMILY
};

// Indexed by the op's position in the dialect's table.
constexpr auto kKernels = [] {
  std::array<Kernel, onnx::kOpCount> table{};
#define SX_KERNEL(name)                                               \
  for (uint32_t i = 0; i < kRanges[onnx::kFamily##name].count; ++i) { \
    table[kRanges[onnx::kFamily##name].first + i] = kernels::name;    \
  }
#include "eval/onnx/kernels.def"
#undef SX_KERNEL
  return table;
}();

// onnxruntime's own operators, which the dialect does not list.
Kernel find_microsoft_kernel(std::string_view name) {
  if (name == "MatMulNBits") return kernels::MatMulNBits;
  if (name == "GatherBlockQuantized") return kernels::GatherBlockQuantized;
  return nullptr;
}

}  // namespace

Kernel find_kernel(const Op& op) {
  if (!op.known && op.dialect == DialectId::kOnnx && op.domain == "com.microsoft") return find_microsoft_kernel(op.name);
  if (op.known && op.dialect == DialectId::kMil) return find_mil_kernel(op);
  if (!op.known || op.dialect != DialectId::kOnnx) return nullptr;
  return kKernels[static_cast<size_t>(&op - onnx::dialect().ops().data())];
}

void Account::take(uint64_t bytes) {
  if (bytes > cap_ || used_ > cap_ - bytes) {
    throw Error(ErrorCode::kLimit, fmt::format("a tensor of {} bytes does not fit into the evaluator's memory", bytes),
                {fmt::format("{} bytes are in use; the limit is {}", used_.load(), cap_)});
  }
  used_ += bytes;
}

void Account::check(int64_t n, size_t bytes_each) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(n), bytes_each, &bytes)) bytes = UINT64_MAX;
  take(bytes);
  give_back(bytes);
}

Array Run::make(DType dtype, std::vector<int64_t> shape) {
  const int64_t n = product(shape);
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(n), element_bytes(dtype), &bytes)) bytes = UINT64_MAX;
  account->take(bytes);
  if (dtype == DType::kString) {
    struct Strings {
      std::vector<std::string> values;
      std::shared_ptr<Account> account;
      uint64_t bytes;
      ~Strings() { account->give_back(bytes); }
    };
    auto held = std::make_shared<Strings>();
    held->account = account;
    held->bytes = bytes;
    held->values.resize(static_cast<size_t>(n));
    auto* data = reinterpret_cast<std::byte*>(held->values.data());
    return {dtype, std::move(shape), data, std::move(held)};
  }
  constexpr auto kAlign = std::align_val_t{64};
  auto* data = static_cast<std::byte*>(::operator new(std::max<uint64_t>(bytes, 1), kAlign, std::nothrow));
  if (data == nullptr) {
    account->give_back(bytes);
    throw Error(ErrorCode::kLimit, fmt::format("there is no memory for a tensor of {} bytes", bytes));
  }
  std::shared_ptr<const void> owner(data, [held = account, bytes](std::byte* p) {
    ::operator delete(p, kAlign);
    held->give_back(bytes);
  });
  return {dtype, std::move(shape), data, std::move(owner)};
}

// --- operands

const EvalValue& Call::value(size_t i) const {
  if (!has(i)) fail(fmt::format("operand {} is missing", i));
  return inputs_[i];
}

EvalValue Call::take(size_t i) {
  value(i);
  return std::move(inputs_[i]);
}

const Array& Call::in(size_t i) const {
  const EvalValue& v = value(i);
  if (const Array* a = v.array()) return *a;
  if (const EvalOptional* o = v.optional(); o != nullptr && o->value && o->value->array()) return *o->value->array();
  fail(fmt::format("operand {} is {}, not a tensor", i, describe(v)));
}

const std::vector<EvalValue>& Call::sequence(size_t i) const {
  const EvalValue& v = value(i);
  if (const auto* items = v.items()) return *items;
  if (const EvalOptional* o = v.optional(); o != nullptr && o->value && o->value->items()) return *o->value->items();
  fail(fmt::format("operand {} is {}, not a sequence", i, describe(v)));
}

const Array& Call::fitting(size_t i) const {
  const Array& a = in(i);
  if (!a.is_dense()) run.account->check(a.size(), sizeof(double));
  return a;
}

int64_t Call::int_scalar(size_t i) const {
  const Array& a = in(i);
  if (a.size() != 1) fail(fmt::format("operand {} has {} elements, expected one", i, a.size()));
  return a.int_at(0);
}

double Call::scalar(size_t i) const {
  const Array& a = in(i);
  if (a.size() != 1) fail(fmt::format("operand {} has {} elements, expected one", i, a.size()));
  return a.double_at(0);
}

// --- attributes

const Attr* Call::attr(std::string_view name) const {
  const Attr* found = node.attr(name);
  const CallSite* site = site_;
  while (found != nullptr) {
    const auto* reference = found->get<RefAttr>();
    if (reference == nullptr) return found;
    if (site == nullptr) return nullptr;
    const std::string& wanted = reference->name;
    found = site->call ? site->call->attr(wanted) : nullptr;
    if (found == nullptr) {
      for (const NamedAttr& a : site->callee->default_attributes) {
        if (a.name == wanted) found = &a.value;
      }
      return found;
    }
    site = site->outer;
  }
  return nullptr;
}

namespace {
const AttrSpec* spec_of(const Node& n, std::string_view name) {
  for (const AttrSpec& s : n.op().attrs) {
    if (s.name == name && s.has_default) return &s;
  }
  return nullptr;
}
}  // namespace

std::optional<int64_t> Call::maybe_int(std::string_view name) const {
  if (const Attr* a = attr(name)) {
    if (const auto* v = a->get<int64_t>()) return *v;
    if (const auto* b = a->get<bool>()) return *b ? 1 : 0;
    fail(fmt::format("the attribute '{}' is not an integer", name));
  }
  if (const AttrSpec* s = spec_of(node, name)) return s->default_int;
  return std::nullopt;
}

int64_t Call::int_attr(std::string_view name) const {
  if (const auto v = maybe_int(name)) return *v;
  fail(fmt::format("the attribute '{}' is missing", name));
}

std::optional<double> Call::maybe_float(std::string_view name) const {
  if (const Attr* a = attr(name)) {
    if (const auto* v = a->get<double>()) return static_cast<float>(*v);
    fail(fmt::format("the attribute '{}' is not a number", name));
  }
  if (const AttrSpec* s = spec_of(node, name)) return static_cast<float>(s->default_float);
  return std::nullopt;
}

std::string Call::string_attr(std::string_view name, std::string_view otherwise) const {
  if (const Attr* a = attr(name)) {
    if (const auto* v = a->get<std::string>()) return *v;
    fail(fmt::format("the attribute '{}' is not a text", name));
  }
  if (const AttrSpec* s = spec_of(node, name)) return std::string(s->default_string);
  return std::string(otherwise);
}

std::optional<std::vector<int64_t>> Call::ints_attr(std::string_view name) const {
  if (const Attr* a = attr(name)) {
    if (const auto* v = a->get<Attr::Ints>()) return *v;
    if (const auto* l = a->get<Attr::Floats>(); l != nullptr && l->empty()) return std::vector<int64_t>{};
    fail(fmt::format("the attribute '{}' is not a list of integers", name));
  }
  if (const AttrSpec* s = spec_of(node, name)) return std::vector<int64_t>(s->default_ints.begin(), s->default_ints.end());
  return std::nullopt;
}

std::optional<std::vector<double>> Call::floats_attr(std::string_view name) const {
  const Attr* a = attr(name);
  if (a == nullptr) return std::nullopt;
  if (const auto* v = a->get<Attr::Floats>()) {
    std::vector<double> out(v->begin(), v->end());
    for (double& d : out) d = static_cast<float>(d);
    return out;
  }
  fail(fmt::format("the attribute '{}' is not a list of numbers", name));
}

std::optional<std::vector<std::string>> Call::strings_attr(std::string_view name) const {
  const Attr* a = attr(name);
  if (a == nullptr) return std::nullopt;
  if (const auto* v = a->get<Attr::Strings>()) return *v;
  fail(fmt::format("the attribute '{}' is not a list of texts", name));
}

TensorPtr Call::tensor_attr(std::string_view name) const {
  const Attr* a = attr(name);
  if (a == nullptr) return nullptr;
  if (const auto* v = a->get<TensorPtr>()) return *v;
  fail(fmt::format("the attribute '{}' is not a tensor", name));
}

size_t Call::axis(int64_t a, size_t rank) const {
  const auto r = static_cast<int64_t>(rank);
  if (a < -r || a >= r) fail(fmt::format("axis {} is out of range for rank {}", a, rank));
  return static_cast<size_t>(a < 0 ? a + r : a);
}

std::vector<size_t> Call::axes(std::span<const int64_t> list, size_t rank) const {
  std::vector<size_t> out;
  for (int64_t a : list) {
    const size_t d = axis(a, rank);
    if (std::ranges::find(out, d) != out.end()) fail(fmt::format("axis {} is given twice", a));
    out.push_back(d);
  }
  return out;
}

// --- results

Array Call::dense(const Array& a) {
  if (a.is_dense()) return a;
  Array out = make(a.dtype(), a.shape());
  copy_elements(a, out);
  return out;
}

Array Call::full(DType dtype, std::vector<int64_t> shape, double v) {
  Array one = make(dtype, {1});
  store<double>(one, 0, 1, &v);
  std::vector<int64_t> strides(shape.size(), 0);
  return one.view(std::move(shape), std::move(strides));
}

// --- bodies

size_t Call::body(std::string_view name) const {
  for (size_t i = 0; i < node.bodies().size(); ++i) {
    if (node.bodies()[i].name.view() == name) return i;
  }
  fail(fmt::format("there is no graph '{}'", name));
}

void Call::count_iteration() const {
  if (++run.iterations > run.options.max_iterations) {
    throw Error(ErrorCode::kLimit, fmt::format("loops ran more than {} times", run.options.max_iterations));
  }
}

void Call::fail(std::string message, std::vector<std::string> notes) const {
  throw Error(ErrorCode::kInvalidModel, std::move(message), std::move(notes));
}

void Call::unsupported(std::string message) const { throw Error(ErrorCode::kUnsupported, std::move(message)); }

std::vector<EvalValue> apply(Kernel kernel, Call& call) {
  try {
    kernel(call);
  } catch (const std::bad_alloc&) {  // memory that a kernel needs besides its results
    throw Error(ErrorCode::kLimit, "there is not enough memory");
  } catch (const std::length_error&) {
    throw Error(ErrorCode::kLimit, "there is not enough memory");
  } catch (const std::out_of_range&) {  // kernels read lists of parameters with at()
    call.fail("a list among its parameters is too short");
  }
  return std::move(call.results);
}

}  // namespace sardonyx::eval
