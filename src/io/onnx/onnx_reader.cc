// Reads ModelProto, GraphProto, NodeProto and FunctionProto into a Model.
//
// One walk over the bytes makes nodes in file order and links names as they come. A name used before its
// definition becomes a placeholder; if the definition follows, the graph is sorted, else the name is
// undefined.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <set>

#include "dialects/onnx/runtimes/runtimes.h"
#include "io/foreign_files.h"
#include "io/onnx/fields_onnx.h"
#include "io/onnx/kept_message.h"
#include "io/onnx/onnx_parts.h"
#include "ir/graph/file_record.h"
#include "support/name_table.h"
#include "support/system/interrupt.h"

namespace sardonyx {
namespace {

constexpr uint64_t kFarApart = 1 << 14;  // file bytes per tensor
constexpr size_t kCopiedBytes = 1 << 14;

using namespace onnx_file;
using wire::Reader;

// The operator versions for the nodes of a graph, from the model or a function.
struct Imports {
  std::vector<OpsetImport>* list = nullptr;
  int64_t default_version = 0;  // of the default domain if there is no import
  struct Entry {
    std::string_view domain, type;
    const Op* op = nullptr;
  };
  Entry recent[64];

  std::optional<int64_t> version(std::string_view domain) const {
    for (const OpsetImport& i : *list) {
      if (i.domain == domain || (domain.empty() && i.domain == "ai.onnx")) return i.version;
    }
    return std::nullopt;
  }
};

// The opset that onnxruntime assumes for a domain that nodes use but no import names. For the default domain
// it is the newest that the release knows: here, the newest that all supported releases load.
std::optional<int64_t> assumed_version(std::string_view domain) {
  constexpr std::pair<std::string_view, int64_t> kKnown[] = {
      {"ai.onnx.ml", 5},    {"ai.onnx.preview.training", 1}, {"ai.onnx.training", 1},
      {"com.microsoft", 1}, {"com.microsoft.nchwc", 1},      {"com.microsoft.experimental", 1},
  };
  if (domain.empty()) return onnx::runtime_named("ort-1.23").opset;
  for (const auto& [known, version] : kKnown) {
    if (known == domain) return version;
  }
  return std::nullopt;
}

struct GraphAttribute {
  std::string_view name;
  std::string_view graph;
  bool in_list = false;
  std::string fields;
};

// The fields of a NodeProto; reused for each node.
struct NodeFields {
  std::vector<Name> inputs, outputs;
  std::vector<uint64_t> hashes;  // of outputs
  std::vector<Value*> operands;
  std::vector<GraphAttribute> bodies;
  std::vector<std::string_view> attributes;  // whole fields
  bool has_external = false;                 // an attribute has external data
  Name name;
  std::string_view type, domain, overload, doc;
  Metadata metadata;
  std::string unknown;

  void clear() {
    inputs.clear();
    outputs.clear();
    hashes.clear();
    operands.clear();
    bodies.clear();
    attributes.clear();
    has_external = false;
    name = Name();
    type = domain = overload = doc = {};
    metadata.clear();
    unknown.clear();
  }
};

struct Scope {
  Graph& graph;
  Scope* outer;
  Imports& imports;
  int depth;
  NameTable<Value> names;
  std::vector<std::pair<std::string_view, Value*>> pending;  // used but not yet defined
  std::unordered_map<std::string_view, size_t> pending_index;
  NodeFields node;

  Scope(Graph& g, Scope* outer_scope, Imports& i, int d, size_t names_expected)
      : graph(g), outer(outer_scope), imports(i), depth(d), names(names_expected) {}

  Value* find(std::string_view name) const {
    const uint64_t h = NameTable<Value>::hash(name);
    for (const Scope* s = this; s != nullptr; s = s->outer) {
      if (Value* v = s->names.find(h, name)) return v;
    }
    return nullptr;
  }
};

std::string show(const Value& v) {
  switch (v.kind()) {
    case ValueKind::kInput: return "an input";
    case ValueKind::kConstant: return "an initializer";
    default: break;
  }
  const Node* n = v.def();
  return n == nullptr ? "a node" : fmt::format("node '{}' ({})", n->name().view(), n->op().name);
}

[[noreturn]] void invalid(std::string message, std::vector<std::string> notes = {}) {
  throw Error(ErrorCode::kInvalidModel, std::move(message), std::move(notes));
}

class OnnxReader {
 public:
  OnnxReader(Model& model, ModelBytes source, ExternalFiles external, const ReadOptions& options)
      : m_(model),
        record_(model.edit_file_record()),
        source_(std::move(source)),
        external_(std::move(external)),
        options_(options),
        types_(model.types(), source_.origin) {}

