#include "lower/onnx_to_mil/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "dialects/mil/interface_names.h"
#include "dialects/mil/ops.h"
#include "lower/engine/sizes.h"

namespace sardonyx::onnx_to_mil {

DType stored_dtype(DType d) {
  switch (d) {
    case DType::kF16:
    case DType::kF32:
    case DType::kBool:
    case DType::kString: return d;
    case DType::kF64:
    case DType::kBF16: return DType::kF32;
    case DType::kU8:
    case DType::kI8:
    case DType::kU16:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kU4:
    case DType::kI4:
    case DType::kU2:
    case DType::kI2:
    case DType::kU32:
    case DType::kU64: return DType::kI32;
    default: return DType::kUndefined;
  }
}

Context::Context(const Model& onnx, const ValueFacts& onnx_facts, Model& mil, const LowerToMilOptions& options)
    : EngineOf(onnx, (mil.add_function("main").mil_opset = mil::opset_name(options.version), mil.graph()),
               {.task = fmt::format("this model to Core ML ({})", coreml_target_name(options.version)),
                .no_lowering = "Core ML has no such operator, and there is no lowering for it",
                .provenance = options.provenance},
               table()),
      options_(options),
      onnx_facts_(onnx_facts) {}

const Type* Context::stored(const Type* t) {
  const DType d = t != nullptr && t->is_tensor() ? stored_dtype(t->dtype()) : DType::kUndefined;
  return d == DType::kUndefined ? nullptr : model().types().with_dtype(t, d);
}

// ---------------------------------------------------------------------------------------------------------------------
// Values

namespace {

[[noreturn]] void does_not_fit(const Value& v, int64_t element) {
  throw Error(ErrorCode::kUnsupported, fmt::format("the constant{} holds {}, and Core ML's integers have 32 bits",
                                                   v.name().empty() ? "" : fmt::format(" '{}'", v.name().view()), element));
}

// The payload t of v in its stored element type.
TensorPtr as_stored(const Value& v, const TensorPtr& t) {
  const DType from = t->dtype(), to = stored_dtype(from);
  if (to == DType::kUndefined)
    throw Error(ErrorCode::kUnsupported, fmt::format("Core ML has no element type for constants of {}", to_string(from)));
  if (to == from) return t;
  std::vector<int64_t> shape(t->shape().begin(), t->shape().end());
  if (t->is_promise()) return Tensor::promise(to, std::move(shape), t->hash());
  if (is_float(to)) {
    if (t->is_splat()) return Tensor::full(to, std::move(shape), t->as_double(0));
    return Tensor::defer(to, std::move(shape), [t, to](int64_t first, std::span<std::byte> out) {
      const auto width = static_cast<size_t>(bit_width(to)) / 8;
      for (size_t i = 0; i < out.size() / width; ++i)
        encode_element(to, out.data(), static_cast<int64_t>(i), t->as_double(first + static_cast<int64_t>(i)));
    });
  }
  const int64_t stored_elements = t->is_splat() ? std::min<int64_t>(t->size(), 1) : t->size();
  std::vector<int32_t> narrow(static_cast<size_t>(stored_elements));
  for (int64_t i = 0; i < stored_elements; ++i) {
    int64_t element = t->as_int(i);
    if (from == DType::kU32) element = static_cast<int32_t>(static_cast<uint32_t>(element));  // the same bits
    if (element < std::numeric_limits<int32_t>::min() || element > std::numeric_limits<int32_t>::max())
      does_not_fit(v, element);
    narrow[static_cast<size_t>(i)] = static_cast<int32_t>(element);
  }
  if (t->is_splat() && !narrow.empty()) return Tensor::splat(to, std::move(shape), std::as_bytes(std::span(narrow)));
  return Tensor::of<int32_t>(to, std::move(shape), narrow);
}

}  // namespace

Value* Context::add_constant(const Value& onnx, Builder& /*b*/) {
  Value* v = main_.constant(as_stored(onnx, onnx.constant()), mil::plain_name(onnx.name().view()));
  bind(onnx, v);
  return v;
}

void Context::on_result(const Value& onnx, Value& v, Builder& b, bool knows_more) {
  if (knows_more) declared_.insert(&v);
  if (v.graph() != &b.graph() || onnx.name().empty() || !v.name().empty() || v.kind() != ValueKind::kResult) return;
  v.set_name(model().name(mil::plain_name(onnx.name().view())));
}

// ---------------------------------------------------------------------------------------------------------------------
// The interface

namespace {

// The default element type of an input or a result in the interface.
DType interface_dtype(DType onnx, int version) {
  const DType d = stored_dtype(onnx);
  if (d == DType::kBool) return DType::kF32;
  return d == DType::kF16 && version < 7 ? DType::kF32 : d;
}

std::string names_of(std::span<const Port> ports) {
  std::vector<std::string_view> names;
  for (const Port& p : ports) names.push_back(p.name.view());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void Context::check_states() const {
  const Graph& g = source().graph();
  const auto has = [](std::span<const Port> ports, const std::string& name) {
    return std::ranges::any_of(ports, [&](const Port& p) { return p.name.view() == name; });
  };
  for (const auto& [input, result] : options_.states) {
    if (!has(g.inputs(), input))
      throw Error(ErrorCode::kInvalidArgument, fmt::format("the state '{}' is not an input of the model", input),
                  {fmt::format("the inputs are {}", names_of(g.inputs()))});
    if (!has(g.outputs(), result))
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("'{}', which the state '{}' shall hold, is not a result of the model", result, input),
                  {fmt::format("the results are {}", names_of(g.outputs()))});
    const auto same = [&](const auto& other) { return other.input == input || other.result == result; };
    if (std::ranges::count_if(options_.states, same) > 1)
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the input '{}' or the result '{}' is in two states", input, result));
  }
  if (options_.states.empty()) return;
  constexpr int kIos18 = 9;
  if (options_.version < kIos18)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("states need iOS18, and the target is {}", coreml_target_name(options_.version)));
  if (options_.states.size() == g.outputs().size())
    throw Error(ErrorCode::kInvalidArgument,
                "all results of the model are states, and a Core ML function returns at least one result",
                {"help: return something else, too"});
}

void Context::add_state(const Port& port, const Type& type) {
  if (!is_float(type.dtype()) || !type.is_static())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the state '{}' is {}, and states of Core ML models hold floats of known sizes", port.name.view(),
                            source().types().to_string(port.value->type())));
  std::vector<Dim> dims(type.dims().begin(), type.dims().end());
  if (dims.empty()) dims.push_back(Dim::of(1));
  const Type* held = model().types().tensor(DType::kF16, dims);
  Value* state =
      model().graph().add_input(port.name.view(), model().types().make(TypeKind::kState, DType::kUndefined, {&held, 1}));
  Value* v = main_.read_state(state);
  if (type.rank() == 0) v = main_.squeeze(v, {.axes = {0}});
  if (type.dtype() != DType::kF16) v = main_.cast(v, {.dtype = type.dtype()});
  bind(*port.value, v);
  const auto pair = std::ranges::find_if(options_.states, [&](const CoremlState& s) { return s.input == port.name.view(); });
  states_[pair->result] = state;
}

