// Reads a Core ML model into a Model of the mil dialect.
//
// One pass over the Program message. Names resolve as in coremltools: each use refers to the latest
// definition, and a block's definitions end with the block.
#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "dialects/mil/ops.h"
#include "io/coreml/fields_coreml.h"
#include "io/coreml/mil_parts.h"
#include "io/coreml/mil_scope.h"
#include "io/foreign_files.h"
#include "io/text/program_file.h"
#include "ir/graph/file_record.h"
#include "sardonyx/io.h"
#include "support/files/mapped_file.h"

namespace sardonyx {
namespace {

using namespace mil_file;
using wire::kBytes;
using wire::MapEntry;
using wire::number_of;
using wire::Reader;

[[noreturn]] void invalid(std::string message, std::vector<std::string> notes = {}) {
  throw Error(ErrorCode::kInvalidModel, std::move(message), std::move(notes));
}

[[noreturn]] void newer(const Reader& r, std::string_view message) {
  throw Error(ErrorCode::kUnsupported, fmt::format("field {} of a {} message is not known", r.number(), message),
              {fmt::format("at byte {}", r.start() - r.origin()), "the file may come from a newer version of Core ML"});
}

struct Entry {
  Name key;
  std::string_view value;
};

Entry read_entry(std::string_view wire, const char* origin) {
  Entry e;
  for (Reader r(wire, origin); r.next();) {
    if (r.field() == MapEntry::kKey) {
      e.key = r.name();
    } else if (r.field() == MapEntry::kValue) {
      e.value = r.bytes();
    } else {
      newer(r, "map entry");
    }
  }
  return e;
}

// The fields of an Operation that are needed together; they may come in any order.
struct OpRead {
  std::string_view type;
  std::vector<Entry> inputs;
  std::vector<std::string_view> outputs, blocks;
  std::vector<std::pair<Entry, std::string_view>> attributes;  // with the tag and length
  std::string unknown;

  void clear() {
    type = {};
    inputs.clear();
    outputs.clear();
    blocks.clear();
    attributes.clear();
    unknown.clear();
  }
};

class MilReader {
 public:
  MilReader(Model& m, FileSource source, ExternalFiles& weights, const ReadOptions& options)
      : m_(m),
        record_(m.edit_file_record()),
        source_(std::move(source)),
        weights_(weights),
        types_(m.types(), source_.origin),
        options_(options) {
    source_.spelled_out = &record_.model.spelled_out;
    source_.wide_blobs = *m_.specification_version >= 9;
  }

  void program(std::string_view wire, std::string_view default_function) {
    std::vector<Entry> functions;
    for (Reader r(wire, source_.origin); r.next();) {
      switch (r.field()) {
        case milspec::Program::kVersion: record_.model.program_version = r.int64(); break;
        case milspec::Program::kFunctions: functions.push_back(read_entry(r.bytes(), source_.origin)); break;
        default: record_.model.program_fields += r.skip();
      }
    }
    if (functions.empty()) invalid("the program has no function");
    // The main function comes first, the others by name, because map entries in the file have no order.
    if (default_function.empty()) default_function = "main";
    std::ranges::stable_sort(functions, [&](const Entry& a, const Entry& b) {
      return std::pair(a.key.view() != default_function, a.key.view()) <
             std::pair(b.key.view() != default_function, b.key.view());
    });
    for (size_t i = 1; i < functions.size(); ++i) {
      if (functions[i].key == functions[i - 1].key)
        invalid(fmt::format("function '{}' is defined twice", functions[i].key.view()));
    }
    for (const Entry& f : functions) {
      try {
        function(f);
      } catch (const Error& e) {
        throw e.with_note(fmt::format("in function '{}'", f.key.view()));
      }
    }
  }

