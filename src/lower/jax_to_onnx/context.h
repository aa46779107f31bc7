// The state of one conversion from the jax dialect to the onnx dialect. It knows no operators: see
// lower/engine/engine.h.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dialects/onnx/runtimes/runtimes.h"
#include "lower/engine/engine.h"
#include "lower/engine/sizes.h"
#include "sardonyx/lower.h"

namespace sardonyx::jax_to_onnx {

// Where a symbolic size can be read at run time: an axis of an input, or of the result that introduced it.
struct DimOrigin {
  Value* value = nullptr;
  int64_t axis = 0;
};

// The name of a marked jit, for example
//   {"function": "Block", "namespace": "custom", "unique": false, "attributes": {"alpha": 1}}
struct FunctionMark {
  std::string name;                   // the operator's name: that of the function or class
  std::string name_space = "custom";  // prefix of the domains
  bool unique = false;
  // Operands that become attributes of the function if their number is known at the call: position and name,
  // sorted by position.
  std::vector<std::pair<size_t, std::string>> attributes = {};
  const std::string* attribute(size_t operand) const;  // null if that operand is not an attribute
  // Nullopt if the name is not a mark.
  static std::optional<FunctionMark> parse(std::string_view jit_name);
};

class Context : public lower::EngineOf<Lowering>, private lower::SizeWriter {
 public:
  Context(const Model& jax, Model& onnx, const LowerOptions& options, const LoweringRegistry& registry);

  // For the body of a model-local function: it cannot capture values of the caller, and its constants are
  // nodes.
  Context(Context& caller, Function& function);

  // Lowers the main function.
  void run();

  // Calls a model-local function whose body is that of `eqn`, a jit that @sardonyx.onnx_function marked.
  // Calls with equal bodies (captured weights included) and operand types share one function.
  std::vector<Value*> call_function(const Node& eqn, const FunctionMark& mark, std::span<Value* const> args, OnnxBuilder& b);

  const LowerOptions& options() const { return options_; }
  // The runtime that must be able to run the graph: the target, or else the newest known.
  const onnx::Runtime& runtime() const { return runtime_; }

  // How the graph holds a value of that type: a complex number has a last axis of 2 (real, imaginary); a PRNG
  // key is one i64 (its two words), so lowerings that move elements also move keys. Other types stay.
  const Type* stored(const Type* t) override;
  // The type at the model's interface: as stored(), but a key is u32[..., 2], as jax.random.key_data returns
  // it.
  const Type* interface_type(const Type* t);

  // The two u32 words of a key made from them in the same graph; null words if only the packed form is known.
  struct KeyWords {
    Value* high = nullptr;
    Value* low = nullptr;
  };
  KeyWords key_words(const Value& key) const;
  void set_key_words(const Value& key, KeyWords words) { key_words_[&key] = words; }

  // A constant that operator `op` computes from the constant `source` now, instead of a node; equal requests
  // share one. If the program also uses `source`, or uses two large forms of it, settle_constants() puts
  // nodes back so that no weight is written twice.
  Value* derived_constant(Value& source, std::string_view op, const std::vector<int64_t>& argument,
                          const std::function<TensorPtr()>& compute);
  void settle_constants();

  bool may_stay_narrow(const Value& jax) const;  // see Lowering::may_stay_narrow

  // Sizes at run time, computed in the main graph and shared. d is a dim of the onnx model.
  Value* dim_vector(Dim d);                 // i64[1]
  Value* dim_scalar(Dim d);                 // i64[]
  Value* shape(std::span<const Dim> dims);  // i64[n]
  void add_origins(Value& input);
  const DimOrigin* origin(Dim d) const;

  // Lives while `b` writes the body of a Loop, Scan or If. Sizes that only values of the body have are then
  // computed in the body.
  class InBody {
   public:
    InBody(Context& context, OnnxBuilder& b);
    ~InBody();
    InBody(const InBody&) = delete;
    InBody& operator=(const InBody&) = delete;

   private:
    Context& context_;
  };

  // The type in which elements of type `own` are computed while an equation is lowered in wider types
  // (lower/jax_to_onnx/lib/narrow.h). Does not apply to equations of nested jaxprs.
  DType computed_as(DType own) const { return computed_as_ == nullptr ? own : computed_as_(own); }
  class InTypes {
   public:
    InTypes(Context& context, DType (*as)(DType)) : context_(context), before_(std::exchange(context.computed_as_, as)) {}
    ~InTypes() { context_.computed_as_ = before_; }
    InTypes(const InTypes&) = delete;
    InTypes& operator=(const InTypes&) = delete;

   private:
    Context& context_;
    DType (*before_)(DType);
  };

 private:
  void add_input(const Port& port, size_t i) override;
  void add_output(const Port& port, Value& source, size_t i) override;
  Value* add_constant(const Value& jax, Builder& b) override;
  std::vector<Value*> lower(const Node& eqn, Builder& b) override;
  bool may_differ(const Value& jax, const Type* found, const Type* expected) override;
  void on_result(const Value& jax, Value& v, Builder& b, bool knows_more) override;
  void describe(const Node& eqn, Provenance& p) override;

  void run_function(const Node& eqn, const FunctionMark& mark);

  // Sizes as i64[1].
  Value* constant(int64_t n) override { return main_.i64s({n}); }
  Value* known(Dim d) override;
  Value* combine(Dim whole, const Dims::Parts& parts, Value* x, Value* y) override;
  void keep(Dim d, Value* v) override { sizes_of(d).vectors[d.word()] = v; }
  Value* solve_symbol(Dim symbol);

  DType (*computed_as_)(DType) = nullptr;
  const LowerOptions& options_;
  const onnx::Runtime& runtime_;
  std::unordered_map<const Tensor*, Value*> large_constants_;
  // Sizes of one graph: the main graph's, then those of each body being written, innermost last.
  struct Sizes {
    explicit Sizes(OnnxBuilder* builder) : b(builder) {}
    OnnxBuilder* b;
    std::unordered_map<uint64_t, DimOrigin> origins;  // by Dim::word() of the onnx model
    std::unordered_map<uint64_t, Value*> vectors, scalars;
    std::map<std::vector<uint64_t>, Value*> shapes;
    std::set<const Type*> seen;  // types whose sizes are all known here
  };
  size_t depth_of(Dim d);  // the graph in which d can be computed: 0 is the main graph
  Sizes& sizes_of(Dim d) { return *sizes_by_graph_[depth_of(d)]; }
  std::vector<std::unique_ptr<Sizes>> sizes_by_graph_;
  std::vector<std::pair<Dim, DimOrigin>> origin_list_;  // in the order of the inputs
  std::set<std::string, std::less<>> input_symbols_;    // of the main graph's inputs
  std::unordered_map<const Value*, KeyWords> key_words_;
  struct Derived {
    Value* source;
    std::string op;
    std::vector<int64_t> argument;
    Value* value;
  };
  std::vector<Derived> derived_;
  std::map<std::tuple<const Value*, std::string, std::vector<int64_t>>, Value*> derived_by_key_;

  // Functions, kept by the context of the main graph.
  struct Definition {
    const Graph* jax;  // the body that it was made from
    FunctionMark mark;
    std::vector<const Type*> operands;
    Function* function;
    std::vector<Dim> sizes;  // symbols that no operand's shape contains: the caller passes their sizes as extra operands
  };
  Context* root_ = this;
  std::vector<Definition> definitions_;
  std::map<std::string, int> function_counters_;
  Function* function_ = nullptr;  // the function whose body this is; null: the main graph
  std::vector<Dim> sizes_;        // see Definition
};

}  // namespace sardonyx::jax_to_onnx
