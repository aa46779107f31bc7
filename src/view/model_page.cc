#include "view/model_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "dialects/flops.h"
#include "inspect/match_models.h"
#include "inspect/model_summary.h"
#include "sardonyx/infer.h"
#include "support/files/mapped_file.h"
#include "support/printable.h"
#include "view/steps.h"

namespace sardonyx::view {
namespace {

// The texts of the Python files that nodes name, found in the folder of the model or in this one.
std::vector<std::pair<std::string, std::string>> sources_of(const view::Picture& p, const std::filesystem::path& model) {
  constexpr uintmax_t kMostBytes = 200'000;
  constexpr size_t kMostFiles = 20;
  std::set<std::string> names;
  for (const auto& origin : p.origins) {
    for (const auto& [key, text] : origin) {
      const size_t colon = text.find(':');
      if (key == "line" && colon != std::string::npos && text.substr(0, colon).ends_with(".py"))
        names.insert(text.substr(0, colon));
    }
  }
  std::vector<std::pair<std::string, std::string>> found;
  for (const std::string& name : names) {
    for (const std::filesystem::path& folder : {std::filesystem::path(), model.parent_path()}) {
      const std::filesystem::path file = folder / name;
      std::error_code error;
      if (!std::filesystem::is_regular_file(file, error) || std::filesystem::file_size(file, error) > kMostBytes || error)
        continue;
      const auto mapped = MappedFile::open(file, MappedFile::Access::kRead);
      const std::string text(reinterpret_cast<const char*>(mapped->bytes().data()), mapped->size());
      if (!is_utf8(text)) continue;
      found.emplace_back(name, text);
      break;
    }
    if (found.size() == kMostFiles) break;
  }
  return found;
}

// Operations of one run of each node; open sizes count as 1. Empty if none is known.
std::vector<double> flops_of(const Picture& p) {
  std::vector<double> by_node(p.nodes.size(), 0);
  std::unordered_map<uint64_t, double> known;  // by expression: most nodes share theirs
  bool is_any = false;
  p.each_of_last_step([&](const Node& n, uint32_t at) {
    const std::optional<Dim> expression = flops(n);
    if (!expression) return;
    auto [number, is_new] = known.try_emplace(expression->word(), 0);
    if (is_new) {
      const Dim d =
          n.graph()->model().dims().substitute(*expression, [](std::string_view) { return std::optional(Dim::of(1)); });
      if (d.is_int()) number->second = static_cast<double>(d.value());
    }
    by_node[at] = number->second;
    is_any |= number->second > 0;
  });
  return is_any ? by_node : std::vector<double>();
}

// The numbers of the last step's nodes, by node of the picture.
std::vector<double> numbers_of(const NodeMeasure& measure, const Picture& p) {
  std::vector<double> by_node(p.nodes.size(), 0);
  p.each_of_last_step([&](const Node& n, uint32_t at) {
    if (const auto known = measure.by_node.find(&n); known != measure.by_node.end()) by_node[at] = known->second;
  });
  return by_node;
}

// The errors of the last step's values, by value of the picture.
std::vector<double> errors_of(const ValueErrors& errors, const Picture& p) {
  std::vector<double> by_value(p.values.size(), -1);
  p.each_of_last_step([&](const Node& n, uint32_t at) {
    for (size_t i = 0; i < n.num_results(); ++i) {
      if (const auto known = errors.find(n.result(i)); known != errors.end())
        by_value[p.nodes[at].first_value + i] = known->second;
    }
  });
  return by_value;
}

bool has_open_sizes(const Model& m) {
  return std::ranges::any_of(m.graph().inputs(),
                             [](const Port& p) { return p.value->ranked() && !p.value->type()->is_static(); });
}

}  // namespace

std::vector<std::pair<std::string, std::string>> page_facts(const Model& m) {
  std::vector<std::pair<std::string, std::string>> facts;
  const ModelCounts c = count_model(m);
  if (m.specification_version) {
    facts.emplace_back("Core ML", fmt::format("specification version {}", *m.specification_version));
    for (const auto& f : m.functions()) facts.emplace_back(f->name, f->mil_opset);
  } else {
    for (const OpsetImport& i : m.opset_imports)
      facts.emplace_back(i.domain.empty() ? "ai.onnx" : i.domain, fmt::format("opset {}", i.version));
  }
  if (!m.producer_name.empty()) facts.emplace_back("producer", fmt::format("{} {}", m.producer_name, m.producer_version));
  facts.emplace_back("nodes", std::to_string(c.nodes));
  facts.emplace_back("constants", fmt::format("{}, {}", c.tensors, human_bytes(c.bytes)));
  const auto ports = [&](std::string_view what, std::span<const Port> list) {
    constexpr size_t kMost = 50;
    for (size_t i = 0; i < std::min(list.size(), kMost); ++i) {
      const Value* v = list[i].value != nullptr ? list[i].value : list[i].use->value;
      const Type* t = list[i].declared != nullptr ? list[i].declared : v->type();
      facts.emplace_back(std::string(what), fmt::format("{}: {}", list[i].name.view(), m.types().to_string(t)));
    }
    if (list.size() > kMost) facts.emplace_back(std::string(what), fmt::format("and {} more", list.size() - kMost));
  };
  ports("input", m.graph().inputs());
  ports("result", m.graph().outputs());
  return facts;
}

std::string title_of(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return name.empty() ? file.string() : name;  // "model.mlpackage/"
}

std::string scene_of(const Model& m, const Picture& picture, SceneOptions options, const std::filesystem::path& file) {
  if (std::vector<double> flops = flops_of(picture); !flops.empty())
    options.measures.emplace_back(has_open_sizes(m) ? "FLOPs, open sizes as 1" : "FLOPs", std::move(flops));
  options.sources = sources_of(picture, file);
  return scene_json(picture, options);
}

std::string steps_page(Model& m, const std::filesystem::path& file, const OptimizeOptions& passes) {
  require_page();
  Steps steps(file);
  Observers observers;
  OptimizeOptions options = passes;
  observers.add(options.request.observer);
  observers.add(&steps);
  options.request.observer = observers.get();
  options.hint = false;  // it would optimize once more
  optimize_model(m, options);
  return page(steps.scene());
}

std::string model_page(const Model& m, const std::filesystem::path& file, const PageExtras& extras) {
  require_page();
  Picture picture;
  SceneOptions options{.title = title_of(file), .facts = page_facts(m), .curve = extras.curve};
  picture.add(m, "");
  if (extras.measure != nullptr) {
    options.measures.emplace_back(extras.measure->name, numbers_of(*extras.measure, picture));
    options.color = "=" + extras.measure->name;
  }
  if (extras.errors != nullptr) {
    options.errors = errors_of(*extras.errors, picture);
    options.facts.emplace_back("errors against", title_of(extras.reference));
    options.color = "error";
  }
  return page(scene_of(m, picture, std::move(options), file));
}

std::string diff_page(const Model& before, const Model& after, const std::string& name_before, const std::string& name_after,
                      const NodeMeasure* measure_before, const NodeMeasure* measure_after) {
  const ModelMatch match = match_models(before, after);
  Picture picture;
  SceneOptions options{.title = fmt::format("{} → {}", name_before, name_after), .facts = page_facts(after), .is_diff = true};
  picture.add(before, name_before);
  std::vector<double> numbers_before;
  if (measure_before != nullptr) numbers_before = numbers_of(*measure_before, picture);
  std::unordered_map<const Node*, uint32_t> places;
  for (const auto& [y, x] : match.before_of) {
    if (const auto at = picture.find(*x)) places.emplace(y, *at);
  }
  picture.add(after, name_after, 0, [&](const Node& n) -> std::optional<uint32_t> {
    const auto at = places.find(&n);
    return at == places.end() ? std::nullopt : std::optional(at->second);
  });
  if (measure_before != nullptr && measure_after != nullptr) {
    numbers_before.resize(picture.nodes.size());
    const bool is_one_name = name_before == name_after;
    const std::string before_name = fmt::format("{}, {}", measure_before->name, is_one_name ? "before" : name_before);
    const std::string after_name = fmt::format("{}, {}", measure_after->name, is_one_name ? "after" : name_after);
    options.measures.emplace_back(before_name, std::move(numbers_before));
    options.measures.emplace_back(after_name, numbers_of(*measure_after, picture));
    options.color = "=" + after_name;
  }
  return page(picture, options);
}

}  // namespace sardonyx::view
