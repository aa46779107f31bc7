//   x: (N, H, W, C) ── ...    =>    x: (N, C, H, W) ── transpose<0,2,3,1> ── ...
//
// For inputs that are images with channels last.
//
// inputs: NAME:nhwc, several on separate lines or separated by commas, "#0" for the first; NAME alone has its
// channels first already. In memory, coremltools' `input_types` give them. Without them nothing changes.
// Callers then pass the image with channels first; reduce_transposes removes the transpose if the program
// transposes back. Only the function main changes. An input that such a transpose already reads stays.
// Relaxed: the input differs. After coremltools' pass of this name.
#include <fmt/format.h>

#include "passes/mil/interface/interface_options.h"
#include "passes/mil/params.h"
#include "passes/mil/precision/casts.h"

namespace sardonyx::mil {
namespace {

constexpr std::string_view kSuffix = "__transpose_from_nchw__";

bool is_done(const Value& input, const std::string& name) {
  const auto use = input.uses().begin();
  return input.has_one_use() && use->owner->is("transpose") && use->owner->result()->name().view() == name;
}

bool move_channels_first(Graph& g, size_t i, PassContext& context) {
  Value& v = *g.input(i);
  const std::string name = std::string(g.inputs()[i].name.view()) + std::string(kSuffix);
  if (is_done(v, name)) return false;
  if (!v.ranked() || v.type()->rank() < 3)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("input '{}' is not an image: it needs at least three axes", g.inputs()[i].name.view()));
  Rewriter b(g, context);
  if (!takes(b, "transpose", v.dtype()))
    throw Error(ErrorCode::kInvalidArgument, fmt::format("input '{}' is not an image: the program's op set cannot transpose {}",
                                                         g.inputs()[i].name.view(), to_string(v.dtype())));
  const auto dims = v.type()->dims();
  const size_t rank = dims.size();
  std::vector<Dim> channels_first(dims.begin(), dims.end());
  channels_first[rank - 3] = dims[rank - 1];
  channels_first[rank - 2] = dims[rank - 3];
  channels_first[rank - 1] = dims[rank - 2];
  const Type* type = g.model().types().with_dims(v.type(), channels_first);
  std::vector<int64_t> perm;
  for (size_t a = 0; a < rank; ++a) perm.push_back(static_cast<int64_t>(a));
  perm[rank - 3] = static_cast<int64_t>(rank) - 2;
  perm[rank - 2] = static_cast<int64_t>(rank) - 1;
  perm[rank - 1] = static_cast<int64_t>(rank) - 3;

  const Type* before = v.type();
  v.set_type(type);
  g.input_port(i).declared = type;
  b.set_insertion_point(g.first());
  if (g.first() != nullptr) b.set_provenance(g.first()->provenance());
  Value* back = b.transpose(&v, {.perm = perm});
  back->set_type(before);
  back->set_name(g.model().name(name));
  back->def()->set_name(back->name());
  g.replace_uses(v, *back);
  back->def()->set_input(0, &v);
  context.log.count("inputs");
  return true;
}

}  // namespace

Pass image_input_preprocess() {
  return Pass::on_model(
             Numerics::kRelaxed,
             [](PassContext& context) {
               Function* main = context.model.find_function("", "main");
               bool changed = false;
               for (const std::string& entry : list_entries(context.options().text("inputs", {}))) {
                 const size_t colon = entry.rfind(':');
                 const std::string_view layout =
                     colon == std::string::npos ? std::string_view() : std::string_view(entry).substr(colon + 1);
                 const std::string_view name =
                     layout == "nhwc" || layout == "nchw" ? std::string_view(entry).substr(0, colon) : std::string_view(entry);
                 const size_t i = main != nullptr ? find_port(main->graph().inputs(), name) : SIZE_MAX;
                 if (i == SIZE_MAX && !layout.empty() && main != nullptr &&
                     find_port(main->graph().inputs(), std::string_view(entry).substr(0, colon)) != SIZE_MAX)
                   throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not an image layout", layout),
                               {fmt::format("expected nhwc or nchw, in '{}'", entry)});
                 if (i == SIZE_MAX)
                   throw Error(ErrorCode::kInvalidArgument, fmt::format("there is no input '{}' to treat as an image", name));
                 if (layout == "nhwc") changed |= move_channels_first(main->graph(), i, context);
               }
               return changed;
             })
      .option("inputs", "image inputs, separated by commas: NAME:nhwc if channels are last");
}

}  // namespace sardonyx::mil
