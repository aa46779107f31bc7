#include "sardonyx/tensor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/tensor/tensor_transform.h"
#include "sardonyx/error.h"

namespace sardonyx {
namespace {

uint64_t fnv(uint64_t h, const void* data, size_t size) {
  const auto* p = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < size; ++i) h = (h ^ p[i]) * 0x100000001b3;
  return h;
}
constexpr uint64_t kSeed = 0xcbf29ce484222325;

// Fingerprints made with NumPy and ml_dtypes: all codes decoded to f64, and 20,000 encoded floats.
struct Known {
  DType dtype;
  uint32_t codes;
  uint64_t decoded;
  uint64_t encoded;
};
class SmallFloat : public testing::TestWithParam<Known> {};

TEST_P(SmallFloat, AllCodesDecodeAsMlDtypesSays) {
  const Known& k = GetParam();
  uint64_t h = kSeed;
  for (uint32_t code = 0; code < k.codes; ++code) {
    std::byte raw[2];
    std::memcpy(raw, &code, 2);
    double v = decode_element(k.dtype, raw, 0);
    if (std::isnan(v)) v = std::numeric_limits<double>::quiet_NaN();
    h = fnv(h, &v, sizeof v);
  }
  EXPECT_EQ(h, k.decoded);
}

TEST_P(SmallFloat, FloatsEncodeAsMlDtypesSays) {
  const Known& k = GetParam();
  uint64_t h = kSeed;
  uint64_t s = 1;
  for (int i = 0; i < 20000; ++i) {
    s = s * 6364136223846793005u + 1442695040888963407u;
    const auto r = static_cast<uint32_t>(s >> 32);
    // Eight bits of mantissa, so that ties are common.
    const uint32_t bits = (((r >> 23) % 48 + 97) << 23) | ((r & 0xff) << 15) | (r & 0x80000000u);
    std::byte raw[2] = {};
    encode_element(k.dtype, raw, 0, std::bit_cast<float>(bits));
    h = fnv(h, raw, k.codes > 256 ? 2 : 1);
  }
  EXPECT_EQ(h, k.encoded);
}

TEST_P(SmallFloat, EveryCodeSurvivesDecodingAndEncoding) {
  const Known& k = GetParam();
  for (uint32_t code = 0; code < k.codes; ++code) {
    std::byte raw[2];
    std::memcpy(raw, &code, 2);
    const double v = decode_element(k.dtype, raw, 0);
    std::byte back[2] = {};
    encode_element(k.dtype, back, 0, v);
    if (std::isnan(v)) {
      EXPECT_TRUE(std::isnan(decode_element(k.dtype, back, 0))) << code;
    } else {
      EXPECT_EQ(std::memcmp(raw, back, k.codes > 256 ? 2 : 1), 0) << code;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SmallFloat,
                         testing::Values(Known{DType::kF8E4M3FN, 256, 0x4d4ded90c4f5d9b5, 0x73567c14b7780c0b},
                                         Known{DType::kF8E4M3FNUZ, 256, 0x33a06c4d119992b0, 0x577b29c8c36bbcea},
                                         Known{DType::kF8E5M2, 256, 0x61a099e723174195, 0x800012e93561bcad},
                                         Known{DType::kF8E5M2FNUZ, 256, 0x08d9906cc5ea2650, 0x6967ddebd6a71112},
                                         Known{DType::kF8E8M0, 256, 0x04b7d9d85633d505, 0x6e5c1b2d53e94eb6},
                                         Known{DType::kF4E2M1, 16, 0xb7a536e39150e235, 0x58531079d80716f3},
                                         Known{DType::kBF16, 65536, 0x5e93c8468f9404d5, 0x673c5d5ceb50c6b8},
                                         Known{DType::kF16, 65536, 0xfe87bb782adb2fc5, 0x969cdbdbfdfc74b8}),
                         [](const auto& p) { return std::string(to_string(p.param.dtype)); });

TEST(SmallFloat, RoundsOnceFromDouble) {
  // Just above the tie between 1 and 1 + 2^-10: rounded through f32 it would become the tie, then 1.
  std::byte raw[2];
  encode_element(DType::kF16, raw, 0, 1 + 0x1p-11 + 0x1p-40);
  EXPECT_EQ(decode_element(DType::kF16, raw, 0), 1 + 0x1p-10);
}

TEST(SmallFloat, TooLargeBecomesInfinityOrNaN) {
  std::byte raw[2];
  encode_element(DType::kF16, raw, 0, 65520);
  EXPECT_EQ(decode_element(DType::kF16, raw, 0), std::numeric_limits<double>::infinity());
  encode_element(DType::kBF16, raw, 0, -1e300);
  EXPECT_EQ(decode_element(DType::kBF16, raw, 0), -std::numeric_limits<double>::infinity());
  encode_element(DType::kF8E4M3FN, raw, 0, 465);
  EXPECT_TRUE(std::isnan(decode_element(DType::kF8E4M3FN, raw, 0)));
  encode_element(DType::kF8E4M3FN, raw, 0, 464);  // the tie goes to the even 448
  EXPECT_EQ(decode_element(DType::kF8E4M3FN, raw, 0), 448);
}

TEST(Elements, SubByteIntegersArePackedLowBitsFirst) {
  std::byte raw[2] = {std::byte{0xff}, std::byte{0xff}};
  encode_element(DType::kI4, raw, 0, -8);
  encode_element(DType::kI4, raw, 1, 3);
  EXPECT_EQ(static_cast<int>(raw[0]), 0x38);
  EXPECT_EQ(static_cast<int>(raw[1]), 0xff);  // neighboring bytes stay unchanged
  EXPECT_EQ(decode_element(DType::kI4, raw, 0), -8);
  EXPECT_EQ(decode_element(DType::kU4, raw, 0), 8);
  encode_element(DType::kI2, raw, 4, -2);
  encode_element(DType::kU2, raw, 5, 3);
  EXPECT_EQ(static_cast<int>(raw[1]), 0xfe);
  EXPECT_EQ(decode_element(DType::kI2, raw, 4), -2);
  EXPECT_EQ(decode_element(DType::kU2, raw, 5), 3);
}

TEST(Elements, IntegersTakeTheNearestEndWhenOutOfRange) {
  std::byte raw[8];
  encode_element(DType::kI8, raw, 0, 1000);
  EXPECT_EQ(decode_element(DType::kI8, raw, 0), 127);
  encode_element(DType::kI8, raw, 0, -1000);
  EXPECT_EQ(decode_element(DType::kI8, raw, 0), -128);
  encode_element(DType::kU64, raw, 0, -1);
  EXPECT_EQ(decode_element(DType::kU64, raw, 0), 0);
  encode_element(DType::kI64, raw, 0, 1e300);
  EXPECT_EQ(Tensor::own(DType::kI64, {}, {raw, raw + 8})->as_int(0), std::numeric_limits<int64_t>::max());
}

TEST(DTypes, NamesRoundTrip) {
  for (int n = 1; n <= 26; ++n) {
    const auto t = static_cast<DType>(n);
    EXPECT_EQ(parse_dtype(to_string(t)), t);
  }
  EXPECT_EQ(parse_dtype("float8_e4m3fnuz"), DType::kF8E4M3FNUZ);
  EXPECT_EQ(parse_dtype("bfloat16"), DType::kBF16);
  EXPECT_EQ(parse_dtype("uint4"), DType::kU4);
  EXPECT_EQ(parse_dtype("f33"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
}

TEST(DTypes, SizesRoundUpAndRefuseToOverflow) {
  EXPECT_EQ(byte_size(DType::kI4, 3), 2u);
  EXPECT_EQ(byte_size(DType::kU2, 5), 2u);
  EXPECT_EQ(byte_size(DType::kC128, 3), 48u);
  EXPECT_EQ(byte_size(DType::kF32, uint64_t{1} << 60), uint64_t{1} << 62);
  EXPECT_THROW(byte_size(DType::kF64, uint64_t{1} << 60), Error);
  EXPECT_THROW(byte_size(DType::kF64, ~uint64_t{0}), Error);
}

std::vector<std::byte> raw(std::initializer_list<int> bytes) {
  std::vector<std::byte> out;
  for (int b : bytes) out.push_back(static_cast<std::byte>(b));
  return out;
}

TEST(Tensors, SizeMustAgreeWithShape) {
  EXPECT_THROW(Tensor::own(DType::kF32, {2}, raw({1, 2, 3, 4})), Error);
  EXPECT_THROW(Tensor::own(DType::kF32, {-1}, {}), Error);
  EXPECT_THROW(Tensor::own(DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}, {}), Error);
  EXPECT_EQ(Tensor::own(DType::kF32, {int64_t{1} << 40, int64_t{1} << 40, 0}, {})->size(), 0);
  EXPECT_THROW(Tensor::strings({2}, {"a"}), Error);
}

TEST(Tensors, SplatsEqualAndHashLikeTheirDenseForm) {
  const auto splat = Tensor::full(DType::kF32, {5, 7}, 0.5);
  EXPECT_TRUE(splat->is_splat());
  EXPECT_EQ(splat->stored_bytes().size(), 4u);
  std::vector<std::byte> scratch;
  const auto all = splat->bytes(scratch);
  ASSERT_EQ(all.size(), 140u);
  const auto dense = Tensor::own(DType::kF32, {5, 7}, {all.begin(), all.end()});
  EXPECT_TRUE(splat->equals(*dense));
  EXPECT_TRUE(dense->equals(*splat));
  EXPECT_EQ(splat->hash(), dense->hash());
  EXPECT_EQ(splat->as_double(34), 0.5);
  std::vector<std::byte> other(all.begin(), all.end());
  other.at(139) = std::byte{1};
  const auto changed = Tensor::own(DType::kF32, {5, 7}, other);
  EXPECT_FALSE(splat->equals(*changed));
  EXPECT_NE(splat->hash(), changed->hash());
  EXPECT_FALSE(splat->equals(*splat->reshaped({7, 5})));
  EXPECT_NE(splat->hash(), splat->reshaped({7, 5})->hash());
}

TEST(Tensors, UnusedBitsOfTheLastByteDoNotCount) {
  const auto a = Tensor::own(DType::kI4, {3}, raw({0x11, 0x01}));
  const auto b = Tensor::own(DType::kI4, {3}, raw({0x11, 0xf1}));
  const auto c = Tensor::full(DType::kI4, {3}, 1);
  EXPECT_TRUE(a->equals(*b));
  EXPECT_EQ(a->hash(), b->hash());
  EXPECT_TRUE(c->equals(*b));
  EXPECT_EQ(c->hash(), b->hash());
  std::vector<std::byte> scratch;
  const auto dense = c->bytes(scratch);
  EXPECT_EQ(std::vector(dense.begin(), dense.end()), raw({0x11, 0x01}));
  const auto d = Tensor::own(DType::kI4, {3}, raw({0x21, 0x01}));
  const auto e = Tensor::own(DType::kI4, {3}, raw({0x21, 0x71}));
  EXPECT_TRUE(d->equals(*e));
  EXPECT_EQ(d->hash(), e->hash());
  EXPECT_FALSE(d->equals(*c));
}

TEST(Tensors, DeferredBytesAreComputedWhenRead) {
  int calls = 0;
  const auto t = Tensor::defer(DType::kU8, {2}, [&calls] { return ++calls, raw({3, 4}); });
  EXPECT_TRUE(t->is_deferred());
  EXPECT_EQ(calls, 0);
  std::vector<std::byte> scratch;
  EXPECT_EQ(static_cast<int>(t->bytes(scratch)[1]), 4);
  EXPECT_EQ(t->as_int(0), 3);
  EXPECT_EQ(t->to_ints(), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(calls, 3);
  const auto dense = Tensor::own(DType::kU8, {2}, raw({3, 4}));
  EXPECT_TRUE(t->equals(*dense));
  EXPECT_EQ(t->hash(), dense->hash());
  const auto wrong = Tensor::defer(DType::kU8, {2}, [] { return raw({3}); });
  EXPECT_THROW(wrong->bytes(scratch), Error);
}

TEST(Tensors, DeferredInPieces) {
  std::vector<std::pair<int64_t, size_t>> asked;
  const auto t = Tensor::defer(DType::kI16, {3, 5}, [&](int64_t first, std::span<std::byte> out) {
    asked.emplace_back(first, out.size());
    for (size_t i = 0; i < out.size(); i += 2) {
      const auto v = static_cast<int16_t>(100 + first + static_cast<int64_t>(i / 2));
      std::memcpy(out.data() + i, &v, 2);
    }
  });
  EXPECT_TRUE(t->is_deferred());
  EXPECT_TRUE(t->reads_in_pieces());
  std::vector<std::byte> part(6);
  t->read(11, part);
  EXPECT_EQ(asked, (std::vector<std::pair<int64_t, size_t>>{{11, 6}}));
  EXPECT_EQ(Tensor::own(DType::kI16, {3}, part)->to_ints(), (std::vector<int64_t>{111, 112, 113}));
  EXPECT_EQ(t->as_int(14), 114);
  EXPECT_THROW(t->read(13, part), Error);
  std::vector<std::byte> scratch;
  const auto dense = Tensor::own(DType::kI16, {3, 5}, {t->bytes(scratch).begin(), t->bytes(scratch).end()});
  EXPECT_TRUE(t->equals(*dense));
  dense->read(11, part);
  EXPECT_EQ(Tensor::own(DType::kI16, {3}, part)->to_ints(), (std::vector<int64_t>{111, 112, 113}));
  Tensor::full(DType::kI16, {7}, 9)->read(2, part);
  EXPECT_EQ(Tensor::own(DType::kI16, {3}, part)->to_ints(), (std::vector<int64_t>{9, 9, 9}));
}

TEST(Tensors, TransposedInPieces) {
  // 2 x 307 x 211 f32: more than is computed at once.
  const std::vector<int64_t> shape{2, 307, 211};
  std::vector<float> values(static_cast<size_t>(2 * 307 * 211));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto t = transposed(Tensor::of<float>(DType::kF32, shape, values), {1, 2, 0});
  ASSERT_TRUE(t->is_deferred() && t->reads_in_pieces());
  const auto expected = [&](int64_t i) {
    const int64_t from = i % 2 * 307 * 211 + i / 2;
    return static_cast<float>(from);
  };
  for (int64_t first : {0, 1, 421, 422, 129000}) {
    std::vector<float> part(431);
    t->read(first, std::as_writable_bytes(std::span(part)));
    for (size_t k = 0; k < part.size(); ++k) ASSERT_EQ(part[k], expected(first + static_cast<int64_t>(k)));
  }
  const auto whole = Tensor::of<float>(DType::kF32, shape, values);
  EXPECT_TRUE(transposed(t, {2, 0, 1})->equals(*whole));
  const auto computed = Tensor::defer(DType::kF32, {307, 211, 2}, [t] {
    std::vector<std::byte> bytes(t->byte_size());
    t->read(0, bytes);
    return bytes;
  });
  const auto back = transposed(computed, {2, 0, 1});  // a source computed as a whole gives a result computed as a whole
  EXPECT_FALSE(back->reads_in_pieces());
  EXPECT_TRUE(back->equals(*whole));
}

TEST(Tensors, IntegersAreExact) {
  const int64_t big = (int64_t{1} << 53) + 1;
  EXPECT_EQ(Tensor::scalar(big)->as_int(0), big);
  EXPECT_EQ(Tensor::scalar(3)->rank(), 0u);
  const std::vector<int64_t> v{1, -2, big};
  EXPECT_EQ(Tensor::vector(v)->to_ints(), v);
  EXPECT_EQ(Tensor::vector(v)->to_ints(2), std::nullopt);
  EXPECT_EQ(Tensor::full(DType::kF32, {2}, 3)->to_ints(), std::nullopt);
  EXPECT_EQ(Tensor::full(DType::kF32, {2}, -3.7)->as_int(1), -3);
  EXPECT_THROW(static_cast<void>(Tensor::scalar(3)->as_int(1)), Error);
}

TEST(Tensors, BorrowKeepsItsOwnerAlive) {
  auto owner = std::make_shared<std::vector<std::byte>>(raw({1, 2, 3, 4}));
  std::weak_ptr<std::vector<std::byte>> watch = owner;
  auto t = Tensor::borrow(DType::kU8, {4}, *owner, owner, FileRange{3, 128});
  owner.reset();
  EXPECT_FALSE(watch.expired());
  auto r = t->reshaped({2, 2});
  t.reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(r->as_int(3), 4);
  EXPECT_EQ(r->file()->offset, 128u);
  r.reset();
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace sardonyx