  void read(std::string_view bytes);
  const ExternalFiles& external() const { return external_; }

 private:
  struct FunctionWire {
    std::string_view wire;
    std::string_view domain, name, overload;
  };

  FunctionWire scan_function(std::string_view wire);
  void read_function(const FunctionWire& f);
  OpsetImport read_import(std::string_view wire);
  void add_import(std::vector<OpsetImport>& list, OpsetImport i);
  int64_t assume_import(const Scope& s, std::string_view domain, std::string_view type);
  void read_graph(Graph& g, std::string_view wire, Scope* outer, Imports& imports, int depth);
  void read_constants(Scope& s, std::span<const std::string_view> dense, std::span<const std::string_view> sparse,
                      std::span<const std::string_view> inputs);
  void take_small_parts(TensorRead& t);
  void read_node(Scope& s, std::string_view wire);
  void read_attributes(Scope& s, std::string_view wire, Node& n);
  AttributeScan scan(std::string_view attribute);
  void take_graph_attribute(NodeFields& f, std::string_view wire);
  void read_outputs(Scope& s, std::span<const std::string_view> outputs);
  void read_value_infos(Scope& s, std::span<const std::string_view> infos);
  void close(Scope& s);

  const Op& op(Scope& s, std::string_view domain, std::string_view type);
  Value* operand(Scope& s, std::string_view name);
  void define(Scope& s, Name name, Value& v) { define(s, NameTable<Value>::hash(name.view()), name, v); }
  void define(Scope& s, uint64_t hash, Name name, Value& v);
  void declare(Value& v, const Type* t) { v.set_type(m_.types().freshen(t)); }
  TensorPtr payload(const NamedAttr& a, std::string_view attribute_wire);

