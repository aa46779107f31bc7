// Writes a Model as a ModelProto, streaming it.
//
// Three steps: choose names; place tensors in data files if that is requested or necessary; then run the same
// code twice, to measure messages and to write them. Fields are written by number, the order of protobuf's
// own writers.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ranges>

#include "dialects/onnx/attribute_type.h"
#include "io/onnx/apart.h"
#include "io/onnx/fields_onnx.h"
#include "io/onnx/kept_message.h"
#include "io/onnx/write_names.h"
#include "io/onnx/write_parts.h"
#include "io/sinks.h"
#include "ir/graph/file_record.h"
#include "support/files/atomic_file.h"
#include "support/files/mapped_file.h"

namespace sardonyx {
namespace {

using namespace onnx_file;
using wire::Field;
using wire::Message;
using wire::Writer;

constexpr uint64_t kMaxMessage = (uint64_t{1} << 31) - 1;  // protobuf's limit
constexpr uint64_t kPage = 4096;
constexpr uint64_t kSmallAlignment = 64;

// The name in a ValueInfoProto.
std::string_view wire_name(std::string_view info) {
  std::string_view name;
  for (wire::Reader r(info, info.data()); r.next();) {
    if (r.field() == ValueInfoProto::kName) {
      name = r.bytes();
    } else {
      r.skip();
    }
  }
  return name;
}

// The first IR version with the element type.
int64_t ir_version_of(DType t) {
  switch (t) {
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ: return 9;
    case DType::kU4:
    case DType::kI4: return 10;
    case DType::kF4E2M1: return 11;
    case DType::kF8E8M0: return 12;
    case DType::kU2:
    case DType::kI2: return 13;
    default: return 1;
  }
}

// The model's IR version, raised if an element type requires it.
int64_t needed_ir_version(const Model& m) {
  int64_t needed = m.ir_version;
  const Type* last = nullptr;
  const auto raise_for = [&](const Type* t) {
    if (t == last) return;
    last = t;
    while (t != nullptr && t->element() != nullptr) t = t->element();
    if (t != nullptr) needed = std::max(needed, ir_version_of(t->dtype()));
  };
  std::vector<const Graph*> todo;
  for (const auto& f : m.functions()) todo.push_back(&f->graph());
  while (!todo.empty()) {
    const Graph* g = todo.back();
    todo.pop_back();
    for (const Port& p : g->inputs()) raise_for(p.value->type());
    for (const Value* v : g->constants()) raise_for(v->type());
    for (const Node& n : g->nodes()) {
      for (const Value& v : n.results()) raise_for(v.type());
      for (const Body& b : n.bodies()) todo.push_back(b.graph);
    }
  }
  return needed;
}

// Weights that are computed during writing, or are too small for the kernel to copy, are read from mapped
// files. This releases their pages after some megabytes, so that the resident set does not grow by the file's
// size.
class SourcePages {
 public:
  explicit SourcePages(const Model& model) : files_(source_files(model)) {}

  void written(const Tensor& t) {
    touched_ += t.byte_size();
    if (touched_ < kHeldBytes) return;
    touched_ = 0;
    for (const auto& file : files_) file->forget(file->bytes());
  }

 private:
  static constexpr uint64_t kHeldBytes = 8 << 20;
  std::span<const std::shared_ptr<const MappedFile>> files_;
  uint64_t touched_ = 0;
};

class OnnxWriter {
 public:
  OnnxWriter(const Model& model, const WriteOptions& options)
      : m_(model),
        record_(model.file_record()),
        options_(options),
        ir_version_(needed_ir_version(model)),
        names_(model),
        pages_(model) {
    find_training_tensors();
  }

  // Runs the measuring pass; returns the size of the model message.
  uint64_t measure() {
    w_.reset();
    write_model();
    return w_.size();
  }
  void write(wire::Sink& sink) {
    w_.start(sink);
    write_model();
    w_.finish();
  }

  // Places each tensor of at least the threshold in a data file.
  void place_tensors(const std::string& data_file);
  const Places& places() const { return places_; }
  // The tensors of data file `i`, ordered by offset.
  const std::vector<const Tensor*>& tensors_of(size_t i) const { return placed_[i]; }

 private:
  void find_training_tensors();
  void place(const Tensor& t, const std::string& data_file);
  void place_graph(const Graph& g, const std::string& data_file);

