// Formats: NumPy's enhancement proposal 1 (npy), and PKWARE's APPNOTE for the zip archive of several of them
// (npz), including its 64-bit extensions. Members are stored, not compressed.
#include "io/array_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "sardonyx/error.h"
#include "support/files/atomic_file.h"
#include "support/files/mapped_file.h"

namespace sardonyx {
namespace {

using Bytes = std::span<const std::byte>;

[[noreturn]] void damaged(const std::filesystem::path& path, std::string_view what) {
  throw Error(ErrorCode::kInvalidModel, fmt::format("{} is not an array file: {}", path.string(), what));
}
[[noreturn]] void unsupported(const std::filesystem::path& path, std::string_view what, std::string help) {
  throw Error(ErrorCode::kUnsupported, fmt::format("{} {}", path.string(), what), {"help: " + std::move(help)});
}

uint64_t little_endian(Bytes b, size_t at, size_t width) {
  uint64_t v = 0;
  for (size_t i = 0; i < width; ++i) v |= static_cast<uint64_t>(b[at + i]) << (8 * i);
  return v;
}

// --- npy: its header is a Python dict

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::filesystem::path& path) : text_(text), path_(path) {}

  Header run() {
    Header h;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!eat('}')) {
      const std::string key = text();
      expect(':');
      if (key == "descr") {
        if (peek() == '[') unsupported(path_, "holds records", "save one array for each field");
        h.descr = text();
        has_descr = true;
      } else if (key == "fortran_order") {
        h.fortran = word() == "True";
        has_order = true;
      } else if (key == "shape") {
        expect('(');
        while (!eat(')')) {
          h.shape.push_back(number());
          eat(',');
        }
        has_shape = true;
      } else {
        damaged(path_, "its header has an entry that is not known");
      }
      eat(',');
    }
    if (!has_descr || !has_order || !has_shape) damaged(path_, "its header lacks an entry");
    return h;
  }

 private:
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool eat(char c) {
    if (peek() != c) return false;
    return ++at_, true;
  }
  void expect(char c) {
    if (!eat(c)) damaged(path_, fmt::format("its header lacks a '{}'", c));
  }
  std::string text() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') damaged(path_, "its header lacks a string");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) damaged(path_, "its header lacks a quote");
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  std::string_view word() {
    peek();
    const size_t begin = at_;
    while (at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_]))) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  int64_t number() {
    peek();
    int64_t v = 0;
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, text_[at_] - '0', &v))
        damaged(path_, "a size is too large");
      ++at_;
    }
    if (at_ == begin) damaged(path_, "its header lacks a number");
    return v;
  }

  std::string_view text_;
  const std::filesystem::path& path_;
  size_t at_ = 0;
};

std::string utf8(Bytes cells) {  // UTF-32, padded with zeros
  std::string out;
  for (size_t i = 0; i + 4 <= cells.size(); i += 4) {
    const auto c = static_cast<uint32_t>(little_endian(cells, i, 4));
    if (c == 0) break;
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += {static_cast<char>(0xc0 | (c >> 6)), static_cast<char>(0x80 | (c & 63))};
    } else if (c < 0x10000) {
      out +=
          {static_cast<char>(0xe0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 63)), static_cast<char>(0x80 | (c & 63))};
    } else {
      out += {static_cast<char>(0xf0 | ((c >> 18) & 7)), static_cast<char>(0x80 | ((c >> 12) & 63)),
              static_cast<char>(0x80 | ((c >> 6) & 63)), static_cast<char>(0x80 | (c & 63))};
    }
  }
  return out;
}

std::vector<uint32_t> utf32(std::string_view s) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i < s.size();) {
    const auto first = static_cast<uint8_t>(s[i]);
    const size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
    uint32_t c = more == 0 ? first : first & (0x3fu >> more);
    for (size_t k = 1; k <= more && i + k < s.size(); ++k) c = (c << 6) | (static_cast<uint8_t>(s[i + k]) & 63u);
    out.push_back(c);
    i += more + 1;
  }
  return out;
}