  Model& m_;
  FileRecord& record_;
  ModelBytes source_;
  ExternalFiles external_;
  const ReadOptions& options_;
  TypeReader types_;
  std::array<std::string_view, 64> plain_;  // caches attributes without graphs or external data, by hash: most nodes look alike
  std::set<std::pair<std::string_view, std::string_view>> local_functions_;
};

// ---------------------------------------------------------------------------------------------------------------------
// The model

OpsetImport OnnxReader::read_import(std::string_view wire) {
  OpsetImport i;
  for (Reader r(wire, source_.origin); r.next();) {
    switch (r.field()) {
      case OperatorSetIdProto::kDomain: i.domain = r.bytes(); break;
      case OperatorSetIdProto::kVersion: i.version = r.int64(); break;
      default: r.skip();
    }
  }
  if (i.version < 0 || i.version > INT32_MAX) {
    invalid(fmt::format("the opset version {} of domain '{}' is out of range", i.version, i.domain));
  }
  return i;
}

// Some exporters write an import twice, or as '' and as ai.onnx. If the versions differ, onnxruntime uses the
// last.
void OnnxReader::add_import(std::vector<OpsetImport>& list, OpsetImport i) {
  const auto domain = [](const OpsetImport& o) {
    return o.domain == "ai.onnx" ? std::string_view() : std::string_view(o.domain);
  };
  const auto other = std::ranges::find_if(list, [&](const OpsetImport& o) { return domain(o) == domain(i); });
  if (other == list.end()) return list.push_back(std::move(i));
  if (other->version == i.version) return;
  record_.model.repairs.push_back(
      fmt::format("the opset of domain '{}' is imported twice, as {} and as {}: the last one is used",
                  domain(i).empty() ? "ai.onnx" : domain(i), other->version, i.version));
  *other = std::move(i);
}

int64_t OnnxReader::assume_import(const Scope& s, std::string_view domain, std::string_view type) {
  const auto version = s.imports.list->empty() ? std::nullopt : assumed_version(domain);
  if (!version) return 0;
  const std::string_view shown = domain.empty() ? "ai.onnx" : domain;
  record_.model.repairs.push_back(fmt::format("the model imports no opset of domain '{}': {} is assumed\n  at node '{}' ({})",
                                              shown, *version, s.node.name.view(), type));
  s.imports.list->push_back({std::string(domain), *version});
  return *version;
}

void OnnxReader::read(std::string_view bytes) {
  std::string_view graph;
  bool has_graph = false;
  bool has_ir_version = false;
  std::vector<std::string_view> functions;
  for (Reader r(bytes, source_.origin); r.next();) {
    switch (r.field()) {
      case ModelProto::kIrVersion:
        m_.ir_version = r.int64();
        has_ir_version = true;
        break;
      case ModelProto::kProducerName: m_.producer_name = r.bytes(); break;
      case ModelProto::kProducerVersion: m_.producer_version = r.bytes(); break;
      case ModelProto::kDomain: m_.domain = r.bytes(); break;
      case ModelProto::kModelVersion: m_.model_version = r.int64(); break;
      case ModelProto::kDocString: m_.doc = r.bytes(); break;
      case ModelProto::kGraph:
        join(graph, r.bytes(), source_);
        has_graph = true;
        break;
      case ModelProto::kOpsetImport: add_import(m_.opset_imports, read_import(r.bytes())); break;
      case ModelProto::kMetadataProps: {
        const std::string_view entry = r.bytes();
        read_metadata(entry, {r.start(), static_cast<size_t>(r.at() - r.start())}, source_.origin, m_.metadata,
                      record_.model.fields);
        break;
      }
      case ModelProto::kTrainingInfo: {
        record_.model.training_info.push_back(r.bytes());
        // Report missing files now; the elements are read when the model is written.
        (void)read_training_tensors(record_.model.training_info.back(), source_, external_);
        break;
      }
      case ModelProto::kFunctions: functions.push_back(r.bytes()); break;
      default: record_.model.fields += r.skip();
    }
  }
  if (!has_graph || !has_ir_version) {
    invalid(fmt::format("this is not an ONNX model: it has no {}", has_graph ? "ir_version" : "graph"));
  }
  if (m_.ir_version < 1 || m_.ir_version > INT32_MAX) invalid(fmt::format("the IR version {} is out of range", m_.ir_version));
  Function& main = m_.add_function("");
  std::vector<FunctionWire> scanned;
  std::set<std::tuple<std::string_view, std::string_view, std::string_view>> seen;
  for (std::string_view wire : functions) {
    const FunctionWire& f = scanned.emplace_back(scan_function(wire));
    local_functions_.emplace(f.domain, f.name);
    if (!seen.emplace(f.domain, f.name, f.overload).second) {
      invalid(fmt::format("the function '{}.{}' is defined twice", f.domain, f.name));
    }
  }
  Imports imports{.list = &m_.opset_imports};
  if (m_.ir_version < 3) imports.default_version = 1;  // predates opset imports
  read_graph(main.graph(), graph, nullptr, imports, 0);
  main.name = main.graph().name().view();
  for (const FunctionWire& f : scanned) read_function(f);
}

OnnxReader::FunctionWire OnnxReader::scan_function(std::string_view wire) {
  FunctionWire f{.wire = wire};
  for (Reader r(wire, source_.origin); r.next();) {
    switch (r.field()) {
      case FunctionProto::kName: f.name = r.bytes(); break;
      case FunctionProto::kDomain: f.domain = r.bytes(); break;
      case FunctionProto::kOverload: f.overload = r.bytes(); break;
      default: r.skip();
    }
  }
  return f;
}

void OnnxReader::read_function(const FunctionWire& scanned) {
  Function& f = m_.add_function(scanned.name);
  f.domain = scanned.domain;
  f.overload = scanned.overload;
  Graph& g = f.graph();
  std::vector<std::string_view> nodes, infos, default_attributes;
  std::vector<Name> inputs, outputs;
  std::string fields;
  for (Reader r(scanned.wire, source_.origin); r.next();) {
    switch (r.field()) {
      case FunctionProto::kName:
      case FunctionProto::kDomain:
      case FunctionProto::kOverload: r.skip(); break;
      case FunctionProto::kInput: inputs.push_back(r.name()); break;
      case FunctionProto::kOutput: outputs.push_back(r.name()); break;
      case FunctionProto::kAttribute: f.attributes.emplace_back(r.bytes()); break;
      case FunctionProto::kNode: nodes.push_back(r.bytes()); break;
      case FunctionProto::kDocString: f.doc = r.bytes(); break;
      case FunctionProto::kOpsetImport: add_import(f.opset_imports, read_import(r.bytes())); break;
      case FunctionProto::kAttributeProto: {
        const std::string_view a = r.bytes();
        if (scan_attribute(a, source_.origin).has_graph) {
          fields.append(r.start(), static_cast<size_t>(r.at() - r.start()));
        } else {
          f.default_attributes.push_back(read_attribute(a, source_, external_, types_));
        }
        break;
      }
      case FunctionProto::kValueInfo: infos.push_back(r.bytes()); break;
      case FunctionProto::kMetadataProps: {
        const std::string_view entry = r.bytes();
        read_metadata(entry, {r.start(), static_cast<size_t>(r.at() - r.start())}, source_.origin, f.metadata, fields);
        break;
      }
      default: fields += r.skip();
    }
  }
  if (!fields.empty()) record_.graphs[&g].holder_fields = std::move(fields);
  try {
    Imports imports{.list = &f.opset_imports};
    Scope s(g, nullptr, imports, 0, nodes.size() + inputs.size());
    for (Name name : inputs) {
      Value* v = g.add_input({}, nullptr);
      v->set_name(name);
      g.input_port(g.inputs().size() - 1).name = name;
      define(s, name, *v);
    }
    for (std::string_view n : nodes) read_node(s, n);
    for (Name name : outputs) {
      g.add_output(*operand(s, name.view()), {});
      g.output_port(g.outputs().size() - 1).name = name;
    }
    read_value_infos(s, infos);
    close(s);
  } catch (const Error& e) {
    throw e.with_note(fmt::format("in function '{}.{}'", f.domain, f.name));
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Graphs

// For nested graphs, an error names the innermost ones.
constexpr size_t kMostPlaces = 6;

void OnnxReader::read_graph(Graph& g, std::string_view wire, Scope* outer, Imports& imports, int depth) {
  if (depth > options_.max_depth) {
    throw Error(ErrorCode::kLimit, fmt::format("graphs are nested more than {} deep", options_.max_depth));
  }
  std::vector<std::string_view> dense, sparse, inputs, outputs, infos;
  std::string fields;
  size_t node_count = 0;
  Trail trail(source_.file);
  for (Reader r(wire, source_.origin); r.next();) {
    switch (r.field()) {
      case GraphProto::kNode:
        ++node_count;
        r.skip();
        break;
      case GraphProto::kName: g.set_name(r.name()); break;
      case GraphProto::kInitializer:
        dense.push_back(r.bytes());
        trail.passed(dense.back().data());
        break;
      case GraphProto::kDocString: g.doc = r.bytes(); break;
      case GraphProto::kInput: inputs.push_back(r.bytes()); break;
      case GraphProto::kOutput: outputs.push_back(r.bytes()); break;
      case GraphProto::kValueInfo: infos.push_back(r.bytes()); break;
      case GraphProto::kQuantizationAnnotation: record_.graphs[&g].quantization_annotations.push_back(r.bytes()); break;
      case GraphProto::kSparseInitializer: sparse.push_back(r.bytes()); break;
      case GraphProto::kMetadataProps: {
        const std::string_view entry = r.bytes();
        read_metadata(entry, {r.start(), static_cast<size_t>(r.at() - r.start())}, source_.origin, g.metadata, fields);
        break;
      }
      default: fields += r.skip();
    }
  }
  if (!fields.empty()) record_.graphs[&g].fields = std::move(fields);
  try {
    Scope s(g, outer, imports, depth, node_count + inputs.size() + dense.size() + sparse.size());
    read_constants(s, dense, sparse, inputs);
    for (Reader r(wire, source_.origin); r.next();) {
      if (r.field() == GraphProto::kNode) {
        read_node(s, r.bytes());
      } else {
        trail.passed(r.at());
        r.skip();
      }
    }
    read_outputs(s, outputs);
    read_value_infos(s, infos);
    close(s);
  } catch (const Error& e) {
    if (e.notes().size() >= kMostPlaces) throw;
    throw e.with_note(fmt::format("in graph '{}'", g.name().view()));
  }
}

// Copies the name out of the file, and the payload if it is small.
void OnnxReader::take_small_parts(TensorRead& t) {
  if (!t.name.empty()) t.name = m_.name(t.name.view());
  if (t.tensor == nullptr || t.tensor->is_deferred() || t.tensor->is_promise() || t.tensor->is_splat()) return;
  const auto bytes = t.tensor->stored_bytes(), file = source_.file->bytes();
  if (bytes.empty() || bytes.size() > kCopiedBytes || bytes.data() < file.data() || bytes.data() >= file.data() + file.size())
    return;
  t.tensor = Tensor::own(t.tensor->dtype(), {t.tensor->shape().begin(), t.tensor->shape().end()}, {bytes.begin(), bytes.end()});
}

// Reads inputs and initializers together, because an initializer may determine an input's type.
void OnnxReader::read_constants(Scope& s, std::span<const std::string_view> dense, std::span<const std::string_view> sparse,
                                std::span<const std::string_view> inputs) {
  Graph& g = s.graph;
  std::vector<TensorRead> tensors;
  tensors.reserve(dense.size() + sparse.size());
  Trail trail(source_.file);
  // Copy small tensors among large weights: reading them later would map the pages around them again.
  const bool far_apart = source_.file != nullptr && source_.file->size() / (dense.size() + 1) >= kFarApart;
  for (std::string_view w : dense) {
    TensorRead& t = tensors.emplace_back(read_tensor(w, source_, external_));
    if (far_apart) take_small_parts(t);
    trail.passed(w.data());
  }
  for (std::string_view w : sparse) tensors.push_back(read_sparse_tensor(w, source_, external_));
  NameTable<TensorRead> by_name(tensors.size());
  for (TensorRead& t : tensors) {
    if (t.name.empty()) invalid("an initializer has no name");
    if (by_name.insert(t.name, &t) != nullptr) invalid(fmt::format("the initializer '{}' is defined twice", t.name.view()));
  }
  const bool listed = m_.ir_version < 4;  // initializers are also listed as inputs
  std::vector<char> is_default(tensors.size(), 0);
  std::vector<std::pair<uint32_t, const TensorRead*>> listed_inputs;
  std::vector<std::string_view> listed_wires;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ValueInfoRead info = read_value_info(inputs[i], types_, source_);
    if (info.name.empty()) invalid(fmt::format("input {} has no name", i));
    const TensorRead* t = by_name.find(info.name.view());
    if (t != nullptr && listed) {
      listed_inputs.emplace_back(static_cast<uint32_t>(i), t);
      listed_wires.push_back(info.wire);
      continue;
    }
    Value* v = g.add_input({}, info.type);
    v->set_name(info.name);
    declare(*v, info.type);
    Port& port = g.input_port(g.inputs().size() - 1);
    port.name = info.name;
    port.doc = std::move(info.doc);
    port.metadata = std::move(info.metadata);
    port.entry = record_.add_entry(info.wire, info.type);
    if (t != nullptr) {
      const auto place = static_cast<size_t>(t - tensors.data());
      is_default[place] = 1;
      port.default_value = t->tensor;
      record_.tensors[v] = {t->fields, static_cast<uint32_t>(place)};
    }
    define(s, info.name, *v);
  }
  std::unordered_map<const TensorRead*, Value*> constant_of;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_default[i]) continue;
    TensorRead& t = tensors[i];
    Value* v = g.add_constant(t.tensor);
    v->set_name(t.name);
    define(s, t.name, *v);
    if (listed) constant_of[&t] = v;
    if (i >= dense.size()) {
      record_.sparse[t.tensor.get()] = {sparse[i - dense.size()], t.tensor};
    } else if (!t.fields.empty()) {
      record_.tensors[v].fields = std::move(t.fields);
    }
  }
  for (size_t i = 0; i < listed_inputs.size(); ++i) {
    const auto constant = constant_of.extract(listed_inputs[i].second);
    if (constant.empty())
      invalid(fmt::format("the name '{}' is defined twice: by two inputs", listed_inputs[i].second->name.view()));
    record_.graphs[&g].listed_inputs.push_back({listed_inputs[i].first, constant.mapped(), listed_wires[i]});
  }
  for (const TensorRead& t : tensors) {
    if (const auto left = constant_of.find(&t); left != constant_of.end())
      record_.graphs[&g].listed_inputs.push_back({UINT32_MAX, left->second, {}});
  }
}

void OnnxReader::read_outputs(Scope& s, std::span<const std::string_view> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    ValueInfoRead info = read_value_info(outputs[i], types_, source_);
    if (info.name.empty()) invalid(fmt::format("output {} has no name", i));
    Value* v = operand(s, info.name.view());
    s.graph.add_output(*v, {}, info.type);
    Port& port = s.graph.output_port(i);
    port.name = info.name;
    port.doc = std::move(info.doc);
    port.metadata = std::move(info.metadata);
    port.entry = record_.add_entry(info.wire, info.type);
    if (v->type() == nullptr && info.type != nullptr) declare(*v, info.type);
  }
}

