#include "io/mlir/exported.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "io/mlir/bytecode_reader.h"
#include "io/mlir/flat_table.h"
#include "io/mlir/module_builder.h"

namespace sardonyx::mlir {
namespace {

constexpr uint16_t kNewestConvention = 10;
constexpr int kMostTreeDepth = 200;
constexpr size_t kMostPathBytes = 1024;

// Fields of the schema's tables, in its order.
namespace exported {
enum : size_t {
  kFunctionName = 1,
  kInTree = 2,
  kInAvals = 3,
  kOutTree = 4,
  kModule = 13,
  kCallingConvention = 14,
  kKeptInputs = 15,
  kUniqueAvals = 19,
  kInAvalNumbers = 22,
};
}
namespace tree {
enum : size_t { kKind = 0, kChildren = 1, kNames = 2 };
enum Kind : uint8_t { kLeaf, kNone, kTuple, kList, kDict, kCustom };
}  // namespace tree
namespace aval {
enum : size_t { kShape = 1 };
}

// Bytes that may be made of one file, whose tables may be shared.
class Budget {
 public:
  explicit Budget(size_t file) : left_((size_t{1} << 16) + 16 * file) {}
  void spend(size_t bytes) {
    if (bytes > left_) throw Error(ErrorCode::kLimit, "the exported function describes its values at too great a length");
    left_ -= bytes;
  }

 private:
  size_t left_;
};

// Collects the paths of leaves.
class Leaves {
 public:
  explicit Leaves(Budget& budget) : budget_(budget) {}

  void walk(const FlatTable& t, const std::string& path, int depth) {
    budget_.spend(path.size() + 1);
    if (depth > kMostTreeDepth) throw Error(ErrorCode::kLimit, "the tree of the exported function's values is too large");
    const auto kind = t.number<uint8_t>(tree::kKind);
    if (kind == tree::kLeaf) {
      found.push_back({path.substr(0, kMostPathBytes), {}});
      return;
    }
    const size_t children = t.count(tree::kChildren), names = t.count(tree::kNames);
    for (size_t i = 0; i < children; ++i) {
      const std::string step =
          i < names ? fmt::format("['{}']", t.text(tree::kNames, i).substr(0, kMostPathBytes)) : fmt::format("[{}]", i);
      walk(t.table(tree::kChildren, i), path.size() < kMostPathBytes ? path + step : path, depth + 1);
    }
  }

  std::vector<ExportedLeaf> found;

 private:
  Budget& budget_;
};

// The arguments are a tuple of the positional ones and a dict of those with names.
std::vector<ExportedLeaf> arguments(const FlatTable& t, Budget& budget) {
  Leaves leaves(budget);
  const bool pair = t.number<uint8_t>(tree::kKind) == tree::kTuple && t.count(tree::kChildren) == 2;
  if (!pair) {
    leaves.walk(t, "args", 0);
  } else {
    leaves.walk(t.table(tree::kChildren, 0), "args", 1);
    leaves.walk(t.table(tree::kChildren, 1), "kwargs", 1);
  }
  return std::move(leaves.found);
}

std::vector<std::string> shape(const FlatTable& t, Budget& budget) {
  std::vector<std::string> sizes;
  for (size_t i = 0; i < t.count(aval::kShape); ++i) {
    sizes.emplace_back(t.text(aval::kShape, i));
    budget.spend(sizes.back().size() + 1);
  }
  return sizes;
}

// The shapes of the leaves, where the file has them.
void add_shapes(const FlatTable& file, std::vector<ExportedLeaf>& leaves, Budget& budget) {
  const auto numbers = file.list<uint32_t>(exported::kInAvalNumbers);
  const size_t unique = file.count(exported::kUniqueAvals), plain = file.count(exported::kInAvals);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (4 * i < numbers.size()) {
      const auto number = FlatTable::load<uint32_t>(numbers, 4 * i);
      if (number < unique) leaves[i].sizes = shape(file.table(exported::kUniqueAvals, number), budget);
    } else if (i < plain) {
      leaves[i].sizes = shape(file.table(exported::kInAvals, i), budget);
    }
  }
}

// The type with the sizes that `sizes` gives names to.
const Type* named_sizes(Model& model, const Type* type, const ExportedLeaf& leaf) {
  if (!type->ranked() || type->rank() != leaf.sizes.size()) return type;
  std::vector<Dim> dims(type->dims().begin(), type->dims().end());
  for (size_t i = 0; i < dims.size(); ++i) {
    const std::string& text = leaf.sizes[i];
    if (!dims[i].is_unknown()) continue;
    try {
      if (text.size() > kMostPathBytes) throw Error(ErrorCode::kLimit, "too long");
      const Dim d = model.dims().parse(text);
      if (d.is_int() && d.value() < 0) throw Error(ErrorCode::kInvalidModel, "negative");
      dims[i] = d;
    } catch (const Error&) {
      throw Error(ErrorCode::kInvalidModel,
                  fmt::format("the exported function is damaged: '{}' is no size of {}", text.substr(0, 60), leaf.path));
    }
  }
  return model.types().with_dims(type, dims);
}

}  // namespace

std::optional<Exported> read_exported(std::span<const std::byte> file) {
  Exported e;
  std::optional<FlatTable> root;
  try {  // There is no signature: it is one if it holds a module.
    root = FlatTable::root(file);
    e.module = root->list<std::byte>(exported::kModule);
  } catch (const Error&) {
    return std::nullopt;
  }
  if (!is_bytecode(e.module)) return std::nullopt;
  const auto convention = root->number<uint16_t>(exported::kCallingConvention);
  if (convention > kNewestConvention) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a function exported with calling convention {}: conventions up to {} are known", convention,
                            kNewestConvention));
  }
  e.function = root->text(exported::kFunctionName);
  Budget budget(file.size());
  if (const auto in = root->table(exported::kInTree)) e.inputs = arguments(*in, budget);
  if (const auto out = root->table(exported::kOutTree)) {
    Leaves leaves(budget);
    leaves.walk(*out, "result", 0);
    e.outputs = std::move(leaves.found);
  }
  add_shapes(*root, e.inputs, budget);
  const auto kept = root->list<uint16_t>(exported::kKeptInputs);
  for (size_t i = 0; i < kept.size(); i += 2) e.kept_inputs.push_back(FlatTable::load<uint16_t>(kept, i));
  return e;
}

void describe(Model& model, const Exported& e) {
  Graph& graph = model.graph();
  if (!e.function.empty() && !e.function.starts_with('<')) graph.set_name(model.name(e.function));
  // An index of the platform, if there are several, comes before the arguments.
  InputNames names(graph);
  const size_t inputs = graph.inputs().size(), kept = e.kept_inputs.size();
  for (size_t i = inputs - std::min(kept, inputs); i < inputs; ++i) {
    const size_t leaf = e.kept_inputs[kept - (inputs - i)];
    if (leaf >= e.inputs.size()) continue;
    if (names.is_default(i)) names.set(i, e.inputs[leaf].path);
    Value& v = *graph.input(i);
    v.set_type(named_sizes(model, v.type(), e.inputs[leaf]));
    graph.input_port(i).declared = v.type();
  }
  if (e.outputs.size() != graph.outputs().size()) return;
  for (size_t i = 0; i < e.outputs.size(); ++i) {
    graph.output_port(i).name = model.name(e.outputs[i].path);
  }
}

}  // namespace sardonyx::mlir
