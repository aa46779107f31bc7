#include "convert/read_source.h"

#include "convert/file_names.h"
#include "sardonyx/convert.h"
#include "sardonyx/stablehlo.h"

namespace sardonyx {

std::unique_ptr<Model> read_source(const std::filesystem::path& path, const ReadOptions& options) {
  if (!is_stablehlo_name(path)) return read_model(path, options);
  return convert(*lower_stablehlo_to_jax(*load_stablehlo(path, options)));
}

}  // namespace sardonyx