void OnnxReader::read_value_infos(Scope& s, std::span<const std::string_view> infos) {
  for (std::string_view w : infos) {
    ValueInfoRead info = read_value_info(w, types_, source_);
    Value* v = s.names.find(info.name.view());
    if (v == nullptr || s.graph.value_info.contains(v)) {
      record_.graphs[&s.graph].loose_value_info.push_back(w);
      continue;
    }
    ValueInfo& kept = s.graph.value_info[v];
    kept.declared = info.type;
    if (!info.doc.empty() || !info.metadata.empty())
      kept.notes = std::make_shared<const Notes>(Notes{std::move(info.doc), std::move(info.metadata)});
    kept.entry = record_.add_entry(info.wire, info.type);
    if (info.type != nullptr && !v->is_constant() && v->kind() != ValueKind::kInput) declare(*v, info.type);
  }
}

// Resolves values used before their definition; passes unresolved ones to the enclosing graph.
void OnnxReader::close(Scope& s) {
  bool sort = false;
  for (const auto& [name, placeholder] : s.pending) {
    Value* v = s.names.find(name);
    if (v != nullptr) {
      m_.fill(*placeholder, *v);
      sort = true;
    } else if (s.outer != nullptr) {
      m_.fill(*placeholder, *operand(*s.outer, name));
    } else {
      const Node& reader = *placeholder->uses().begin()->owner;
      const std::string who = reader.is_boundary()
                                  ? "the graph returns"
                                  : fmt::format("node '{}' ({}) reads", reader.name().view(), reader.op().name);
      invalid(fmt::format("{} '{}', which is not defined", who, name));
    }
  }
  if (sort) s.graph.sort();
}