  void write_model();
  void write_import(Field field, const OpsetImport& i);
  void write_function(const Function& f);
  void write_graph(const Graph& g);
  void write_initializers(const Graph& g);
  void write_constant_nodes(const Graph& g);
  void write_inputs(const Graph& g);
  void write_port(Field field, const Port& port, Name name);
  void write_value_infos(Field field, const Graph& g);
  void write_nodes(Field field, const Graph& g);
  void write_node(const Node& n);
  void write_bodies(const Node& n);
  void write_identities(Field field, const Graph& g);
  void write_provenance(const Node& n);

  bool is_local(const Graph& g) const { return g.function() != nullptr && g.function() != &m_.main(); }

  const Model& m_;
  const FileRecord& record_;
  const WriteOptions& options_;
  const int64_t ir_version_;
  std::vector<KeptTensor> training_tensors_;  // tensors with external data in training information
  WriteNames names_;
  Places places_;
  std::vector<std::vector<const Tensor*>> placed_;
  std::vector<uint64_t> file_sizes_;
  std::unordered_map<const std::byte*, std::pair<uint64_t, Place>> by_bytes_;
  std::unordered_map<uint32_t, std::string> provenance_;  // metadata_props of nodes, in wire format
  SourcePages pages_;
  Writer w_;
};

// ---------------------------------------------------------------------------------------------------------------------
// External data

// Finds them in the files beside the one that was read. A model without source files keeps its training
// information unchanged.
void OnnxWriter::find_training_tensors() {
  if (record_.model.training_info.empty() || record_.model.sources.empty()) return;
  const std::filesystem::path& read = record_.model.sources.front()->path();
  ExternalFiles files(read, read.parent_path(), MappedFile::Access::kMap);
  for (std::string_view t : record_.model.training_info) {
    auto found = read_training_tensors(t, {.origin = t.data()}, files);
    std::ranges::move(found, std::back_inserter(training_tensors_));
  }
  std::ranges::sort(training_tensors_, std::less<>(), &KeptTensor::at);
}

void OnnxWriter::place(const Tensor& t, const std::string& data_file) {
  const uint64_t size = t.byte_size();
  if (t.dtype() == DType::kString || size < std::max<uint64_t>(options_.external_threshold, 1) || places_.of.contains(&t))
    return;
  const std::byte* bytes = t.is_splat() || t.is_deferred() ? nullptr : t.stored_bytes().data();
  if (bytes != nullptr) {  // shared weights stay shared
    const auto known = by_bytes_.find(bytes);
    if (known != by_bytes_.end() && known->second.first == size) {
      places_.of[&t] = known->second.second;
      return;
    }
  }
  const uint64_t alignment = size >= kPage ? kPage : kSmallAlignment;
  uint64_t offset = file_sizes_.empty() ? 0 : (file_sizes_.back() + alignment - 1) / alignment * alignment;
  const bool full = options_.max_data_file_bytes != 0 && offset != 0 && offset + size > options_.max_data_file_bytes;
  if (file_sizes_.empty() || full) {
    places_.files.push_back(places_.files.empty() ? data_file : fmt::format("{}.{}", data_file, places_.files.size()));
    placed_.emplace_back();
    file_sizes_.push_back(0);
    offset = 0;
  }
  const Place at{static_cast<uint32_t>(file_sizes_.size() - 1), offset};
  file_sizes_.back() = offset + size;
  placed_.back().push_back(&t);
  places_.of[&t] = at;
  if (bytes != nullptr) by_bytes_[bytes] = {size, at};
}

void OnnxWriter::place_graph(const Graph& g, const std::string& data_file) {
  for (const Value* v : g.constants()) {
    if (!record_.sparse.contains(v->constant().get())) place(*v->constant(), data_file);
  }
  for (const Port& port : g.inputs()) {
    if (port.default_value) place(*port.default_value, data_file);
  }
  for (const Node& n : g.nodes()) {
    if (n.extra() == nullptr) continue;
    if (n.extra()->payload && !n.extra()->payload->is_deferred()) place(*n.extra()->payload, data_file);
    for (const Body& body : n.bodies()) place_graph(*body.graph, data_file);
  }
}

void OnnxWriter::place_tensors(const std::string& data_file) {
  for (const auto& f : m_.functions()) place_graph(f->graph(), data_file);
  for (const KeptTensor& t : training_tensors_) place(*t.tensor, data_file);
}

// ---------------------------------------------------------------------------------------------------------------------
// Model and functions

void OnnxWriter::write_import(Field field, const OpsetImport& i) {
  const Message import(w_, field);
  w_.text(OperatorSetIdProto::kDomain, i.domain);  // the default domain has no name
  w_.int64(OperatorSetIdProto::kVersion, i.version);
}

void OnnxWriter::write_model() {
  w_.int64(ModelProto::kIrVersion, ir_version_);
  w_.text(ModelProto::kProducerName, m_.producer_name);
  w_.text(ModelProto::kProducerVersion, m_.producer_version);
  w_.text(ModelProto::kDomain, m_.domain);
  if (m_.model_version != 0) w_.int64(ModelProto::kModelVersion, m_.model_version);
  w_.text(ModelProto::kDocString, m_.doc);
  {
    const Message graph(w_, ModelProto::kGraph);
    write_graph(m_.graph());
  }
  for (const OpsetImport& i : m_.opset_imports) write_import(ModelProto::kOpsetImport, i);
  write_metadata(w_, ModelProto::kMetadataProps, m_.metadata);
  for (std::string_view t : record_.model.training_info) {
    const Message training(w_, ModelProto::kTrainingInfo);
    write_training_info(w_, t, training_tensors_, &places_);
  }
  for (const auto& f : m_.functions().subspan(1)) {
    const Message function(w_, ModelProto::kFunctions);
    write_function(*f);
  }
  w_.raw(record_.model.fields);
}

void OnnxWriter::write_function(const Function& f) {
  const Graph& g = f.graph();
  w_.text(FunctionProto::kName, f.name);
  for (size_t i = 0; i < g.inputs().size(); ++i) w_.name(FunctionProto::kInput, names_.input(g, i));
  for (size_t i = 0; i < g.outputs().size(); ++i) w_.name(FunctionProto::kOutput, names_.output(g, i));
  for (const std::string& a : f.attributes) w_.bytes(FunctionProto::kAttribute, a);
  write_constant_nodes(g);
  write_nodes(FunctionProto::kNode, g);
  write_identities(FunctionProto::kNode, g);
  w_.text(FunctionProto::kDocString, f.doc);
  // A function without opset imports uses the model's.
  for (const OpsetImport& i : f.opset_imports.empty() ? m_.opset_imports : f.opset_imports)
    write_import(FunctionProto::kOpsetImport, i);
  w_.text(FunctionProto::kDomain, f.domain);
  for (const NamedAttr& a : f.default_attributes) {
    const Message attribute(w_, FunctionProto::kAttributeProto);
    write_attribute(w_, a, nullptr, m_.dims(), nullptr);
  }
  write_value_infos(FunctionProto::kValueInfo, g);
  w_.text(FunctionProto::kOverload, f.overload);
  write_metadata(w_, FunctionProto::kMetadataProps, f.metadata);
  w_.raw(record_.of(g).holder_fields);
}

void OnnxWriter::write_constant_nodes(const Graph& g) {
  for (const Value* v : g.constants()) {
    const Message node(w_, FunctionProto::kNode);
    w_.name(NodeProto::kOutput, names_.of(*v));
    w_.bytes(NodeProto::kOpType, "Constant");
    const Message attribute(w_, NodeProto::kAttribute);
    write_attribute(w_, {"value", v->constant()}, nullptr, m_.dims(), &places_);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Graphs

void OnnxWriter::write_graph(const Graph& g) {
  write_nodes(GraphProto::kNode, g);
  write_identities(GraphProto::kNode, g);
  w_.text(GraphProto::kName, g.name().view());
  write_initializers(g);
  w_.text(GraphProto::kDocString, g.doc);
  write_inputs(g);
  for (size_t i = 0; i < g.outputs().size(); ++i) write_port(GraphProto::kOutput, g.outputs()[i], names_.output(g, i));
  write_value_infos(GraphProto::kValueInfo, g);
  for (std::string_view q : record_.of(g).quantization_annotations) w_.bytes(GraphProto::kQuantizationAnnotation, q);
  for (const Value* v : g.constants()) {
    if (record_.sparse.empty()) break;
    const auto at = record_.sparse.find(v->constant().get());
    if (at != record_.sparse.end()) w_.bytes(GraphProto::kSparseInitializer, at->second.wire);
  }
  write_metadata(w_, GraphProto::kMetadataProps, g.metadata);
  w_.raw(record_.of(g).fields);
}

// Constants in order; default values of inputs at their old position.
void OnnxWriter::write_initializers(const Graph& g) {
  std::vector<std::pair<uint32_t, const Port*>> defaults;
  for (const Port& port : g.inputs()) {
    if (port.default_value) defaults.emplace_back(record_.of(*port.value).place, &port);
  }
  std::ranges::sort(defaults);
  size_t written = 0;
  auto next_default = defaults.begin();
  const auto write = [&](const Tensor& t, Name n, std::string_view fields) {
    {
      const Message tensor(w_, GraphProto::kInitializer);
      write_tensor(w_, t, n.view(), fields, &places_);
    }
    pages_.written(t);
    ++written;
  };
  const auto write_defaults = [&](bool all) {
    for (; next_default != defaults.end() && (all || next_default->first <= written); ++next_default) {
      const Port& port = *next_default->second;
      write(*port.default_value, names_.of(*port.value), record_.of(*port.value).fields);
    }
  };
  for (const Value* v : g.constants()) {
    write_defaults(false);
    if (!record_.sparse.empty() && record_.sparse.contains(v->constant().get())) continue;
    write(*v->constant(), names_.of(*v), record_.of(*v).fields);
  }
  write_defaults(true);
}

void OnnxWriter::write_port(Field field, const Port& port, Name n) {
  const std::string_view recorded = record_.entry(port.entry, port.declared);
  if (!recorded.empty() && n == port.name && n.view() == wire_name(recorded)) {
    w_.bytes(field, recorded);
    return;
  }
  const Type* type = port.declared;
  if (type == nullptr) type = port.value != nullptr ? port.value->type() : port.use->value->type();
  const Message info(w_, field);
  write_value_info(w_, n.view(), type, port.doc, port.metadata, m_.dims());
}

void OnnxWriter::write_inputs(const Graph& g) {
  if (m_.ir_version >= 4) {
    for (size_t i = 0; i < g.inputs().size(); ++i) write_port(GraphProto::kInput, g.inputs()[i], names_.input(g, i));
    return;
  }
  // Before IR version 4, initializers are listed as inputs: at their old position, or at the end.
  std::unordered_map<const Value*, bool> listed;
  for (const Value* v : g.constants()) listed[v] = false;
  const auto& listed_inputs = record_.of(g).listed_inputs;
  auto next_listed = listed_inputs.begin();
  size_t written = 0;
  const auto write_listed = [&](bool all) {
    for (; next_listed != listed_inputs.end() && (all || next_listed->place <= written); ++next_listed) {
      const auto at = listed.find(next_listed->constant);
      if (at == listed.end()) continue;
      at->second = true;
      if (next_listed->place == UINT32_MAX) continue;
      const Value& v = *next_listed->constant;
      if (wire_name(next_listed->wire) == names_.of(v).view()) {
        w_.bytes(GraphProto::kInput, next_listed->wire);
      } else {
        const Message input(w_, GraphProto::kInput);
        write_value_info(w_, names_.of(v).view(), v.type(), {}, {}, m_.dims());
      }
      ++written;
    }
  };
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    write_listed(false);
    write_port(GraphProto::kInput, g.inputs()[i], names_.input(g, i));
    ++written;
  }
  write_listed(true);
  for (const Value* v : g.constants()) {
    if (listed[v]) continue;
    const Message input(w_, GraphProto::kInput);
    write_value_info(w_, names_.of(*v).view(), v->type(), {}, {}, m_.dims());
  }
}

void OnnxWriter::write_value_infos(Field field, const Graph& g) {
  // In file order, then the added ones.
  std::vector<std::pair<const Value*, const ValueInfo*>> entries;
  entries.reserve(g.value_info.size());
  for (const auto& [v, info] : g.value_info) {
    if (!names_.of(*v).empty()) entries.emplace_back(v, &info);
  }
  std::ranges::sort(entries, [this](const auto& a, const auto& b) {
    const auto key = [this](const auto& e) {
      const std::string_view recorded = record_.entry(e.second->entry).wire;
      return std::tuple(recorded.empty(), recorded.data(), e.first->id());
    };
    return key(a) < key(b);
  });
  for (const auto& [v, info] : entries) {
    const std::string_view n = names_.of(*v).view();
    const std::string_view recorded = record_.entry(info->entry, info->declared);
    if (!recorded.empty() && n == wire_name(recorded)) {
      w_.bytes(field, recorded);
      continue;
    }
    static const Notes kNone;
    const Notes& notes = info->notes != nullptr ? *info->notes : kNone;
    const Message message(w_, field);
    write_value_info(w_, n, info->declared, notes.doc, notes.metadata, m_.dims());
  }
  for (std::string_view w : record_.of(g).loose_value_info) w_.bytes(field, w);
  if (!options_.inferred_types) return;
  for (const Node& n : g.nodes()) {
    for (const Value& v : n.results()) {
      if (v.type() == nullptr || names_.of(v).empty() || g.value_info.contains(&v)) continue;
      const bool returned = std::ranges::any_of(v.uses(), [&](const Use& u) { return u.owner == &g.boundary(); });
      if (returned) continue;  // the signature has it
      const Message message(w_, field);
      write_value_info(w_, names_.of(v).view(), v.type(), {}, {}, m_.dims());
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Nodes

void OnnxWriter::write_nodes(Field field, const Graph& g) {
  for (const Node& n : g.nodes()) {
    const Message node(w_, field);
    write_node(n);
  }
}

void OnnxWriter::write_identities(Field field, const Graph& g) {
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    if (!names_.needs_identity(g, i)) continue;
    const Message node(w_, field);
    w_.name(NodeProto::kInput, names_.of(*g.output(i)));
    w_.name(NodeProto::kOutput, names_.output(g, i));
    w_.bytes(NodeProto::kOpType, "Identity");
  }
}

void OnnxWriter::write_node(const Node& n) {
  for (const Use& u : n.operands()) {
    if (u.value == nullptr) {
      w_.bytes(NodeProto::kInput, {});
    } else {
      w_.name(NodeProto::kInput, names_.of(*u.value));
    }
  }
  for (const Value& v : n.results()) w_.name(NodeProto::kOutput, names_.of(v));
  if (!n.name().empty()) w_.name(NodeProto::kName, n.name());
  w_.bytes(NodeProto::kOpType, n.op().name);
  const NodeExtra* extra = n.extra();
  if (extra != nullptr && extra->payload) {
    const Attrs* read = extra->payload_attrs;
    if (read != nullptr && !read->wire().empty() && places_.find(*extra->payload) == nullptr) {
      w_.raw(read->wire());
    } else {
      // value_int and similar attributes stay; everything else is written as a tensor.
      NamedAttr value{"value", extra->payload};
      if (read != nullptr && read->items().size() == 1) {
        const NamedAttr& original = read->items()[0];
        if (original.name.starts_with("value_")) {
          value = original;
        } else {
          value.doc = original.doc;
          value.tensor_fields = original.tensor_fields;
        }
      }
      const Message attribute(w_, NodeProto::kAttribute);
      write_attribute(w_, value, nullptr, m_.dims(), &places_);
    }
  }
  if (!n.attrs().wire().empty()) {
    w_.raw(n.attrs().wire());
  } else {
    for (const NamedAttr& a : n.attrs().items()) {
      const Message attribute(w_, NodeProto::kAttribute);
      write_attribute(w_, a, &n.op(), m_.dims(), &places_);
    }
  }
  if (extra == nullptr) {
    w_.text(NodeProto::kDomain, n.op().domain);
    write_provenance(n);
    if (!record_.nodes.empty()) w_.raw(record_.fields_of(n));
    return;
  }
  write_bodies(n);
  w_.text(NodeProto::kDocString, extra->doc);
  w_.text(NodeProto::kDomain, n.op().domain);
  w_.text(NodeProto::kOverload, extra->overload);
  write_metadata(w_, NodeProto::kMetadataProps, extra->metadata);
  write_provenance(n);
  w_.raw(record_.fields_of(n));
}

void OnnxWriter::write_bodies(const Node& n) {
  const std::span<const Body> bodies = n.bodies();
  for (size_t i = 0; i < bodies.size();) {
    const Body& first = bodies[i];
    const bool list = first.in_list;
    const Message attribute(w_, NodeProto::kAttribute);
    w_.name(AttributeProto::kName, first.name);
    do {
      const Message graph(w_, list ? AttributeProto::kGraphs : AttributeProto::kG);
      write_graph(*bodies[i].graph);
      ++i;
    } while (list && i < bodies.size() && bodies[i].in_list && bodies[i].name == first.name);
    w_.int64(AttributeProto::kType, list ? attribute_type::kGraphs : attribute_type::kGraph);
    w_.raw(record_.of(*first.graph).holder_fields);
  }
}

// Writes the node's source as metadata, except for keys that its own metadata has.
void OnnxWriter::write_provenance(const Node& n) {
  if (n.provenance() == 0 || options_.provenance == WriteOptions::Provenance::kOff) return;
  const auto entry = [](std::string& to, std::string_view key, std::string_view value) {
    std::string content;
    wire::append_bytes(content, StringStringEntryProto::kKey, key);
    wire::append_bytes(content, StringStringEntryProto::kValue, value);
    wire::append_bytes(to, NodeProto::kMetadataProps, content);
  };
  const auto encode = [&](const Metadata* own) {
    const Provenance& p = m_.provenance(n.provenance());
    // One property of all sources, without duplicates.
    const auto collect = [&](auto&& part) {
      std::vector<std::string> seen;
      for (const Source& s : p.sources) {
        std::string text = part(s);
        if (!text.empty() && std::ranges::find(seen, text) == seen.end()) seen.push_back(std::move(text));
      }
      return fmt::format("{}", fmt::join(seen, "; "));
    };
    std::string out;
    const auto add = [&](std::string_view key, const std::string& value) {
      const bool is_own = own != nullptr && std::ranges::any_of(*own, [&](const auto& e) { return e.first == key; });
      if (!value.empty() && !is_own) entry(out, key, value);
    };
    add("namespace", p.sources.empty() ? std::string() : p.sources.front().scope);
    add("pkg.sardonyx.callsite", collect([](const Source& s) {
          if (s.function.empty() && s.file.empty()) return std::string();
          return fmt::format("{}:{}", s.function.empty() ? s.file.substr(s.file.rfind('/') + 1) : s.function, s.line);
        }));
    add("pkg.sardonyx.source", collect([](const Source& s) {
          if (s.file.empty() || s.function.empty()) return std::string();  // else the callsite names the file
          return fmt::format("{}:{}", s.file.substr(s.file.rfind('/') + 1), s.line);
        }));
    add("pkg.sardonyx.rules", fmt::format("{}", fmt::join(p.rules, "; ")));
    add("pkg.sardonyx.plugin", collect([](const Source& s) { return s.lowering; }));
    if (options_.provenance == WriteOptions::Provenance::kFull) {
      // The program's frames, then all frames: those inside JAX start with a tab.
      add("pkg.sardonyx.stacktrace", collect([](const Source& s) {
            std::string frames;
            for (const auto line : std::views::split(s.stack, '\n')) {
              const std::string_view frame(line.begin(), line.end());
              if (!frame.starts_with('\t')) frames.append(frames.empty() ? "" : "\n").append(frame);
            }
            return frames;
          }));
      add("pkg.sardonyx.jax_traceback", collect([](const Source& s) {
            std::string all = s.stack;
            std::erase(all, '\t');
            return all;
          }));
    }
    return out;
  };
  if (n.extra() != nullptr && !n.extra()->metadata.empty()) {
    w_.raw(encode(&n.extra()->metadata));
    return;
  }
  auto [at, inserted] = provenance_.try_emplace(n.provenance());
  if (inserted) at->second = encode(nullptr);
  w_.raw(at->second);
}

// ---------------------------------------------------------------------------------------------------------------------
// Files

// A data file may replace one that its own model was read from, but not one of another model.
void check_target(const Model& m, const std::filesystem::path& path, const std::filesystem::path& data) {
  const auto old = replaced_at(data);
  const auto model_stamp = replaced_at(path);
  if (data.filename() == path.filename() || (old && model_stamp && old->same_file(*model_stamp))) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("the data file {} is the model file itself", data.string()));
  }
  if (!old) return;
  if (source_files(m).empty()) return;
  const bool same_model = model_stamp && model_stamp->same_file(source_files(m).front()->stamp());
  for (const auto& source : source_files(m)) {
    if (source->stamp().same_file(*old) && !same_model) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the data file {} belongs to the model that was read, and would be replaced", data.string()),
                  {"help: write the model under another name, or name another data file"});
    }
  }
}

[[noreturn]] void too_large(uint64_t size, std::string help) {
  throw Error(ErrorCode::kLimit, fmt::format("the model takes {} bytes, and protobuf can hold {}", size, kMaxMessage),
              {std::move(help)});
}

// If the answer is no, the writer is left measured.
bool needs_data_file(OnnxWriter& writer, const WriteOptions& options) {
  using External = WriteOptions::External;
  if (options.external == External::kAlways) return true;
  const uint64_t size = writer.measure();
  if (size <= kMaxMessage) return false;
  if (options.external == External::kNever) too_large(size, "help: allow external data");
  return true;
}

}  // namespace

