#include "io/onnx/write_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "dialects/onnx/attribute_type.h"
#include "io/onnx/fields_onnx.h"

namespace sardonyx::onnx_file {
namespace {

using wire::Field;
using wire::Message;

constexpr uint64_t kCopyBytes = 1 << 18;  // the kernel copies ranges of at least this size between files
// The number of rows of a deferred tensor held at a time, at most. Transposed weights are read in tiles.
constexpr int64_t kPieceRows = 16;
constexpr int64_t kLeastPiece = 1 << 18, kMostPiece = 1 << 22;  // bytes

[[noreturn]] void no_such(const std::string& what) {
  throw Error(ErrorCode::kInvalidModel, fmt::format("ONNX files cannot hold {}", what));
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------------------
// Tensors

void write_bytes(wire::Writer& w, const Tensor& t) {
  const uint64_t size = t.byte_size();
  if (t.is_promise()) {  // throws, and says what to do
    std::vector<std::byte> none;
    (void)t.bytes(none);
  }
  if (t.is_deferred()) {
    if (w.measuring()) {
      w.skip(size);
      return;
    }
    if (t.reads_in_pieces()) {
      const auto width = static_cast<size_t>(bit_width(t.dtype())) / 8;
      const int64_t row = t.rank() == 0 ? 1 : std::min(t.shape().back(), kMostPiece);
      const int64_t piece =
          std::clamp(kPieceRows * row, kLeastPiece / static_cast<int64_t>(width), kMostPiece / static_cast<int64_t>(width));
      const std::unique_ptr<std::byte[]> buffer(
          new std::byte[std::min(static_cast<uint64_t>(piece) * width, size)]);  // uninitialized
      for (int64_t first = 0; first < t.size(); first += piece) {
        const std::span<std::byte> bytes(buffer.get(), static_cast<size_t>(std::min(piece, t.size() - first)) * width);
        t.read(first, bytes);
        w.raw({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      }
      return;
    }
    std::vector<std::byte> bytes;
    const auto all = t.bytes(bytes);
    w.raw({reinterpret_cast<const char*>(all.data()), all.size()});
    return;
  }
  if (t.is_splat()) {
    // An element takes whole bytes or shares one; a chunk is a multiple of both.
    constexpr int64_t kPiece = 1 << 16;
    int64_t left = t.size();
    std::vector<std::byte> bytes;
    std::span<const std::byte> piece;
    for (int64_t n = 0; left > 0; left -= n) {
      const int64_t wanted = std::min(left, kPiece);
      if (wanted != n) {
        n = wanted;
        const TensorPtr part = Tensor::splat(t.dtype(), {n}, t.stored_bytes());
        piece = part->bytes(bytes);
        if (!part->is_splat()) {  // not a splat for a single element, whose bytes belong to `part`
          bytes.assign(piece.begin(), piece.end());
          piece = bytes;
        }
      }
      w.raw({reinterpret_cast<const char*>(piece.data()), piece.size()});
    }
    return;
  }
  const auto all = t.stored_bytes();
  if (t.file()) return write_range(w, *t.file(), all);
  w.raw({reinterpret_cast<const char*>(all.data()), all.size()});
}

void write_range(wire::Writer& w, FileRange file, std::span<const std::byte> bytes) {
  if (bytes.size() >= kCopyBytes) {
    w.raw(file, bytes);
  } else {
    w.raw({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
}

void write_tensor(wire::Writer& w, const Tensor& t, std::string_view name, std::string_view fields, const Places* places) {
  if (static_cast<int>(t.dtype()) >= 64 || t.dtype() == DType::kUndefined) {
    no_such(fmt::format("a tensor of {}", to_string(t.dtype())));
  }
  for (int64_t d : t.shape()) w.int64(TensorProto::kDims, d);
  w.int64(TensorProto::kDataType, static_cast<int64_t>(t.dtype()));
  if (t.dtype() == DType::kString) {
    for (const std::string& s : t.string_values()) w.bytes(TensorProto::kStringData, s);
  }
  w.text(TensorProto::kName, name);
  const Place* place = places != nullptr ? places->find(t) : nullptr;
  if (place != nullptr) {
    const auto entry = [&w](std::string_view key, std::string_view value) {
      const Message message(w, TensorProto::kExternalData);
      w.bytes(StringStringEntryProto::kKey, key);
      w.bytes(StringStringEntryProto::kValue, value);
    };
    entry("location", places->files[place->file]);
    entry("offset", std::to_string(place->offset));
    entry("length", std::to_string(t.byte_size()));
    w.varint(TensorProto::kDataLocation, 1);  // EXTERNAL
  } else if (t.dtype() != DType::kString) {
    w.head(TensorProto::kRawData, t.byte_size());
    write_bytes(w, t);
  }
  w.raw(fields);
}

// ---------------------------------------------------------------------------------------------------------------------
// Types

namespace {

// Writes the content of TypeProto.Tensor or TypeProto.SparseTensor, which have the same fields.
void write_tensor_type(wire::Writer& w, const Type& t, const Dims& dims) {
  w.int64(TypeProto::Tensor::kElemType, static_cast<int64_t>(t.dtype()));
  if (!t.ranked()) return;
  const Message shape(w, TypeProto::Tensor::kShape);
  for (Dim d : t.dims()) {
    const Message dim(w, TensorShapeProto::kDim);
    if (d.is_int()) {
      w.int64(TensorShapeProto::Dimension::kDimValue, d.value());
    } else if (d.is_expr()) {
      w.bytes(TensorShapeProto::Dimension::kDimParam, dims.to_string(d));
    }
  }
}

}  // namespace

void write_type(wire::Writer& w, const Type* t, const Dims& dims) {
  if (t == nullptr) return;
  const auto wrapped = [&](Field field, Field element_field) {
    const Message message(w, field);
    if (t->kind() == TypeKind::kMap) w.int64(TypeProto::Map::kKeyType, static_cast<int64_t>(t->dtype()));
    const Message element(w, element_field);
    write_type(w, t->element(), dims);
  };
  switch (t->kind()) {
    case TypeKind::kTensor:
    case TypeKind::kSparseTensor: {
      if (static_cast<int>(t->dtype()) >= 64) no_such(fmt::format("values of {}", to_string(t->dtype())));
      const Message tensor(w, t->kind() == TypeKind::kTensor ? TypeProto::kTensorType : TypeProto::kSparseTensorType);
      return write_tensor_type(w, *t, dims);
    }
    case TypeKind::kSequence: return wrapped(TypeProto::kSequenceType, TypeProto::Sequence::kElemType);
    case TypeKind::kOptional: return wrapped(TypeProto::kOptionalType, TypeProto::Optional::kElemType);
    case TypeKind::kMap: return wrapped(TypeProto::kMapType, TypeProto::Map::kValueType);
    case TypeKind::kOpaque: {
      const size_t slash = t->label().find('/');
      const Message opaque(w, TypeProto::kOpaqueType);
      w.text(TypeProto::Opaque::kDomain, t->label().substr(0, slash));
      if (slash != std::string_view::npos) w.text(TypeProto::Opaque::kName, t->label().substr(slash + 1));
      return;
    }
    case TypeKind::kList:
    case TypeKind::kTuple:
    case TypeKind::kState:
    case TypeKind::kToken: no_such("values that are lists, tuples, states or tokens");
  }
}

void write_metadata(wire::Writer& w, Field field, const Metadata& metadata) {
  for (const auto& [key, value] : metadata) {
    const Message entry(w, field);
    w.bytes(StringStringEntryProto::kKey, key);
    w.bytes(StringStringEntryProto::kValue, value);
  }
}

void write_value_info(wire::Writer& w, std::string_view name, const Type* t, const std::string& doc, const Metadata& metadata,
                      const Dims& dims) {
  w.bytes(ValueInfoProto::kName, name);
  if (t != nullptr) {
    const Message type(w, ValueInfoProto::kType);
    write_type(w, t, dims);
  }
  w.text(ValueInfoProto::kDocString, doc);
  write_metadata(w, ValueInfoProto::kMetadataProps, metadata);
}

// ---------------------------------------------------------------------------------------------------------------------
// Attributes

namespace {

// The AttributeProto.AttributeType of each AttrKind, in its order.
int number_of(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt: return attribute_type::kInt;
    case AttrKind::kFloat: return attribute_type::kFloat;
    case AttrKind::kString: return attribute_type::kString;
    case AttrKind::kTensor: return attribute_type::kTensor;
    case AttrKind::kGraph: return attribute_type::kGraph;
    case AttrKind::kSparseTensor: return attribute_type::kSparseTensor;
    case AttrKind::kType: return attribute_type::kType;
    case AttrKind::kInts: return attribute_type::kInts;
    case AttrKind::kFloats: return attribute_type::kFloats;
    case AttrKind::kStrings: return attribute_type::kStrings;
    case AttrKind::kTensors: return attribute_type::kTensors;
    case AttrKind::kGraphs: return attribute_type::kGraphs;
    case AttrKind::kTypes: return attribute_type::kTypes;
    case AttrKind::kAny: return attribute_type::kUndefined;
  }
  return attribute_type::kUndefined;
}

class AttributeWriter {
 public:
  AttributeWriter(wire::Writer& w, const NamedAttr& a, const Op* op, const Dims& dims, const Places* places)
      : w_(w), a_(a), op_(op), dims_(dims), places_(places) {}

  // Writes the value; returns the attribute's type.
  int operator()(bool v) { return w_.int64(AttributeProto::kI, v ? 1 : 0), attribute_type::kInt; }
  int operator()(int64_t v) { return w_.int64(AttributeProto::kI, v), attribute_type::kInt; }
  int operator()(DType v) { return w_.int64(AttributeProto::kI, static_cast<int64_t>(v)), attribute_type::kInt; }
  int operator()(double v) { return w_.float32(AttributeProto::kF, static_cast<float>(v)), attribute_type::kFloat; }
  int operator()(const std::string& v) { return w_.bytes(AttributeProto::kS, v), attribute_type::kString; }
  int operator()(const TensorPtr& v) {
    tensor(AttributeProto::kT, v, places_);
    return attribute_type::kTensor;
  }
  int operator()(const Type* v) {
    const Message type(w_, AttributeProto::kTp);
    write_type(w_, v, dims_);
    return attribute_type::kType;
  }
  int operator()(const Attr::Ints& v) {
    for (int64_t i : v) w_.int64(AttributeProto::kInts, i);
    return attribute_type::kInts;
  }
  int operator()(const Attr::Floats& v) {
    for (double f : v) w_.float32(AttributeProto::kFloats, static_cast<float>(f));
    return attribute_type::kFloats;
  }
  int operator()(const Attr::Strings& v) {
    for (const std::string& s : v) w_.bytes(AttributeProto::kStrings, s);
    return attribute_type::kStrings;
  }
  int operator()(const Attr::Tensors& v) {
    for (const TensorPtr& t : v) tensor(AttributeProto::kTensors, t, places_);
    return attribute_type::kTensors;
  }
  int operator()(const Attr::TypeList& v) {
    for (const Type* t : v) {
      const Message type(w_, AttributeProto::kTypeProtos);
      write_type(w_, t, dims_);
    }
    return attribute_type::kTypes;
  }
  int operator()(const Dim& d) {
    if (!d.is_int()) fail("a symbolic size");
    return (*this)(d.value());
  }
  int operator()(const Attr::DimList& v) {
    for (Dim d : v) {
      if (!d.is_int()) fail("a symbolic size");
      w_.int64(AttributeProto::kInts, d.value());
    }
    return attribute_type::kInts;
  }
  int operator()(const AttrDict& v) { return write_sparse(AttributeProto::kSparseTensor, v), attribute_type::kSparseTensor; }
  int operator()(const AttrList& v) {
    for (const Attr& a : v) {
      const auto* sparse = a.get<AttrDict>();
      if (sparse == nullptr) fail("a list of mixed values");
      write_sparse(AttributeProto::kSparseTensors, *sparse);
    }
    return v.empty() ? spec_type(attribute_type::kInts) : attribute_type::kSparseTensors;
  }
  int operator()(const RefAttr& v) {
    w_.bytes(AttributeProto::kRefAttrName, v.name);
    return v.type != 0 ? v.type : spec_type(attribute_type::kUndefined);
  }
  int operator()(const OpaqueAttr& v) { fail(v.text); }
  int operator()(std::monostate) { fail("no value"); }

 private:
  [[noreturn]] void fail(const std::string& what) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("attribute '{}' is {}, which ONNX files cannot hold", a_.name, what));
  }
  int spec_type(int otherwise) const {
    if (op_ == nullptr) return otherwise;
    const auto spec = std::ranges::find(op_->attrs, a_.name, &AttrSpec::name);
    return spec == op_->attrs.end() ? otherwise : number_of(spec->kind);
  }
  void tensor(Field field, const TensorPtr& t, const Places* places) {
    if (t == nullptr) fail("an absent tensor");
    const size_t i = tensors_++;
    const Message message(w_, field);
    write_tensor(w_, *t, {}, i < a_.tensor_fields.size() ? std::string_view(a_.tensor_fields[i]) : std::string_view(), places);
  }
  // {values, indices, dims}, as the reader represents a sparse tensor.
  void write_sparse(Field field, const AttrDict& parts) {
    if (parts.size() != 3 || parts[0].second.get<TensorPtr>() == nullptr || parts[1].second.get<TensorPtr>() == nullptr ||
        parts[2].second.get<Attr::Ints>() == nullptr) {
      fail("a tuple of named values");
    }
    const Message message(w_, field);
    tensor(SparseTensorProto::kValues, *parts[0].second.get<TensorPtr>(), nullptr);
    tensor(SparseTensorProto::kIndices, *parts[1].second.get<TensorPtr>(), nullptr);
    for (int64_t d : *parts[2].second.get<Attr::Ints>()) w_.int64(SparseTensorProto::kDims, d);
  }

  wire::Writer& w_;
  const NamedAttr& a_;
  const Op* op_;
  const Dims& dims_;
  const Places* places_;
  size_t tensors_ = 0;  // index of the next tensor to write
};

}  // namespace

void write_attribute(wire::Writer& w, const NamedAttr& a, const Op* op, const Dims& dims, const Places* places) {
  w.bytes(AttributeProto::kName, a.name);
  const int type = std::visit(AttributeWriter(w, a, op, dims, places), a.value.value());
  w.text(AttributeProto::kDocString, a.doc);
  if (type != 0) w.int64(AttributeProto::kType, type);
}

}  // namespace sardonyx::onnx_file
