// Writes a Model of the mil dialect as a Core ML model, streaming it.
//
// Three steps: choose names; place weights in blob files; then run the same code twice, to measure messages
// and to write them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "dialects/mil/ops.h"
#include "io/coreml/fields_coreml.h"
#include "io/coreml/mil_names.h"
#include "io/coreml/mil_parts.h"
#include "io/onnx/same_tensors.h"
#include "io/onnx/write_parts.h"
#include "io/sinks.h"
#include "io/wire_writer.h"
#include "ir/graph/file_record.h"
#include "support/files/atomic_file.h"
#include "support/files/copy_range.h"
#include "support/files/inside.h"
#include "support/files/mapped_file.h"

namespace sardonyx {
namespace {

using namespace mil_file;
using milspec::Operation;
using milspec::TensorValue;
using wire::Field;
using wire::MapEntry;
using wire::Message;
using wire::Writer;

constexpr uint64_t kMaxMessage = (uint64_t{1} << 31) - 1;  // protobuf's limit

[[noreturn]] void invalid(std::string message, std::vector<std::string> notes = {}) {
  throw Error(ErrorCode::kInvalidModel, std::move(message), std::move(notes));
}

uint64_t aligned(uint64_t at) { return (at + kBlobAlignment - 1) / kBlobAlignment * kBlobAlignment; }

struct BlobFile {
  std::string name;  // as in the program: "@model_path/weights/weight.bin"
  std::vector<const Tensor*> tensors;
  uint64_t size = kBlobAlignment;
};

struct BlobPlace {
  std::string_view file;
  uint64_t offset = 0;
};

class MilWriter {
 public:
  explicit MilWriter(const Model& m) : m_(m), record_(m.file_record()), names_(m) {
    wide_ = version() >= 9;
    name_weight_files();
    place_all();
  }

  uint64_t measure(bool program_only) {
    w_.reset();
    program_only ? program() : model();
    return w_.size();
  }
  void write(wire::Sink& sink, bool program_only) {
    w_.start(sink);
    program_only ? program() : model();
    w_.finish();
  }
  const std::vector<BlobFile>& blobs() const { return blobs_; }

 private:
  int64_t version() const {
    if (const int64_t version = m_.specification_version.value_or(0); version != 0) return version;
    return m_.opset_version("").value_or(mil::kNewestVersion);
  }

  // --- placing weights

  template <class Visit>
  void each_constant(const Graph& g, Visit&& visit) const {
    for (const Value* v : g.constants()) {
      if (v->has_uses()) visit(*v->constant(), v->type());
    }
    for (const Node& n : g.nodes()) {
      if (n.extra() == nullptr) continue;
      if (n.extra()->payload) visit(*n.extra()->payload, n.result()->type());
      for (const Body& b : n.bodies()) each_constant(*b.graph, visit);
    }
  }

  // Records the file names used by the program, which may be links to elsewhere.
  void name_weight_files() {
    if (record_.model.sources.size() < 2) return;
    std::filesystem::path folder = record_.model.sources[0]->path().parent_path();
    if (folder.empty()) folder = ".";
    for (size_t i = 1; i < record_.model.sources.size(); ++i) {
      const MappedFile& file = *record_.model.sources[i];
      const auto range = file.range_of(file.bytes().subspan(0, 0));
      if (range)
        weight_files_.try_emplace(range->fd, std::string(kModelPath) + file.path().lexically_relative(folder).generic_string());
    }
  }

  // The program's name for the file that t was read from; empty if t is not from a weights file.
  std::string_view weight_file_of(const Tensor& t) const {
    if (!t.file()) return {};
    const auto at = weight_files_.find(t.file()->fd);
    return at == weight_files_.end() ? std::string_view() : at->second;
  }

  struct Wanted {
    std::string_view file;
    uint64_t old;  // the old offset
    const Tensor* tensor;
  };

  // In one function, passes have merged equal weights. What is computed as a whole would be computed twice.
  bool may_be_same(const Tensor& t) const { return m_.functions().size() > 1 || !t.is_deferred() || t.reads_in_pieces(); }

