//   opset 11: x ── Squeeze<axes=[1]> ── y     =>   opset 13: x, [1] ── Squeeze ── y
//
// Raises or lowers the version of the default ONNX domain that the model and its functions import. Every
// operator keeps its meaning and is rewritten for the new version. Both directions work from opset 7 on.
// Raising lets fusions use newer operators; lowering serves runtimes that are older than the model.
//
// Most versions of an operator only allow more types than those before, so the node just changes its version.
// If the older version takes fewer types, the node computes in a wider type between Casts. kUp and
// steps_down() list all other changes, according to the schemas' texts. An attribute that only one of the two
// versions has is dropped if it states what both mean anyway. Defaults that changed are written out. If the
// other version cannot express some nodes, the pass throws an error that lists them all and leaves the model
// unchanged. write_out_operators first replaces operators that the standard defines by others.
#include "passes/onnx/convert/convert_opset.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "dialects/onnx/runtimes/runtimes.h"

namespace sardonyx::onnx {
namespace {

constexpr int kOldest = 7;
constexpr int kCountsAxesFromBack = 11;  // from this opset on, every operator takes -1 as the last axis

int newest() { return dialect(DialectId::kOnnx).latest_version(""); }

bool is_default_domain(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

class Converter {
 public:
  Converter(PassContext& context, int to)
      : context_(context), model_(context.model), to_(to), conversion_(context, to), widener_(context) {}

  bool run() {
    const auto from = model_.opset_version("");
    if (!from || *from == to_) return false;
    if (*from > newest() || (*from < kOldest && !is_as_in_oldest())) {
      throw Error(ErrorCode::kUnsupported, fmt::format("models of opset {} cannot be converted", *from),
                  {fmt::format("those of opsets {} to {} can, and older ones whose operators did not change until {}", kOldest,
                               newest(), kOldest)});
    }
    Imports imports(model_);
    imports.set(to_);
    for (const auto& f : model_.functions()) {
      for (Graph* g : graphs_in(f->graph())) {
        widener_.clear();
        for (Node& n : g->nodes()) visit(*g, n);
      }
    }
    if (const auto& problems = conversion_.problems(); !problems.empty()) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("opset {} cannot express what {} of the model's nodes do", to_, problems.size()), problems);
    }
    imports.keep();
    return true;
  }

 private:
  // The opset imports of the model and its functions. The destructor restores them unless keep() was called.
  class Imports {
   public:
    explicit Imports(Model& m) : model_(m), old_(m.opset_imports) {
      for (const auto& f : m.functions()) old_of_functions_.push_back(f->opset_imports);
    }
    ~Imports() {
      if (kept_) return;
      model_.opset_imports = std::move(old_);
      for (size_t i = 0; i < old_of_functions_.size(); ++i)
        model_.functions()[i]->opset_imports = std::move(old_of_functions_[i]);
    }
    Imports(const Imports&) = delete;
    Imports& operator=(const Imports&) = delete;
    void set(int version) {
      model_.set_opset_version("", version);
      for (const auto& f : model_.functions()) {
        for (OpsetImport& i : f->opset_imports) {
          if (is_default_domain(i.domain)) i.version = version;
        }
      }
    }
    void keep() { kept_ = true; }

   private:
    Model& model_;
    std::vector<OpsetImport> old_;
    std::vector<std::vector<OpsetImport>> old_of_functions_;
    bool kept_ = false;
  };

  // Whether all operators mean the same in the oldest opset.
  bool is_as_in_oldest() const {
    for (const auto& f : model_.functions()) {
      for (Graph* g : graphs_in(f->graph())) {
        for (const Node& n : g->nodes()) {
          const Op& op = n.op();
          if (is_default_domain(op.domain) && dialect(DialectId::kOnnx).find("", op.name, kOldest) != &op) return false;
        }
      }
    }
    return true;
  }

  const RespellingStep* step_for(const Op& op) const;
  void visit(Graph& g, Node& n);
  void set_version(Graph& g, Node& n, const Op& op);
  bool fit_attributes(Node& n, const Op& op);

