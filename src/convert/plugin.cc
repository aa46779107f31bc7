#include "convert/plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <type_traits>
#include <utility>

#include "sardonyx/plugin.h"
#include "support/system/system.h"

using sardonyx::Error;
using sardonyx::ErrorCode;
using sardonyx::Value;
using sardonyx::jax_to_onnx::Lowering;

struct SardonyxHost {
  sardonyx::LoweringRegistry& registry;
  std::string origin;  // the path of the plugin
  sardonyx::LateAttributes& late;
};

struct SardonyxLowering {
  Lowering& ctx;
  std::vector<Value*> results;
  sardonyx::AttrInit attrs = {};         // for the next operator
  std::exception_ptr failure = nullptr;  // the first exception
  sardonyx::LateAttributes& late;
  const std::string& origin;
  std::deque<std::string> texts = {};  // strings that the plugin was given
};

namespace {

Value* native(const SardonyxValue* v) { return const_cast<Value*>(reinterpret_cast<const Value*>(v)); }
SardonyxValue* foreign(Value* v) { return reinterpret_cast<SardonyxValue*>(v); }

// No exception may cross the plugin: the first one is kept, and later calls do nothing.
template <class Do>
auto guarded(SardonyxLowering* l, Do act) -> std::invoke_result_t<Do> {
  using Result = std::invoke_result_t<Do>;
  if (l->failure == nullptr) {
    try {
      return act();
    } catch (...) {
      l->failure = std::current_exception();
    }
  }
  if constexpr (!std::is_void_v<Result>) return Result{};
}

void set_late(SardonyxLowering* l, SardonyxValue* value, sardonyx::NamedAttr attribute) {
  guarded(l, [&] {
    sardonyx::Node* made_by = value == nullptr ? nullptr : native(value)->def();
    if (made_by == nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the plugin set the attribute '{}' late on a value that no node computes", attribute.name));
    }
    l->late.add(*made_by, std::move(attribute), l->origin);
  });
}

const sardonyx::Type& typed(const sardonyx::Type* t) {
  if (t == nullptr || !t->is_tensor() || !t->ranked()) {
    throw Error(ErrorCode::kInvalidArgument, "the plugin asked for the type of a value whose type is not known");
  }
  return *t;
}

const sardonyx::Type& type_of(const SardonyxValue* v) {
  if (v == nullptr) throw Error(ErrorCode::kInvalidArgument, "the plugin asked for the type of a null value");
  return typed(native(v)->type());
}

const sardonyx::Type& result_type(SardonyxLowering* l, size_t i) {
  if (i >= l->results.size()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' has {} results, and the plugin asked for number {}",
                                                         l->ctx.node.op().name, l->results.size(), i));
  }
  return typed(l->ctx.stored_out_type(i));
}

sardonyx::Dim dim_of(const sardonyx::Type& t, size_t axis) {
  if (axis >= t.rank()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("the plugin asked for axis {} of a value of rank {}", axis, t.rank()));
  }
  return t.dim(axis);
}

int64_t number(sardonyx::Dim d) { return d.is_int() ? d.value() : -1; }

Value* tensor(SardonyxLowering* l, int32_t dtype, const int64_t* dims, size_t rank, const void* data) {
  const auto type = static_cast<sardonyx::DType>(dtype);
  if (dtype <= 0 || dtype > 47 || sardonyx::bit_width(type) == 0) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("the plugin made a constant of the element type {}", dtype));
  }
  std::vector<int64_t> shape(dims, dims + rank);
  uint64_t count = 1;
  for (const int64_t d : shape) {
    if (d < 0 || (d > 0 && count > (uint64_t{1} << 62) / static_cast<uint64_t>(d))) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("the plugin made a constant with a size of {}", d));
    }
    count *= static_cast<uint64_t>(d);
  }
  std::vector<std::byte> bytes(sardonyx::byte_size(type, count));
  std::copy_n(static_cast<const std::byte*>(data), bytes.size(), bytes.data());
  return l->ctx.b.constant(sardonyx::Tensor::own(type, std::move(shape), std::move(bytes)));
}