  // Stores equal weights of one file once: functions that share weights may have folded the same constant
  // separately. If all weights are merely copied, they stay in place, duplicates included: then none has to
  // be read, and the file is copied in few pieces.
  void tie_same(const std::vector<Wanted>& wanted) {
    for (size_t begin = 0, end = 0; begin < wanted.size(); begin = end) {
      std::vector<const Tensor*> tensors;
      for (; end < wanted.size() && wanted[end].file == wanted[begin].file; ++end) {
        if (may_be_same(*wanted[end].tensor)) tensors.push_back(wanted[end].tensor);
      }
      if (wanted[end - 1].old != UINT64_MAX) continue;  // new weights come last
      for (const auto& [later, first] : find_same(tensors, record_.model.sources)) {
        place_of_.erase(later);
        tied_[later] = first;
      }
    }
  }

  void place_all() {
    std::vector<Wanted> wanted;
    std::unordered_map<const std::byte*, const Tensor*> by_bytes;  // shared weights stay shared
    for (const auto& f : m_.functions()) {
      each_constant(f->graph(), [&](const Tensor& t, const Type* type) {
        if (place_of_.contains(&t) || (type != nullptr && !type->is_tensor())) return;
        std::string_view file = weight_file_of(t);
        if (file.empty()) {
          if (!belongs_in_blob(t, wide_) || record_.model.spelled_out.contains(&t)) return;
          file = kWeightFile;
        }
        const std::byte* bytes = t.is_splat() || t.is_deferred() ? nullptr : t.stored_bytes().data();
        if (bytes != nullptr) {
          const auto [at, first] = by_bytes.try_emplace(bytes, &t);
          if (!first && at->second->byte_size() == t.byte_size() && at->second->dtype() == t.dtype()) {
            tied_[&t] = at->second;
            return;
          }
        }
        place_of_[&t] = {};
        wanted.push_back({file, t.file() ? t.file()->offset : UINT64_MAX, &t});
      });
    }
    // Weights that were read come first, in their old order; then the others in program order.
    std::ranges::stable_sort(
        wanted, [](const Wanted& a, const Wanted& b) { return std::tie(a.file, a.old) < std::tie(b.file, b.old); });
    tie_same(wanted);
    for (const Wanted& one : wanted) {
      if (place_of_.find(one.tensor) == place_of_.end()) continue;
      if (blobs_.empty() || blobs_.back().name != one.file) blobs_.push_back({std::string(one.file), {}, kBlobAlignment});
      BlobFile& file = blobs_.back();
      const uint64_t offset = aligned(file.size);
      file.tensors.push_back(one.tensor);
      file.size = offset + kBlobAlignment + one.tensor->byte_size();
      place_of_[one.tensor].offset = offset;
    }
    for (const BlobFile& file : blobs_) {
      for (const Tensor* t : file.tensors) place_of_[t].file = file.name;
    }
  }

  const BlobPlace* find_place(const Tensor& t) const {
    const Tensor* first = &t;
    for (auto tied = tied_.find(first); tied != tied_.end(); tied = tied_.find(first)) first = tied->second;
    const auto at = place_of_.find(first);
    return at == place_of_.end() ? nullptr : &at->second;
  }

  // --- types and values

  const std::string& type_wire(const Type* t) {
    auto [at, fresh] = types_.try_emplace(t);
    if (fresh) at->second = encode_type(t, m_.types());
    return at->second;
  }

  // The type of a constant. Most are scalars: the name of each op is a string.
  const std::string& constant_type(const Tensor& t) {
    if (t.rank() != 0) return constant_type_ = encode_tensor_type(t.dtype(), t.shape());
    std::string& known = scalar_types_[t.dtype()];
    if (known.empty()) known = encode_tensor_type(t.dtype(), {});
    return known;
  }

  void value_type(Field field, const Value& v, const Graph* g) {
    if (g != nullptr && !g->value_info.empty()) {
      const auto info = g->value_info.find(&v);
      const std::string_view recorded =
          info != g->value_info.end() ? record_.entry(info->second.entry, v.type()) : std::string_view();
      if (!recorded.empty()) return w_.bytes(field, recorded);
    }
    if (v.type() == nullptr)
      invalid(fmt::format("'{}' has no type, but a program declares the type of every value", names_.of(v)));
    w_.bytes(field, type_wire(v.type()));
  }

