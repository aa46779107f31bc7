// VhloAttributes: attributes, types and locations of MLIR bytecode, in the dialects VHLO and builtin.
// Sources: https://mlir.llvm.org/docs/BytecodeFormat, https://openxla.org/stablehlo/vhlo; the codes are those
// that the two dialects write.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "io/mlir/byte_reader.h"
#include "io/mlir/copy_budget.h"
#include "io/mlir/elements.h"
#include "io/mlir/module_builder.h"

namespace sardonyx {
class MappedFile;
}  // namespace sardonyx

namespace sardonyx::mlir {

// The whole file. Constants refer to its bytes.
struct BytecodeSource {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keepalive;
  const MappedFile* file = nullptr;  // null for bytes in memory
};

// Entries are decoded when they are first used, and may refer to each other in any order. Reading throws
// kInvalidModel for a reference that leads nowhere or to itself, kUnsupported for what the model cannot hold.
class VhloAttributes {
 public:
  VhloAttributes(BytecodeSource source, ModuleBuilder& builder);

  // --- filled in from the sections of the file
  std::vector<std::string_view> strings;
  struct Entry {
    std::string_view dialect;
    std::span<const std::byte> bytes;
    bool is_encoded = false;  // by the dialect; otherwise the entry is text
  };
  void add_attribute(Entry e) { attributes_.push_back({e}); }
  void add_type(Entry e) { types_.push_back({e}); }

  std::string_view string(ByteReader& in) const;
  Attr attribute(uint64_t index);
  const Type* type(uint64_t index);  // a tensor; each '?' is anonymous
  uint32_t location(uint64_t index);

 private:
  struct AttributeEntry : Entry {
    bool open = false;
    std::optional<Attr> value;
    uint64_t weight = 0;  // of a copy
    std::optional<uint32_t> location;
  };
  struct TypeEntry : Entry {
    const Type* type = nullptr;
  };

  AttributeEntry& entry(uint64_t index, std::string_view what);
  Attr read_attribute(ByteReader& in, const Entry& e);
  Attr builtin_attribute(ByteReader& in, uint64_t code);
  Attr vhlo_attribute(ByteReader& in, uint64_t code);
  AttrDict dictionary(ByteReader& in);
  std::string string_attribute(uint64_t index);
  TensorPtr tensor(ByteReader& in);
  Location read_location(uint64_t index);
  const Type* read_type(ByteReader& in, const Entry& e);
  const Type* tensor_type(ByteReader& in, bool ranked, bool encoded);
  DType element(uint64_t index);
  static std::string element_name(ByteReader& in, const Entry& e);

  BytecodeSource source_;
  ModuleBuilder& builder_;
  std::vector<AttributeEntry> attributes_;
  std::vector<TypeEntry> types_;
  int depth_ = 0;
  CopyBudget budget_;
};

}  // namespace sardonyx::mlir