void Context::update_state(Value* state, Value& onnx) {
  const Type* held = state->type()->element();
  Value* v = value(onnx, main_);
  if (v->dtype() != DType::kF16) v = main_.cast(v, {.dtype = DType::kF16});
  if (v->ranked() && v->type()->rank() == 0) v = main_.expand_dims(v, {.axes = {0}});
  if (model().types().meet(v->type(), held) == nullptr)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a state holds {}, and its result is {}", model().types().to_string(held),
                            model().types().to_string(v->type())));
  main_.coreml_update_state(state, v);
}

namespace {

// Throws unless each of `given` names one of `ports`. With `all`, an empty name means all ports.
template <class List>
void check_ports(const List& given, std::span<const Port> ports, std::string_view what, std::string_view port, bool all) {
  for (const auto& one : given) {
    if (all && one.port.empty()) continue;
    if (std::ranges::any_of(ports, [&](const Port& p) { return p.name.view() == one.port; })) continue;
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} '{}' is not {} of the model", what, one.port, port),
                {fmt::format("it has {}", names_of(ports))});
  }
}

}  // namespace

void Context::check_images() const {
  const Graph& g = source().graph();
  check_ports(options_.image_inputs, g.inputs(), "the image", "an input", false);
  check_ports(options_.image_outputs, g.outputs(), "the image", "a result", false);
  constexpr int kIos16 = 7;
  for (const auto* images : {&options_.image_inputs, &options_.image_outputs}) {
    for (const CoremlImage& image : *images) {
      const auto same = [&](const auto& state) {
        return (images == &options_.image_inputs ? state.input : state.result) == image.port;
      };
      if (std::ranges::any_of(options_.states, same))
        throw Error(ErrorCode::kInvalidArgument, fmt::format("the image '{}' is a state, too", image.port));
      if (image.color == CoremlColor::kGray16 && options_.version < kIos16)
        throw Error(ErrorCode::kInvalidArgument, fmt::format("images of half precision need iOS16, and the target is {}",
                                                             coreml_target_name(options_.version)));
    }
  }
  for (const CoremlImage& image : options_.image_outputs) {
    if (image.scale != 1 || !image.bias.empty())
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the image '{}' is a result, which has no scale and no bias", image.port),
                  {"help: let the model compute numbers from 0 to 255"});
  }
}