  void named_type(Field field, std::string_view name, const Value& v, const Graph* g) {
    const Message named(w_, field);
    w_.bytes(milspec::NamedValueType::kName, name);
    value_type(milspec::NamedValueType::kType, v, g);
  }

  static uint64_t wide(int64_t v) { return static_cast<uint64_t>(v); }

  // `field` is that of the message in TensorValue, `values` that of the numbers in that message.
  void packed_values(Field field, Field values, const Tensor& t) {
    std::vector<std::byte> scratch;
    const auto bytes = t.bytes(scratch);
    const TensorPtr dense = Tensor::borrow(t.dtype(), {t.shape().begin(), t.shape().end()}, bytes, nullptr);
    const auto element = [&](int64_t i) {
      // u32 has no field of its own: its bits are stored as i32, sign-extended as protobuf does.
      const int64_t v = dense->as_int(i);
      return t.dtype() == DType::kU32 ? wide(static_cast<int32_t>(static_cast<uint32_t>(v))) : wide(v);
    };
    uint64_t size = 0;
    for (int64_t i = 0; i < t.size(); ++i) size += wire::varint_size(element(i));
    const Message message(w_, field);
    if (t.size() == 0) return;
    w_.head(values, size);
    std::string out;
    for (int64_t i = 0; i < t.size(); ++i) wire::append_varint(out, element(i));
    w_.raw(out);
  }

  void plain_values(Field field, Field values, const Tensor& t) {
    const Message message(w_, field);
    if (t.size() == 0) return;
    w_.head(values, t.byte_size());
    onnx_file::write_bytes(w_, t);
  }

  // Writes the content of a TensorValue.
  void tensor_value(const Tensor& t) {
    switch (t.dtype()) {
      case DType::kF32: return plain_values(TensorValue::kFloats, TensorValue::RepeatedFloats::kValues, t);
      case DType::kI16:
      case DType::kU16:
      case DType::kI32: return packed_values(TensorValue::kInts, TensorValue::RepeatedInts::kValues, t);
      case DType::kBool: return packed_values(TensorValue::kBools, TensorValue::RepeatedBools::kValues, t);
      case DType::kString: {
        const Message strings(w_, TensorValue::kStrings);
        for (const std::string& s : t.string_values()) w_.bytes(TensorValue::RepeatedStrings::kValues, s);
        return;
      }
      case DType::kI64:
      case DType::kU64: return packed_values(TensorValue::kLongInts, TensorValue::RepeatedLongInts::kValues, t);
      case DType::kF64: return plain_values(TensorValue::kDoubles, TensorValue::RepeatedDoubles::kValues, t);
      default:
        if (number_of(t.dtype()) == 0) invalid(fmt::format("Core ML has no element type {}", to_string(t.dtype())));
        return plain_values(TensorValue::kBytes, TensorValue::RepeatedBytes::kValues, t);
    }
  }

  // Writes a Value message that spells the elements out.
  void immediate_value(Field field, const Tensor& t) {
    const Message value(w_, field);
    w_.bytes(milspec::Value::kType, constant_type(t));
    const Message immediate(w_, milspec::Value::kImmediateValue);
    const Message tensor(w_, milspec::Value::ImmediateValue::kTensor);
    tensor_value(t);
  }

  // Writes a Value message with a list of scalars.
  void list_value(Field field, const Tensor& t, const std::string& type) {
    const Message value(w_, field);
    w_.bytes(milspec::Value::kType, type);
    const Message immediate(w_, milspec::Value::kImmediateValue);
    const Message list(w_, milspec::Value::ImmediateValue::kList);
    for (int64_t i = 0; i < t.size(); ++i) {
      TensorPtr element;
      if (t.dtype() == DType::kString) {
        element = Tensor::strings({}, {t.string_values()[static_cast<size_t>(i)]});
      } else {
        std::vector<std::byte> scratch;
        const size_t width = static_cast<size_t>(bit_width(t.dtype()) / 8);
        const auto bytes = t.bytes(scratch).subspan(static_cast<size_t>(i) * width, width);
        element = Tensor::own(t.dtype(), {}, {bytes.begin(), bytes.end()});
      }
      immediate_value(milspec::ListValue::kValues, *element);
    }
  }