const SardonyxApi& api() {
  static const SardonyxApi table{
      .version = SARDONYX_PLUGIN_VERSION,
      .add_lowering =
          [](SardonyxHost* host, const char* primitive, SardonyxLower lower, void* data) {
            auto run = [lower, data, origin = host->origin, &late = host->late](Lowering& ctx) {
              SardonyxLowering l{
                  .ctx = ctx, .results = std::vector<Value*>(ctx.node.num_results(), nullptr), .late = late, .origin = origin};
              lower(&api(), &l, data);
              if (l.failure != nullptr) std::rethrow_exception(l.failure);
              return l.results;
            };
            host->registry.add(primitive, std::move(run), host->origin);
          },
      .num_inputs = [](SardonyxLowering* l) { return l->ctx.num_inputs(); },
      .input = [](SardonyxLowering* l, size_t i) { return guarded(l, [&] { return foreign(l->ctx.in(i)); }); },
      .int_param = [](SardonyxLowering* l, const char* name) { return guarded(l, [&] { return l->ctx.int_param(name); }); },
      .float_param = [](SardonyxLowering* l, const char* name) { return guarded(l, [&] { return l->ctx.float_param(name); }); },
      .attr_int = [](SardonyxLowering* l, const char* name, int64_t v) { l->attrs.push_back(sardonyx::attr(name, v)); },
      .attr_float = [](SardonyxLowering* l, const char* name, double v) { l->attrs.push_back(sardonyx::attr(name, v)); },
      .attr_string = [](SardonyxLowering* l, const char* name,
                        const char* v) { l->attrs.push_back(sardonyx::attr(name, std::string(v))); },
      .attr_ints = [](SardonyxLowering* l, const char* name, const int64_t* values,
                      size_t n) { l->attrs.push_back(sardonyx::attr(name, std::vector<int64_t>(values, values + n))); },
      .op =
          [](SardonyxLowering* l, const char* name, SardonyxValue* const* inputs, size_t n) {
            return guarded(l, [&] {
              std::vector<Value*> operands;
              for (size_t i = 0; i < n; ++i) operands.push_back(native(inputs[i]));
              return foreign(l->ctx.b.op(name, operands, std::exchange(l->attrs, {})));
            });
          },
      .number = [](SardonyxLowering* l, const SardonyxValue* like,
                   double v) { return guarded(l, [&] { return foreign(l->ctx.b.scalar(native(like)->dtype(), v)); }); },
      .ints = [](SardonyxLowering* l, const int64_t* values,
                 size_t n) { return guarded(l, [&] { return foreign(l->ctx.b.i64s(std::span<const int64_t>(values, n))); }); },
      .result =
          [](SardonyxLowering* l, size_t i, SardonyxValue* v) {
            guarded(l, [&] {
              if (i >= l->results.size()) {
                throw Error(ErrorCode::kInvalidArgument,
                            fmt::format("'{}' has {} results, and the plugin gave one as number {}", l->ctx.node.op().name,
                                        l->results.size(), i));
              }
              if (l->results[i] != nullptr) {
                throw Error(ErrorCode::kInvalidArgument,
                            fmt::format("the plugin gave result {} of '{}' twice", i, l->ctx.node.op().name));
              }
              l->results[i] = native(v);
            });
          },
      .unsupported = [](SardonyxLowering* l, const char* why) { guarded(l, [&] { l->ctx.unsupported(why); }); },
      .late_int = [](SardonyxLowering* l, SardonyxValue* value, const char* name,
                     int64_t v) { set_late(l, value, sardonyx::attr(name, v)); },
      .late_float = [](SardonyxLowering* l, SardonyxValue* value, const char* name,
                       double v) { set_late(l, value, sardonyx::attr(name, v)); },
      .late_string = [](SardonyxLowering* l, SardonyxValue* value, const char* name,
                        const char* v) { set_late(l, value, sardonyx::attr(name, std::string(v))); },
      .late_ints = [](SardonyxLowering* l, SardonyxValue* value, const char* name, const int64_t* values,
                      size_t n) { set_late(l, value, sardonyx::attr(name, std::vector<int64_t>(values, values + n))); },
      .dtype = [](SardonyxLowering* l,
                  const SardonyxValue* v) { return guarded(l, [&] { return static_cast<int32_t>(type_of(v).dtype()); }); },
      .rank = [](SardonyxLowering* l, const SardonyxValue* v) { return guarded(l, [&] { return type_of(v).rank(); }); },
      .dim = [](SardonyxLowering* l, const SardonyxValue* v,
                size_t axis) { return guarded(l, [&] { return number(dim_of(type_of(v), axis)); }); },
      .size = [](SardonyxLowering* l, const SardonyxValue* v,
                 size_t axis) { return guarded(l, [&] { return foreign(l->ctx.dim(dim_of(type_of(v), axis))); }); },
      .num_results = [](SardonyxLowering* l) { return l->results.size(); },
      .result_dtype = [](SardonyxLowering* l,
                         size_t i) { return guarded(l, [&] { return static_cast<int32_t>(result_type(l, i).dtype()); }); },
      .result_rank = [](SardonyxLowering* l, size_t i) { return guarded(l, [&] { return result_type(l, i).rank(); }); },
      .result_dim = [](SardonyxLowering* l, size_t i,
                       size_t axis) { return guarded(l, [&] { return number(dim_of(result_type(l, i), axis)); }); },
      .result_shape = [](SardonyxLowering* l,
                         size_t i) { return guarded(l, [&] { return foreign(l->ctx.shape(result_type(l, i).dims())); }); },
      .has_param =
          [](SardonyxLowering* l, const char* name) {
            return guarded(l, [&] { return static_cast<int>(l->ctx.find_param(name) != nullptr); });
          },
      .bool_param = [](SardonyxLowering* l,
                       const char* name) { return guarded(l, [&] { return static_cast<int>(l->ctx.bool_param(name)); }); },
      .string_param =
          [](SardonyxLowering* l, const char* name) {
            return guarded(l, [&] { return l->texts.emplace_back(l->ctx.string_param(name)).c_str(); });
          },
      .ints_param =
          [](SardonyxLowering* l, const char* name, int64_t* values, size_t room) {
            return guarded(l, [&] {
              const std::vector<int64_t> all = l->ctx.ints_param(name);
              std::copy_n(all.begin(), std::min(room, all.size()), values);
              return all.size();
            });
          },
      .op_results =
          [](SardonyxLowering* l, const char* domain, const char* name, SardonyxValue* const* inputs, size_t n,
             SardonyxValue** results, size_t num_results) {
            std::fill_n(results, num_results, nullptr);
            guarded(l, [&] {
              std::vector<Value*> operands;
              for (size_t i = 0; i < n; ++i) operands.push_back(native(inputs[i]));
              sardonyx::Node& made = l->ctx.b.node(name, operands, num_results, std::exchange(l->attrs, {}), domain);
              for (size_t i = 0; i < num_results; ++i) results[i] = foreign(made.result(i));
            });
          },
      .tensor = [](SardonyxLowering* l, int32_t dtype, const int64_t* dims, size_t rank,
                   const void* data) { return guarded(l, [&] { return foreign(tensor(l, dtype, dims, rank, data)); }); },
  };
  return table;
}

}  // namespace

