// Small changes of graphs as text, from which cases for passes are found.
#pragma once

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace sx_mutant {

struct Token {
  std::string space, text;  // what stands before it, and itself
  char kind = 'p';          // i: a name, n: a number, s: in quotes, p: anything else
};

// Changes of a graph's text: sizes, types, ranks, constants, attributes, operands, readers, results, operators, domains, versions,
// references to attributes. What comes out need not be a graph.
class Alterer {
 public:
  explicit Alterer(uint64_t seed) : random_(seed) {}
  // What graphs are made of is taken from these.
  void learn(const std::string& text);
  void learn_attribute(const std::string& op, const std::string& attr);  // "axis=1"
  // One change; "" where the one that was drawn does not apply. *what: in words.
  std::string alter(const std::string& text, std::string* what);
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(random_() % n); }

 private:
  using Tokens = std::vector<Token>;
  struct Range {
    size_t begin = 0, end = 0;
  };
  struct Call {
    size_t name = 0;            // its operator
    size_t begin = 0, end = 0;  // with domain, attributes and operands
    size_t attrs = 0;           // '<', or 0
    size_t open = 0;            // '('
    std::vector<Range> operands;
  };

  static Tokens split(const std::string& text);
  static std::string join(const Tokens& t);
  static size_t match(const Tokens& t, size_t open);
  static std::vector<Range> list(const Tokens& t, size_t open);
  static std::vector<Call> calls(const Tokens& t);
  static std::string text_of(const Tokens& t, Range r);
  static void replace(Tokens& t, Range r, const std::string& text);
  static void insert(Tokens& t, size_t at, const std::string& text) { replace(t, {at, at}, text); }
  static size_t main_inputs(const Tokens& t);  // '('
  static size_t main_return(const Tokens& t);  // `return`
  static size_t statement(const Tokens& t, size_t at);
  std::vector<size_t> of_kind(const Tokens& t, char kind) const;
  std::string fresh() { return "n" + std::to_string(below(900) + 100); }
  template <class C>
  const auto& one_of(const C& c) {
    return c[below(c.size())];
  }

  bool change_number(Tokens& t);
  bool change_size(Tokens& t);
  bool change_dtype(Tokens& t);
  // A random input of the main graph that has a type, and where its colon stands.
  struct TypedInput {
    Range input;
    size_t colon;
  };
  std::optional<TypedInput> typed_input(const Tokens& t);

  bool change_input_type(Tokens& t);
  bool change_operand(Tokens& t);
  bool constant_to_input(Tokens& t);
  bool change_constant(Tokens& t);
  bool change_attribute(Tokens& t);
  bool add_attribute(Tokens& t);
  bool add_result(Tokens& t);
  bool change_result(Tokens& t);
  bool second_reader(Tokens& t);
  bool change_operator(Tokens& t);
  bool change_domain(Tokens& t);
  bool change_opset(Tokens& t);
  bool wrap_operand(Tokens& t);
  bool unwrap_call(Tokens& t);
  bool swap_operands(Tokens& t);
  bool number_of_operands(Tokens& t);
  bool default_value(Tokens& t);
  bool read_in_body(Tokens& t);
  bool drop_statement(Tokens& t);
  bool second_result(Tokens& t);
  bool attribute_by_reference(Tokens& t);

  std::mt19937_64 random_;
  std::map<std::string, std::vector<std::string>> attrs_;  // by operator: "axis=1"
  std::map<size_t, std::vector<std::string>> ops_;         // by number of operands
};

}  // namespace sx_mutant