  // Writes a Value message. If `type` is null, the tensor's type is written.
  void value(Field field, const Tensor& t, const Type* type) {
    if (type != nullptr && type->kind() == TypeKind::kList) return list_value(field, t, type_wire(type));
    const BlobPlace* place = find_place(t);
    if (place == nullptr) return immediate_value(field, t);
    const Message value(w_, field);
    w_.bytes(milspec::Value::kType, constant_type(t));
    const Message blob(w_, milspec::Value::kBlobFileValue);
    w_.bytes(milspec::Value::BlobFileValue::kFileName, place->file);
    w_.varint(milspec::Value::BlobFileValue::kOffset, place->offset);
  }

  void string_attr(std::string_view key, std::string_view text) {
    const Message entry(w_, Operation::kAttributes);
    w_.bytes(MapEntry::kKey, key);
    immediate_value(MapEntry::kValue, *Tensor::strings({}, {std::string(text)}));
  }

  void value_attr(std::string_view key, const Tensor& t, const Type* type) {
    const Message entry(w_, Operation::kAttributes);
    w_.bytes(MapEntry::kKey, key);
    value(MapEntry::kValue, t, type);
  }

  void attribute(const NamedAttr& a) {
    if (const auto* s = a.value.get<std::string>()) return string_attr(a.name, *s);
    if (const auto* b = a.value.get<bool>()) return value_attr(a.name, *Tensor::full(DType::kBool, {}, *b ? 1 : 0), nullptr);
    if (const auto* i = a.value.get<int64_t>())
      return value_attr(a.name, *Tensor::full(DType::kI32, {}, static_cast<double>(*i)), nullptr);
    if (const auto* f = a.value.get<double>()) return value_attr(a.name, *Tensor::full(DType::kF32, {}, *f), nullptr);
    if (const auto* t = a.value.get<TensorPtr>()) return value_attr(a.name, **t, nullptr);
    const Message entry(w_, Operation::kAttributes);
    w_.bytes(MapEntry::kKey, a.name);
    if (const auto* strings = a.value.get<Attr::Strings>()) {
      const auto length = static_cast<int64_t>(strings->size());
      list_value(MapEntry::kValue, *Tensor::strings({length}, *strings), encode_list_type(DType::kString, length));
    } else if (const auto* o = a.value.get<OpaqueAttr>(); o != nullptr && o->text.starts_with("bytes:")) {
      w_.bytes(MapEntry::kValue, unhex(std::string_view(o->text).substr(6)));
    } else {
      invalid(fmt::format("attribute '{}' cannot be written as Core ML: {}", a.name, to_string(a.value, m_.types())));
    }
  }

  static std::string unhex(std::string_view text) {
    const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
    std::string out;
    for (size_t i = 0; i + 1 < text.size(); i += 2) out += static_cast<char>(digit(text[i]) << 4 | digit(text[i + 1]));
    return out;
  }

  // --- ops

  // Writes an op for a constant.
  void const_op(std::string_view name, std::string_view result, const Tensor& t, const Value& v, const Graph* g) {
    const Message op(w_, milspec::Block::kOperations);
    w_.bytes(Operation::kType, "const");
    named_type(Operation::kOutputs, result, v, g);
    string_attr("name", name);
    value_attr("val", t, v.type());
  }

  void binding(const Node& n, size_t i) {
    const Message binding(w_, milspec::Argument::kArguments);
    const Value& v = *n.input(i);
    if (is_literal(n, i)) {
      value(milspec::Argument::Binding::kValue, *v.constant(), v.type());
    } else {
      w_.bytes(milspec::Argument::Binding::kName, names_.of(v));
    }
  }