 private:
  void function(const Entry& entry) {
    Function& f = m_.add_function(entry.key.view());
    std::vector<std::pair<Entry, std::string_view>> blocks;
    for (Reader r(entry.value, source_.origin); r.next();) {
      switch (r.field()) {
        case milspec::Function::kInputs: {
          const auto [name, type] = named_type(r.bytes(), /*symbols=*/true);
          if (name.empty()) invalid("an input has no name");
          Value* v = f.graph().add_input(name, type.type);
          v->set_name(name);
          f.graph().input_port(f.graph().inputs().size() - 1).name = name;
          v->set_type(type.type);
          if (type.lossy) keep_type(f.graph(), *v);
          names_.define(name.view(), v);
          break;
        }
        case milspec::Function::kOpset: f.mil_opset = r.bytes(); break;
        case milspec::Function::kBlockSpecializations: {
          const Entry block = read_entry(r.bytes(), source_.origin);
          blocks.emplace_back(block, std::string_view(r.start(), static_cast<size_t>(r.at() - r.start())));
          break;
        }
        default: record_.graphs[&f.graph()].holder_fields += r.skip();
      }
    }
    size_t chosen = blocks.size();
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].first.key.view() == f.mil_opset) chosen = i;
    }
    if (chosen == blocks.size()) invalid(fmt::format("there is no block for its op set '{}'", f.mil_opset));
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (i != chosen) record_.graphs[&f.graph()].holder_fields += blocks[i].second;
    }
    version_ = mil::opset_version(f.mil_opset);
    if (version_ == 0) version_ = mil::kNewestVersion;
    if (m_.opset_imports.empty()) m_.set_opset_version("", version_);
    block(f.graph(), blocks[chosen].first.value, 0);
    names_.clear();
  }

  std::pair<Name, TypeReader::Result> named_type(std::string_view wire, bool symbols = false) {
    Name name;
    TypeReader::Result type;
    for (Reader r(wire, source_.origin); r.next();) {
      if (r.field() == milspec::NamedValueType::kName) {
        name = r.name();
      } else if (r.field() == milspec::NamedValueType::kType) {
        last_type_ = r.bytes();
        type = types_.read(last_type_, symbols);
      } else {
        newer(r, "NamedValueType");
      }
    }
    return {name, type};
  }

  // Keeps the original bytes of a type that Type cannot represent fully.
  void keep_type(Graph& g, const Value& v) { g.value_info[&v].entry = record_.add_entry(last_type_, v.type()); }

  void block(Graph& g, std::string_view wire, int depth) {
    if (depth > options_.max_depth)
      throw Error(ErrorCode::kLimit, fmt::format("blocks nest more than {} levels", options_.max_depth));
    const size_t outer = names_.mark();
    std::vector<Name> outputs;
    for (Reader r(wire, source_.origin); r.next();) {
      switch (r.field()) {
        case milspec::Block::kInputs: {
          const auto [name, type] = named_type(r.bytes());
          Value* v = g.add_input(name, type.type);
          v->set_name(name);
          g.input_port(g.inputs().size() - 1).name = name;
          v->set_type(type.type);
          if (type.lossy) keep_type(g, *v);
          names_.define(name.view(), v);
          break;
        }
        case milspec::Block::kOutputs: outputs.push_back(r.name()); break;
        case milspec::Block::kOperations: operation(g, r.bytes(), depth); break;
        default: record_.graphs[&g].fields += r.skip();
      }
    }
    for (Name name : outputs) {
      g.add_output(find(name, "a block's result"), {});
      g.output_port(g.outputs().size() - 1).name = name;
    }
    names_.back_to(outer);
  }

  Value& find(std::string_view name, std::string_view reader) const {
    Value* v = names_.find(name);
    if (v == nullptr) invalid(fmt::format("{} is '{}', which is not defined before it", reader, name));
    return *v;
  }

  // Operands come from the op's arguments or, for old constexpr ops, from its attributes.
  struct Argument {
    std::string_view name;
    std::vector<Value*> values;
  };

  Value* literal(Graph& g, std::string_view wire) {
    const ValueRead read = read_value(wire, source_, weights_, types_);
    if (read.tensor == nullptr || read.extra) invalid("a constant operand is neither a tensor nor a list of scalars");
    Value* v = g.add_constant(read.tensor);
    v->set_type(read.type);
    record_.literals.insert(v);
    return v;
  }

  Argument argument(Graph& g, const Entry& entry) {
    Argument a{entry.key.view(), {}};
    for (Reader r(entry.value, source_.origin); r.next();) {
      if (r.field() != milspec::Argument::kArguments) newer(r, "Argument");
      bool given = false;
      for (Reader b(r.bytes(), source_.origin); b.next(); given = true) {
        if (b.field() == milspec::Argument::Binding::kName) {
          a.values.push_back(&find(b.bytes(), fmt::format("operand '{}'", a.name)));
        } else if (b.field() == milspec::Argument::Binding::kValue) {
          a.values.push_back(literal(g, b.bytes()));
        } else {
          newer(b, "Binding");
        }
      }
      if (!given) invalid(fmt::format("operand '{}' is bound to nothing", a.name));
    }
    return a;
  }

  void operation(Graph& g, std::string_view wire, int depth) {
    // Blocks are read recursively, so each level needs its own OpRead.
    while (ops_.size() <= static_cast<size_t>(depth)) ops_.emplace_back();
    OpRead& op = ops_[static_cast<size_t>(depth)];
    op.clear();
    for (Reader r(wire, source_.origin); r.next();) {
      switch (r.field()) {
        case milspec::Operation::kType: op.type = r.bytes(); break;
        case milspec::Operation::kInputs: op.inputs.push_back(read_entry(r.bytes(), source_.origin)); break;
        case milspec::Operation::kOutputs: op.outputs.push_back(r.bytes()); break;
        case milspec::Operation::kBlocks: op.blocks.push_back(r.bytes()); break;
        case milspec::Operation::kAttributes: {
          const Entry e = read_entry(r.bytes(), source_.origin);
          op.attributes.emplace_back(e, std::string_view(r.start(), static_cast<size_t>(r.at() - r.start())));
          break;
        }
        default: op.unknown += r.skip();
      }
    }
    Name name;
    for (const auto& [entry, field] : op.attributes) {
      if (entry.key.view() == "name") name = op_name(entry.value);
    }
    try {
      make(g, op, name, depth);
    } catch (const Error& e) {
      throw e.with_note(fmt::format("at op {} '{}'", op.type, name.view()));
    }
  }

  // The string in a Value, referring to the file.
  Name op_name(std::string_view wire) const {
    Name name;
    for (Reader v(wire, source_.origin); v.next();) {
      if (v.field() != milspec::Value::kImmediateValue) {
        v.skip();
        continue;
      }
      for (Reader i(v.bytes(), source_.origin); i.next();) {
        if (i.field() != milspec::Value::ImmediateValue::kTensor) invalid("the name of an op is not a string");
        for (Reader t(i.bytes(), source_.origin); t.next();) {
          if (t.field() != milspec::TensorValue::kStrings) invalid("the name of an op is not a string");
          for (Reader s(t.bytes(), source_.origin); s.next();) {
            if (s.field() != milspec::TensorValue::RepeatedStrings::kValues) invalid("the name of an op is not a string");
            name = s.name();
          }
        }
      }
    }
    return name;
  }

  void make(Graph& g, OpRead& op, Name name, int depth) {
    if (op.type.empty()) invalid("an op has no type");
    const Op* known = dialect(DialectId::kMil).find("", op.type, version_);
    const bool is_const = known != nullptr && known->has(Trait::kConstant);

    std::vector<Argument> arguments;
    for (const Entry& e : op.inputs) {
      const Argument& a = arguments.emplace_back(argument(g, e));
      if (known == nullptr || !a.values.empty()) continue;
      const auto slot = std::ranges::find(known->inputs, a.name, &Slot::name);
      if (slot != known->inputs.end() && slot->arity != Arity::kVariadic)
        invalid(fmt::format("operand '{}' has no value", a.name));
    }
    AttrInit attrs;
    std::string attr_wire;
    std::optional<ValueRead> payload;
    for (const auto& [entry, field] : op.attributes) {
      const std::string_view key = entry.key.view();
      if (key == "name") continue;
      const bool slot = known != nullptr && std::ranges::any_of(known->inputs, [&](const Slot& s) { return s.name == key; });
      if (slot) {
        arguments.push_back({key, {literal(g, entry.value)}});
        continue;
      }
      ValueRead read = read_value(entry.value, source_, weights_, types_);
      if (is_const && key == "val" && read.tensor != nullptr && !read.extra) {
        payload = std::move(read);
        continue;
      }
      attrs.push_back(attr(key, attribute(read, entry.value)));
      attr_wire += field;
    }

    const Op* what = known;
    std::vector<Value*> operands;
    if (what == nullptr || !place(*what, arguments, operands)) what = &opaque(op.type, arguments, operands);

    const Attrs* set = m_.empty_attrs();
    if (!attrs.empty()) {
      source_.joined->push_back(std::move(attr_wire));
      set = m_.attrs_from_wire(source_.joined->back(), [&] { return std::move(attrs); });
    }
    Node& n = m_.new_node(*what, operands, op.outputs.size(), set);
    n.set_name(name.data() != nullptr ? name : nameless());
    if (!op.unknown.empty()) record_.nodes[&n] = std::move(op.unknown);

    if (!op.blocks.empty()) {
      const std::vector<std::string_view> blocks = std::move(op.blocks);
      std::vector<std::string_view> outputs = std::move(op.outputs);
      for (size_t i = 0; i < blocks.size(); ++i) {
        Graph& body = m_.new_graph();
        n.add_body(body_name(n.op(), i), body);
        // A body uses outer values and belongs to a node of this graph: insert the node first, define its
        // results later.
        if (i == 0) g.append(n);
        block(body, blocks[i], depth + 1);
      }
      op.outputs = std::move(outputs);
    } else {
      g.append(n);
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const auto [result, type] = named_type(op.outputs[i]);
      Value& v = *n.result(i);
      v.set_name(result);
      v.set_type(type.type);
      if (type.lossy) keep_type(g, v);
      names_.define(result.view(), &v);
    }
    if (payload) {
      if (op.outputs.size() != 1) invalid("a const has one result");
      if (!n.has(Trait::kConstant)) invalid("a const has a value, and neither inputs nor blocks");
      const Type* declared = n.result()->type();
      const bool same = declared == payload->type || declared == nullptr;
      if (!same && declared->is_tensor() && declared->dtype() != payload->tensor->dtype())
        invalid(fmt::format("a constant of {} is declared as {}", m_.types().to_string(payload->type),
                            m_.types().to_string(declared)));
      g.set_constant(*n.result(), payload->tensor);
      n.result()->set_type(declared);
      n.set_unchecked(false);
    }
  }

  // A non-null empty name: the op was read without a name and is written without one.
  static Name nameless() {
    static constexpr uint8_t kZero = 0;
    return Name(&kZero);
  }

  static std::string_view body_name(const Op& op, size_t i) {
    if (op.known && mil::is(op, mil::kFamily_cond) && i < 2) return i == 0 ? "true_fn" : "false_fn";
    if (op.known && mil::is(op, mil::kFamily_while_loop) && i < 2) return i == 0 ? "cond" : "body";
    return "block";
  }

  // Puts operands into the order of the op's slots; false if it lacks one of the slots.
  static bool place(const Op& op, const std::vector<Argument>& arguments, std::vector<Value*>& operands) {
    std::vector<const Argument*> by_slot(op.inputs.size());
    for (const Argument& a : arguments) {
      size_t i = 0;
      while (i < op.inputs.size() && op.inputs[i].name != a.name) ++i;
      if (i == op.inputs.size() || by_slot[i] != nullptr) return false;
      if (op.inputs[i].arity != Arity::kVariadic && a.values.size() != 1) return false;
      by_slot[i] = &a;
    }
    size_t length = SIZE_MAX;
    for (size_t i = 0; i < by_slot.size(); ++i) {
      if (op.inputs[i].arity != Arity::kVariadic) {
        operands.push_back(by_slot[i] != nullptr ? by_slot[i]->values[0] : nullptr);
        continue;
      }
      const size_t count = by_slot[i] != nullptr ? by_slot[i]->values.size() : 0;
      if (length != SIZE_MAX && length != count) return false;
      length = count;
      if (count != 0) operands.insert(operands.end(), by_slot[i]->values.begin(), by_slot[i]->values.end());
    }
    if (op.max_inputs >= 0) {
      while (!operands.empty() && operands.back() == nullptr) operands.pop_back();
    }
    return true;
  }

  const Op& opaque(std::string_view type, std::vector<Argument>& arguments, std::vector<Value*>& operands) {
    operands.clear();
    // Map entries have no order: sort by name, so that equal ops compare equal.
    std::ranges::stable_sort(arguments, {}, &Argument::name);
    std::vector<std::string_view> names;
    for (const Argument& a : arguments) {
      for (Value* v : a.values) {
        names.push_back(a.name);
        operands.push_back(v);
      }
    }
    return m_.opaque_op(type, version_, names);
  }

  Attr attribute(const ValueRead& read, std::string_view wire) const {
    const TensorPtr& t = read.tensor;
    if (t == nullptr || read.extra) return OpaqueAttr{"bytes:" + hex(wire)};
    if (t->dtype() == DType::kString && t->rank() == 0) return Attr(t->string_values()[0]);
    if (t->dtype() == DType::kString && t->rank() == 1)
      return Attr::Strings(t->string_values().begin(), t->string_values().end());
    if (t->rank() == 0 && t->dtype() == DType::kBool) return Attr(t->as_int(0) != 0);
    return t;
  }

  static std::string hex(std::string_view bytes) {
    std::string out;
    for (char c : bytes) out += fmt::format("{:02x}", static_cast<uint8_t>(c));
    return out;
  }

  Model& m_;
  FileRecord& record_;
  FileSource source_;
  ExternalFiles& weights_;
  TypeReader types_;
  const ReadOptions& options_;
  std::string_view last_type_;
  int version_ = 0;
  LatestNames<Value> names_;
  std::deque<OpRead> ops_;  // one per block level
};

