// Random valid models of ONNX or Core ML. The same seed gives the same model.
//
// Operators come from the op tables. A node is kept if its type rule accepts it and the evaluator runs it at
// two sizes; the inferred types are compared with the results. Models contain bodies of If, Loop and Scan,
// blocks of cond and while_loop, local functions, shared constants, values with several users and dead nodes.
// They also contain graphs of .sx cases, wired into the rest, since passes look for shapes that chance rarely
// draws.
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

inline constexpr int64_t kMostElements = 3000;  // elements of one value
inline constexpr EvalOptions kBounded{.memory_cap = 64 << 20, .max_steps = 1 << 16, .max_iterations = 1000};
constexpr uint64_t bit(DType d) { return uint64_t{1} << static_cast<int>(d); }
// Dtypes of inputs of Core ML programs.
inline constexpr uint64_t kMilInputs = bit(DType::kF32) | bit(DType::kF16) | bit(DType::kI32);

struct GeneratorOptions {
  DialectId dialect = DialectId::kOnnx;
  int opset = 0;                               // 0: drawn; for Core ML, the specification version
  std::span<const std::string> snippets = {};  // models as text, to be wired in
  bool snippet_first = false;                  // whether the model begins with one
  size_t only_snippet = SIZE_MAX;              // the one to use; else drawn
  // For grow(): nodes are not run, and operands are drawn from inputs and constants, rarely the same one
  // twice.
  bool growing = false;
  std::optional<DType> dtype = {};  // of most values; else drawn
  // Numbers of f32 at the ends of half precision and beyond, also as inputs; none is infinite or NaN.
  bool extreme = false;
};

struct Generated {
  std::unique_ptr<Model> model;
  std::array<std::vector<EvalValue>, 2> inputs;  // at two sizes; the model runs on both
};

// Returns nullopt if the drawn model does not run. Throws an Error with code kInternal if the evaluator
// contradicts a type rule, which is our own fault.
std::optional<Generated> generate(uint64_t seed, const GeneratorOptions& options);

// A node being made. Some operands and attributes may be settled already; a recipe draws the others to fit
// them.
struct Draft {
  const Op* op = nullptr;
  std::vector<Value*> in;
  AttrInit attrs;
  size_t results = 1;
  std::vector<bool> settled = {};  // operands that are not drawn; settled null operands stay absent

  bool is_settled(size_t i) const { return i < settled.size() && settled[i]; }
  void settle(size_t i, Value* v);
  // The operand, if it is settled and a tensor of known rank; else null.
  Value* settled_tensor(size_t i) const;
  // Draws operand i unless it is settled. Returns false if `make` returns null.
  template <class Make>
  bool fill(size_t i, const Make& make) {
    return is_settled(i) || put(i, make());
  }
  bool put(size_t i, Value* v);  // a no-op if the operand is settled

  bool has_attr(std::string_view name) const;  // whether the operator defines it
  const Attr* given(std::string_view name) const;
  std::optional<int64_t> given_int(std::string_view name) const;
  std::optional<size_t> slot(std::string_view name) const;
  void set(std::string_view name, Attr value);         // a no-op if it is given or the operator does not define it
  void set_slot(std::string_view name, Value* value);  // a no-op if it is settled or the operator has no such slot
};

class Generator : public Dice {
 public:
  Generator(uint64_t seed, const GeneratorOptions& options);
  std::optional<Generated> run();

  // Starts an empty model, and selects the operators and sizes to draw from.
  void begin();

  // --- values
  // A visible tensor of known rank with one of the dtypes; null when there is none.
  Value* pick(uint64_t dtypes, size_t min_rank = 0, size_t max_rank = 8);
  Value* pick_or_make(uint64_t dtypes, size_t min_rank = 0, size_t max_rank = 8);
  Value* exactly(DType dtype, std::span<const Dim> dims);  // a value of that type: an existing one, a constant or a new input
  Value* partner(const Value& a, bool widen = true);       // a value that broadcasts with a
  Value* constant(DType dtype, std::vector<int64_t> shape);
  Value* constant(TensorPtr payload);
  bool has_constants_of(DType dtype) const;  // whether this opset allows them
  Value* ints(const std::vector<int64_t>& v);
  Value* scalar(DType dtype, double v);
  Value* new_input(DType dtype, std::span<const Dim> dims);
  Value* indices(std::vector<int64_t> shape, int64_t limit);  // i64 or i32, from -limit to limit - 1
  // Sets an attribute or an operand, as this version of the operator has it.
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
  // Draws the missing operands and attributes. Returns false if that fails this time.
  bool complete(Draft& d);
  // Makes the node, runs it and makes its results visible. Returns null if it is ill-typed or does not run.
  Node* add(Draft& d);
  Value* add_draft(Draft& d);  // the last result, or null
  Value* add_one(std::string_view name, std::vector<Value*> in, AttrInit attrs = {});
  // Whether to compute at run time a list that passes expect as a constant.
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
                      std::vector<Value*> in);  // one result, in the function's graph; null if it does not run
  bool add_state();
  bool add_list();
  bool fill_generic(Draft& d);
  void fill_attrs(Draft& d);
  Graph& open_body(std::string_view name, std::vector<std::pair<const Type*, Sample>> inputs);
  void close_body() { scopes_.pop_back(); }
  // Whether to reuse an existing value.
  bool reuses(int percent) { return chance(options_.growing ? percent / 4 : percent); }
  bool is_usable(const Value& v) const { return options_.growing || samples_.contains(&v); }
  void show(Value& v, Sample sample) {
    scopes_.back().values.push_back(&v);
    samples_[&v] = std::move(sample);
  }
  bool run_bodies(Node& n);  // runs a node with bodies in the main graph, by evaluating the graph so far
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

// Draws operands and attributes that fit together for one operator, where chance alone would rarely draw a
// valid combination (recipes.cc). `complete` returns false if that fails this time.
struct Recipe {
  std::string_view op;
  bool (*complete)(Generator&, Draft&);  // null: any operands of its types will do
  int weight;                            // how much more often than others the operator is drawn
};
// Returns null if the operator has no recipe.
const Recipe* find_recipe(std::string_view op);
// The same for Core ML ops (mil_recipes.cc), and the parameters of ops that need no recipe.
const Recipe* find_mil_recipe(std::string_view op);
bool fill_mil_parameters(Generator& g, Draft& d);

}  // namespace sardonyx::fuzz
