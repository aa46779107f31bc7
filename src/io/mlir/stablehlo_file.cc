#include "io/mlir/module_builder.h"
#include "io/mlir/text_reader.h"
#include "sardonyx/stablehlo.h"
#include "support/files/mapped_file.h"

namespace sardonyx {
namespace {

std::unique_ptr<Model> read_text(std::string_view text, std::string_view name, const ReadOptions& options) {
  auto model = std::make_unique<Model>(DialectId::kStablehlo);
  mlir::ModuleBuilder builder(*model);
  mlir::TextReader(text, name, builder, options.max_depth).read();
  builder.finish();
  return model;
}

}  // namespace

std::unique_ptr<Model> read_stablehlo(std::span<const std::byte> bytes, std::shared_ptr<const void> /*keepalive*/,
                                      std::string_view name, const ReadOptions& options) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return read_text(text, name, options);
}

std::unique_ptr<Model> load_stablehlo(const std::filesystem::path& path, const ReadOptions& options) {
  const auto file = MappedFile::open(path, options.map ? MappedFile::Access::kMap : MappedFile::Access::kRead);
  return read_stablehlo(file->bytes(), file, path.string(), options);
}

}  // namespace sardonyx