void Context::check_types() const {
  check_ports(options_.input_types, source().graph().inputs(), "the element type is for", "an input", true);
  check_ports(options_.output_types, source().graph().outputs(), "the element type is for", "a result", true);
  constexpr int kIos16 = 7;
  for (const auto* types : {&options_.input_types, &options_.output_types}) {
    for (const CoremlFloat& t : *types) {
      if (t.type == DType::kF16 && options_.version < kIos16)
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("inputs and results of half precision need iOS16, and the target is {}",
                                coreml_target_name(options_.version)));
    }
  }
}

// The element type of an input or a result in the interface: the given one, else the default.
DType Context::interface_type(const std::vector<CoremlFloat>& types, const Port& port, DType onnx) const {
  DType found = interface_dtype(onnx, options_.version);
  for (const CoremlFloat& t : types) {
    if (!t.port.empty() && t.port != port.name.view()) continue;
    if (is_float(onnx)) {
      found = t.type;
    } else if (!t.port.empty()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is {}, and only floats can be fp16 or fp32", t.port, to_string(onnx)));
    }
  }
  return found;
}

namespace {

DType image_dtype(const CoremlImage& image) { return image.color == CoremlColor::kGray16 ? DType::kF16 : DType::kF32; }

}  // namespace

// Core ML's images are [1, channels, height, width], whatever the order of the model's axes.
void Context::add_image(const Port& port, const Type& type, const CoremlImage& image) {
  const int64_t channels = image.channels();
  const bool four = type.rank() == 4 && type.dim(0).is(1);
  const bool last = four && !type.dim(1).is(channels) && type.dim(3).is(channels);
  if (!four || (!last && !type.dim(1).is(channels)) || type.dtype() == DType::kBool) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the image '{}' is {}, expected numbers of shape [1,{},height,width] or [1,height,width,{}]",
                            port.name.view(), source().types().to_string(port.value->type()), channels, channels),
                {"help: give the input these sizes (--input-shape)"});
  }
  const Dim height = type.dim(last ? 1 : 2), width = type.dim(last ? 2 : 3);
  const std::vector<Dim> dims{Dim::of(1), Dim::of(channels), height, width};
  Value* v = model().graph().add_input(port.name.view(), model().types().tensor(image_dtype(image), dims));
  v = v->dtype() == DType::kF32 || type.dtype() == DType::kF16 ? v : main_.cast(v, {.dtype = DType::kF32});
  if (image.scale != 1) v = main_.mul(v, image.scale);
  if (std::ranges::any_of(image.bias, [](double b) { return b != 0; })) {
    std::vector<std::byte> bytes(byte_size(v->dtype(), image.bias.size()));
    for (size_t i = 0; i < image.bias.size(); ++i)
      encode_element(v->dtype(), bytes.data(), static_cast<int64_t>(i), image.bias[i]);
    v = main_.add(v, main_.constant(Tensor::own(v->dtype(), {1, channels, 1, 1}, std::move(bytes))));
  }
  if (last) v = main_.transpose(v, {.perm = {0, 2, 3, 1}});
  if (type.dtype() != v->dtype()) v = main_.cast(v, {.dtype = type.dtype()});
  bind(*port.value, v);
}

void Context::add_input(const Port& port, size_t /*i*/) {
  const Type* type = stored_type(port.declared != nullptr ? port.declared : port.value->type());
  if (type == nullptr || !type->ranked() || type->dtype() == DType::kString) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the input '{}' is {}, and inputs of Core ML models are tensors of numbers of known rank",
                            port.name.view(), source().types().to_string(port.value->type())));
  }
  if (std::ranges::any_of(options_.states, [&](const CoremlState& s) { return s.input == port.name.view(); }))
    return add_state(port, *type);
  const auto image = std::ranges::find(options_.image_inputs, port.name.view(), &CoremlImage::port);
  if (image != options_.image_inputs.end()) return add_image(port, *type, *image);
  std::vector<Dim> dims(type->dims().begin(), type->dims().end());
  if (dims.empty()) dims.push_back(Dim::of(1));
  const DType dtype = interface_type(options_.input_types, port, port.value->dtype());
  Value* v = model().graph().add_input(port.name.view(), model().types().tensor(dtype, dims));
  if (dims.size() != type->rank()) v = main_.squeeze(v, {.axes = {0}});
  if (dtype != type->dtype()) v = main_.cast(v, {.dtype = type->dtype()});
  bind(*port.value, v);
}

