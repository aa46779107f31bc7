// Reads TypeProto, AttributeProto, ValueInfoProto and metadata entries.
#include <fmt/format.h>

#include "dialects/onnx/attribute_type.h"
#include "io/onnx/fields_onnx.h"
#include "io/onnx/onnx_parts.h"

namespace sardonyx::onnx_file {
namespace {

using wire::Reader;

constexpr int kMaxTypeDepth = 32;

DType element_type(int32_t number) {
  if (number < 0 || number > static_cast<int32_t>(DType::kI2)) {
    throw Error(ErrorCode::kUnsupported, fmt::format("the element type {} is unknown", number));
  }
  return static_cast<DType>(number);
}

}  // namespace

void join(std::string_view& whole, std::string_view part, const ModelBytes& source) {
  if (whole.empty()) {
    whole = part;
  } else if (!part.empty()) {
    whole = source.joined->emplace_back(std::string(whole) += part);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Types

const Type* TypeReader::read(std::string_view wire) {
  auto [at, inserted] = seen_.try_emplace(wire, nullptr);
  if (inserted) {
    try {
      at->second = parse(wire, 0);
    } catch (const Error&) {
      seen_.erase(wire);
      throw;
    }
  }
  return at->second;
}

Dim TypeReader::parse_dim(std::string_view wire) {
  Dim dim;
  for (Reader r(wire, origin_); r.next();) {
    switch (r.field()) {
      case TensorShapeProto::Dimension::kDimValue: {
        const int64_t size = r.int64();
        dim = size < 0 ? Dim() : Dim::of(size);  // some exporters write -1 for an unknown size
        break;
      }
      case TensorShapeProto::Dimension::kDimParam: {
        const std::string_view text = r.bytes();
        if (text.empty()) {
          dim = Dim();
          break;
        }
        try {
          dim = types_.dims().parse(text);
          if (dim.is_int()) dim = Dim();  // a name that merely looks like a number
        } catch (const Error&) {
          dim = types_.dims().symbol(text);
        }
        break;
      }
      default: r.skip();
    }
  }
  return dim;
}

const Type* TypeReader::parse_tensor(std::string_view wire, TypeKind kind) {
  DType dtype = DType::kUndefined;
  bool ranked = false;
  std::vector<Dim> dims;
  for (Reader r(wire, origin_); r.next();) {
    switch (r.field()) {
      case TypeProto::Tensor::kElemType: dtype = element_type(r.int32()); break;
      case TypeProto::Tensor::kShape:
        ranked = true;
        for (Reader s(r.bytes(), origin_); s.next();) {
          if (s.field() == TensorShapeProto::kDim) {
            dims.push_back(parse_dim(s.bytes()));
          } else {
            s.skip();
          }
        }
        break;
      default: r.skip();
    }
  }
  if (kind == TypeKind::kSparseTensor) return types_.make(kind, dtype, {}, dims, ranked);
  return ranked ? types_.tensor(dtype, dims) : types_.unranked(dtype);
}

const Type* TypeReader::parse(std::string_view wire, int depth) {
  if (depth > kMaxTypeDepth) throw Error(ErrorCode::kLimit, fmt::format("a type is nested more than {} deep", kMaxTypeDepth));
  // Sequences, optionals and maps: the element type is in `element_field`; maps have a key type before it.
  const auto nested = [&](std::string_view inner, TypeKind kind, wire::Field element_field) {
    DType key = DType::kUndefined;
    const Type* element = nullptr;
    for (Reader r(inner, origin_); r.next();) {
      if (r.field() == element_field) {
        element = parse(r.bytes(), depth + 1);
      } else if (kind == TypeKind::kMap && r.field() == TypeProto::Map::kKeyType) {
        key = element_type(r.int32());
      } else {
        r.skip();
      }
    }
    return types_.make(kind, key, {&element, 1});
  };
  const Type* type = nullptr;
  for (Reader r(wire, origin_); r.next();) {
    switch (r.field()) {
      case TypeProto::kTensorType: type = parse_tensor(r.bytes(), TypeKind::kTensor); break;
      case TypeProto::kSparseTensorType: type = parse_tensor(r.bytes(), TypeKind::kSparseTensor); break;
      case TypeProto::kSequenceType: type = nested(r.bytes(), TypeKind::kSequence, TypeProto::Sequence::kElemType); break;
      case TypeProto::kOptionalType: type = nested(r.bytes(), TypeKind::kOptional, TypeProto::Optional::kElemType); break;
      case TypeProto::kMapType: type = nested(r.bytes(), TypeKind::kMap, TypeProto::Map::kValueType); break;
      case TypeProto::kOpaqueType: {
        std::string_view domain;
        std::string_view name;
        for (Reader o(r.bytes(), origin_); o.next();) {
          switch (o.field()) {
            case TypeProto::Opaque::kDomain: domain = o.bytes(); break;
            case TypeProto::Opaque::kName: name = o.bytes(); break;
            default: o.skip();
          }
        }
        type = types_.make(TypeKind::kOpaque, DType::kUndefined, {}, {}, false, fmt::format("{}/{}", domain, name));
        break;
      }
      default: r.skip();
    }
  }
  return type;
}

// ---------------------------------------------------------------------------------------------------------------------
// Attributes

AttributeScan scan_attribute(std::string_view wire, const char* origin) {
  AttributeScan found;
  const auto scan_tensor = [&](std::string_view tensor) {
    for (Reader r(tensor, origin); r.next();) {
      if (r.field() == TensorProto::kDataLocation) {
        found.has_external |= r.int32() == 1;
      } else {
        r.skip();
      }
    }
  };
  for (Reader r(wire, origin); r.next();) {
    switch (r.field()) {
      case AttributeProto::kG:
      case AttributeProto::kGraphs:
        found.has_graph = true;
        r.skip();
        break;
      case AttributeProto::kT:
      case AttributeProto::kTensors: scan_tensor(r.bytes()); break;
      case AttributeProto::kSparseTensor:
      case AttributeProto::kSparseTensors:
        for (Reader s(r.bytes(), origin); s.next();) {
          if (s.field() == SparseTensorProto::kValues || s.field() == SparseTensorProto::kIndices) {
            scan_tensor(s.bytes());
          } else {
            s.skip();
          }
        }
        break;
      default: r.skip();
    }
  }
  return found;
}

namespace {

using namespace attribute_type;

// Builds NamedAttr::tensor_fields, which stay empty until a tensor has some.
class TensorNotes {
 public:
  void add(std::string fields) {
    ++count_;
    if (fields.empty() && fields_.empty()) return;
    fields_.resize(count_);
    fields_.back() = std::move(fields);
  }
  std::vector<std::string> finish() {
    if (!fields_.empty()) fields_.resize(count_);
    return std::move(fields_);
  }

 private:
  size_t count_ = 0;
  std::vector<std::string> fields_;
};

TensorPtr take_tensor(TensorRead read, std::string& fields) {
  fields = read.name.empty() ? std::move(read.fields) : bytes_field(TensorProto::kName, read.name.view()) + read.fields;
  return std::move(read.tensor);
}

// A sparse tensor as an attribute: {values, indices, dims}.
Attr sparse_attr(std::string_view wire, const ModelBytes& source, ExternalFiles& external, TensorNotes& notes) {
  AttrDict parts{{"values", {}}, {"indices", {}}, {"dims", {}}};
  std::string values, indices;
  Attr::Ints dims;
  for (Reader r(wire, source.origin); r.next();) {
    switch (r.field()) {
      case SparseTensorProto::kValues: parts[0].second = take_tensor(read_tensor(r.bytes(), source, external), values); break;
      case SparseTensorProto::kIndices: parts[1].second = take_tensor(read_tensor(r.bytes(), source, external), indices); break;
      case SparseTensorProto::kDims:
      case packed(SparseTensorProto::kDims): r.int64s(dims); break;
      default: r.skip();
    }
  }
  parts[2].second = std::move(dims);
  notes.add(std::move(values));
  notes.add(std::move(indices));
  return parts;
}

}  // namespace

NamedAttr read_attribute(std::string_view whole, const ModelBytes& source, ExternalFiles& external, TypeReader& types) {
  NamedAttr a;
  int32_t type = kUndefined;
  int32_t implied = kUndefined;  // from the value field: files of IR version 1 do not state the type
  RefAttr ref;
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  TensorPtr t;
  Attr sparse;
  const Type* tp = nullptr;
  Attr::Floats floats;
  Attr::Ints ints;
  Attr::Strings strings;
  Attr::Tensors tensors;
  AttrList sparses;
  Attr::TypeList type_list;
  TensorNotes notes;
  const auto tensor = [&](std::string_view wire) {
    std::string fields;
    TensorPtr payload = take_tensor(read_tensor(wire, source, external), fields);
    notes.add(std::move(fields));
    return payload;
  };
  try {
    for (Reader r(whole, source.origin); r.next();) {
      switch (r.field()) {
        case AttributeProto::kName: a.name = r.bytes(); break;
        case AttributeProto::kRefAttrName: ref.name = r.bytes(); break;
        case AttributeProto::kDocString: a.doc = r.bytes(); break;
        case AttributeProto::kType: type = r.int32(); break;
        case AttributeProto::kF: f = r.fixed<float>(), implied = kFloat; break;
        case AttributeProto::kI: i = r.int64(), implied = kInt; break;
        case AttributeProto::kS: s = r.bytes(), implied = kString; break;
        case AttributeProto::kT: notes = {}, t = tensor(r.bytes()), implied = kTensor; break;
        case AttributeProto::kSparseTensor:
          notes = {}, sparse = sparse_attr(r.bytes(), source, external, notes), implied = kSparseTensor;
          break;
        case AttributeProto::kTp: tp = types.read(r.bytes()), implied = kType; break;
        case AttributeProto::kFloats: floats.push_back(r.fixed<float>()), implied = kFloats; break;
        case packed(AttributeProto::kFloats): {
          const std::string_view packed = r.bytes();
          if (packed.size() % 4 != 0) r.fail("a list of floats is cut off");
          for (size_t k = 0; k < packed.size(); k += 4) {
            float v = 0;
            std::memcpy(&v, packed.data() + k, 4);
            floats.push_back(v);
          }
          implied = kFloats;
          break;
        }
        case AttributeProto::kInts:
        case packed(AttributeProto::kInts): r.int64s(ints), implied = kInts; break;
        case AttributeProto::kStrings: strings.emplace_back(r.bytes()), implied = kStrings; break;
        case AttributeProto::kTensors: tensors.push_back(tensor(r.bytes())), implied = kTensors; break;
        case AttributeProto::kSparseTensors:
          sparses.push_back(sparse_attr(r.bytes(), source, external, notes)), implied = kSparseTensors;
          break;
        case AttributeProto::kTypeProtos: type_list.push_back(types.read(r.bytes())), implied = kTypes; break;
        default: r.skip();
      }
    }
    if (!ref.name.empty()) {
      ref.type = type;
      a.value = std::move(ref);
      return a;
    }
    switch (type == kUndefined ? implied : type) {
      case kFloat: a.value = static_cast<double>(f); break;
      case kInt: a.value = i; break;
      case kString: a.value = s; break;
      case kTensor:
        if (t == nullptr) throw Error(ErrorCode::kInvalidModel, "a tensor attribute holds no tensor");
        a.value = std::move(t);
        break;
      case kFloats: a.value = std::move(floats); break;
      case kInts: a.value = std::move(ints); break;
      case kStrings: a.value = std::move(strings); break;
      case kTensors: a.value = std::move(tensors); break;
      case kSparseTensor: a.value = std::move(sparse); break;
      case kSparseTensors: a.value = std::move(sparses); break;
      case kType: a.value = tp; break;
      case kTypes: a.value = std::move(type_list); break;
      default: a.value = OpaqueAttr{fmt::format("attribute of type {}", type)};
    }
  } catch (const Error& e) {
    throw e.with_note(fmt::format("in attribute '{}'", a.name));
  }
  a.tensor_fields = notes.finish();
  return a;
}

// ---------------------------------------------------------------------------------------------------------------------
// Metadata, value infos

std::string bytes_field(wire::Field field, std::string_view bytes) {
  std::string out;
  wire::append_bytes(out, field, bytes);
  return out;
}

void read_metadata(std::string_view entry, std::string_view field, const char* origin, Metadata& to, std::string& unknown) {
  std::string_view key;
  std::string_view value;
  for (Reader r(entry, origin); r.next();) {
    switch (r.field()) {
      case StringStringEntryProto::kKey: key = r.bytes(); break;
      case StringStringEntryProto::kValue: value = r.bytes(); break;
      default: unknown += field; return;
    }
  }
  to.emplace_back(key, value);
}

ValueInfoRead read_value_info(std::string_view whole, TypeReader& types, const ModelBytes& source) {
  const char* origin = source.origin;
  ValueInfoRead info;
  info.wire = whole;
  std::string_view type;
  bool has_type = false;
  std::string kept_in_wire;
  for (Reader r(whole, origin); r.next();) {
    switch (r.field()) {
      case ValueInfoProto::kName: info.name = r.name(); break;
      case ValueInfoProto::kType:
        join(type, r.bytes(), source);
        has_type = true;
        break;
      case ValueInfoProto::kDocString: info.doc = r.bytes(); break;
      case ValueInfoProto::kMetadataProps: {
        const std::string_view entry = r.bytes();
        read_metadata(entry, {}, origin, info.metadata, kept_in_wire);
        break;
      }
      default: r.skip();
    }
  }
  if (has_type) {
    try {
      info.type = types.read(type);
    } catch (const Error& e) {
      throw e.with_note(fmt::format("in the type of '{}', at byte {}", info.name.view(), whole.data() - origin));
    }
  }
  return info;
}

}  // namespace sardonyx::onnx_file
