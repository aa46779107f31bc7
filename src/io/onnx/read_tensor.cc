// Reads TensorProto and SparseTensorProto.
#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>

#include "io/onnx/fields_onnx.h"
#include "io/onnx/onnx_parts.h"

namespace sardonyx::onnx_file {
namespace {

using wire::Field;
using wire::number_of;
using wire::Reader;

static_assert(std::endian::native == std::endian::little, "tensor bytes are taken from files as they are");

struct RawTensor {
  std::vector<int64_t> dims;
  int32_t data_type = 0;
  Name name;
  std::vector<std::string_view> external;  // entries
  bool is_external = false;
  bool has_segment = false;
  bool has_raw = false;
  std::string_view raw;
  uint32_t data_field = 0;               // number of the typed field in use, 0 if none
  std::vector<std::string_view> chunks;  // packed pieces of it, in order
  std::vector<std::string> strings;
  std::string single;     // elements stored one by one, in wire format
  bool gathered = false;  // there are some, so the chunks are not in the file
  std::string fields;
};

[[noreturn]] void bad(std::string message) { throw Error(ErrorCode::kInvalidModel, std::move(message)); }

void use_field(RawTensor& t, uint32_t number) {
  if (t.data_field != 0 && t.data_field != number) bad("a tensor has elements in two fields");
  t.data_field = number;
}

void flush_single(RawTensor& t, std::vector<std::unique_ptr<std::string>>& keep) {
  if (t.single.empty()) return;
  t.gathered = true;
  keep.push_back(std::make_unique<std::string>(std::move(t.single)));
  t.single.clear();
  t.chunks.push_back(*keep.back());
}

std::string shape_text(DType dtype, std::span<const int64_t> shape) {
  return fmt::format("{}[{}]", to_string(dtype), fmt::join(shape, ","));
}

uint64_t element_count(std::span<const int64_t> shape) {
  uint64_t n = 1;
  bool zero = false;
  for (int64_t d : shape) {
    if (d < 0) bad(fmt::format("a dimension is negative: {}", d));
    if (d == 0) zero = true;
  }
  if (zero) return 0;
  for (int64_t d : shape) {
    if (__builtin_mul_overflow(n, static_cast<uint64_t>(d), &n) || n >> 62 != 0) bad("the shape has too many elements");
  }
  return n;
}

Field field_of(DType t) {
  switch (t) {
    case DType::kF32:
    case DType::kC64: return TensorProto::kFloatData;
    case DType::kF64:
    case DType::kC128: return TensorProto::kDoubleData;
    case DType::kI64: return TensorProto::kInt64Data;
    case DType::kU32:
    case DType::kU64: return TensorProto::kUint64Data;
    case DType::kString: return TensorProto::kStringData;
    default: return TensorProto::kInt32Data;
  }
}

// Reads varints into elements of `width` bytes each, keeping the low bytes.
std::vector<std::byte> unpack(const RawTensor& t, uint64_t count, size_t width, const char* origin) {
  uint64_t available = 0;
  for (std::string_view chunk : t.chunks) {
    for (char c : chunk) available += static_cast<uint8_t>(c) < 0x80;
  }
  if (available != count) bad(fmt::format("it has {} elements, expected {}", available, count));
  std::vector<std::byte> out(count * width);
  std::byte* to = out.data();
  for (std::string_view chunk : t.chunks) {
    Reader r(chunk, origin);
    const char* end = chunk.data() + chunk.size();
    while (r.at() != end) {
      const uint64_t v = r.varint();
      std::memcpy(to, &v, width);
      to += width;
    }
  }
  return out;
}

int64_t parse_number(std::string_view key, std::string_view text) {
  int64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size() || v < 0) {
    bad(fmt::format("external data has {} '{}', which is not a size", key, text.substr(0, 40)));
  }
  return v;
}

TensorPtr read_external(const RawTensor& t, DType dtype, const ModelBytes& source, ExternalFiles& external) {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  for (std::string_view entry : t.external) {
    std::string_view key;
    std::string_view value;
    for (Reader r(entry, source.origin); r.next();) {
      switch (r.field()) {
        case StringStringEntryProto::kKey: key = r.bytes(); break;
        case StringStringEntryProto::kValue: value = r.bytes(); break;
        default: r.skip();
      }
    }
    if (key == "location") location = value;
    if (key == "offset") offset = static_cast<uint64_t>(parse_number(key, value));
    if (key == "length") length = static_cast<uint64_t>(parse_number(key, value));
  }
  if (dtype == DType::kString) throw Error(ErrorCode::kUnsupported, "strings cannot be external data");
  const uint64_t size = byte_size(dtype, element_count(t.dims));
  const auto file = external.open(location);
  if (length && *length != size) {
    bad(fmt::format("external data has length {}, but {} takes {} bytes", *length, shape_text(dtype, t.dims), size));
  }
  if (offset > file->size() || size > file->size() - offset) {
    bad(fmt::format("external data file '{}' is too short: it has {} bytes, and {} to {} are needed", location, file->size(),
                    offset, offset + size));
  }
  const auto part = file->bytes().subspan(offset, size);
  return Tensor::borrow(dtype, t.dims, part, file, file->range_of(part));
}

TensorPtr borrow(DType dtype, const std::vector<int64_t>& dims, std::string_view bytes, const ModelBytes& source) {
  const auto part = std::as_bytes(std::span(bytes));
  std::optional<FileRange> range;
  if (source.file != nullptr) {
    const auto all = source.file->bytes();  // joined bytes are not in the file
    if (part.data() >= all.data() && part.data() + part.size() <= all.data() + all.size()) range = source.file->range_of(part);
  }
  return Tensor::borrow(dtype, dims, part, source.keepalive, range);
}

TensorPtr make(RawTensor& t, const ModelBytes& source, ExternalFiles& external) {
  if (t.has_segment) {
    throw Error(ErrorCode::kUnsupported, "it is one segment of a larger tensor, which Sardonyx cannot read",
                {"help: store the tensor whole, as raw_data or external data"});
  }
  if (t.data_type <= 0 || t.data_type > static_cast<int32_t>(DType::kI2)) {
    throw Error(ErrorCode::kUnsupported, fmt::format("its element type {} is unknown", t.data_type));
  }
  const auto dtype = static_cast<DType>(t.data_type);
  const uint64_t count = element_count(t.dims);
  if (t.is_external) return read_external(t, dtype, source, external);
  if (dtype == DType::kString) {
    if (t.has_raw) bad("strings cannot be raw_data");
    if (t.data_field != 0 && t.data_field != number_of(TensorProto::kStringData)) bad("strings must be in string_data");
    return Tensor::strings(t.dims, std::move(t.strings));
  }
  if (t.has_raw) {
    if (t.data_field != 0) bad("a tensor has elements in two fields");
    return borrow(dtype, t.dims, t.raw, source);
  }
  const uint64_t size = byte_size(dtype, count);
  if (t.data_field == 0) {
    if (count != 0) bad(fmt::format("it is {}, but has no elements", shape_text(dtype, t.dims)));
    return Tensor::own(dtype, t.dims, {});
  }
  const Field field = field_of(dtype);
  if (t.data_field != number_of(field)) {
    bad(fmt::format("elements of {} cannot be in field {}", to_string(dtype), t.data_field));
  }
  if (field == TensorProto::kFloatData || field == TensorProto::kDoubleData) {  // the field's bytes are the elements
    if (t.chunks.size() == 1 && !t.gathered) return borrow(dtype, t.dims, t.chunks[0], source);
    std::vector<std::byte> all;
    for (std::string_view chunk : t.chunks) {
      const auto part = std::as_bytes(std::span(chunk));
      all.insert(all.end(), part.begin(), part.end());
    }
    return Tensor::own(dtype, t.dims, std::move(all));
  }
  const int width = bit_width(dtype);
  // Sub-byte elements are packed into bytes, and the field stores one number per byte.
  const uint64_t numbers = width < 8 ? size : count;
  return Tensor::own(dtype, t.dims, unpack(t, numbers, width < 8 ? 1 : static_cast<size_t>(width / 8), source.origin));
}

}  // namespace