// Converts column-major elements to row-major order.
std::vector<std::byte> transposed(Bytes from, std::span<const int64_t> shape, size_t width) {
  std::vector<std::byte> out(from.size());
  std::vector<int64_t> index(shape.size(), 0);
  const size_t n = from.size() / width;
  for (size_t i = 0; i < n; ++i) {
    int64_t at = 0, step = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      at += index[d] * step;
      step *= shape[d];
    }
    std::memcpy(out.data() + i * width, from.data() + static_cast<size_t>(at) * width, width);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

constexpr std::array<std::pair<std::string_view, DType>, 15> kDescr = {{{"f4", DType::kF32},
                                                                        {"f8", DType::kF64},
                                                                        {"f2", DType::kF16},
                                                                        {"i1", DType::kI8},
                                                                        {"i2", DType::kI16},
                                                                        {"i4", DType::kI32},
                                                                        {"i8", DType::kI64},
                                                                        {"u1", DType::kU8},
                                                                        {"u2", DType::kU16},
                                                                        {"u4", DType::kU32},
                                                                        {"u8", DType::kU64},
                                                                        {"b1", DType::kBool},
                                                                        {"c8", DType::kC64},
                                                                        {"c16", DType::kC128},
                                                                        {"V2", DType::kBF16}}};

TensorPtr parse_npy(Bytes file, const std::shared_ptr<const void>& keepalive, const std::filesystem::path& path,
                    std::optional<DType> expected) {
  static constexpr std::string_view kMagic = "\x93NUMPY";
  if (file.size() < 10 || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0)
    damaged(path, "it does not begin as one");
  const auto version = static_cast<int>(file[6]);
  const size_t prefix = version == 1 ? 10 : 12;
  if (version < 1 || version > 3 || file.size() < prefix) damaged(path, "its version is not known");
  const uint64_t length = little_endian(file, 8, version == 1 ? 2 : 4);
  if (length > file.size() - prefix) damaged(path, "its header is cut off");
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + prefix, length);
  Header h = HeaderParser(text, path).run();
  Bytes data = file.subspan(prefix + length);

  const char order = h.descr.empty() ? ' ' : h.descr[0];
  const std::string_view kind = std::string_view(h.descr).substr(std::min<size_t>(1, h.descr.size()));
  if (kind.starts_with("O")) unsupported(path, "holds Python objects", "save strings as arrays of dtype str");
  int64_t n = 1;
  for (int64_t d : h.shape) {
    if (__builtin_mul_overflow(n, d, &n)) damaged(path, "its shape is too large");
  }
  const auto count = static_cast<uint64_t>(n);
  if (kind.starts_with("U") || kind.starts_with("S")) {
    const bool wide = kind[0] == 'U';
    uint64_t cell = 0;
    for (char c : kind.substr(1)) {
      if (c < '0' || c > '9' || cell > 1'000'000'000) damaged(path, "its element type is not known");
      cell = cell * 10 + static_cast<uint64_t>(c - '0');
    }
    if (wide) cell *= 4;
    uint64_t needed = 0;
    if (__builtin_mul_overflow(cell, count, &needed) || data.size() < needed || count > (uint64_t{1} << 32))
      damaged(path, "its data is cut off");
    if (h.fortran && h.shape.size() > 1)
      unsupported(path, "holds strings in column-major order", "save np.ascontiguousarray(x)");
    std::vector<std::string> strings;
    for (uint64_t i = 0; i < count; ++i) {
      const Bytes one = data.subspan(i * cell, cell);
      if (wide) {
        strings.push_back(utf8(one));
      } else {
        std::string s(reinterpret_cast<const char*>(one.data()), one.size());
        s.resize(s.find_last_not_of('\0') + 1);
        strings.push_back(std::move(s));
      }
    }
    return Tensor::strings(std::move(h.shape), std::move(strings));
  }
  std::optional<DType> dtype;
  for (const auto& [name, t] : kDescr) {
    if (kind == name) dtype = t;
  }
  if (kind == "f1" && !expected) expected = DType::kF8E5M2;  // ml_dtypes' spelling
  if (kind == "V1" || kind == "V2" || kind == "f1") {
    if (!expected)
      unsupported(path, fmt::format("holds raw elements (\"{}\")", h.descr),
                  "say what they are: the model's input does, if it has a type");
    dtype = expected;
    if (bit_width(*dtype) > 16 || (kind == "V2") != (bit_width(*dtype) == 16)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} holds elements of {} bytes, expected {}", path.string(), kind.substr(1), to_string(*dtype)));
    }
  }
  if (!dtype)
    unsupported(path, fmt::format("holds elements of a type (\"{}\") that is not known", h.descr), "convert the array first");
  if (order == '>' && bit_width(*dtype) > 8) unsupported(path, "is big-endian", "save x.astype(x.dtype.newbyteorder('<'))");
  const bool packed = bit_width(*dtype) < 8;
  const size_t width = packed ? 1 : static_cast<size_t>(bit_width(*dtype)) / 8;
  uint64_t needed = 0;
  if (__builtin_mul_overflow(width, count, &needed) || data.size() < needed) damaged(path, "its data is cut off");
  data = data.first(needed);
  std::shared_ptr<const void> owner = keepalive;
  if (h.fortran && h.shape.size() > 1) {
    auto row_major = std::make_shared<std::vector<std::byte>>(transposed(data, h.shape, width));
    data = *row_major;
    owner = std::move(row_major);
  }
  if (!packed) return Tensor::borrow(*dtype, std::move(h.shape), data, std::move(owner));
  const int bits = bit_width(*dtype);
  std::vector<std::byte> out(byte_size(*dtype, count), std::byte{0});
  for (uint64_t i = 0; i < count; ++i) {
    const auto bit = i * static_cast<uint64_t>(bits);
    out[bit / 8] |= static_cast<std::byte>((static_cast<unsigned>(data[i]) & ((1u << bits) - 1)) << (bit % 8));
  }
  return Tensor::own(*dtype, std::move(h.shape), std::move(out));
}