// ---------------------------------------------------------------------------------------------------------------------
// Nodes

const Op& OnnxReader::op(Scope& s, std::string_view domain, std::string_view type) {
  const uint64_t h = XXH3_64bits(type.data(), type.size());
  Imports::Entry& recent = s.imports.recent[h % std::size(s.imports.recent)];
  if (recent.op != nullptr && recent.type == type && recent.domain == domain) return *recent.op;
  const std::string_view known_as = domain == "ai.onnx" ? std::string_view() : domain;
  std::optional<int64_t> version = s.imports.version(known_as);
  if (!version && known_as.empty() && s.imports.default_version != 0) version = s.imports.default_version;
  if (const int64_t assumed = version ? 0 : assume_import(s, known_as, type); assumed != 0) version = assumed;
  if (!version && known_as.empty()) {
    invalid("the model imports no opset of the domain ai.onnx, but uses its operators");
  }
  if (known_as.empty() && *version < 1) invalid(fmt::format("there is no opset {} of the domain ai.onnx", *version));
  const auto v = static_cast<int>(version.value_or(0));
  // Operators of an opset newer than the tables may differ in meaning, and a function of the model hides an
  // operator.
  const int latest = dialect(DialectId::kOnnx).latest_version(known_as);
  const bool opaque = v > latest || local_functions_.contains({domain, type});
  const Op& found = opaque ? m_.opaque_op(known_as, type, v) : m_.op(known_as, type, v);
  recent = {domain, type, &found};
  return found;
}