  void op(const Node& n, const Graph& g) {
    const Op& op = n.op();
    const Message operation(w_, milspec::Block::kOperations);
    w_.bytes(Operation::kType, op.name);
    // The first versions of the constexpr ops take constant operands as attributes.
    const bool as_attributes = op.known && op.name.starts_with("constexpr_") && op.since_version <= 8;
    for (size_t i = 0; i < n.num_inputs();) {
      const Slot* slot = slot_of(op, i, n.num_inputs());
      if (slot == nullptr) invalid(fmt::format("op {} has operands without names", op.name));
      size_t end = i + 1;
      while (end < n.num_inputs()) {
        const Slot* next = slot_of(op, end, n.num_inputs());
        if (slot->arity == Arity::kVariadic ? next != slot : op.known || next->name != slot->name) break;
        ++end;
      }
      if (n.input(i) != nullptr && !(as_attributes && is_literal(n, i))) {
        const Message entry(w_, Operation::kInputs);
        w_.bytes(MapEntry::kKey, slot->name);
        const Message argument(w_, MapEntry::kValue);
        for (size_t k = i; k < end; ++k) binding(n, k);
      }
      i = end;
    }
    for (const Value& v : n.results()) named_type(Operation::kOutputs, names_.of(v), v, &g);
    for (const Body& b : n.bodies()) {
      const Message message(w_, Operation::kBlocks);
      block(*b.graph);
    }
    if (const auto name = names_.of(n)) string_attr("name", *name);
    if (n.extra() != nullptr && n.extra()->payload) value_attr("val", *n.extra()->payload, n.result()->type());
    for (size_t i = 0; as_attributes && i < n.num_inputs(); ++i) {
      if (is_literal(n, i)) value_attr(slot_of(op, i, n.num_inputs())->name, *n.input(i)->constant(), n.input(i)->type());
    }
    if (!n.attrs().wire().empty()) {
      w_.raw(n.attrs().wire());
    } else {
      for (const NamedAttr& a : n.attrs().items()) attribute(a);
    }
    w_.raw(record_.fields_of(n));
  }

  // Writes the content of a Block.
  void block(const Graph& g) {
    const bool nested = g.function() == nullptr;
    if (nested) {
      for (const Port& p : g.inputs()) named_type(milspec::Block::kInputs, names_.of(*p.value), *p.value, &g);
    }
    for (size_t i = 0; i < g.outputs().size(); ++i) {
      if (g.output(i) == nullptr) invalid("a result of a block has no value");
      w_.bytes(milspec::Block::kOutputs, nested ? names_.of(*g.output(i)) : names_.output(g, i));
    }
    const auto constants = [&](const Node* n) {
      if (const auto* list = names_.before(g, n)) {
        for (const Value* v : *list) const_op(names_.const_op(*v), names_.of(*v), *v->constant(), *v, &g);
      }
    };
    for (const Node& n : g.nodes()) {
      constants(&n);
      op(n, g);
    }
    constants(nullptr);
    for (size_t i = 0; !nested && i < g.outputs().size(); ++i) {
      if (names_.needs_identity(g, i)) identity(*g.output(i), names_.output(g, i), g);
    }
    w_.raw(record_.of(g).fields);
  }

  void identity(const Value& v, std::string_view result, const Graph& g) {
    const Message op(w_, milspec::Block::kOperations);
    w_.bytes(Operation::kType, "identity");
    {
      const Message entry(w_, Operation::kInputs);
      w_.bytes(MapEntry::kKey, "x");
      const Message argument(w_, MapEntry::kValue);
      const Message binding(w_, milspec::Argument::kArguments);
      w_.bytes(milspec::Argument::Binding::kName, names_.of(v));
    }
    named_type(Operation::kOutputs, result, v, &g);
    string_attr("name", result);
  }

  void function(const Function& f) {
    const Graph& g = f.graph();
    for (const Port& p : g.inputs()) named_type(milspec::Function::kInputs, names_.of(*p.value), *p.value, &g);
    const std::string opset = f.mil_opset.empty() ? std::string(mil::opset_name(static_cast<int>(version()))) : f.mil_opset;
    w_.text(milspec::Function::kOpset, opset);
    {
      const Message entry(w_, milspec::Function::kBlockSpecializations);
      w_.bytes(MapEntry::kKey, opset);
      const Message content(w_, MapEntry::kValue);
      block(g);
    }
    w_.raw(record_.of(f.graph()).holder_fields);
  }

  void program() {
    w_.int64(milspec::Program::kVersion, record_.model.program_version);
    for (const auto& f : m_.functions()) {
      const Message entry(w_, milspec::Program::kFunctions);
      w_.bytes(MapEntry::kKey, f->name);
      const Message content(w_, MapEntry::kValue);
      function(*f);
    }
    w_.raw(record_.model.program_fields);
  }