// Model types that are not programs, by the field that holds them.
std::string_view kind_of(wire::Field field) {
  switch (field) {
    case spec::Model::kPipelineClassifier:
    case spec::Model::kPipelineRegressor:
    case spec::Model::kPipeline: return "a pipeline";
    case spec::Model::kNeuralNetworkRegressor:
    case spec::Model::kNeuralNetworkClassifier:
    case spec::Model::kNeuralNetwork: return "a neural network";
    case spec::Model::kTreeEnsembleRegressor:
    case spec::Model::kTreeEnsembleClassifier: return "a tree ensemble";
    default: return "a model of another kind";
  }
}

std::string_view default_function_of(std::string_view description, const char* origin) {
  std::string_view name;
  for (Reader r(description, origin); r.next();) {
    if (r.field() == spec::ModelDescription::kDefaultFunctionName) {
      name = r.bytes();
    } else {
      r.skip();
    }
  }
  return name;
}

struct Origin {
  std::string_view bytes;
  std::shared_ptr<const void> keepalive;
  std::shared_ptr<const MappedFile> file;  // null for models in memory
};

std::unique_ptr<Model> read(const Origin& from, ExternalFiles weights, const ReadOptions& options, bool program_only,
                            int64_t specification_version) {
  auto m = std::make_unique<Model>(DialectId::kMil);
  auto joined = std::make_shared<std::deque<std::string>>();
  m->keep_alive(from.keepalive);
  m->keep_alive(joined);
  const char* origin = from.bytes.data();
  FileSource source{origin, from.keepalive, from.file.get(), joined.get(), nullptr, false};
  std::string_view program = from.bytes;
  m->specification_version = specification_version;
  FileRecord::OfModel& record = m->edit_file_record().model;
  if (!program_only) {
    bool found = false;
    std::optional<wire::Field> other;
    for (Reader r(from.bytes, origin); r.next();) {
      switch (r.field()) {
        case spec::Model::kSpecificationVersion: m->specification_version = r.int64(); break;
        case spec::Model::kDescription: {
          const std::string_view part = r.bytes();
          if (record.description.empty()) {
            record.description = part;
          } else {  // one message split into pieces
            joined->push_back(std::string(record.description) + std::string(part));
            record.description = joined->back();
          }
          break;
        }
        case spec::Model::kMlProgram:
          program = r.bytes();
          found = true;
          break;
        default:
          if (r.number() >= number_of(spec::Model::kPipelineClassifier) && r.type() == kBytes) other = r.field();
          record.fields += r.skip();
      }
    }
    if (!found) {
      if (!other) invalid("this is not a Core ML model: it has no program");
      throw Error(ErrorCode::kUnsupported, fmt::format("this Core ML model is {}, not an ML program", kind_of(*other)),
                  {"help: convert it with coremltools for iOS 15 or later, which makes an ML program"});
    }
  }
  MilReader reader(*m, source, weights, options);
  reader.program(program, default_function_of(record.description, origin));
  if (from.file != nullptr) record.sources.push_back(from.file);
  for (auto& file : weights.opened()) record.sources.push_back(std::move(file));
  return m;
}

}  // namespace

