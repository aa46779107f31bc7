// TextReader: functions, regions and operations in the text of an MLIR module.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/mlir/operations.h"
#include "io/mlir/text_attributes.h"

namespace sardonyx::mlir {

class TextReader : private TextAttributes {
 public:
  TextReader(std::string_view text, std::string_view file, ModuleBuilder& builder, int max_depth)
      : TextAttributes(text, file, builder), max_depth_(max_depth) {}

  void read();

 private:
  // An operation while it is read: the draft, and what only the text has.
  struct Reading {
    Draft draft;
    const Operation* row = nullptr;
    std::vector<const Type*> operand_types;  // what the text declares; may be empty
    size_t at = 0;                           // in the text
  };
  // An argument of a region: its name and type.
  struct Argument {
    std::string_view name;
    const Type* type = nullptr;
  };

  // --- modules and functions
  void module_or_function();
  void module_body();
  void mesh();
  void function();
  void function_arguments(Graph& graph, std::vector<PortDraft>& drafts);
  void function_results(std::vector<PortDraft>& drafts, std::vector<const Type*>& types);
  void generic_module(std::string_view name);
  void generic_function(const AttrInit& attributes, Graph& body);
  void check_results(const Graph& graph, std::string_view function, size_t declared, size_t at);

  // --- regions
  // { operations }, with the arguments of the block `^bb0(...)` if `arguments` has none.
  Graph& region(std::span<const Argument> arguments);
  void region_body(Graph& graph);
  void block_arguments(Graph& graph);
  Argument argument();  // %x: type
  void define_argument(Graph& graph, const Argument& argument);

  // --- names
  void define(std::string_view name, size_t at, Results results);
  Value* operand();
  size_t scope() const { return scope_.size(); }
  void leave(size_t scope);

  // --- operations
  // Returns false after the terminator of the region.
  bool operation(Graph& graph);
  void generic_form(Reading& op);
  void custom_form(Reading& op);
  void form_item(Reading& op, const FormItem& item, size_t& index);
  void part(Reading& op, std::string_view name);  // text_forms.cc has most of them
  void types(Reading& op, std::string_view manner);
  void one_type_or_function(Reading& op, bool complex);
  void set_function_type(Reading& op, FunctionType type);
  void optional_dictionary(Reading& op);
  void optional_regions(Reading& op);
  void add_attribute(Reading& op, std::string_view name, Attr value);
  void check_operands(const Reading& op);
  static void terminate(Graph& graph, const Reading& op);

  // --- syntax of single operations (text_forms.cc)
  void constant_form(Reading& op);
  void while_form(Reading& op);
  void reduce_form(Reading& op);
  void scan_form(Reading& op);
  Graph& combining_region(Reading& op, std::string_view inner);
  void slice_ranges(Reading& op);
  void window(Reading& op);
  void dot_numbers(Reading& op);
  void precision();
  void exponent_mantissa(Reading& op);

  int max_depth_;
  int region_depth_ = 0;
  NameMap<Results> names_;
  std::vector<std::string_view> scope_;  // names in the order of their definitions
};

}  // namespace sardonyx::mlir