  void model() {
    w_.int64(spec::Model::kSpecificationVersion, version());
    if (!record_.model.description.empty()) {
      if (w_.measuring()) description_ = describe_interface(record_.model.description, m_, names_);
      w_.bytes(spec::Model::kDescription, description_);
    }
    // Fields before the program (isUpdatable) first, in protobuf's order.
    w_.raw(record_.model.fields);
    const Message content(w_, spec::Model::kMlProgram);
    program();
  }

  const Model& m_;
  const FileRecord& record_;
  MilNames names_;
  bool wide_ = false;
  std::string description_;
  std::map<int, std::string> weight_files_;  // by descriptor
  std::vector<BlobFile> blobs_;
  std::unordered_map<const Tensor*, BlobPlace> place_of_;
  std::unordered_map<const Tensor*, const Tensor*> tied_;
  std::unordered_map<const Type*, std::string> types_;
  std::unordered_map<DType, std::string> scalar_types_;
  std::string constant_type_;
  Writer w_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Files

// Writes bytes, some of which are in files that were read. Ranges that are adjacent in both files are copied
// as one, including the padding between weights, so an unchanged weights file is copied whole.
class BlobPieces {
 public:
  BlobPieces(Writer& w, const Model& m) : w_(w) {
    for (const auto& file : source_files(m)) {
      const auto range = file->range_of(file->bytes().subspan(0, 0));
      if (range && range->offset == 0) sources_.emplace(range->fd, file.get());
    }
  }
  // The source file if exactly all of its bytes were written; null if anything differs.
  const MappedFile* whole() const { return others_ || ranges_ != 1 ? nullptr : whole_; }
  // Writes the bytes before a weight, and the weight.
  void put(std::string_view before, const Tensor& t) {
    const auto source = t.file() && !t.is_deferred() && !t.is_splat() ? sources_.find(t.file()->fd) : sources_.end();
    if (source == sources_.end()) {
      flush();
      others_ = true;
      w_.raw(before);
      onnx_file::write_bytes(w_, t);
      return;
    }
    const uint64_t begin = t.file()->offset, end = begin + t.byte_size();
    const auto bytes = source->second->bytes();
    const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const bool stands_there = begin >= before.size() && all.substr(begin - before.size(), before.size()) == before;
    const bool goes_on = stands_there && fd_ == source->first && end_ == begin - before.size();
    if (!goes_on) {
      flush();
      if (!stands_there) w_.raw(before);
      others_ |= !stands_there;
      fd_ = source->first, file_ = source->second, begin_ = stands_there ? begin - before.size() : begin;
    }
    end_ = end;
  }
  void flush() {
    if (fd_ < 0) return;
    copy(begin_, file_->bytes().subspan(begin_, end_ - begin_));
    ++ranges_;
    whole_ = begin_ == 0 && end_ == file_->size() ? file_ : nullptr;
    fd_ = -1;
  }

 private:
  // The kernel copies page by page, and takes a fifth longer if source and target pages are not aligned. In
  // that case write the mapped bytes.
  void copy(uint64_t from, std::span<const std::byte> bytes) {
    constexpr uint64_t kPage = 4096, kPiece = 1 << 18;
    const bool holes = !w_.measuring() && has_holes(fd_);  // only the kernel's copy keeps holes
    while (!w_.measuring() && !holes && bytes.size() > kPiece && (from - w_.size()) % kPage != 0) {
      const auto piece = bytes.first(kPiece - w_.size() % kPiece);
      if (!file_->fetch(piece)) break;
      w_.raw({reinterpret_cast<const char*>(piece.data()), piece.size()});
      file_->forget(piece);
      from += piece.size();
      bytes = bytes.subspan(piece.size());
    }
    onnx_file::write_range(w_, {fd_, from}, bytes);
  }