// The bytes of an .npy file, header and data separate.
struct Npy {
  std::string header;
  std::vector<std::byte> scratch;
  Bytes data;
  uint64_t size() const { return header.size() + data.size(); }
};

Npy make_npy(const Tensor& t) {
  Npy out;
  std::string descr;
  if (t.dtype() == DType::kString) {
    size_t longest = 1;
    std::vector<std::vector<uint32_t>> wide;
    for (const std::string& s : t.string_values()) {
      wide.push_back(utf32(s));
      longest = std::max(longest, wide.back().size());
    }
    descr = fmt::format("<U{}", longest);
    out.scratch.resize(wide.size() * longest * 4);
    for (size_t i = 0; i < wide.size(); ++i)
      std::ranges::copy(std::as_bytes(std::span(wide[i])), out.scratch.data() + i * longest * 4);
    out.data = out.scratch;
  } else {
    if (bit_width(t.dtype()) == 0) {
      throw Error(ErrorCode::kUnsupported, fmt::format("NumPy has no elements of {}", to_string(t.dtype())));
    }
    for (const auto& [name, d] : kDescr) {
      if (d == t.dtype()) descr = (name[1] == '1' ? "|" : "<") + std::string(name);
    }
    if (descr.empty()) descr = "|V1";
    out.data = t.bytes(out.scratch);
    if (const int bits = bit_width(t.dtype()); bits < 8) {  // one element per byte, as ml_dtypes stores them
      std::vector<std::byte> one_each(static_cast<size_t>(t.size()));
      for (size_t i = 0; i < one_each.size(); ++i) {
        const size_t bit = i * static_cast<size_t>(bits);
        unsigned u = (static_cast<unsigned>(out.data[bit / 8]) >> (bit % 8)) & ((1u << bits) - 1);
        if (is_signed(t.dtype()) && (u >> (bits - 1)) != 0) u |= ~0u << bits;
        one_each[i] = static_cast<std::byte>(u);
      }
      out.scratch = std::move(one_each);
      out.data = out.scratch;
    }
  }
  std::string shape;
  for (int64_t d : t.shape()) shape += fmt::format("{},{}", d, t.rank() == 1 ? "" : " ");
  if (t.rank() > 1) shape.resize(shape.size() - 2);
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  while ((10 + dict.size() + 1) % 64 != 0) dict += ' ';
  dict += '\n';
  out.header = "\x93NUMPY";
  out.header += {'\x01', '\x00', static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  out.header += dict;
  return out;
}

// --- zip

class Crc32 {
 public:
  void add(Bytes bytes) {
    static const auto kTable = [] {
      std::array<uint32_t, 256> t{};
      for (uint32_t i = 0; i < 256; ++i) {
        uint32_t c = i;
        for (int k = 0; k < 8; ++k) c = (c & 1) ? 0xedb88320 ^ (c >> 1) : c >> 1;
        t[i] = c;
      }
      return t;
    }();
    for (std::byte b : bytes) state_ = kTable[(state_ ^ static_cast<uint32_t>(b)) & 0xff] ^ (state_ >> 8);
  }
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = 0xffffffff;
};

void put(std::string& to, uint64_t v, int width) {
  for (int i = 0; i < width; ++i) to += static_cast<char>((v >> (8 * i)) & 0xff);
}

constexpr uint64_t kSmall = 0xffffffff;

}  // namespace