TensorRead read_tensor(std::string_view whole, const ModelBytes& source, ExternalFiles& external) {
  RawTensor t;
  std::vector<std::unique_ptr<std::string>> keep;
  for (Reader r(whole, source.origin); r.next();) {
    switch (r.field()) {
      case TensorProto::kDims:
      case packed(TensorProto::kDims): r.int64s(t.dims); break;
      case TensorProto::kDataType: t.data_type = r.int32(); break;
      case TensorProto::kSegment:
        t.has_segment = true;
        r.skip();
        break;
      case packed(TensorProto::kFloatData):
      case packed(TensorProto::kInt32Data):
      case packed(TensorProto::kInt64Data):
      case packed(TensorProto::kDoubleData):
      case packed(TensorProto::kUint64Data): {
        const uint32_t number = r.number();
        const std::string_view chunk = r.bytes();
        if (chunk.empty()) break;
        use_field(t, number);
        flush_single(t, keep);
        t.chunks.push_back(chunk);
        break;
      }
      case TensorProto::kFloatData:
      case TensorProto::kInt32Data:
      case TensorProto::kInt64Data:
      case TensorProto::kUint64Data:
      case TensorProto::kDoubleData: {
        use_field(t, r.number());
        const char* value = r.at();
        const std::string_view field = r.skip();
        t.single.append(value, static_cast<size_t>(field.data() + field.size() - value));
        break;
      }
      case TensorProto::kStringData:
        use_field(t, r.number());
        t.strings.emplace_back(r.bytes());
        break;
      case TensorProto::kName: t.name = r.name(); break;
      case TensorProto::kRawData:
        t.has_raw = true;
        t.raw = r.bytes();
        break;
      case TensorProto::kExternalData: t.external.push_back(r.bytes()); break;
      case TensorProto::kDataLocation: t.is_external = r.int32() == 1; break;
      default: t.fields += r.skip();  // doc_string, metadata_props, and unknown fields
    }
  }
  flush_single(t, keep);
  try {
    TensorPtr tensor = make(t, source, external);
    return {std::move(tensor), t.name, std::move(t.fields)};
  } catch (const Error& e) {
    throw e.with_note(fmt::format("in tensor '{}', at byte {}", t.name.view(), whole.data() - source.origin));
  }
}

