#include "passes/catalog.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <unordered_map>

namespace sardonyx {

#define SX_PASS(name, about) Pass name();
namespace onnx {
#include "passes/onnx/passes.def"
}
namespace mil {
#include "passes/mil/passes.def"
}
#undef SX_PASS

std::span<const CatalogPass> catalog() {
  // Never destroyed: tearing down the patterns at exit would only cost time.
  static const auto& all = *new std::vector<CatalogPass>{
#define SX_PASS(name, about) {#name, about, DialectId::kOnnx, onnx::name()},
#include "passes/onnx/passes.def"
#undef SX_PASS
#define SX_PASS(name, about) {#name, about, DialectId::kMil, mil::name()},
#include "passes/mil/passes.def"
#undef SX_PASS
  };
  return all;
}

const CatalogPass* find_pass(std::string_view name) {
  for (std::string_view prefix : {"onnx::", "common::"}) {
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  }
  static const auto& by_name = *new std::unordered_map<std::string_view, const CatalogPass*>([] {
    std::unordered_map<std::string_view, const CatalogPass*> found;
    for (const CatalogPass& p : catalog()) found.try_emplace(p.name, &p);
    return found;
  }());
  const auto at = by_name.find(name);
  return at == by_name.end() ? nullptr : at->second;
}

const ReadyPass& ready_pass(const CatalogPass& pass) {
  struct Ready {
    std::once_flag once;
    ReadyPass pass;
  };
  static auto& all = *new std::vector<Ready>(catalog().size());
  Ready& ready = all[static_cast<size_t>(&pass - catalog().data())];
  std::call_once(ready.once, [&] { ready.pass = ready_pass(pass.pass, pass.dialect); });
  return ready.pass;
}

void prepare_passes(DialectId dialect) {
  for (const CatalogPass& p : catalog()) {
    if (p.dialect != dialect) continue;
    for (const ReadyRule& r : ready_pass(p).rules) r.matcher();
  }
  presets();
  find_pass({});
}

namespace {

// The passes of a preset, those of the presets that it lists in their place.
std::vector<Preset::Item> flat(const Preset& preset, std::span<const Preset> all) {
  std::vector<Preset::Item> items;
  for (Preset::Item item : preset.items) {
    if (item.pass.starts_with('-')) {
      std::erase_if(items, [&](const Preset::Item& earlier) { return earlier.pass == item.pass.substr(1); });
    } else if (const auto nested = std::ranges::find(all, item.pass, &Preset::name); nested != all.end()) {
      std::ranges::copy(flat(*nested, all), std::back_inserter(items));
    } else {
      item.repeats = preset.repeat;
      items.push_back(item);
    }
  }
  return items;
}

}  // namespace

std::span<const Preset> presets() {
  static const std::vector<Preset> all = [] {
    const std::vector<Preset> listed = {
#include "passes/presets.def"
    };
    std::vector<Preset> list = listed;
    for (Preset& p : list) p.items = flat(p, listed);
    return list;
  }();
  return all;
}

}  // namespace sardonyx