Value* OnnxReader::operand(Scope& s, std::string_view name) {
  if (Value* v = s.find(name)) return v;
  auto [at, inserted] = s.pending_index.try_emplace(name, s.pending.size());
  if (inserted) s.pending.emplace_back(name, &m_.new_placeholder());
  return s.pending[at->second].second;
}

void OnnxReader::define(Scope& s, uint64_t hash, Name name, Value& v) {
  if (const Value* other = s.names.insert(hash, name, &v)) {
    invalid(fmt::format("the name '{}' is defined twice: by {} and by {}", name.view(), show(*other), show(v)));
  }
}

AttributeScan OnnxReader::scan(std::string_view attribute) {
  constexpr size_t kMostBytes = 256;  // larger ones hold tensors, whose bytes must not be read here
  if (attribute.size() > kMostBytes) return scan_attribute(attribute, source_.origin);
  std::string_view& plain = plain_[XXH3_64bits(attribute.data(), attribute.size()) % plain_.size()];
  if (plain == attribute) return {};
  const AttributeScan found = scan_attribute(attribute, source_.origin);
  if (!found.has_graph && !found.has_external) plain = attribute;
  return found;
}

// Turns a GRAPH or GRAPHS attribute into one or several bodies.
void OnnxReader::take_graph_attribute(NodeFields& f, std::string_view wire) {
  GraphAttribute a;
  std::vector<std::string_view> list;
  for (Reader r(wire, source_.origin); r.next();) {
    switch (r.field()) {
      case AttributeProto::kName: a.name = r.bytes(); break;
      case AttributeProto::kG: join(a.graph, r.bytes(), source_); break;
      case AttributeProto::kGraphs: list.push_back(r.bytes()); break;
      case AttributeProto::kType: r.skip(); break;
      default: a.fields += r.skip();
    }
  }
  if (list.empty()) {
    f.bodies.push_back(std::move(a));
    return;
  }
  for (std::string_view g : list) f.bodies.push_back({a.name, g, true, std::exchange(a.fields, {})});
}