  PassContext& context_;
  Model& model_;
  int to_;
  OpsetConversion conversion_;
  Widener widener_;
};

// --- attributes that became operands

// The integers of attribute `name` as a value. Null, with a reason, if the attribute refers to one of a
// function's call.
Value* ints_operand(Rewriter& b, const Node& n, std::string_view name, OpsetConversion& c) {
  if (const auto v = ints_attr(n, name)) return b.i64s(*v);
  c.refuse(n, fmt::format("its {} are set by the function's calls", name));
  return nullptr;
}

// A scalar of the first operand's type.
Value* scalar_like_input(Rewriter& b, const Node& n, double v, OpsetConversion& c) {
  if (n.input(0)->dtype() == DType::kUndefined) {
    c.refuse(n, "the type of its operand is not known");
    return nullptr;
  }
  return b.scalar(n.input(0)->dtype(), v);
}

std::vector<Value*> axes_to_operand(Rewriter& b, Node& n, OpsetConversion& c) {
  std::vector<Value*> operands{n.input(0)};
  if (n.attr("axes") != nullptr) {
    Value* axes = ints_operand(b, n, "axes", c);
    if (axes == nullptr) return {};
    if (!ints_attr(n, "axes")->empty()) operands.push_back(axes);  // absent: all axes
  }
  return {b.op(n.op().name, operands, attrs_of(n, {"axes"}))};
}

std::vector<Value*> split_to_operand(Rewriter& b, Node& n, OpsetConversion& c) {
  std::vector<Value*> operands{n.input(0)};
  AttrInit attrs = attrs_of(n, {"split"});
  if (n.attr("split") != nullptr) {
    operands.push_back(ints_operand(b, n, "split", c));
    if (operands.back() == nullptr) return {};
  } else if (n.input(1) != nullptr) {
    operands.push_back(n.input(1));
  } else if (c.to() >= 18) {
    attrs.push_back({"num_outputs", static_cast<int64_t>(n.num_results())});
  }
  return results_of(b.node("Split", operands, n.num_results(), std::move(attrs)));
}

std::vector<Value*> slice_to_operands(Rewriter& b, Node& n, OpsetConversion& c) {
  std::vector<Value*> operands{n.input(0)};
  for (std::string_view name : {"starts", "ends", "axes"}) {
    if (n.attr(name) == nullptr) continue;  // absent axes: the first ones
    operands.push_back(ints_operand(b, n, name, c));
    if (operands.back() == nullptr) return {};
  }
  return {b.op("Slice", operands)};
}

std::vector<Value*> pad_to_operands(Rewriter& b, Node& n, OpsetConversion& c) {
  std::vector<Value*> operands{n.input(0), ints_operand(b, n, "pads", c)};
  if (operands.back() == nullptr) return {};
  const auto value = float_attr(n, "value");
  if (!value) return c.refuse(n, "its value is set by the function's calls");
  if (*value != 0) {
    operands.push_back(scalar_like_input(b, n, *value, c));
    if (operands.back() == nullptr) return {};
  }
  return {b.op("Pad", operands, attrs_of(n, {"pads", "value"}))};
}

std::vector<Value*> clip_to_operands(Rewriter& b, Node& n, OpsetConversion& c) {
  std::vector<Value*> operands{n.input(0)};
  for (std::string_view name : {"min", "max"}) {
    Value* limit = nullptr;  // absent: the lowest or highest finite number in all versions
    if (n.attr(name) != nullptr) {
      const auto v = float_attr(n, name);
      if (!v) return c.refuse(n, fmt::format("its {} is set by the function's calls", name));
      limit = scalar_like_input(b, n, *v, c);
      if (limit == nullptr) return {};
    }
    operands.push_back(limit);
  }
  while (operands.back() == nullptr) operands.pop_back();
  return {b.op("Clip", operands)};
}

std::vector<Value*> top_k_to_operands(Rewriter& b, Node& n, OpsetConversion& c) {
  const auto k = int_attr(n, "k");
  if (!k) return c.refuse(n, "its k is set by the function's calls");
  return results_of(b.node("TopK", std::vector<Value*>{n.input(0), b.i64s({*k})}, n.num_results(), attrs_of(n, {"k"})));
}

// In these versions the operator itself means inference mode.
std::vector<Value*> dropout_to_operands(Rewriter& b, Node& n, OpsetConversion& c) {
  const bool reads_mask = n.num_results() > 1 && n.result(1)->has_uses();
  if (reads_mask && n.op().since_version < 10) return c.refuse(n, "its mask is no longer of the type of its operand");
  const auto ratio = float_attr(n, "ratio");
  if (!ratio) return c.refuse(n, "its ratio is set by the function's calls");
  Node& made = b.node("Dropout", std::vector<Value*>{n.input(0), b.scalar(DType::kF32, *ratio)}, reads_mask ? 2 : 1,
                      attrs_of(n, {"ratio"}));
  return {made.result(), reads_mask ? made.result(1) : nullptr};
}

std::vector<Value*> dft_to_operands(Rewriter& b, Node& n, OpsetConversion& c) {
  const auto axis = int_attr(n, "axis");
  if (!axis) return c.refuse(n, "its axis is set by the function's calls");
  return {b.op("DFT", {n.input(0), n.input(1), b.i64(*axis)}, attrs_of(n, {"axis"}))};
}

// --- operators that changed their meaning

// Before opset 13 the operator flattened the axes from `axis` on into one, and likewise the axes before it.
std::vector<Value*> flattened_softmax(Rewriter& b, Node& n, OpsetConversion& c) {
  const auto axis = int_attr(n, "axis");
  if (!axis) return c.refuse(n, "its axis is set by the function's calls");
  Value* x = n.input(0);
  const auto last = [&](Value* v) { return b.op(n.op().name, {v}, {{"axis", int64_t{-1}}}); };
  const auto rank = x->ranked() ? static_cast<int64_t>(x->type()->rank()) : 0;
  if (*axis == -1 || *axis == rank - 1) return {last(x)};
  return {b.Reshape(last(b.Flatten(x, {.axis = *axis})), b.Shape(x))};
}

std::vector<Value*> batch_normalization(Rewriter& b, Node& n, OpsetConversion& c) {
  if (n.attr("spatial") != nullptr && int_attr(n, "spatial") != 1)
    return c.refuse(n, "its statistics are not per channel (spatial=0)");
  for (size_t i = 1; i < n.num_results(); ++i) {
    if (n.result(i)->has_uses()) return c.refuse(n, "its running statistics are used, which training computes");
  }
  std::vector<Value*> results(n.num_results(), nullptr);
  // Before opset 14, several results mean training mode.
  const bool trains = n.num_results() > 1, says_so = trains && c.to() >= 14;
  AttrInit attrs = attrs_of(n, {"spatial"});
  if (says_so) attrs.push_back({"training_mode", int64_t{1}});
  results[0] = b.node("BatchNormalization", operands_of(n), says_so ? 3 : n.num_results(), std::move(attrs)).result(0);
  return results;
}

// Upsample, and Resize of opset 10, which knows only this coordinate mode.
std::vector<Value*> asymmetric_resize(Rewriter& b, Node& n, OpsetConversion& c) {
  Value* scales = n.input(1);
  if (n.attr("scales") != nullptr) {
    const Attr::Floats* v = n.attr("scales")->get<Attr::Floats>();
    if (v == nullptr) return c.refuse(n, "its scales are set by the function's calls");
    const std::vector<float> f(v->begin(), v->end());
    scales = b.constant(
        Tensor::own(DType::kF32, {static_cast<int64_t>(f.size())},
                    {reinterpret_cast<const std::byte*>(f.data()), reinterpret_cast<const std::byte*>(f.data() + f.size())}));
  }
  AttrInit attrs = attrs_of(n, {"scales"});
  if (c.to() == 9) return {b.op("Upsample", {n.input(0), scales}, std::move(attrs))};
  if (c.to() == 10) return {b.op("Resize", {n.input(0), scales}, std::move(attrs))};
  attrs.push_back({"coordinate_transformation_mode", std::string("asymmetric")});
  attrs.push_back({"nearest_mode", std::string("floor")});
  Value* no_region = c.to() < 13 ? b.constant(Tensor::own(DType::kF32, {0}, {})) : nullptr;  // required until 13
  return {b.op("Resize", {n.input(0), no_region, scales}, std::move(attrs))};
}

std::vector<Value*> resize(Rewriter& b, Node& n, OpsetConversion& c) {
  if (n.op().since_version == 10) return asymmetric_resize(b, n, c);
  if (string_attr(n, "coordinate_transformation_mode") == "tf_half_pixel_for_nn")
    return c.refuse(n, "opset 13 removed tf_half_pixel_for_nn");
  return {b.op("Resize", operands_of(n), attrs_of(n))};
}

std::vector<Value*> scatter(Rewriter& b, Node& n, OpsetConversion&) {
  return {b.op("ScatterElements", operands_of(n), attrs_of(n))};
}

std::vector<Value*> roi_align(Rewriter& b, Node& n, OpsetConversion&) {
  AttrInit attrs = attrs_of(n);
  attrs.push_back({"coordinate_transformation_mode", std::string("output_half_pixel")});
  return {b.op("RoiAlign", operands_of(n), std::move(attrs))};
}

// Repeats the scale and bias of each group for its channels.
std::vector<Value*> group_normalization(Rewriter& b, Node& n, OpsetConversion& c) {
  const auto groups = int_attr(n, "num_groups");
  const Value& x = *n.input(0);
  const auto dims = x.ranked() ? x.type()->dims() : std::span<const Dim>();
  if (!groups || *groups < 1 || dims.size() < 2 || !dims[1].is_int())
    return c.refuse(n, "the number of its channels is not known");
  const int64_t each = dims[1].value() / *groups;
  const auto of_channels = [&](Value* v) {
    return b.Reshape(b.Expand(b.Reshape(v, b.i64s({*groups, 1})), b.i64s({*groups, each})), b.i64s({-1}));
  };
  return {b.op("GroupNormalization", {n.input(0), of_channels(n.input(1)), of_channels(n.input(2))}, attrs_of(n))};
}

std::vector<Value*> no_longer(Rewriter&, Node& n, OpsetConversion& c) {
  return c.refuse(n, "no operator of the other opset has its meaning");
}

constexpr RespellingStep kUp[] = {
    {"Upsample", 9, true, asymmetric_resize},
    {"Scan", 9, true, no_longer},
    {"Upsample", 10, true, asymmetric_resize},
    {"Slice", 10, true, slice_to_operands},
    {"TopK", 10, true, top_k_to_operands},
    {"Clip", 11, true, clip_to_operands},
    {"Pad", 11, true, pad_to_operands},
    {"Resize", 11, true, resize},
    {"Scatter", 11, true, scatter},
    {"Dropout", 12, true, dropout_to_operands},
    {"Hardmax", 13, true, flattened_softmax},
    {"LogSoftmax", 13, true, flattened_softmax},
    {"ReduceSum", 13, true, axes_to_operand},
    {"Resize", 13, true, resize},
    {"Softmax", 13, true, flattened_softmax},
    {"Split", 13, true, split_to_operand},
    {"Squeeze", 13, true, axes_to_operand},
    {"Unsqueeze", 13, true, axes_to_operand},
    {"BatchNormalization", 9, true, batch_normalization},
    {"BatchNormalization", 14, true, batch_normalization},
    {"RoiAlign", 16, true, roi_align},
    {"ReduceL1", 18, true, axes_to_operand},
    {"ReduceL2", 18, true, axes_to_operand},
    {"ReduceLogSum", 18, true, axes_to_operand},
    {"ReduceLogSumExp", 18, true, axes_to_operand},
    {"ReduceMax", 18, true, axes_to_operand},
    {"ReduceMean", 18, true, axes_to_operand},
    {"ReduceMin", 18, true, axes_to_operand},
    {"ReduceProd", 18, true, axes_to_operand},
    {"ReduceSumSquare", 18, true, axes_to_operand},
    {"Split", 18, true, split_to_operand},
    {"DFT", 20, true, dft_to_operands},
    {"GridSample", 20, true, grid_sample},
    {"GroupNormalization", 21, true, group_normalization},
};

const RespellingStep* Converter::step_for(const Op& op) const {
  const auto in = [&](std::span<const RespellingStep> steps) -> const RespellingStep* {
    const auto step = std::ranges::find_if(steps, [&](const RespellingStep& s) {
      if (s.op != op.name) return false;
      return s.up ? op.since_version < s.version && s.version <= to_ : to_ < s.version && s.version <= op.since_version;
    });
    return step == steps.end() ? nullptr : &*step;
  };
  if (op.since_version < to_) return in(kUp);
  const RespellingStep* step = in(steps_down());
  return step != nullptr ? step : in(steps_of_absent());
}

void Converter::visit(Graph& g, Node& n) {
  const Op& op = n.op();
  if (!op.known || !is_default_domain(op.domain)) return;
  const RespellingStep* step = step_for(op);
  if (step == nullptr) {
    const Op* now = dialect(DialectId::kOnnx).find("", op.name, to_);
    if (now == nullptr || now->deprecated) {
      conversion_.refuse(n, fmt::format("opset {} has no {}", to_, op.name));
    } else if (now != &op) {
      set_version(g, n, *now);
    }
    return;
  }
  Rewriter b(g, context_);
  b.set_insertion_point(&n);
  b.set_provenance(n.provenance());
  std::vector<Value*> results;
  try {
    results = step->respell(b, n, conversion_);
  } catch (const Error& e) {
    conversion_.refuse(n, e.what());
  }
  if (results.empty()) return;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] == nullptr) continue;
    Value& old = *n.result(i);
    results[i]->set_type(old.type() != nullptr ? old.type() : results[i]->type());
    results[i]->set_name(old.name());
    g.replace_uses(old, *results[i]);
  }
  results[0]->def()->set_name(n.name());
  context_.log.count(fmt::format("{}-{}", op.name, op.since_version));
  g.erase(n);
}

