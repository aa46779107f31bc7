// The state of one lowering from the stablehlo dialect to the jax dialect. It knows no operator: see
// lower/engine/engine.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lower/engine/engine.h"
#include "lower/stablehlo_to_jax/lowering.h"

namespace sardonyx::stablehlo_to_jax {

// Of all operations that have a lowering.
const lower::Table<Lowering>& table();

// The elements of an integer or bool value in row-major order, as expressions of sizes. A bool is 0 or 1.
using Elements = std::vector<Dim>;

class Context : public lower::EngineOf<Lowering> {
 public:
  Context(const Model& stablehlo, Model& jax);

  // The elements of v, if they follow from constants and sizes. At most 64.
  std::optional<Elements> elements(const Value& v) const;
  void set_elements(const Value& v, Elements e) { elements_[&v] = std::move(e); }

  // States that two sizes are equal, which the operations say or the module asserts. Replaces an open size
  // that has no name of its own, everywhere, by the other one.
  void equate(Dim a, Dim b);
  // Gives the size of the inputs that `d` was computed from the name of `d`: B for floordiv(x_dim0, 2) makes
  // x_dim0 2*B.
  void name_size(std::string_view name, Dim d);
  // Whether d is an integer or an expression of sizes of inputs.
  bool is_known(Dim d) const;
  // `d` with integer inputs that it depends on as sizes: each gets a symbol, which an array of that many
  // elements introduces.
  Dim with_inputs_as_sizes(Dim d);
  // A symbol for a number that cannot be an expression of sizes. Equal texts are equal symbols.
  Dim opaque(std::string_view text);

  // Operands of divisions of sizes so far, which floors are recognized by.
  std::vector<std::pair<Dim, Dim>> divisions;

  // Lowers the body of a function in line.
  std::vector<Value*> call(std::string_view callee, Lowering& ctx, std::span<Value* const> args);

  // Lives while a graph is written that belongs to no node yet, so that equate() reaches it.
  class OpenGraph {
   public:
    OpenGraph(Context& context, Graph& g) : context_(context) { context_.open_.push_back(&g); }
    ~OpenGraph() { context_.open_.pop_back(); }
    OpenGraph(const OpenGraph&) = delete;
    OpenGraph& operator=(const OpenGraph&) = delete;

   private:
    Context& context_;
  };

 private:
  void add_input(const Port& port, size_t i) override;
  void add_output(const Port& port, Value& source, size_t i) override;
  std::vector<Value*> lower(const Node& n, Builder& b) override;

  void substitute(std::string_view symbol, Dim by);
  void substitute_in(Graph& g, std::string_view symbol, Dim by);

  std::unordered_map<const Value*, Elements> elements_;
  std::unordered_map<std::string, bool> is_named_;  // symbols of inputs: whether the module gave the name
  std::vector<Graph*> open_;
  std::vector<std::string_view> calls_;  // being lowered, outermost first
  size_t lowered_ = 0;                   // operations so far, those of repeated calls counted each time
};

// What is known of the elements of result 0 of `n`, whose operands have the elements `xs`: nullopt where the
// operation or an operand says nothing. Source: https://openxla.org/stablehlo/spec.
std::optional<Elements> computed_elements(Context& context, const Node& n, std::span<const std::optional<Elements>> xs);

}  // namespace sardonyx::stablehlo_to_jax