TensorPtr read_npy(const std::filesystem::path& path, std::optional<DType> expected) {
  const auto file = MappedFile::open(path);
  return parse_npy(file->bytes(), file, path, expected);
}

NamedTensors read_npz(const std::filesystem::path& path,
                      const std::function<std::optional<DType>(const std::string&)>& expected) {
  const auto file = MappedFile::open(path);
  const Bytes all = file->bytes();
  auto at = [&](uint64_t offset, uint64_t size) {
    if (offset > all.size() || size > all.size() - offset) damaged(path, "it is cut off");
    return all.subspan(offset, size);
  };
  // The end of the directory is in the last 64 KiB.
  if (all.size() < 22) damaged(path, "it is too short");
  uint64_t end = all.size() - 22;
  while (little_endian(all, end, 4) != 0x06054b50) {
    if (end == 0 || all.size() - end > 65557) damaged(path, "it has no directory");
    --end;
  }
  uint64_t count = little_endian(all, end + 10, 2), directory = little_endian(all, end + 16, 4);
  if (end >= 20 && little_endian(all, end - 20, 4) == 0x07064b50) {  // 64-bit directory
    const Bytes big = at(little_endian(all, end - 20 + 8, 8), 56);
    if (little_endian(big, 0, 4) != 0x06064b50) damaged(path, "its directory is damaged");
    count = little_endian(big, 32, 8);
    directory = little_endian(big, 48, 8);
  }
  NamedTensors out;
  for (uint64_t i = 0; i < count; ++i) {
    const Bytes entry = at(directory, 46);
    if (little_endian(entry, 0, 4) != 0x02014b50) damaged(path, "its directory is damaged");
    const uint64_t method = little_endian(entry, 10, 2), name_size = little_endian(entry, 28, 2),
                   extra_size = little_endian(entry, 30, 2), comment_size = little_endian(entry, 32, 2);
    uint64_t size = little_endian(entry, 24, 4), stored = little_endian(entry, 20, 4), local = little_endian(entry, 42, 4);
    const Bytes name_bytes = at(directory + 46, name_size), extra = at(directory + 46 + name_size, extra_size);
    for (uint64_t e = 0; e + 4 <= extra.size();) {
      const uint64_t length = little_endian(extra, e + 2, 2);
      if (length > extra.size() - e - 4) damaged(path, "its directory is damaged");
      if (little_endian(extra, e, 2) == 1) {
        uint64_t field = e + 4;
        for (uint64_t* v : {&size, &stored, &local}) {
          if (*v != kSmall) continue;
          if (field + 8 > e + 4 + length) damaged(path, "its directory is damaged");
          *v = little_endian(extra, field, 8);
          field += 8;
        }
      }
      e += 4 + length;
    }
    std::string name(reinterpret_cast<const char*>(name_bytes.data()), name_bytes.size());
    if (method != 0) unsupported(path, "is compressed", "save it with np.savez, not np.savez_compressed");
    if (size != stored) damaged(path, "its directory is damaged");
    const Bytes header = at(local, 30);
    const uint64_t data = local + 30 + little_endian(header, 26, 2) + little_endian(header, 28, 2);
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    out.emplace_back(name, parse_npy(at(data, size), file, path, expected ? expected(name) : std::nullopt));
    directory += 46 + name_size + extra_size + comment_size;
  }
  return out;
}