// Replaces the operator by another version of it, with the same operands.
void Converter::set_version(Graph& g, Node& n, const Op& op) {
  const Op& old = n.op();
  size_t given = n.num_inputs();
  while (given > 0 && n.input(given - 1) == nullptr) --given;
  if (given < static_cast<size_t>(op.min_inputs) || given > static_cast<size_t>(op.max_inputs)) {  // -1: any number
    conversion_.refuse(n, fmt::format("version {} has other operands", op.since_version));
    return;
  }
  if (!fit_attributes(n, op)) return;
  if (to_ < kCountsAxesFromBack) count_axes_from_front(n);
  if (n.unchecked()) {
    n.set_op(op);
    return;
  }
  const TypesByVariable types = types_by_variable(n, op);
  // Does not widen to u32: the standard lists it, but runtimes have few kernels for it.
  constexpr uint64_t kU32 = uint64_t{1} << static_cast<unsigned>(DType::kU32);
  const auto taken = widened(op, types, [&](std::string_view variable) {
    const uint64_t all = types_in_standard(op, variable);
    return types.at(variable) == DType::kU32 ? all : all & ~kU32;
  });
  if (!taken) {
    conversion_.refuse(n, fmt::format("version {} takes no {}", op.since_version, to_string(types)));
    return;
  }
  try {
    if (*taken != types) {
      widener_.replace(g, n, op, types, *taken);
    } else {
      n.set_op(op);
      infer_node(n, context_.facts);
      context_.log.count(fmt::format("{}-{}", old.name, old.since_version));
    }
  } catch (const Error& e) {
    conversion_.refuse(n, e.what());
  }
}

