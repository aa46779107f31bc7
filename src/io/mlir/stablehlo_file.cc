#include <fmt/format.h>

#include <algorithm>

#include "io/foreign_files.h"
#include "io/mlir/bytecode_reader.h"
#include "io/mlir/exported.h"
#include "io/mlir/module_builder.h"
#include "io/mlir/text_reader.h"
#include "sardonyx/stablehlo.h"
#include "support/files/mapped_file.h"

namespace sardonyx {
namespace {

using mlir::BytecodeSource;

std::unique_ptr<Model> read_module(BytecodeSource source, std::string_view name, const ReadOptions& options) {
  const auto exported = mlir::read_exported(source.bytes);
  if (exported) source.bytes = exported->module;
  auto model = std::make_unique<Model>(DialectId::kStablehlo);
  mlir::ModuleBuilder builder(*model);
  if (mlir::is_bytecode(source.bytes)) {
    mlir::BytecodeReader(std::move(source), builder, options.max_depth).read();
  } else {
    const auto head = source.bytes.first(std::min<size_t>(source.bytes.size(), 256));
    if (std::ranges::find(head, std::byte{0}) != head.end()) {
      throw Error(ErrorCode::kInvalidModel,
                  "this is no StableHLO module: neither MLIR text nor bytecode, nor a function that jax.export wrote");
    }
    const std::string_view text(reinterpret_cast<const char*>(source.bytes.data()), source.bytes.size());
    mlir::TextReader(text, name, builder, options.max_depth).read();
  }
  builder.finish();
  if (exported) mlir::describe(*model, *exported);
  return model;
}

}  // namespace

std::unique_ptr<Model> read_stablehlo(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive,
                                      std::string_view name, const ReadOptions& options) {
  if (keepalive != nullptr) return read_module({bytes, std::move(keepalive)}, name, options);
  const auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return read_module({*copy, copy}, name, options);
}

std::unique_ptr<Model> load_stablehlo(const std::filesystem::path& path, const ReadOptions& options) {
  const auto file = MappedFile::open(path, options.map ? MappedFile::Access::kMap : MappedFile::Access::kRead);
  try {
    return read_module({file->bytes(), file, file.get()}, path.string(), options);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kParse) throw;  // it names the file
    if (e.code() == ErrorCode::kUnsupported || mlir::is_bytecode(file->bytes()))
      throw e.with_note(fmt::format("in file {}", path.string()));
    throw explained(e, file->bytes(), "a StableHLO module").with_note(fmt::format("in file {}", path.string()));
  }
}

}  // namespace sardonyx