  Writer& w_;
  std::map<int, const MappedFile*> sources_;
  int fd_ = -1;  // source of the pending range; -1: none
  const MappedFile* file_ = nullptr;
  uint64_t begin_ = 0, end_ = 0;
  bool others_ = false;  // something was written that is in no file
  size_t ranges_ = 0;    // number of copied ranges
  const MappedFile* whole_ = nullptr;
};

// With `link`, an unchanged file is hard-linked if the system can.
void write_blob_file(const Model& m, const BlobFile& blob, AtomicFile& file, bool link) {
  wire::FileSink sink(file);
  Writer w;
  const auto u32 = [](std::string& to, size_t at, uint32_t v) { std::memcpy(to.data() + at, &v, sizeof v); };
  const auto u64 = [](std::string& to, size_t at, uint64_t v) { std::memcpy(to.data() + at, &v, sizeof v); };
  const auto all = [&]() -> const MappedFile* {
    BlobPieces pieces(w, m);
    std::string before(kBlobAlignment, '\0');
    u32(before, 0, static_cast<uint32_t>(blob.tensors.size()));
    u32(before, 4, kBlobVersion);
    uint64_t at = kBlobAlignment;
    for (const Tensor* t : blob.tensors) {
      const uint64_t offset = aligned(at);
      before.append(offset - at, '\0');
      std::string metadata(kBlobAlignment, '\0');
      u32(metadata, 0, kBlobSentinel);
      u32(metadata, 4, blob_number_of(t->dtype()));
      u64(metadata, 8, t->byte_size());
      u64(metadata, 16, offset + kBlobAlignment);
      u64(metadata, 24, t->byte_size() * 8 - static_cast<uint64_t>(t->size()) * static_cast<uint64_t>(bit_width(t->dtype())));
      pieces.put(before + metadata, *t);
      before.clear();
      at = offset + kBlobAlignment + t->byte_size();
    }
    pieces.flush();
    w.raw(before);
    return pieces.whole();
  };
  const MappedFile* unchanged = all();
  if (link && unchanged != nullptr && file.link(unchanged->range_of({})->fd)) return;
  const bool holes = std::ranges::any_of(source_files(m), [](const auto& s) {
    const auto range = s->range_of({});
    return range && has_holes(range->fd);
  });
  if (!holes) file.expect(w.size());
  w.start(sink);
  all();
  w.finish();
}

[[noreturn]] void too_large(uint64_t size) {
  throw Error(ErrorCode::kLimit,
              fmt::format("the program takes {} bytes without its weights, and protobuf can hold {}", size, kMaxMessage));
}

// Whether the model was read from the file at this path.
bool is_source(const Model& m, const std::filesystem::path& file) {
  const auto there = replaced_at(file);
  return there && std::ranges::any_of(source_files(m), [&](const auto& s) { return s->stamp().same_file(*there); });
}

// Writes the model file and its weights into `folder`.
void write_parts(const Model& m, MilWriter& writer, const std::filesystem::path& file, const CoremlWriteOptions& how) {
  if (const uint64_t size = writer.measure(false); size > kMaxMessage) too_large(size);
  const auto folder = file.parent_path();
  const AtomicFile::Options options{.sync = how.sync};
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (const BlobFile& blob : writer.blobs()) {
    const auto target = folder / std::string_view(blob.name).substr(kModelPath.size());
    require_inside(folder, target);
    std::filesystem::create_directories(target.parent_path());
    const bool link = how.link_weights || is_source(m, target);
    write_blob_file(m, blob, *files.emplace_back(std::make_unique<AtomicFile>(target, options)), link);
  }
  AtomicFile out(file, options);
  wire::FileSink sink(out);
  writer.write(sink, false);
  for (const auto& source : source_files(m)) source->check_unchanged();
  for (auto& f : files) f->commit();
  out.commit();
}

// Copies the package's contents other than the model and its weights.
void copy_others(const Model& m, const std::filesystem::path& to) {
  namespace fs = std::filesystem;
  const fs::path from(m.file_record().model.package);
  std::error_code none;
  if (!fs::exists(from, none)) return;  // it was read into memory and deleted: what Python makes without a path
  const fs::path real_from = fs::canonical(from);
  const fs::path cache = fs::canonical(source_files(m)[0]->path()).parent_path();
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (!entry.is_regular_file()) continue;
    if (const fs::path real = fs::canonical(entry.path()); !is_inside(real_from, real) && !is_inside(cache, real))
      invalid(fmt::format("'{}' is a symbolic link that leads out of the package", entry.path().string()));
    const auto stamp = FileStamp::of(entry.path());
    const bool read =
        std::ranges::any_of(source_files(m), [&](const auto& s) { return stamp && s->stamp().same_file(*stamp); });
    const fs::path relative = entry.path().lexically_relative(from);
    if (read || relative == "Manifest.json" || fs::exists(to / relative)) continue;
    fs::create_directories((to / relative).parent_path());
    fs::copy_file(entry.path(), to / relative);
  }
}

void fill_package(const Model& m, MilWriter& writer, const AtomicFolder& folder, const std::filesystem::path& path,
                  const CoremlWriteOptions& how) {
  namespace fs = std::filesystem;
  const FileRecord::OfModel& record = m.file_record().model;
  std::string model_path = record.model_path;
  const std::string manifest = make_manifest(record.manifest, !writer.blobs().empty(), &model_path);
  const fs::path file = folder.temporary() / model_path;
  fs::create_directories(file.parent_path() / "weights");
  // A package that replaces itself can give its weights to the new one, because the old one is deleted.
  const bool goes = !fs::is_symlink(path) && is_source(m, path / model_path);
  write_parts(m, writer, file, {.sync = how.sync, .link_weights = how.link_weights || goes});
  AtomicFile out(folder.temporary() / "Manifest.json", AtomicFile::Options{.sync = how.sync});
  out.append(manifest);
  out.commit();
  if (!m.file_record().model.package.empty()) copy_others(m, folder.temporary());
}

void write_package(const Model& m, MilWriter& writer, const std::filesystem::path& path, const CoremlWriteOptions& how) {
  AtomicFolder folder(path);
  try {
    fill_package(m, writer, folder, path, how);
  } catch (const Error& e) {
    // The folder has another name until it is complete.
    const std::string own = folder.temporary().string();
    std::string what = e.message();
    if (const size_t at = what.find(own); at != std::string::npos) what.replace(at, own.size(), path.string());
    throw Error(e.code(), std::move(what), e.notes());
  }
  folder.commit();
}

}  // namespace

void write_coreml(const Model& model, const std::filesystem::path& path, const CoremlWriteOptions& options) {
  SX_CHECK(model.dialect() == DialectId::kMil, "only a graph of the mil dialect can be written as Core ML");
  MilWriter writer(model);
  auto name = path.filename().empty() ? path.parent_path() : path;  // "x.mlpackage/" has no filename
  try {
    if (name.extension() == ".mlpackage") {
      write_package(model, writer, name, options);
      return;
    }
    std::error_code none;
    const auto there = std::filesystem::status(name, none);
    if (name.extension() != ".mlmodel" && (!exists(there) || is_regular_file(there))) {  // a pipe may have any name
      throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a valid name in a Core ML model", name.string()),
                  {"help: a package ends in .mlpackage, a model file (with its weights beside it) in .mlmodel"});
    }
    for (const BlobFile& blob : writer.blobs()) {
      const auto target = replaced_at(name.parent_path() / std::string_view(blob.name).substr(kModelPath.size()));
      const auto own = replaced_at(name);
      const bool same = own && !source_files(model).empty() && own->same_file(source_files(model)[0]->stamp());
      if (target && !same) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("the weights of another model are where those of {} would be written", name.string()),
                    {"help: write a package (.mlpackage), or into a folder of its own"});
      }
    }
    write_parts(model, writer, name, options);
  } catch (const std::filesystem::filesystem_error& e) {
    throw Error(ErrorCode::kIo, fmt::format("cannot write '{}': {}", path.string(), e.code().message()));
  }
}

std::string serialize_mil_program(const Model& model, const std::filesystem::path& weights) {
  SX_CHECK(model.dialect() == DialectId::kMil, "only a graph of the mil dialect can be written as Core ML");
  MilWriter writer(model);
  const uint64_t size = writer.measure(true);
  if (size > kMaxMessage) too_large(size);
  if (!writer.blobs().empty() && weights.empty())
    throw Error(ErrorCode::kInvalidArgument, "the program has weights but no folder to write them to");
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (const BlobFile& blob : writer.blobs()) {
    const auto target = weights / std::string_view(blob.name).substr(kModelPath.size());
    std::filesystem::create_directories(target.parent_path());
    write_blob_file(model, blob, *files.emplace_back(std::make_unique<AtomicFile>(target)), /*link=*/false);
  }
  std::string out;
  out.reserve(size);
  wire::StringSink sink(out);
  writer.write(sink, true);
  for (const auto& source : source_files(model)) source->check_unchanged();
  for (auto& f : files) f->commit();
  return out;
}

}  // namespace sardonyx