std::optional<Attr> default_of(const AttrSpec& spec) {
  if (!spec.has_default) return std::nullopt;
  switch (spec.kind) {
    case AttrKind::kInt: return Attr(spec.default_int);
    case AttrKind::kFloat: return Attr(spec.default_float);
    case AttrKind::kString: return Attr(spec.default_string);
    case AttrKind::kInts: return Attr(Attr::Ints(spec.default_ints.begin(), spec.default_ints.end()));
    default: return std::nullopt;
  }
}

// Drops attributes that the other version lacks if they state what it means anyway. Writes out defaults that
// changed.
bool Converter::fit_attributes(Node& n, const Op& op) {
  const auto spec_in = [](const Op& o, std::string_view name) -> const AttrSpec* {
    const auto at = std::ranges::find(o.attrs, name, &AttrSpec::name);
    return at == o.attrs.end() ? nullptr : &*at;
  };
  const Attrs* attrs = &n.attrs();
  for (const NamedAttr& a : n.attrs().items()) {
    if (spec_in(op, a.name) != nullptr) continue;
    const AttrSpec* old = spec_in(n.op(), a.name);
    const auto usual = old != nullptr ? default_of(*old) : std::nullopt;
    if (!usual || !(*usual == a.value)) {
      conversion_.refuse(n, fmt::format("version {} has no attribute {}", op.since_version, a.name));
      return false;
    }
    attrs = model_.without_attr(*attrs, a.name);
  }
  for (const AttrSpec& old : n.op().attrs) {
    const AttrSpec* now = spec_in(op, old.name);
    const auto usual = default_of(old);
    if (now != nullptr && usual && !(usual == default_of(*now)) && n.attr(old.name) == nullptr)
      attrs = model_.with_attr(*attrs, old.name, *usual);
  }
  if (attrs != &n.attrs()) n.set_attrs(attrs);
  return true;
}

}  // namespace