bool onnx_file::writes_data_file(const Model& model, const WriteOptions& options) {
  OnnxWriter writer(model, options);
  return needs_data_file(writer, options);
}

uint64_t write_onnx(const Model& model, const std::filesystem::path& path, const WriteOptions& options) {
  SX_CHECK(model.dialect() == DialectId::kOnnx, "only a graph of the onnx dialect can be written as ONNX");
  OnnxWriter writer(model, options);
  const bool external = needs_data_file(writer, options);
  const std::filesystem::path folder = path.parent_path();
  if (external) {
    const std::string data_file = options.data_file.empty() ? path.filename().string() + ".data" : options.data_file;
    if (std::filesystem::path(data_file).has_parent_path()) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("the data file's name '{}' is a path", data_file),
                  {"help: data files lie beside the model file"});
    }
    writer.place_tensors(data_file);
    const uint64_t size = writer.measure();
    if (size > kMaxMessage) too_large(size, "help: lower the threshold for external data");
  }
  const Places& places = writer.places();
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (size_t i = 0; i < places.files.size(); ++i) {
    const auto target = folder / places.files[i];
    check_target(model, path, target);
    AtomicFile& file = *files.emplace_back(std::make_unique<AtomicFile>(target, AtomicFile::Options{.sync = options.sync}));
    wire::FileSink sink(file);
    Writer w;
    SourcePages pages(model);
    const auto write_all = [&] {
      uint64_t at = 0;
      static constexpr char kZeros[kPage] = {};
      for (const Tensor* t : writer.tensors_of(i)) {
        const uint64_t offset = places.find(*t)->offset;
        w.raw({kZeros, offset - at});
        write_bytes(w, *t);
        pages.written(*t);
        at = offset + t->byte_size();
      }
    };
    write_all();
    w.start(sink);
    write_all();
    w.finish();
  }
  if (!source_files(model).empty()) {
    const auto old = replaced_at(path);
    for (const auto& source : source_files(model).subspan(1)) {
      if (old && source->stamp().same_file(*old)) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("{} holds data of the model that was read, and would be replaced", path.string()));
      }
    }
  }
  AtomicFile file(path, AtomicFile::Options{.sync = options.sync});
  wire::FileSink sink(file);
  writer.write(sink);
  for (const auto& source : source_files(model)) source->check_unchanged();
  uint64_t bytes = file.size();
  for (auto& data : files) {
    bytes += data->size();
    data->commit();
  }
  file.commit();
  return bytes;
}

