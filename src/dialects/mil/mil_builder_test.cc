// The builder of Core ML programs: the constants that it makes, the order of operands, the version of each
// op.
#include "sardonyx/mil_builder.h"

#include <gtest/gtest.h>

#include "dialects/mil/ops.h"
#include "sardonyx/error.h"

namespace sardonyx {
namespace {

struct Fixture {
  explicit Fixture(std::string opset = "CoreML8", DType dtype = DType::kF32) {
    model.add_function("main").mil_opset = std::move(opset);
    x = model.graph().add_input("x", model.types().tensor(dtype, {2, 3, 5, 7}));
  }
  MilBuilder builder() { return MilBuilder(model.graph(), facts); }

  Model model{DialectId::kMil};
  ValueFacts facts;
  Value* x;
};

TEST(MilBuilder, ReadsLikeTheProgram) {
  Fixture f;
  MilBuilder b = f.builder();
  Value* weight = b.constant(Tensor::full(DType::kF32, {11, 3, 1, 1}, 0.5));
  Value* y = b.conv(f.x, weight, {.pad_type = "same", .strides = {2, 2}});
  EXPECT_EQ(y->type(), f.model.types().tensor(DType::kF32, {2, 11, 3, 4}));
  const Node& conv = *y->def();  // x, weight, bias, strides, pad_type
  ASSERT_EQ(conv.num_inputs(), 5u);
  EXPECT_EQ(conv.input(2), nullptr);
  EXPECT_EQ(conv.input(3)->constant()->to_ints(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(conv.input(4)->constant()->string_values()[0], "same");
  const Node& joined = *b.concat({y, b.relu(y)}, {.axis = 1, .interleave = true})->def();  // axis, interleave, values
  ASSERT_EQ(joined.num_inputs(), 4u);
  EXPECT_EQ(joined.input(0)->type(), f.model.types().scalar(DType::kI32));
  EXPECT_EQ(joined.input(2), y);
}

TEST(MilBuilder, NumbersTakeTheTypeThatTheSlotShares) {
  Fixture f("CoreML8", DType::kF16);
  MilBuilder b = f.builder();
  const auto operand = [](Value* y, size_t i) { return y->def()->input(i)->dtype(); };
  EXPECT_EQ(operand(b.mul(f.x, 2), 1), DType::kF16);
  EXPECT_EQ(operand(b.real_div(1.0, f.x), 0), DType::kF16) << "the number may come first";
  EXPECT_EQ(operand(b.add(b.shape(f.x), 1), 1), DType::kI32);
  EXPECT_EQ(operand(b.elu(f.x, {.alpha = 1}), 1), DType::kF16) << "a float slot of its own type follows the first operand";
  EXPECT_EQ(operand(b.fill({2, 3}, {.value = 0.0}), 1), DType::kF32);
  EXPECT_EQ(operand(b.fill({2, 3}, {.value = 0}), 1), DType::kI32);
  EXPECT_EQ(operand(b.fill({2, 3}, {.value = true}), 1), DType::kBool);
  EXPECT_EQ(operand(b.fill(b.shape(f.x), {.value = 0.0}), 1), DType::kF32) << "not the type of the shape";
  EXPECT_EQ(b.range_1d(7, 0, 1)->dtype(), DType::kI32);
}

TEST(MilBuilder, OperandsAreValuesConstantsOrLeftOut) {
  Fixture f;
  MilBuilder b = f.builder();
  Node& plain = *b.reduce_mean(f.x)->def();
  EXPECT_EQ(plain.num_inputs(), 1u) << "what is not given is not written";
  Node& all = *b.reduce_mean(f.x, {.axes = nullptr, .keep_dims = true})->def();
  ASSERT_EQ(all.num_inputs(), 3u);
  EXPECT_EQ(all.input(1), nullptr);
  EXPECT_EQ(all.input(2)->constant()->as_int(0), 1);
  const std::vector<int64_t> axes{2, 3};
  Node& some = *b.reduce_mean(f.x, {.axes = axes})->def();
  EXPECT_EQ(some.input(1)->constant()->to_ints(), axes);
  EXPECT_EQ(some.input(1)->dtype(), DType::kI32);
  EXPECT_EQ(b.cast(f.x, {.dtype = DType::kF16})->dtype(), DType::kF16);
  EXPECT_EQ(b.softmax(f.x, {.axis = some.input(1)})->def()->input(1), some.input(1));
  const TensorPtr gamma = Tensor::full(DType::kF32, {7}, 3);
  EXPECT_EQ(b.layer_norm(f.x, {.axes = {3}, .beta = TensorPtr(), .gamma = gamma})->def()->input(2)->constant(), gamma);
  EXPECT_THROW(b.reshape(f.x, {int64_t{1} << 40}), Error) << "sizes are int32";
}

TEST(MilBuilder, TheFunctionsOpSetChoosesTheVersion) {
  Fixture ios15("CoreML5"), ios16("CoreML6"), ios17("CoreML7"), unnamed("");
  EXPECT_EQ(ios15.builder().version(), 6);
  EXPECT_EQ(unnamed.builder().version(), mil::kNewestVersion);
  EXPECT_EQ(ios16.builder().gather(ios16.x, 0)->def()->op().since_version, 7);
  EXPECT_EQ(ios17.builder().gather(ios17.x, 0)->def()->op().since_version, 8);
  EXPECT_NO_THROW(ios17.builder().gather(ios17.x, 0, {.validate_indices = true}));
  EXPECT_THROW(ios16.builder().gather(ios16.x, 0, {.validate_indices = true}), Error);
  EXPECT_NO_THROW(ios16.builder().pixel_unshuffle(ios16.x, {.downscale_factor = 1}));
  EXPECT_THROW(ios15.builder().pixel_unshuffle(ios15.x, {.downscale_factor = 1}), Error);
  EXPECT_EQ(ios15.builder().find("pixel_unshuffle"), nullptr);
}

TEST(MilBuilder, SeveralResults) {
  Fixture f;
  MilBuilder b = f.builder();
  Node& pieces = b.split(f.x, 2, {.axis = 3, .split_sizes = {2, 5}});
  EXPECT_EQ(pieces.result(1)->type(), f.model.types().tensor(DType::kF32, {2, 3, 5, 5}));
  Node& largest = b.topk(f.x, 2, {.axis = 3, .k = 5});
  EXPECT_EQ(largest.result(0)->type(), f.model.types().tensor(DType::kF32, {2, 3, 5, 5}));
  EXPECT_EQ(largest.result(1)->dtype(), DType::kI32);
}

TEST(MilBuilder, Blocks) {
  Fixture f;
  MilBuilder b = f.builder();
  Graph &yes = f.model.new_graph(), &no = f.model.new_graph();
  yes.add_output(*MilBuilder(yes, f.facts).relu(f.x), "y");
  no.add_output(*f.x, "y");
  Node& chosen = b.cond(true, yes, no, 1);
  EXPECT_EQ(chosen.result()->type(), f.x->type());
  EXPECT_EQ(chosen.body("true_fn"), &yes);
  EXPECT_EQ(chosen.input(0)->dtype(), DType::kBool);
}

TEST(MilBuilder, LikeChangesSomeOperands) {
  Fixture f;
  MilBuilder b = f.builder();
  Node& mean = *b.reduce_mean(f.x, {.axes = {1}, .keep_dims = true})->def();
  Node& other = *b.like(mean, {{"axes", std::vector<int64_t>{2, 3}}})->def();
  EXPECT_EQ(other.input(1)->constant()->to_ints(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(other.input(2), mean.input(2));
  EXPECT_EQ(b.like(mean, {{"axes", nullptr}, {"keep_dims", nullptr}})->def()->num_inputs(), 1u);
  Node& joined = *b.concat({f.x, f.x}, {.axis = 1})->def();
  Node& interleaved = *b.like(joined, {{"interleave", true}})->def();
  EXPECT_EQ(interleaved.num_inputs(), 4u);
  EXPECT_EQ(interleaved.input(3), f.x);
  EXPECT_THROW(b.like(joined, {{"axes", 1}}), Error);
}

}  // namespace
}  // namespace sardonyx
