// BytecodeReader: MLIR bytecode with VHLO operations, as StableHLO's portable artifacts have it.
// Sources: https://mlir.llvm.org/docs/BytecodeFormat, https://openxla.org/stablehlo/vhlo.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/mlir/byte_reader.h"
#include "io/mlir/module_builder.h"
#include "io/mlir/vhlo_attributes.h"

namespace sardonyx::mlir {

bool is_bytecode(std::span<const std::byte> bytes);

class BytecodeReader {
 public:
  BytecodeReader(BytecodeSource source, ModuleBuilder& builder, int max_depth)
      : source_(source), builder_(builder), attributes_(std::move(source), builder), max_depth_(max_depth) {}

  void read();

 private:
  enum class Section : uint8_t {
    kStrings,
    kDialects,
    kAttributes,  // and types
    kOffsets,     // of them
    kOperations,
    kResources,
    kResourceOffsets,
    kDialectVersions,
    kProperties,
    kCount,
  };
  struct OperationName {
    std::string_view dialect, name;
  };
  // The parts of an operation that come before its regions.
  struct Head {
    std::string name;                              // "stablehlo.add", "func.func", "builtin.module"
    const std::string_view* properties = nullptr;  // names of attributes, in order; null: none
    Draft draft;
    size_t regions = 0;
    bool isolated = false;                           // its regions use no value from outside
    std::optional<std::vector<uint32_t>> arguments;  // of the last region: the locations
  };

  // --- sections
  std::pair<Section, std::span<const std::byte>> section(ByteReader& in) const;
  ByteReader of(Section s, std::string_view what) const;
  void check_producer(const ByteReader& in, std::string_view producer) const;
  void read_strings();
  void read_dialects();
  void read_offsets();
  std::string_view dialect(ByteReader& in) const;

  // --- operations
  // A block of a region, into `graph`; without one, the functions of a module.
  // Both return the locations of the arguments.
  std::vector<uint32_t> block(ByteReader& in, Graph* graph);
  std::vector<uint32_t> block_arguments(ByteReader& in, Graph* graph);
  void operation(ByteReader& in, Graph* graph);
  Head head(ByteReader& in);
  void skip_use_orders(ByteReader& in, size_t values);
  void properties(ByteReader& in, Head& op);
  // Reads region after region, each into a graph of its own, or into the module.
  void regions(ByteReader& in, Head& op, bool module);
  // Returns the locations of the arguments; nullopt for a region without a block.
  std::optional<std::vector<uint32_t>> region(ByteReader& in, Graph* graph);
  void function(Head& op);
  void operation_name(ByteReader& in, Head& op);

  BytecodeSource source_;
  ModuleBuilder& builder_;
  VhloAttributes attributes_;
  int max_depth_;
  uint64_t version_ = 0;
  std::array<std::optional<std::span<const std::byte>>, static_cast<size_t>(Section::kCount)> sections_;
  std::vector<std::string_view> dialects_;
  std::vector<OperationName> names_;
  std::vector<std::span<const std::byte>> properties_;

  // Values by number. A region's numbers follow those of the regions around it, up to an isolated operation.
  std::vector<Value*> values_;
  size_t scope_begin_ = 0;  // of the innermost isolated operation
  size_t next_value_ = 0;   // the number of the next value that the innermost region defines
  int depth_ = 0;
  bool module_read_ = false;
};

}  // namespace sardonyx::mlir