std::unique_ptr<Model> read_coreml(const std::filesystem::path& path, const ReadOptions& options) {
  const auto access = options.map ? MappedFile::Access::kMap : MappedFile::Access::kRead;
  try {
    std::filesystem::path model = path;
    std::optional<Package> package;
    std::error_code none;
    if (std::filesystem::is_directory(path, none)) {
      package = open_package(path);
      model = package->model;
    }
    const auto file = MappedFile::open(model, access);
    const std::string_view bytes(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
    const auto folder = model.has_parent_path() ? model.parent_path() : std::filesystem::path(".");
    auto m = [&] {
      try {
        return read({bytes, file, file}, ExternalFiles(model, folder, access), options, false, 0);
      } catch (const Error& e) {
        throw explained(e, file->bytes(), "a Core ML model");
      }
    }();
    if (package) {
      FileRecord::OfModel& record = m->edit_file_record().model;
      record.manifest = package->manifest;
      record.package = package->folder.string();
      record.model_path = package->model_path;
    }
    return m;
  } catch (const Error& e) {
    throw e.with_note(fmt::format("in file {}", path.string()));
  }
}

std::unique_ptr<Model> read_model(const std::filesystem::path& path, const ReadOptions& options) {
  std::error_code none;
  const auto ending = (path.filename().empty() ? path.parent_path() : path).extension();
  if (ending == ".sx") return load_program(path, options.map);
  const bool coreml = ending == ".mlmodel" || ending == ".mlpackage" || std::filesystem::is_directory(path, none);
  return coreml ? read_coreml(path, options) : read_onnx(path, options);
}

std::unique_ptr<Model> read_coreml_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive,
                                         const std::filesystem::path& weights, const ReadOptions& options) {
  const std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto access = options.map ? MappedFile::Access::kMap : MappedFile::Access::kRead;
  return read({view, std::move(keepalive), nullptr}, ExternalFiles({}, weights, access), options, false, 0);
}

std::unique_ptr<Model> read_mil_program(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive,
                                        int64_t specification_version, const std::filesystem::path& weights,
                                        const ReadOptions& options) {
  const std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto access = options.map ? MappedFile::Access::kMap : MappedFile::Access::kRead;
  return read({view, std::move(keepalive), nullptr}, ExternalFiles({}, weights, access), options, true, specification_version);
}

}  // namespace sardonyx