void OnnxReader::read_node(Scope& s, std::string_view wire) {
  check_interrupt();
  NodeFields& f = s.node;
  f.clear();
  Node* made = nullptr;
  try {
    for (Reader r(wire, source_.origin); r.next();) {
      switch (r.field()) {
        case NodeProto::kInput: f.inputs.push_back(r.name()); break;
        case NodeProto::kOutput: {
          f.outputs.push_back(r.name());
          // Prefetch the table's slot while the rest of the node is read.
          f.hashes.push_back(NameTable<Value>::hash(f.outputs.back().view()));
          s.names.prefetch(f.hashes.back());
          break;
        }
        case NodeProto::kName: f.name = r.name(); break;
        case NodeProto::kOpType: f.type = r.bytes(); break;
        case NodeProto::kAttribute: {
          const std::string_view a = r.bytes();
          const AttributeScan found = scan(a);
          if (found.has_graph) {
            take_graph_attribute(f, a);
          } else {
            f.attributes.emplace_back(r.start(), static_cast<size_t>(r.at() - r.start()));
            f.has_external |= found.has_external;
          }
          break;
        }
        case NodeProto::kDocString: f.doc = r.bytes(); break;
        case NodeProto::kDomain:
          f.domain = r.bytes();
          // The other name of the default domain; kept as in the file.
          if (f.domain == "ai.onnx") f.unknown.append(r.start(), static_cast<size_t>(r.at() - r.start()));
          break;
        case NodeProto::kOverload: f.overload = r.bytes(); break;
        case NodeProto::kMetadataProps: {
          const std::string_view entry = r.bytes();
          read_metadata(entry, {r.start(), static_cast<size_t>(r.at() - r.start())}, source_.origin, f.metadata, f.unknown);
          break;
        }
        default: f.unknown += r.skip();
      }
    }
    if (f.type.empty()) invalid("a node has no op_type");
    for (Name name : f.inputs) {
      const std::string_view text = name.view();
      f.operands.push_back(text.empty() ? nullptr : operand(s, text));
    }
    Node& n = m_.new_node(op(s, f.domain, f.type), f.operands, f.outputs.size());
    made = &n;
    n.set_name(f.name);
    s.graph.append(n);
    if (!f.attributes.empty()) read_attributes(s, wire, n);
    if (!f.unknown.empty()) record_.nodes[&n] = std::move(f.unknown);
    if (!f.doc.empty() || !f.overload.empty() || !f.metadata.empty()) {
      NodeExtra& extra = n.edit_extra();
      extra.doc = f.doc;
      extra.overload = f.overload;
      extra.metadata = std::move(f.metadata);
    }
    for (GraphAttribute& a : f.bodies) {
      Graph& g = m_.new_graph();
      n.add_body(a.name, g);
      n.edit_extra().bodies.back().in_list = a.in_list;
      if (!a.fields.empty()) record_.graphs[&g].holder_fields = std::move(a.fields);
      read_graph(g, a.graph, &s, s.imports, s.depth + 1);
    }
    for (size_t i = 0; i < f.outputs.size(); ++i) {
      if (f.outputs[i].empty()) continue;
      n.result(i)->set_name(f.outputs[i]);
      define(s, f.hashes[i], f.outputs[i], *n.result(i));
    }
  } catch (const Error& e) {
    if (e.notes().size() >= kMostPlaces) throw;
    throw e.with_note(made != nullptr || !f.type.empty() ? fmt::format("in node '{}' ({})", f.name.view(), f.type)
                                                         : fmt::format("in a node at byte {}", wire.data() - source_.origin));
  }
}

