// Types, values and blob files of Core ML.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "io/coreml/fields_coreml.h"
#include "io/coreml/mil_parts.h"

namespace sardonyx::mil_file {
namespace {

using namespace milspec;
using wire::kBytes;
using wire::kVarint;
using wire::Reader;

struct DTypeRow {
  DType dtype;
  uint32_t number;       // in DataType
  uint32_t blob_number;  // in blob files
};

constexpr DTypeRow kDTypes[] = {
    {DType::kBool, 1, 0},       {DType::kString, 2, 0},   {DType::kF16, 10, 1}, {DType::kF32, 11, 2},  {DType::kF64, 12, 0},
    {DType::kBF16, 13, 5},      {DType::kI8, 21, 4},      {DType::kI16, 22, 6}, {DType::kI32, 23, 14}, {DType::kI64, 24, 0},
    {DType::kI4, 25, 8},        {DType::kU8, 31, 3},      {DType::kU16, 32, 7}, {DType::kU32, 33, 15}, {DType::kU64, 34, 0},
    {DType::kU4, 35, 11},       {DType::kU2, 36, 10},     {DType::kU1, 37, 9},  {DType::kU6, 38, 13},  {DType::kU3, 39, 12},
    {DType::kF8E4M3FN, 40, 16}, {DType::kF8E5M2, 41, 17},
};

[[noreturn]] void invalid(std::string message, std::vector<std::string> notes = {}) {
  throw Error(ErrorCode::kInvalidModel, std::move(message), std::move(notes));
}

// Refuses fields whose meaning would be lost.
[[noreturn]] void newer(const Reader& r, std::string_view message) {
  throw Error(ErrorCode::kUnsupported, fmt::format("field {} of a {} message is not known", r.number(), message),
              {fmt::format("at byte {}", r.start() - r.origin()), "the file may come from a newer version of Core ML"});
}

int64_t elements_of(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape) {
    if (d < 0 || __builtin_mul_overflow(n, d, &n)) invalid("the sizes of a constant overflow");
  }
  return n;
}

}  // namespace

DType dtype_of(uint64_t number) {
  for (const DTypeRow& row : kDTypes) {
    if (row.number == number) return row.dtype;
  }
  return DType::kUndefined;
}

uint32_t number_of(DType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return row.number;
  }
  return 0;
}

uint32_t blob_number_of(DType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return row.blob_number;
  }
  return 0;
}

// ---------------------------------------------------------------------------------------------------------------------
// Blobs

TensorPtr read_blob(const std::shared_ptr<const MappedFile>& file, uint64_t offset, DType dtype, std::vector<int64_t> shape) {
  const auto all = file->bytes();
  const auto wrong = [&](std::string why) {
    invalid(fmt::format("the weights in {} are damaged or do not belong to this program: {}", file->path().string(), why),
            {fmt::format("looked for {} bytes of {} at offset {}", byte_size(dtype, static_cast<uint64_t>(elements_of(shape))),
                         to_string(dtype), offset)});
  };
  const auto u32 = [&](uint64_t at) {
    uint32_t v;
    std::memcpy(&v, all.data() + at, sizeof v);
    return v;
  };
  const auto u64 = [&](uint64_t at) {
    uint64_t v;
    std::memcpy(&v, all.data() + at, sizeof v);
    return v;
  };
  if (all.size() < kBlobAlignment) wrong(fmt::format("the file has {} bytes, less than its header", all.size()));
  if (u32(4) != kBlobVersion) wrong(fmt::format("its storage version is {}, not {}", u32(4), kBlobVersion));
  if (offset % kBlobAlignment != 0) wrong(fmt::format("offset {} is not a multiple of {}", offset, kBlobAlignment));
  if (offset > all.size() || all.size() - offset < kBlobAlignment) wrong(fmt::format("the file ends at {}", all.size()));
  if (u32(offset) != kBlobSentinel) wrong("there is no tensor at that offset");
  const uint32_t number = u32(offset + 4);
  const uint64_t size = u64(offset + 8), data = u64(offset + 16);
  if (number != blob_number_of(dtype) || number == 0) wrong(fmt::format("the tensor there has element type {}", number));
  if (size != byte_size(dtype, static_cast<uint64_t>(elements_of(shape))))
    wrong(fmt::format("the tensor there has {} bytes", size));
  if (data > all.size() || size > all.size() - data)
    wrong(fmt::format("its bytes {} to {} are beyond the end at {}", data, data + size, all.size()));
  const auto bytes = all.subspan(data, size);
  return Tensor::borrow(dtype, std::move(shape), bytes, file, file->range_of(bytes));
}