namespace sardonyx {

void LateAttributes::add(Node& node, NamedAttr attribute, std::string origin) {
  all_.push_back({&node, std::move(attribute), std::move(origin)});
}

void infer_changed(Node& n) {
  std::vector<const Type*> before;
  for (Value& v : n.results()) before.push_back(v.type());
  ValueFacts facts;
  infer_node(n, facts);
  Types& types = n.model().types();
  for (size_t i = 0; i < before.size(); ++i) {
    const Type* now = n.result(i)->type();
    if (before[i] == nullptr || now == nullptr || types.meet(before[i], now) != nullptr) continue;
    throw Error(ErrorCode::kInvalidModel, fmt::format("{}: result {} would be {}, it was {}", n.op().name, i,
                                                      types.to_string(now), types.to_string(before[i])));
  }
}

void LateAttributes::set() const {
  for (const Late& late : all_) {
    Node& n = *late.node;
    if (!n.alive() || !n.linked()) continue;
    n.set_attrs(n.model().with_attr(n.attrs(), late.attribute.name, late.attribute.value));
    try {
      infer_changed(n);
    } catch (const Error& e) {
      throw e.with_note(fmt::format("after the plugin {} had set attributes of this {} late", late.origin, n.op().name));
    }
  }
}

void load_plugin(const std::filesystem::path& path, LoweringRegistry& registry, LateAttributes& late) {
  std::string why;
  void* library = sys::load_library(path, why);
  if (library == nullptr) throw Error(ErrorCode::kIo, fmt::format("cannot load the plugin {}: {}", path.string(), why));
  auto* entry = reinterpret_cast<decltype(&sardonyx_plugin)>(sys::find_function(library, "sardonyx_plugin"));
  if (entry == nullptr) {
    throw Error(ErrorCode::kIo, fmt::format("{} is not a plugin: it has no function sardonyx_plugin", path.string()),
                {"help: define it as sardonyx/plugin.h says, with C linkage"});
  }
  SardonyxHost host{registry, path.filename().string(), late};
  if (const int code = entry(&api(), &host); code != 0) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the plugin {} does not work with version {} of the interface (it says {})", path.string(),
                            SARDONYX_PLUGIN_VERSION, code));
  }
}

}  // namespace sardonyx