TensorRead read_sparse_tensor(std::string_view whole, const ModelBytes& source, ExternalFiles& external) {
  std::string_view values_wire;
  std::string_view indices_wire;
  std::vector<int64_t> dims;
  for (Reader r(whole, source.origin); r.next();) {
    switch (r.field()) {
      case SparseTensorProto::kValues: values_wire = r.bytes(); break;
      case SparseTensorProto::kIndices: indices_wire = r.bytes(); break;
      case SparseTensorProto::kDims:
      case packed(SparseTensorProto::kDims): r.int64s(dims); break;
      default: r.skip();  // the whole message is kept for writing
    }
  }
  TensorRead values = read_tensor(values_wire, source, external);
  const TensorPtr indices = read_tensor(indices_wire, source, external).tensor;
  try {
    const TensorPtr& v = values.tensor;
    if (v->dtype() == DType::kString || bit_width(v->dtype()) < 8) {
      throw Error(ErrorCode::kUnsupported, fmt::format("sparse tensors of {} cannot be read", to_string(v->dtype())));
    }
    const auto n = static_cast<int64_t>(v->size());
    const auto rank = static_cast<int64_t>(dims.size());
    const bool linear = indices->rank() == 1;
    if (v->rank() != 1 || indices->dtype() != DType::kI64 || indices->size() != (linear ? n : n * rank) ||
        indices->rank() > 2) {
      bad(fmt::format("a sparse tensor of {} values has indices {}", n, shape_text(indices->dtype(), indices->shape())));
    }
    const uint64_t total = element_count(dims);
    const size_t width = static_cast<size_t>(bit_width(v->dtype())) / 8;
    (void)byte_size(v->dtype(), total);
    std::vector<uint64_t> places(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      uint64_t at = 0;
      for (int64_t k = 0; k < (linear ? 1 : rank); ++k) {
        const int64_t index = indices->as_int(linear ? i : i * rank + k);
        const auto bound = linear ? static_cast<int64_t>(total) : dims[static_cast<size_t>(k)];
        if (index < 0 || index >= bound) bad(fmt::format("a sparse index is {}, outside 0 to {}", index, bound - 1));
        at = linear ? static_cast<uint64_t>(index) : at * static_cast<uint64_t>(bound) + static_cast<uint64_t>(index);
      }
      places[static_cast<size_t>(i)] = at;
    }
    values.tensor = Tensor::defer(v->dtype(), dims, [v, places = std::move(places), total, width] {
      std::vector<std::byte> scratch;
      const auto from = v->bytes(scratch);
      std::vector<std::byte> dense(total * width);
      for (size_t i = 0; i < places.size(); ++i) std::memcpy(dense.data() + places[i] * width, from.data() + i * width, width);
      return dense;
    });
    values.fields.clear();
    return values;
  } catch (const Error& e) {
    throw e.with_note(fmt::format("in sparse tensor '{}', at byte {}", values.name.view(), whole.data() - source.origin));
  }
}

}  // namespace sardonyx::onnx_file
