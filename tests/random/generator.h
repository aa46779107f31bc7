// Random valid models, of ONNX or of Core ML: the same seed gives the same model.
//
// Operators come from the op tables; a node is kept if its type rule accepts it and the evaluator runs it at two sizes. What a rule says
// of a result is compared with what came out. Bodies of If, Loop and Scan, blocks of cond and while_loop, local functions, shared
// constants, several readers and unused parts occur; so do pieces of the .sx cases, wired into the rest, for passes look for shapes that chance does not draw.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sardonyx/builder.h"
#include "sardonyx/eval.h"
#include "sardonyx/ir.h"

namespace sardonyx::fuzz {

inline constexpr int64_t kMostElements = 3000;  // of a value
inline constexpr EvalOptions kBounded{.memory_cap = 64 << 20, .max_steps = 1 << 16, .max_iterations = 1000};
constexpr uint64_t bit(DType d) { return uint64_t{1} << static_cast<int>(d); }
// What inputs of Core ML programs are made of.
inline constexpr uint64_t kMilInputs = bit(DType::kF32) | bit(DType::kF16) | bit(DType::kI32);

struct GeneratorOptions {
  DialectId dialect = DialectId::kOnnx;
  int opset = 0;                               // 0: drawn; of Core ML, the specification's version
  std::span<const std::string> snippets = {};  // models as text, to be wired in
  bool snippet_first = false;                  // the model begins with one
  size_t only_snippet = SIZE_MAX;              // which, else drawn
};

struct Generated {
  std::unique_ptr<Model> model;
  std::array<std::vector<EvalValue>, 2> inputs;  // at two sizes; the model runs on both
};

// What a type rule says and the evaluator denies: our own fault, and so an Error with code kInternal.
// nullopt: what was drawn does not run.
std::optional<Generated> generate(uint64_t seed, const GeneratorOptions& options);

// A node to be.
struct Draft {
  const Op* op = nullptr;
  std::vector<Value*> in;
  AttrInit attrs;
  size_t results = 1;

  bool has_attr(std::string_view name) const;
  bool given(std::string_view name) const;
  std::optional<size_t> slot(std::string_view name) const;
  void set(std::string_view name, Attr value);         // ignored when the operator has no such attribute
  void set_slot(std::string_view name, Value* value);  // ignored when the operator has no such slot
};

class Generator {
 public:
  Generator(uint64_t seed, const GeneratorOptions& options);
  std::optional<Generated> run();

  // --- chance
  int64_t below(int64_t n) { return n <= 1 ? 0 : static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  template <class C>
  const auto& one_of(const C& c) {
    return c[static_cast<size_t>(below(std::ssize(c)))];
  }

  // --- values
  // A visible tensor of known rank that has one of the element types; null when there is none.
  Value* pick(uint64_t dtypes, size_t min_rank = 0, size_t max_rank = 8);
  Value* pick_or_make(uint64_t dtypes, size_t min_rank = 0, size_t max_rank = 8);
  Value* exactly(DType dtype, std::span<const Dim> dims);  // of that type: there already, a constant or a new input
  Value* partner(Value& a, bool widen = true);             // something that broadcasts with a
  Value* constant(DType dtype, std::vector<int64_t> shape);
  Value* constant(TensorPtr payload);
  bool has_constants_of(DType dtype) const;  // in this opset
  Value* ints(const std::vector<int64_t>& v);
  Value* scalar(DType dtype, double v);
  Value* new_input(DType dtype, std::span<const Dim> dims);
  Value* indices(std::vector<int64_t> shape, int64_t limit);  // i64 or i32, from -limit to limit - 1
  // Attribute or operand, as this version of the operator has it.
  void put_ints(Draft& d, std::string_view name, const std::vector<int64_t>& v);
  std::vector<Dim> random_dims(size_t rank);
  DType random_dtype(uint64_t allowed);
  std::optional<int64_t> known(Dim d) const { return d.is_int() ? std::optional(d.value()) : std::nullopt; }

  Model& model() { return *model_; }
  Types& types() { return model_->types(); }
  int opset() const { return opset_; }
  bool mil() const { return options_.dialect == DialectId::kMil; }
  const Op* find(std::string_view name) const;
  // Makes the node, runs it, makes its results visible. False when it is ill-typed or does not run.
  bool add(Draft& d);
  Value* add_one(std::string_view name, std::vector<Value*> in, AttrInit attrs = {});  // null when it does not work
  Value* add_draft(Draft& d) { return d.op != nullptr && add(d) ? scopes_.back().values.back() : nullptr; }

 private:
  struct Scope {
    Graph* graph;
    std::unique_ptr<Builder> builder;
    std::vector<Value*> values;
  };
  using Sample = std::array<TensorPtr, 2>;

  void step();
  bool random_node();
  bool repeat_node();
  bool add_if();
  bool add_loop();
  bool add_scan();
  bool add_while();
  bool add_call();
  bool add_snippet();
  Value* make_and_run(const Op* op,
                      std::vector<Value*> in);  // one result, of the graph of the function; null when it does not work
  bool add_state();
  bool add_list();
  bool fill_generic(Draft& d);
  void fill_attrs(Draft& d);
  Graph& open_body(std::string_view name, std::vector<std::pair<const Type*, Sample>> inputs);
  void close_body() { scopes_.pop_back(); }
  void show(Value& v, Sample sample) {
    scopes_.back().values.push_back(&v);
    samples_[&v] = std::move(sample);
  }
  bool run_bodies(Node& n);  // a node with bodies, in the main graph: by evaluating what there is
  std::vector<EvalValue> input_samples(const Graph& g, int which);
  bool ends_early(const Type& t, std::span<const int64_t> got, int which);
  bool may_be_known(const Node& n, std::span<const TensorPtr> operands);
  void check_types(const Node& n, size_t result, const TensorPtr& got, int which);
  TensorPtr random_tensor(DType dtype, std::vector<int64_t> shape);
  std::vector<int64_t> sizes(std::span<const Dim> dims, int which);
  std::vector<Value*> visible();
  bool finish(Generated& g);

  std::mt19937_64 random_;
  GeneratorOptions options_;
  int opset_ = 23;
  std::unique_ptr<Model> model_;
  ValueFacts facts_;
  std::vector<Scope> scopes_;
  std::unordered_map<const Value*, Sample> samples_;
  std::vector<Dim> palette_;
  DType main_float_ = DType::kF32;
  std::vector<const Op*> ops_;
  size_t functions_ = 0;
  bool in_function_ = false;
};

// Operands and attributes of one operator, where chance alone would rarely hit a valid choice (recipes.cc). False: no way just now.
using Recipe = bool (*)(Generator&, Draft&);
Recipe find_recipe(std::string_view op);
// How much oftener than others an operator is drawn.
int weight_of(const Op& op);
// The same for ops of Core ML (mil_recipes.cc), and the parameters of those that need no recipe.
Recipe find_mil_recipe(std::string_view op);
int mil_weight_of(const Op& op);
bool fill_mil_parameters(Generator& g, Draft& d);

}  // namespace sardonyx::fuzz