// Sets attributes, and the payload of Constant nodes.
void OnnxReader::read_attributes(Scope& s, std::string_view, Node& n) {
  const NodeFields& f = s.node;
  // The attributes' bytes in one piece, tags included; in the file they nearly always are contiguous.
  std::string_view whole;
  bool in_one_piece = true;
  for (std::string_view a : f.attributes) {
    if (whole.empty()) {
      whole = a;
    } else if (whole.data() + whole.size() == a.data()) {
      whole = {whole.data(), whole.size() + a.size()};
    } else {
      in_one_piece = false;
    }
  }
  if (!in_one_piece) {
    whole = {};
    for (std::string_view a : f.attributes) join(whole, a, source_);
  }
  const auto parse = [this, &whole] {
    AttrInit items;
    for (Reader r(whole, source_.origin); r.next();) items.push_back(read_attribute(r.bytes(), source_, external_, types_));
    return items;
  };
  // The location of external data depends on the written file, so these bytes are not kept.
  const Attrs* attrs = f.has_external ? m_.attrs(parse()) : m_.attrs_from_wire(whole, [&parse] { return parse(); });
  if (n.has(Trait::kConstant) && f.attributes.size() == 1 && n.num_results() == 1) {
    Reader r(f.attributes[0], source_.origin);
    r.next();
    if (TensorPtr tensor = payload(attrs->items()[0], r.bytes())) {
      s.graph.set_constant(*n.result(0), std::move(tensor));
      n.edit_extra().payload_attrs = attrs;
      n.set_unchecked(false);
      return;
    }
  }
  n.set_attrs(attrs);
}

// The payload in a Constant node's only attribute, or null.
TensorPtr OnnxReader::payload(const NamedAttr& a, std::string_view attribute_wire) {
  if (a.name == "value") {
    if (const auto* t = a.value.get<TensorPtr>()) return *t;
  } else if (a.name == "value_float") {
    if (const auto* f = a.value.get<double>()) {
      const auto v = static_cast<float>(*f);
      return Tensor::of<float>(DType::kF32, {}, {&v, 1});
    }
  } else if (a.name == "value_int") {
    if (const auto* i = a.value.get<int64_t>()) return Tensor::scalar(*i);
  } else if (a.name == "value_floats") {
    if (const auto* list = a.value.get<Attr::Floats>()) {
      const std::vector<float> v(list->begin(), list->end());
      return Tensor::of<float>(DType::kF32, {static_cast<int64_t>(v.size())}, v);
    }
  } else if (a.name == "value_ints") {
    if (const auto* list = a.value.get<Attr::Ints>()) return Tensor::vector(*list);
  } else if (a.name == "value_string") {
    if (const auto* text = a.value.get<std::string>()) return Tensor::strings({}, {*text});
  } else if (a.name == "value_strings") {
    if (const auto* list = a.value.get<Attr::Strings>()) return Tensor::strings({static_cast<int64_t>(list->size())}, *list);
  } else if (a.name == "sparse_value") {
    for (Reader r(attribute_wire, source_.origin); r.next();) {
      if (r.field() == AttributeProto::kSparseTensor) return read_sparse_tensor(r.bytes(), source_, external_).tensor;
      r.skip();
    }
  }
  return nullptr;
}

std::unique_ptr<Model> read_model(std::string_view bytes, ModelBytes source, ExternalFiles external, const ReadOptions& options,
                                  std::shared_ptr<const MappedFile> file) {
  auto model = std::make_unique<Model>(DialectId::kOnnx);
  struct Kept {
    std::shared_ptr<const void> bytes;
    std::deque<std::string> joined;
  };
  const auto kept = std::make_shared<Kept>(Kept{std::move(source.keepalive), {}});
  source.joined = &kept->joined;
  source.keepalive = kept;
  model->keep_alive(kept);
  OnnxReader reader(*model, std::move(source), std::move(external), options);
  reader.read(bytes);
  auto& sources = model->edit_file_record().model.sources;
  if (file != nullptr) sources.push_back(std::move(file));
  for (auto& opened : reader.external().opened()) sources.push_back(std::move(opened));
  return model;
}

}  // namespace

std::unique_ptr<Model> read_onnx(const std::filesystem::path& path, const ReadOptions& options) {
  const auto access = options.map ? MappedFile::Access::kMap : MappedFile::Access::kRead;
  const auto file = MappedFile::open(path, access);
  const std::string_view bytes(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  try {
    return read_model(bytes, {bytes.data(), file, file.get(), nullptr}, ExternalFiles(path, folder, access), options, file);
  } catch (const Error& e) {
    throw explained(e, file->bytes(), "an ONNX model").with_note(fmt::format("in file {}", path.string()));
  }
}

std::unique_ptr<Model> read_onnx_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive,
                                       const std::filesystem::path& folder, const ReadOptions& options) {
  const std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto access = options.map ? MappedFile::Access::kMap : MappedFile::Access::kRead;
  try {
    return read_model(view, {view.data(), std::move(keepalive), nullptr, nullptr}, ExternalFiles({}, folder, access), options,
                      nullptr);
  } catch (const Error& e) {
    throw explained(e, bytes, "an ONNX model");
  }
}

}  // namespace sardonyx