namespace {

uint64_t message_size(OnnxWriter& writer) {
  const uint64_t size = writer.measure();
  if (size > kMaxMessage) too_large(size, "help: write a file, with external data (return_mode=\"file\" in Python)");
  return size;
}

std::string message_of(const Model& model, OnnxWriter& writer, uint64_t size) {
  std::string out;
  out.reserve(size);
  wire::StringSink sink(out);
  writer.write(sink);
  for (const auto& source : source_files(model)) source->check_unchanged();
  return out;
}

}  // namespace

std::string serialize_onnx(const Model& model, const WriteOptions& options) {
  OnnxWriter writer(model, options);
  const uint64_t size = message_size(writer);
  return message_of(model, writer, size);
}

Apart serialize_apart(const Model& model, uint64_t threshold, const WriteOptions& options) {
  WriteOptions own = options;
  own.external_threshold = threshold;
  own.max_data_file_bytes = 0;
  OnnxWriter writer(model, own);
  Apart apart;
  apart.bytes = message_size(writer);
  writer.place_tensors("apart");
  const Places& places = writer.places();
  if (!places.files.empty()) {
    for (const Tensor* t : writer.tensors_of(0)) apart.tensors[places.find(*t)->offset] = t;
  }
  apart.message = message_of(model, writer, writer.measure());
  return apart;
}

std::string serialize_tensor(const Tensor& tensor, std::string_view name) {
  std::string out;
  wire::StringSink sink(out);
  Writer w;
  write_tensor(w, tensor, name, {}, nullptr);
  w.start(sink);
  write_tensor(w, tensor, name, {}, nullptr);
  w.finish();
  return out;
}

}  // namespace sardonyx