std::vector<Value*> OpsetConversion::refuse(const Node& n, std::string_view why) {
  std::string line = fmt::format("{}-{}", n.op().name, n.op().since_version);
  if (!n.name().view().empty()) line += fmt::format(" '{}'", n.name().view());
  problems_.push_back(fmt::format("{}: {}", line, why));
  return {};
}

std::vector<Value*> grid_sample(Rewriter& b, Node& n, OpsetConversion& c) {
  constexpr std::pair<std::string_view, std::string_view> kModes[] = {{"bilinear", "linear"}, {"bicubic", "cubic"}};
  auto mode = string_attr(n, "mode");
  const bool raises = c.to() >= 20;
  if (!mode) return c.refuse(n, "its mode is set by the function's calls");
  for (const auto& [old_name, new_name] : kModes) {
    if (*mode == (raises ? old_name : new_name)) mode = raises ? new_name : old_name;
  }
  AttrInit attrs = attrs_of(n, {"mode"});
  attrs.push_back({"mode", *mode});
  return {b.op("GridSample", operands_of(n), std::move(attrs))};
}

Pass convert_opset() {
  return Pass::on_model(Numerics::kExact,
                        [](PassContext& context) {
                          const int64_t to = context.options().number("opset", 0);
                          if (to == 0)
                            throw Error(ErrorCode::kInvalidArgument, "convert_opset needs a version",
                                        {"help: convert_opset.opset=23"});
                          if (to < kOldest || to > newest()) {
                            throw Error(ErrorCode::kInvalidArgument, fmt::format("opset {} cannot be written", to),
                                        {fmt::format("opsets {} to {} can", kOldest, newest())});
                          }
                          return Converter(context, static_cast<int>(to)).run();
                        })
      .option("opset", "the opset version to convert the model to");
}

}  // namespace sardonyx::onnx