// An image is numbers from 0 to 255 of shape [1, channels, height, width].
Value* Context::as_image(const Port& port, Value* v, const CoremlImage& image) {
  const int64_t channels = image.channels();
  const Type* t = v->type();
  const bool four =
      t != nullptr && t->is_tensor() && t->ranked() && t->rank() == 4 && t->dim(0).is(1) && v->dtype() != DType::kBool;
  const bool last = four && !t->dim(1).is(channels) && t->dim(3).is(channels);
  if (!four || (!last && !t->dim(1).is(channels))) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the image '{}' is {}, expected numbers of shape [1,{},height,width] or [1,height,width,{}]",
                            port.name.view(), model().types().to_string(t), channels, channels));
  }
  if (v->dtype() != image_dtype(image)) v = main_.cast(v, {.dtype = image_dtype(image)});
  return last ? main_.transpose(v, {.perm = {0, 3, 1, 2}}) : v;
}

void Context::add_output(const Port& port, Value& onnx, size_t /*i*/) {
  if (const auto state = states_.find(port.name.view()); state != states_.end()) return update_state(state->second, onnx);
  Value* v = value(onnx, main_);
  const auto image = std::ranges::find(options_.image_outputs, port.name.view(), &CoremlImage::port);
  if (image != options_.image_outputs.end()) v = as_image(port, v, *image);
  const DType dtype =
      image != options_.image_outputs.end() ? v->dtype() : interface_type(options_.output_types, port, onnx.dtype());
  if (dtype == DType::kUndefined || dtype == DType::kString)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the result '{}' is {}, and results of Core ML models are tensors of numbers", port.name.view(),
                            source().types().to_string(onnx.type())));
  if (v->dtype() != dtype) v = main_.cast(v, {.dtype = dtype});
  // A block can return only values that its own ops made.
  if (v->is_constant()) v = main_.identity(v);
  model().graph().add_output(*v, port.name.view());
}

void Context::run() {
  check_states();
  check_images();
  check_types();
  EngineOf::run();
}

// ---------------------------------------------------------------------------------------------------------------------
// Sizes at run time

namespace {

// Reads sizes from `near`, else from the inputs of the model: i32[1].
class Sizes : public lower::SizeWriter {
 public:
  Sizes(std::span<Value* const> near, MilBuilder& b) : near_(near), b_(b) {}

 private:
  Value* constant(int64_t n) override { return b_.i32s(std::vector<int64_t>{n}); }

  Value* known(Dim d) override {
    for (Value* v : near_) {
      if (Value* found = read(v, d)) return found;
    }
    for (const Port& p : b_.model().graph().inputs()) {
      if (Value* found = read(p.value, d)) return found;
    }
    return nullptr;
  }

  Value* read(Value* v, Dim d) {
    if (v == nullptr || !v->ranked()) return nullptr;
    const auto dims = v->type()->dims();
    const auto at = std::ranges::find(dims, d);
    if (at == dims.end()) return nullptr;
    const int64_t axis = at - dims.begin();
    return b_.slice_by_index(b_.shape(v), {axis}, {axis + 1});
  }

  Value* combine(Dim /*whole*/, const Dims::Parts& parts, Value* x, Value* y) override {
    switch (parts.form) {
      case Dims::Form::kAdd: return b_.add(x, y);
      case Dims::Form::kMul: return b_.mul(x, y);
      case Dims::Form::kFloorDiv: return b_.floor_div(x, y);
      case Dims::Form::kMax: return b_.maximum(x, y);
      case Dims::Form::kMin: return b_.minimum(x, y);
      default: return nullptr;
    }
  }

  std::span<Value* const> near_;
  MilBuilder& b_;
};

}  // namespace

Value* Context::size(Dim d, std::span<Value* const> near, MilBuilder& b) { return Sizes(near, b).write(b.dims(), d); }

}  // namespace sardonyx::onnx_to_mil
