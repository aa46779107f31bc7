// TextAttributes: types, attributes and locations in the text of an MLIR module.
// Sources: https://mlir.llvm.org/docs/Dialects/Builtin, https://openxla.org/stablehlo/spec.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/mlir/copy_budget.h"
#include "io/mlir/cursor.h"
#include "io/mlir/module_builder.h"
#include "support/name_table.h"

namespace sardonyx::mlir {

struct FunctionType {
  std::vector<const Type*> inputs, results;
};

// Hashes are seeded, so that no text can be crafted to collide.
struct SeededHash {
  size_t operator()(std::string_view s) const { return NameTable<void>::hash(s); }
};
template <class T>
using NameMap = std::unordered_map<std::string_view, T, SeededHash>;

class TextAttributes {
 protected:
  TextAttributes(std::string_view text, std::string_view file, ModuleBuilder& builder);

  // --- types. Sizes '?' are anonymous. Throws kUnsupported for tokens, tuples, quantized elements and the
  // like.
  const Type* type();
  std::vector<const Type*> type_list();        // T, T
  std::vector<const Type*> types_in_parens();  // (T, T)
  std::vector<const Type*> result_types();     // T or (T, T)
  FunctionType function_type();                // (T, T) -> result types

  // --- attributes
  Attr attribute();
  // {name = attribute, name}, where the cursor is at '{'.
  void dictionary(AttrInit& into);
  // The value of an attribute inside a custom form: numbers have no type, enumerations are bare keywords.
  Attr form_attribute();
  Attr::Ints integers(char open, char close);  // [1, 2]
  // The dimension numbers [b, 0, f]x[0, i, o]->[b, 0, f], as the fields of #stablehlo.conv.
  AttrDict convolution_numbers();

  // --- locations
  // Takes `loc(...)` if it is there; 0 is "unknown".
  uint32_t optional_location();
  // At the top of the module: #name = attribute, !name = type, {-# resources #-}.
  bool take_alias_definition();

  Types& types_table() { return builder_.model().types(); }

  Cursor in_;
  ModuleBuilder& builder_;

 private:
  struct Alias {
    size_t at = 0;  // of the definition's right side
    bool open = false;
    std::optional<uint32_t> location;
    std::optional<Attr> attribute;
    uint64_t weight = 0;  // of a copy of the attribute
  };
  struct Resource {
    std::string_view digits;
    std::shared_ptr<const std::vector<std::byte>> bytes;  // null until they are used
  };

  void find_aliases();
  Alias& alias(std::string_view name);
  template <class F>
  auto at_alias(Alias& a, F&& read);

  const Type* tensor_type();
  DType tensor_element();
  void refuse_type();
  Attr number_attribute();
  Attr array_attribute();
  Attr list_attribute();
  Attr dict_attribute();
  Attr alias_attribute(std::string_view name);
  Attr hash_attribute();
  Attr struct_attribute(std::string_view name);
  Attr dense_attribute();
  Attr resource_attribute();
  void read_resources();
  Location location_body();
  Location named_or_file_location();

  // One level of nesting, of all kinds together: each uses the stack.
  class Nested {
   public:
    explicit Nested(TextAttributes& in);
    ~Nested() { --depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    int& depth_;
  };

  int depth_ = 0;
  NameMap<Alias> aliases_;
  std::optional<std::unordered_map<std::string, Resource>> resources_;
  CopyBudget budget_;
};

// A list attribute: integers are `ints`.
Attr list_of(AttrList items);

}  // namespace sardonyx::mlir
