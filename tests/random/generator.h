// Random valid models, of ONNX or of Core ML: the same seed gives the same model.
//
// Operators come from the op tables. A node is kept if its type rule accepts it and the evaluator runs it at
// two sizes; the types that a rule infers are compared with the results. Bodies of If, Loop and Scan, blocks
// of cond and while_loop, local functions, shared constants, values with several users and dead nodes occur;
// so do pieces of the .sx cases, wired into the rest, for passes look for shapes that chance does not draw.
//
// grow.h uses the same generator to complete graphs from patterns.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "random/dice.h"
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
  // For grow(): nodes are not run, and operands are drawn among inputs and constants, seldom the same twice.
  bool growing = false;
  std::optional<DType> dtype = {};  // of most values, else drawn
};

struct Generated {
  std::unique_ptr<Model> model;
  std::array<std::vector<EvalValue>, 2> inputs;  // at two sizes; the model runs on both
};

// nullopt if what was drawn does not run. Throws an Error with code kInternal, for it is our own fault, if
// the evaluator contradicts a type rule.
std::optional<Generated> generate(uint64_t seed, const GeneratorOptions& options);

// A node to be. Some operands and attributes may be there already: a recipe draws the others so that they
// fit.
struct Draft {
  const Op* op = nullptr;
  std::vector<Value*> in;
  AttrInit attrs;
  size_t results = 1;
  std::vector<bool> settled = {};  // operands that are not to be drawn; those among them that are null stay absent

  bool is_settled(size_t i) const { return i < settled.size() && settled[i]; }
  void settle(size_t i, Value* v);
  // The operand, if it is settled and a tensor of known rank.
  Value* settled_tensor(size_t i) const;
  // Draws operand i unless it is settled. False if `make` returns null.
  template <class Make>
  bool fill(size_t i, const Make& make) {
    return is_settled(i) || put(i, make());
  }
  bool put(size_t i, Value* v);  // ignored if the operand is settled

  bool has_attr(std::string_view name) const;  // whether the operator has it
  const Attr* given(std::string_view name) const;
  std::optional<int64_t> given_int(std::string_view name) const;
  std::optional<size_t> slot(std::string_view name) const;
  void set(std::string_view name, Attr value);         // ignored if it is given, or the operator has none
  void set_slot(std::string_view name, Value* value);  // ignored if it is settled, or the operator has none
};

class Generator : public Dice {
 public:
  Generator(uint64_t seed, const GeneratorOptions& options);
  std::optional<Generated> run();

  // An empty model, and the operators and sizes to draw from.
  void begin();

  // --- values
  // A visible tensor of known rank that has one of the element types; null when there is none.
  Value* pick(uint64_t dtypes, size_t min_rank = 0, size_t max_rank = 8);
  Value* pick_or_make(uint64_t dtypes, size_t min_rank = 0, size_t max_rank = 8);
  Value* exactly(DType dtype, std::span<const Dim> dims);  // of that type: there already, a constant or a new input
  Value* partner(const Value& a, bool widen = true);       // something that broadcasts with a
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
  std::unique_ptr<Model> take_model() { return std::move(model_); }
  Types& types() { return model_->types(); }
  int opset() const { return opset_; }
  bool mil() const { return options_.dialect == DialectId::kMil; }
  const Op* find(std::string_view name) const;
  // Draws the operands and attributes that are missing. False: no way just now.
  bool complete(Draft& d);
  // Makes the node, runs it, makes its results visible. Null if it is ill-typed or does not run.
  Node* add(Draft& d);
  Value* add_draft(Draft& d);  // the last result, or null
  Value* add_one(std::string_view name, std::vector<Value*> in, AttrInit attrs = {});
  // Whether a list that passes look for as a constant may be computed at run time.
  bool computes(int percent) { return chance(options_.growing ? percent / 3 : percent); }

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
  Value* next_state(Value& state, std::string_view add);
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
  // Whether to take a value that is there.
  bool reuses(int percent) { return chance(options_.growing ? percent / 4 : percent); }
  bool is_usable(const Value& v) const { return options_.growing || samples_.contains(&v); }
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

  GeneratorOptions options_;
  int opset_ = 23;
  std::unique_ptr<Model> model_;
  ValueFacts facts_;
  std::vector<Scope> scopes_;
  std::unordered_map<const Value*, Sample> samples_;
  std::vector<Dim> palette_;
  DType main_dtype_ = DType::kF32;
  std::vector<const Op*> ops_;
  size_t functions_ = 0;
  bool in_function_ = false;
};

// How one operator gets operands and attributes that fit together, where chance alone would rarely hit a
// valid choice (recipes.cc). False: no way just now.
struct Recipe {
  std::string_view op;
  bool (*complete)(Generator&, Draft&);  // null: any operands of its types will do
  int weight;                            // how much more often than others the operator is drawn
};
// Null if there is none.
const Recipe* find_recipe(std::string_view op);
// The same for ops of Core ML (mil_recipes.cc), and the parameters of those that need no recipe.
const Recipe* find_mil_recipe(std::string_view op);
bool fill_mil_parameters(Generator& g, Draft& d);

}  // namespace sardonyx::fuzz