bool belongs_in_blob(const Tensor& t, bool wide) {
  if (t.size() < 10) return false;
  switch (t.dtype()) {
    case DType::kF16:
    case DType::kF32:
    case DType::kU8:
    case DType::kI8:
    case DType::kU1:
    case DType::kU2:
    case DType::kU3:
    case DType::kU4:
    case DType::kU6:
    case DType::kI4: return true;
    case DType::kU16:
    case DType::kI16:
    case DType::kI32:
    case DType::kU32: return wide;
    default: return false;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Types

TypeReader::Result TypeReader::read(std::string_view wire, bool symbols) {
  if (!symbols) {
    if (const auto known = seen_.find(wire); known != seen_.end()) return known->second;
  }
  symbols_ = symbols;
  unknown_ = false;
  const Result result = parse(wire, 0);
  if (!unknown_ && !symbols) seen_.emplace(wire, result);
  return result;
}

TypeReader::Result TypeReader::parse(std::string_view wire, int depth) {
  if (depth > 16) throw Error(ErrorCode::kLimit, "types nest more than 16 levels");
  Result result;
  for (Reader r(wire, origin_); r.next();) {
    switch (r.field()) {
      case ValueType::kTensorType: result = parse_tensor(r.bytes()); break;
      case ValueType::kListType: {
        const Type* element = nullptr;
        Dim length = Dim();
        for (Reader l(r.bytes(), origin_); l.next();) {
          if (l.field() == ListType::kType) {
            const Result e = parse(l.bytes(), depth + 1);
            element = e.type;
            result.lossy |= e.lossy;
          } else if (l.field() == ListType::kLength) {
            bool variadic = false;
            length = parse_dim(l.bytes(), &variadic);
            result.lossy |= variadic;
          } else {
            l.skip();
            result.lossy = true;
          }
        }
        if (length.is_anonymous()) unknown_ = true;
        result.type = types_.make(TypeKind::kList, DType::kUndefined, {&element, 1}, {&length, 1}, true);
        break;
      }
      case ValueType::kTupleType: {
        std::vector<const Type*> elements;
        for (Reader l(r.bytes(), origin_); l.next();) {
          if (l.field() == TupleType::kTypes) {
            const Result e = parse(l.bytes(), depth + 1);
            elements.push_back(e.type);
            result.lossy |= e.lossy;
          } else {
            l.skip();
            result.lossy = true;
          }
        }
        result.type = types_.make(TypeKind::kTuple, DType::kUndefined, elements);
        break;
      }
      case ValueType::kDictionaryType: {
        Result key, value;
        for (Reader l(r.bytes(), origin_); l.next();) {
          if (l.field() == DictionaryType::kKeyType) {
            key = parse(l.bytes(), depth + 1);
          } else if (l.field() == DictionaryType::kValueType) {
            value = parse(l.bytes(), depth + 1);
          } else {
            l.skip();
            result.lossy = true;
          }
        }
        const bool scalar = key.type != nullptr && key.type->is_tensor() && key.type->ranked() && key.type->rank() == 0;
        result.lossy |= key.lossy || value.lossy || !scalar;
        result.type = types_.make(TypeKind::kMap, key.type ? key.type->dtype() : DType::kUndefined, {&value.type, 1});
        break;
      }
      case ValueType::kStateType: {
        Result wrapped;
        for (Reader l(r.bytes(), origin_); l.next();) {
          if (l.field() == StateType::kWrappedType) {
            wrapped = parse(l.bytes(), depth + 1);
          } else {
            l.skip();
            result.lossy = true;
          }
        }
        result.lossy |= wrapped.lossy;
        result.type = types_.make(TypeKind::kState, DType::kUndefined, {&wrapped.type, 1});
        break;
      }
      default: r.skip(); result.lossy = true;
    }
  }
  return result;
}

TypeReader::Result TypeReader::parse_tensor(std::string_view wire) {
  Result result;
  DType dtype = DType::kUndefined;
  int64_t rank = 0;
  bool variadic = false;
  std::vector<Dim> dims;
  for (Reader r(wire, origin_); r.next();) {
    switch (r.field()) {
      case TensorType::kDataType: {
        const uint64_t number = r.varint();
        dtype = dtype_of(number);
        if (dtype == DType::kUndefined && number != 0)
          throw Error(ErrorCode::kUnsupported, fmt::format("element type {} of Core ML is not known", number));
        break;
      }
      case TensorType::kRank: rank = r.int64(); break;
      case TensorType::kDimensions: dims.push_back(parse_dim(r.bytes(), &variadic)); break;
      default: r.skip(); result.lossy = true;
    }
  }
  if (rank < 0 || variadic) {
    result.lossy |= rank >= 0 || dims.size() != 1;
    result.type = types_.unranked(dtype);
    return result;
  }
  if (rank != static_cast<int64_t>(dims.size())) invalid(fmt::format("a type has rank {} and {} sizes", rank, dims.size()));
  result.type = types_.tensor(dtype, dims);
  return result;
}

Dim TypeReader::parse_dim(std::string_view wire, bool* variadic) {
  bool constant = false;
  int64_t size = 0;
  for (Reader r(wire, origin_); r.next();) {
    if (r.field() == Dimension::kConstant) {
      constant = true;
      for (Reader c(r.bytes(), origin_); c.next();) {
        if (c.field() != Dimension::ConstantDimension::kSize) newer(c, "Dimension");
        size = c.int64();
      }
    } else if (r.field() == Dimension::kUnknown) {
      constant = false;
      for (Reader u(r.bytes(), origin_); u.next();) {
        if (u.field() != Dimension::UnknownDimension::kVariadic) newer(u, "Dimension");
        *variadic = u.varint() != 0;
      }
    } else {
      newer(r, "Dimension");
    }
  }
  if (constant) {
    if (size < 0) invalid(fmt::format("a size is {}", size));
    return Dim::of(size);
  }
  unknown_ = true;
  if (symbols_ && !*variadic) return types_.dims().symbol(fmt::format("is{}", next_symbol_++));
  return types_.dims().fresh_unknown();
}

namespace {

std::string field(wire::Field f, std::string_view content) {
  std::string out;
  wire::append_bytes(out, f, content);
  return out;
}
std::string number(wire::Field f, uint64_t v) {
  std::string out;
  if (v != 0) wire::append_number(out, f, v);
  return out;
}

std::string data_type(DType dtype) {
  const uint32_t n = number_of(dtype);
  if (n == 0 && dtype != DType::kUndefined) invalid(fmt::format("Core ML has no element type {}", to_string(dtype)));
  return number(TensorType::kDataType, n);
}

std::string known_dim(int64_t size) {
  return field(Dimension::kConstant, number(Dimension::ConstantDimension::kSize, static_cast<uint64_t>(size)));
}
std::string dim(Dim d) { return d.is_int() ? known_dim(d.value()) : field(Dimension::kUnknown, {}); }

std::string tensor_type(const Type* t) {
  std::string out = data_type(t->dtype());
  if (t->ranked()) {
    out += number(TensorType::kRank, t->rank());
    for (Dim d : t->dims()) out += field(TensorType::kDimensions, dim(d));
  } else {
    out += number(TensorType::kRank, static_cast<uint64_t>(-1));
    out += field(TensorType::kDimensions, field(Dimension::kUnknown, number(Dimension::UnknownDimension::kVariadic, 1)));
  }
  return field(ValueType::kTensorType, out);
}

std::string list_type(const std::string& element, const std::string& length) {
  return field(ValueType::kListType, field(ListType::kType, element) + field(ListType::kLength, length));
}

}  // namespace

std::string encode_tensor_type(DType dtype, std::span<const int64_t> shape) {
  std::string out = data_type(dtype) + number(TensorType::kRank, shape.size());
  for (int64_t size : shape) out += field(TensorType::kDimensions, known_dim(size));
  return field(ValueType::kTensorType, out);
}

std::string encode_list_type(DType element, int64_t length) {
  return list_type(encode_tensor_type(element, {}), known_dim(length));
}

std::string encode_type(const Type* t, const Types& types) {
  if (t == nullptr) invalid("a value without a type cannot be written", {"help: infer types first"});
  switch (t->kind()) {
    case TypeKind::kTensor: return tensor_type(t);
    case TypeKind::kList: return list_type(encode_type(t->element(), types), dim(t->dims().empty() ? Dim() : t->dim(0)));
    case TypeKind::kTuple: {
      std::string all;
      for (const Type* e : t->elements()) all += field(TupleType::kTypes, encode_type(e, types));
      return field(ValueType::kTupleType, all);
    }
    case TypeKind::kMap: {
      const std::string key = field(ValueType::kTensorType, data_type(t->dtype()));
      return field(ValueType::kDictionaryType,
                   field(DictionaryType::kKeyType, key) + field(DictionaryType::kValueType, encode_type(t->element(), types)));
    }
    case TypeKind::kState:
      return field(ValueType::kStateType, field(StateType::kWrappedType, encode_type(t->element(), types)));
    default: break;
  }
  invalid(fmt::format("Core ML has no type {}", types.to_string(t)));
}

// ---------------------------------------------------------------------------------------------------------------------
// Values

namespace {

class ImmediateReader {
 public:
  ImmediateReader(DType dtype, std::vector<int64_t> shape, const FileSource& source)
      : dtype_(dtype), shape_(std::move(shape)), count_(elements_of(shape_)), source_(source) {}

  TensorPtr read(std::string_view wire) {
    for (Reader r(wire, source_.origin); r.next();) {
      if (r.type() != kBytes || r.number() > number_of(TensorValue::kBytes)) newer(r, "TensorValue");
      const wire::Field field = r.field();
      for (Reader v(r.bytes(), source_.origin); v.next();) {
        if (v.number() != number_of(TensorValue::RepeatedInts::kValues)) newer(v, "TensorValue");  // it is 1 in all of them
        one(field, v);
      }
    }
    if (dtype_ == DType::kString) {
      check(static_cast<int64_t>(strings_.size()));
      return Tensor::strings(std::move(shape_), std::move(strings_));
    }
    if (!whole_.empty() && bytes_.empty()) {
      const auto span = std::as_bytes(std::span(whole_));
      check_bytes(span.size());
      std::optional<FileRange> range;
      if (source_.file != nullptr) range = source_.file->range_of(span);
      return Tensor::borrow(dtype_, std::move(shape_), span, source_.keepalive, range);
    }
    if (count_ != 0 || !bytes_.empty()) check_bytes(bytes_.size());
    return Tensor::own(dtype_, std::move(shape_), std::move(bytes_));
  }

 private:
  void one(wire::Field field, Reader& v) {
    switch (field) {
      case TensorValue::kFloats: return fixed<uint32_t>(v, DType::kF32);
      case TensorValue::kDoubles: return fixed<uint64_t>(v, DType::kF64);
      case TensorValue::kStrings:
        if (dtype_ != DType::kString || v.type() != kBytes) wrong("strings");
        strings_.emplace_back(v.bytes());
        return;
      case TensorValue::kBytes:
        if (dtype_ == DType::kString || dtype_ == DType::kBool || v.type() != kBytes) wrong("bytes");
        return piece(v.bytes());
      case TensorValue::kBools:
        if (dtype_ != DType::kBool) wrong("truth values");
        return varints(v);
      default:
        if (!is_integer(dtype_) || bit_width(dtype_) < 8) wrong("integers");
        return varints(v);
    }
  }
  template <class T>
  void fixed(Reader& v, DType dtype) {
    if (dtype_ != dtype) wrong("floats");
    if (v.type() == kBytes) return piece(v.bytes());
    const T x = v.fixed<T>();
    add({reinterpret_cast<const char*>(&x), sizeof x});
  }
  void varints(Reader& v) {
    if (v.type() == kVarint) return integer(v.varint());
    const std::string_view packed = v.bytes();
    bytes_.reserve(bytes_.size() + static_cast<size_t>(std::min<uint64_t>(packed.size(), static_cast<uint64_t>(count_))) *
                                       static_cast<size_t>(bit_width(dtype_) / 8));
    for (Reader list(packed, v.origin()); list.at() != packed.data() + packed.size();) integer(list.varint());
  }
  void integer(uint64_t x) {
    if (dtype_ == DType::kBool) x = x != 0 ? 1 : 0;
    const auto size = static_cast<size_t>(bit_width(dtype_) / 8);
    if (size < 8) {
      const auto v = static_cast<int64_t>(x);
      const int64_t low = is_signed(dtype_) ? -(int64_t{1} << (8 * size - 1)) : 0;
      const int64_t high = (int64_t{1} << (8 * size - (is_signed(dtype_) ? 1 : 0))) - 1;
      // u32 shares its field with i32: negative numbers are its upper half.
      const bool wrapped = dtype_ == DType::kU32 && v < 0 && v >= INT32_MIN;
      if (!wrapped && dtype_ != DType::kBool && (v < low || v > high))
        invalid(fmt::format("{} is no {}", v, to_string(dtype_)));
    }
    add({reinterpret_cast<const char*>(&x), size});
  }
  void piece(std::string_view bytes) {
    if (whole_.empty() && bytes_.empty()) {
      whole_ = bytes;
    } else {
      add(bytes);
    }
  }
  void add(std::string_view bytes) {
    const auto* at = reinterpret_cast<const std::byte*>(whole_.data());
    if (bytes_.empty() && !whole_.empty()) bytes_.assign(at, at + whole_.size());
    at = reinterpret_cast<const std::byte*>(bytes.data());
    bytes_.insert(bytes_.end(), at, at + bytes.size());
  }
  void check(int64_t given) const {
    if (given != count_) invalid(fmt::format("a constant of {} elements has values for {}", count_, given));
  }
  void check_bytes(size_t given) const {
    const size_t wanted = byte_size(dtype_, static_cast<uint64_t>(count_));
    if (given != wanted) invalid(fmt::format("a constant of {} bytes has values for {}", wanted, given));
  }
  [[noreturn]] void wrong(std::string_view what) const {
    invalid(fmt::format("a constant of {} has {} as its values", to_string(dtype_), what));
  }

  DType dtype_;
  std::vector<int64_t> shape_;
  int64_t count_;
  const FileSource& source_;
  std::string_view whole_;  // the only chunk so far, in place
  std::vector<std::byte> bytes_;
  std::vector<std::string> strings_;
};

std::vector<int64_t> static_shape(const Type* t) {
  if (!t->is_tensor() || !t->is_static()) invalid("a constant has a size that is not known");
  std::vector<int64_t> shape;
  for (Dim d : t->dims()) shape.push_back(d.value());
  return shape;
}

// Reads a list of scalars of one type as a tensor of rank 1; null for other values.
TensorPtr read_list(std::string_view wire, const FileSource& source, ExternalFiles& weights, TypeReader& types) {
  std::vector<TensorPtr> elements;
  for (Reader r(wire, source.origin); r.next();) {
    if (r.field() != ListValue::kValues) return nullptr;
    const ValueRead one = read_value(r.bytes(), source, weights, types);
    if (one.extra || one.tensor == nullptr || one.tensor->rank() != 0 || !one.type->is_tensor()) return nullptr;
    if (!elements.empty() && elements[0]->dtype() != one.tensor->dtype()) return nullptr;
    elements.push_back(one.tensor);
  }
  if (elements.empty() || (elements[0]->dtype() != DType::kString && bit_width(elements[0]->dtype()) < 8)) return nullptr;
  const auto count = static_cast<int64_t>(elements.size());
  const DType dtype = elements[0]->dtype();
  if (dtype == DType::kString) {
    std::vector<std::string> all;
    for (const TensorPtr& t : elements) all.push_back(t->string_values()[0]);
    return Tensor::strings({count}, std::move(all));
  }
  std::vector<std::byte> all, scratch;
  for (const TensorPtr& t : elements) {
    const auto bytes = t->bytes(scratch);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return Tensor::own(dtype, {count}, std::move(all));
}

}  // namespace

ValueRead read_value(std::string_view wire, const FileSource& source, ExternalFiles& weights, TypeReader& types) {
  ValueRead out;
  std::string_view immediate, blob;
  bool has_immediate = false, has_blob = false;
  TypeReader::Result type;
  for (Reader r(wire, source.origin); r.next();) {
    switch (r.field()) {
      case milspec::Value::kType: type = types.read(r.bytes()); break;
      case milspec::Value::kImmediateValue: immediate = r.bytes(), has_immediate = true, has_blob = false; break;
      case milspec::Value::kBlobFileValue: blob = r.bytes(), has_blob = true, has_immediate = false; break;
      default: r.skip(); out.extra = true;
    }
  }
  out.type = type.type;
  out.extra |= type.lossy;
  if (out.type == nullptr) invalid("a value has no type");
  if (has_blob) {
    std::string_view name;
    uint64_t offset = 0;
    for (Reader r(blob, source.origin); r.next();) {
      if (r.field() == milspec::Value::BlobFileValue::kFileName) {
        name = r.bytes();
      } else if (r.field() == milspec::Value::BlobFileValue::kOffset) {
        offset = r.varint();
      } else {
        newer(r, "BlobFileValue");
      }
    }
    std::string_view relative = name;
    if (relative.starts_with(kModelPath)) relative.remove_prefix(kModelPath.size());
    out.tensor = read_blob(weights.open(std::string(relative)), offset, out.type->dtype(), static_shape(out.type));
    return out;
  }
  if (!has_immediate) invalid("a value has a type and no content");
  for (Reader r(immediate, source.origin); r.next();) {
    switch (r.field()) {
      case milspec::Value::ImmediateValue::kTensor:
        out.tensor = ImmediateReader(out.type->dtype(), static_shape(out.type), source).read(r.bytes());
        break;
      case milspec::Value::ImmediateValue::kList: out.tensor = read_list(r.bytes(), source, weights, types); break;
      default: r.skip();
    }
  }
  const bool list = out.type->kind() == TypeKind::kList;
  if (out.tensor != nullptr && !list && !out.type->is_tensor()) invalid("the content of a value is not of its type");
  if (out.tensor != nullptr && !list && belongs_in_blob(*out.tensor, source.wide_blobs) && source.spelled_out != nullptr)
    source.spelled_out->emplace(out.tensor.get(), out.tensor);
  return out;
}

}  // namespace sardonyx::mil_file