void write_npy(const std::filesystem::path& path, const Tensor& t) {
  const Npy npy = make_npy(t);
  AtomicFile file(path);
  file.append(npy.header);
  file.append(npy.data);
  file.commit();
}

void write_npz(const std::filesystem::path& path, const NamedTensors& tensors) {
  AtomicFile file(path);
  std::string directory;
  for (const auto& [name, tensor] : tensors) {
    const Npy npy = make_npy(*tensor);
    Crc32 crc;
    crc.add(std::as_bytes(std::span(npy.header)));
    crc.add(npy.data);
    const std::string member = name + ".npy";
    if (member.size() > 0xffff) throw Error(ErrorCode::kUnsupported, "a result's name is too long for an archive");
    const uint64_t offset = file.size(), size = npy.size();
    const bool big = size >= kSmall || offset >= kSmall;
    auto common = [&](std::string& to) {  // version needed .. sizes, common to both headers
      put(to, big ? 45 : 20, 2);
      put(to, 0x800, 2);  // names are UTF-8
      put(to, 0, 2);      // stored
      put(to, 0, 2);      // no time
      put(to, 0x21, 2);   // 1980-01-01: equal arrays give equal bytes
      put(to, crc.value(), 4);
      put(to, big ? kSmall : size, 4);
      put(to, big ? kSmall : size, 4);
      put(to, member.size(), 2);
    };
    std::string local;
    put(local, 0x04034b50, 4);
    common(local);
    put(local, big ? 20 : 0, 2);
    local += member;
    if (big) {
      put(local, 1, 2);
      put(local, 16, 2);
      put(local, size, 8);
      put(local, size, 8);
    }
    file.append(local);
    file.append(npy.header);
    file.append(npy.data);

    put(directory, 0x02014b50, 4);
    put(directory, 45, 2);
    common(directory);
    put(directory, big ? 28 : 0, 2);
    put(directory, 0, 2);
    put(directory, 0, 2);
    put(directory, 0, 2);
    put(directory, 0, 4);
    put(directory, big ? kSmall : offset, 4);
    directory += member;
    if (big) {
      put(directory, 1, 2);
      put(directory, 24, 2);
      put(directory, size, 8);
      put(directory, size, 8);
      put(directory, offset, 8);
    }
  }
  const uint64_t start = file.size(), count = tensors.size();
  std::string tail;
  if (start >= kSmall || count >= 0xffff) {
    put(tail, 0x06064b50, 4);
    put(tail, 44, 8);
    put(tail, 45, 2);
    put(tail, 45, 2);
    put(tail, 0, 8);
    put(tail, count, 8);
    put(tail, count, 8);
    put(tail, directory.size(), 8);
    put(tail, start, 8);
    put(tail, 0x07064b50, 4);
    put(tail, 0, 4);
    put(tail, start + directory.size(), 8);
    put(tail, 1, 4);
  }
  put(tail, 0x06054b50, 4);
  put(tail, 0, 4);
  put(tail, std::min<uint64_t>(count, 0xffff), 2);
  put(tail, std::min<uint64_t>(count, 0xffff), 2);
  put(tail, std::min<uint64_t>(directory.size(), kSmall), 4);
  put(tail, std::min<uint64_t>(start, kSmall), 4);
  put(tail, 0, 2);
  file.append(directory);
  file.append(tail);
  file.commit();
}

}  // namespace sardonyx
