// Written by scripts/tables/gen_onnx_ops.py from the schemas of onnx 1.23.2. Do not edit.
// One method per operator of the default ONNX domain, typed and checked.
//
// Operands come first (optional ones may be nullptr), then bodies, then the number of results where that may differ, then
// attributes. The model's opset import chooses the version of the operator; the parameters are those of the newest version, and
// what an older version does not know is an error. Helpers at the end spell one meaning for any opset from 13 on.
#pragma once

#include "sardonyx/builder.h"
#include "sardonyx/onnx_attrs.h"

namespace sardonyx {

class OnnxBuilder : public Builder {
 public:
  using Builder::Builder;

  Value* Abs(Value* X);
  Value* Acos(Value* input);
  Value* Acosh(Value* input);
  Value* Add(Value* A, Value* B);
  Value* AffineGrid(Value* theta, Value* size, const onnx_attrs::AffineGrid& a = {});
  Value* And(Value* A, Value* B);
  Value* ArgMax(Value* data, const onnx_attrs::ArgMax& a = {});
  Value* ArgMin(Value* data, const onnx_attrs::ArgMin& a = {});
  Value* Asin(Value* input);
  Value* Asinh(Value* input);
  Value* Atan(Value* input);
  Value* Atanh(Value* input);
  Value* Attention(Value* Q, Value* K, Value* V, Value* attn_mask = nullptr, Value* past_key = nullptr, Value* past_value = nullptr, Value* nonpad_kv_seqlen = nullptr, const onnx_attrs::Attention& a = {});
  Node& Attention(Value* Q, Value* K, Value* V, Value* attn_mask, Value* past_key, Value* past_value, Value* nonpad_kv_seqlen, size_t num_results, const onnx_attrs::Attention& a = {});  // Y, present_key, present_value, qk_matmul_output
  Value* AveragePool(Value* X, const onnx_attrs::AveragePool& a = {});
  Value* BatchNormalization(Value* X, Value* scale, Value* B, Value* input_mean, Value* input_var, const onnx_attrs::BatchNormalization& a = {});
  Node& BatchNormalization(Value* X, Value* scale, Value* B, Value* input_mean, Value* input_var, size_t num_results, const onnx_attrs::BatchNormalization& a = {});  // Y, running_mean, running_var
  Value* Bernoulli(Value* input, const onnx_attrs::Bernoulli& a = {});
  Value* BitCast(Value* input, const onnx_attrs::BitCast& a);
  Value* BitShift(Value* X, Value* Y, const onnx_attrs::BitShift& a);
  Value* BitwiseAnd(Value* A, Value* B);
  Value* BitwiseNot(Value* X);
  Value* BitwiseOr(Value* A, Value* B);
  Value* BitwiseXor(Value* A, Value* B);
  Value* BlackmanWindow(Value* size, const onnx_attrs::BlackmanWindow& a = {});
  Value* Cast(Value* input, const onnx_attrs::Cast& a);
  Value* CastLike(Value* input, Value* target_type, const onnx_attrs::CastLike& a = {});
  Node& CausalConvWithState(Value* input, Value* weight, Value* bias = nullptr, Value* past_state = nullptr, const onnx_attrs::CausalConvWithState& a = {});  // output, present_state
  Value* Ceil(Value* X);
  Value* Celu(Value* X, const onnx_attrs::Celu& a = {});
  Value* CenterCropPad(Value* input_data, Value* shape, const onnx_attrs::CenterCropPad& a = {});
  Value* Clip(Value* input, Value* min = nullptr, Value* max = nullptr);
  Value* Col2Im(Value* input, Value* image_shape, Value* block_shape, const onnx_attrs::Col2Im& a = {});
  Value* Compress(Value* input, Value* condition, const onnx_attrs::Compress& a = {});
  Value* Concat(std::span<Value* const> inputs, const onnx_attrs::Concat& a);
  Value* Concat(std::initializer_list<Value*> inputs, const onnx_attrs::Concat& a) {
    return Concat(std::span<Value* const>(inputs.begin(), inputs.size()), a);
  }
  Value* ConcatFromSequence(Value* input_sequence, const onnx_attrs::ConcatFromSequence& a);
  Value* ConstantOfShape(Value* input, const onnx_attrs::ConstantOfShape& a = {});
  Value* Conv(Value* X, Value* W, Value* B = nullptr, const onnx_attrs::Conv& a = {});
  Value* ConvInteger(Value* x, Value* w, Value* x_zero_point = nullptr, Value* w_zero_point = nullptr, const onnx_attrs::ConvInteger& a = {});
  Value* ConvTranspose(Value* X, Value* W, Value* B = nullptr, const onnx_attrs::ConvTranspose& a = {});
  Value* Cos(Value* input);
  Value* Cosh(Value* input);
  Value* CumProd(Value* x, Value* axis, const onnx_attrs::CumProd& a = {});
  Value* CumSum(Value* x, Value* axis, const onnx_attrs::CumSum& a = {});
  Value* DFT(Value* input, Value* dft_length = nullptr, Value* axis = nullptr, const onnx_attrs::DFT& a = {});
  Value* DeformConv(Value* X, Value* W, Value* offset, Value* B = nullptr, Value* mask = nullptr, const onnx_attrs::DeformConv& a = {});
  Value* DepthToSpace(Value* input, const onnx_attrs::DepthToSpace& a);
  Value* DequantizeLinear(Value* x, Value* x_scale, Value* x_zero_point = nullptr, const onnx_attrs::DequantizeLinear& a = {});
  Value* Det(Value* X);
  Value* Div(Value* A, Value* B);
  Value* Dropout(Value* data, Value* ratio = nullptr, Value* training_mode = nullptr, const onnx_attrs::Dropout& a = {});
  Node& Dropout(Value* data, Value* ratio, Value* training_mode, size_t num_results, const onnx_attrs::Dropout& a = {});  // output, mask
  Node& DynamicQuantizeLinear(Value* x);  // y, y_scale, y_zero_point
  Value* Einsum(std::span<Value* const> Inputs, const onnx_attrs::Einsum& a);
  Value* Einsum(std::initializer_list<Value*> Inputs, const onnx_attrs::Einsum& a) {
    return Einsum(std::span<Value* const>(Inputs.begin(), Inputs.size()), a);
  }
  Value* Elu(Value* X, const onnx_attrs::Elu& a = {});
  Value* Equal(Value* A, Value* B);
  Value* Erf(Value* input);
  Value* Exp(Value* input);
  Value* Expand(Value* input, Value* shape);
  Value* EyeLike(Value* input, const onnx_attrs::EyeLike& a = {});
  Value* Flatten(Value* input, const onnx_attrs::Flatten& a = {});
  Value* Floor(Value* X);
  Node& GRU(Value* X, Value* W, Value* R, Value* B, Value* sequence_lens, Value* initial_h, size_t num_results, const onnx_attrs::GRU& a = {});  // Y, Y_h
  Value* Gather(Value* data, Value* indices, const onnx_attrs::Gather& a = {});
  Value* GatherElements(Value* data, Value* indices, const onnx_attrs::GatherElements& a = {});
  Value* GatherND(Value* data, Value* indices, const onnx_attrs::GatherND& a = {});
  Value* Gelu(Value* X, const onnx_attrs::Gelu& a = {});
  Value* Gemm(Value* A, Value* B, Value* C = nullptr, const onnx_attrs::Gemm& a = {});
  Value* GlobalAveragePool(Value* X);
  Value* GlobalLpPool(Value* X, const onnx_attrs::GlobalLpPool& a = {});
  Value* GlobalMaxPool(Value* X);
  Value* Greater(Value* A, Value* B);
  Value* GreaterOrEqual(Value* A, Value* B);
  Value* GridSample(Value* X, Value* grid, const onnx_attrs::GridSample& a = {});
  Value* GroupNormalization(Value* X, Value* scale, Value* bias, const onnx_attrs::GroupNormalization& a);
  Value* HammingWindow(Value* size, const onnx_attrs::HammingWindow& a = {});
  Value* HannWindow(Value* size, const onnx_attrs::HannWindow& a = {});
  Value* HardSigmoid(Value* X, const onnx_attrs::HardSigmoid& a = {});
  Value* HardSwish(Value* X);
  Value* Hardmax(Value* input, const onnx_attrs::Hardmax& a = {});
  Value* Identity(Value* input);
  Node& If(Value* cond, Graph& then_branch, Graph& else_branch);
  Value* ImageDecoder(Value* encoded_stream, const onnx_attrs::ImageDecoder& a = {});
  Value* InstanceNormalization(Value* input, Value* scale, Value* B, const onnx_attrs::InstanceNormalization& a = {});
  Value* IsInf(Value* X, const onnx_attrs::IsInf& a = {});
  Value* IsNaN(Value* X);
  Value* LRN(Value* X, const onnx_attrs::LRN& a);
  Node& LSTM(Value* X, Value* W, Value* R, Value* B, Value* sequence_lens, Value* initial_h, Value* initial_c, Value* P, size_t num_results, const onnx_attrs::LSTM& a = {});  // Y, Y_h, Y_c
  Value* LayerNormalization(Value* X, Value* Scale, Value* B = nullptr, const onnx_attrs::LayerNormalization& a = {});
  Node& LayerNormalization(Value* X, Value* Scale, Value* B, size_t num_results, const onnx_attrs::LayerNormalization& a = {});  // Y, Mean, InvStdDev
  Value* LeakyRelu(Value* X, const onnx_attrs::LeakyRelu& a = {});
  Value* Less(Value* A, Value* B);
  Value* LessOrEqual(Value* A, Value* B);
  Node& LinearAttention(Value* query, Value* key, Value* value, Value* past_state, Value* decay, Value* beta, const onnx_attrs::LinearAttention& a);  // output, present_state
  Value* Log(Value* input);
  Value* LogSoftmax(Value* input, const onnx_attrs::LogSoftmax& a = {});
  Node& Loop(Value* M, Value* cond, std::span<Value* const> v_initial, Graph& body);
  Node& Loop(Value* M, Value* cond, std::initializer_list<Value*> v_initial, Graph& body) {
    return Loop(M, cond, std::span<Value* const>(v_initial.begin(), v_initial.size()), body);
  }
  Value* LpNormalization(Value* input, const onnx_attrs::LpNormalization& a = {});
  Value* LpPool(Value* X, const onnx_attrs::LpPool& a = {});
  Value* MatMul(Value* A, Value* B);
  Value* MatMulInteger(Value* A, Value* B, Value* a_zero_point = nullptr, Value* b_zero_point = nullptr);
  Value* Max(std::span<Value* const> data_0);
  Value* Max(std::initializer_list<Value*> data_0) {
    return Max(std::span<Value* const>(data_0.begin(), data_0.size()));
  }
  Value* MaxPool(Value* X, const onnx_attrs::MaxPool& a = {});
  Node& MaxPool(Value* X, size_t num_results, const onnx_attrs::MaxPool& a = {});  // Y, Indices
  Value* MaxRoiPool(Value* X, Value* rois, const onnx_attrs::MaxRoiPool& a = {});
  Value* MaxUnpool(Value* X, Value* I, Value* output_shape = nullptr, const onnx_attrs::MaxUnpool& a = {});
  Value* Mean(std::span<Value* const> data_0);
  Value* Mean(std::initializer_list<Value*> data_0) {
    return Mean(std::span<Value* const>(data_0.begin(), data_0.size()));
  }
  Value* MeanVarianceNormalization(Value* X, const onnx_attrs::MeanVarianceNormalization& a = {});
  Value* MelWeightMatrix(Value* num_mel_bins, Value* dft_length, Value* sample_rate, Value* lower_edge_hertz, Value* upper_edge_hertz, const onnx_attrs::MelWeightMatrix& a = {});
  Value* Min(std::span<Value* const> data_0);
  Value* Min(std::initializer_list<Value*> data_0) {
    return Min(std::span<Value* const>(data_0.begin(), data_0.size()));
  }
  Value* Mish(Value* X);
  Value* Mod(Value* A, Value* B, const onnx_attrs::Mod& a = {});
  Value* Mul(Value* A, Value* B);
  Value* Multinomial(Value* input, const onnx_attrs::Multinomial& a = {});
  Value* Neg(Value* X);
  Value* NegativeLogLikelihoodLoss(Value* input, Value* target, Value* weight = nullptr, const onnx_attrs::NegativeLogLikelihoodLoss& a = {});
  Value* NonMaxSuppression(Value* boxes, Value* scores, Value* max_output_boxes_per_class = nullptr, Value* iou_threshold = nullptr, Value* score_threshold = nullptr, const onnx_attrs::NonMaxSuppression& a = {});
  Value* NonZero(Value* X);
  Value* Not(Value* X);
  Value* OneHot(Value* indices, Value* depth, Value* values, const onnx_attrs::OneHot& a = {});
  Value* Optional(Value* input = nullptr, const onnx_attrs::Optional& a = {});
  Value* OptionalGetElement(Value* input);
  Value* OptionalHasElement(Value* input = nullptr);
  Value* Or(Value* A, Value* B);
  Value* PRelu(Value* X, Value* slope);
  Value* Pad(Value* data, Value* pads, Value* constant_value = nullptr, Value* axes = nullptr, const onnx_attrs::Pad& a = {});
  Value* Pow(Value* X, Value* Y);
  Value* QLinearConv(Value* x, Value* x_scale, Value* x_zero_point, Value* w, Value* w_scale, Value* w_zero_point, Value* y_scale, Value* y_zero_point, Value* B = nullptr, const onnx_attrs::QLinearConv& a = {});
  Value* QLinearMatMul(Value* a_, Value* a_scale, Value* a_zero_point, Value* b, Value* b_scale, Value* b_zero_point, Value* y_scale, Value* y_zero_point);
  Value* QuantizeLinear(Value* x, Value* y_scale, Value* y_zero_point = nullptr, const onnx_attrs::QuantizeLinear& a = {});
  Value* RMSNormalization(Value* X, Value* scale, const onnx_attrs::RMSNormalization& a = {});
  Node& RNN(Value* X, Value* W, Value* R, Value* B, Value* sequence_lens, Value* initial_h, size_t num_results, const onnx_attrs::RNN& a = {});  // Y, Y_h
  Value* RandomNormal(const onnx_attrs::RandomNormal& a = {});
  Value* RandomNormalLike(Value* input, const onnx_attrs::RandomNormalLike& a = {});
  Value* RandomUniform(const onnx_attrs::RandomUniform& a = {});
  Value* RandomUniformLike(Value* input, const onnx_attrs::RandomUniformLike& a = {});
  Value* Range(Value* start, Value* limit, Value* delta, const onnx_attrs::Range& a = {});
  Value* Reciprocal(Value* X);
  Value* ReduceL1(Value* data, Value* axes = nullptr, const onnx_attrs::ReduceL1& a = {});
  Value* ReduceL2(Value* data, Value* axes = nullptr, const onnx_attrs::ReduceL2& a = {});
  Value* ReduceLogSum(Value* data, Value* axes = nullptr, const onnx_attrs::ReduceLogSum& a = {});
  Value* ReduceLogSumExp(Value* data, Value* axes = nullptr, const onnx_attrs::ReduceLogSumExp& a = {});
  Value* ReduceMax(Value* data, Value* axes = nullptr, const onnx_attrs::ReduceMax& a = {});
  Value* ReduceMean(Value* data, Value* axes = nullptr, const onnx_attrs::ReduceMean& a = {});
  Value* ReduceMin(Value* data, Value* axes = nullptr, const onnx_attrs::ReduceMin& a = {});
  Value* ReduceProd(Value* data, Value* axes = nullptr, const onnx_attrs::ReduceProd& a = {});
  Value* ReduceSum(Value* data, Value* axes = nullptr, const onnx_attrs::ReduceSum& a = {});
  Value* ReduceSumSquare(Value* data, Value* axes = nullptr, const onnx_attrs::ReduceSumSquare& a = {});
  Value* RegexFullMatch(Value* X, const onnx_attrs::RegexFullMatch& a = {});
  Value* Relu(Value* X);
  Value* Reshape(Value* data, Value* shape, const onnx_attrs::Reshape& a = {});
  Value* Resize(Value* X, Value* roi = nullptr, Value* scales = nullptr, Value* sizes = nullptr, const onnx_attrs::Resize& a = {});
  Value* ReverseSequence(Value* input, Value* sequence_lens, const onnx_attrs::ReverseSequence& a = {});
  Value* RoiAlign(Value* X, Value* rois, Value* batch_indices, const onnx_attrs::RoiAlign& a = {});
  Value* RotaryEmbedding(Value* X, Value* cos_cache, Value* sin_cache, Value* position_ids = nullptr, const onnx_attrs::RotaryEmbedding& a = {});
  Value* Round(Value* X);
  Value* STFT(Value* signal, Value* frame_step, Value* window = nullptr, Value* frame_length = nullptr, const onnx_attrs::STFT& a = {});
  Node& Scan(std::span<Value* const> initial_state_and_scan_inputs, Graph& body, const onnx_attrs::Scan& a);
  Node& Scan(std::initializer_list<Value*> initial_state_and_scan_inputs, Graph& body, const onnx_attrs::Scan& a) {
    return Scan(std::span<Value* const>(initial_state_and_scan_inputs.begin(), initial_state_and_scan_inputs.size()), body, a);
  }
  Value* ScatterElements(Value* data, Value* indices, Value* updates, const onnx_attrs::ScatterElements& a = {});
  Value* ScatterND(Value* data, Value* indices, Value* updates, const onnx_attrs::ScatterND& a = {});
  Value* Selu(Value* X, const onnx_attrs::Selu& a = {});
  Value* SequenceAt(Value* input_sequence, Value* position);
  Value* SequenceConstruct(std::span<Value* const> inputs);
  Value* SequenceConstruct(std::initializer_list<Value*> inputs) {
    return SequenceConstruct(std::span<Value* const>(inputs.begin(), inputs.size()));
  }
  Value* SequenceEmpty(const onnx_attrs::SequenceEmpty& a = {});
  Value* SequenceErase(Value* input_sequence, Value* position = nullptr);
  Value* SequenceInsert(Value* input_sequence, Value* tensor, Value* position = nullptr);
  Value* SequenceLength(Value* input_sequence);
  Node& SequenceMap(Value* input_sequence, std::span<Value* const> additional_inputs, Graph& body);
  Node& SequenceMap(Value* input_sequence, std::initializer_list<Value*> additional_inputs, Graph& body) {
    return SequenceMap(input_sequence, std::span<Value* const>(additional_inputs.begin(), additional_inputs.size()), body);
  }
  Value* Shape(Value* data, const onnx_attrs::Shape& a = {});
  Value* Shrink(Value* input, const onnx_attrs::Shrink& a = {});
  Value* Sigmoid(Value* X);
  Value* Sign(Value* input);
  Value* Sin(Value* input);
  Value* Sinh(Value* input);
  Value* Size(Value* data);
  Value* Slice(Value* data, Value* starts, Value* ends, Value* axes = nullptr, Value* steps = nullptr);
  Value* Softmax(Value* input, const onnx_attrs::Softmax& a = {});
  Value* SoftmaxCrossEntropyLoss(Value* scores, Value* labels, Value* weights = nullptr, const onnx_attrs::SoftmaxCrossEntropyLoss& a = {});
  Node& SoftmaxCrossEntropyLoss(Value* scores, Value* labels, Value* weights, size_t num_results, const onnx_attrs::SoftmaxCrossEntropyLoss& a = {});  // output, log_prob
  Value* Softplus(Value* X);
  Value* Softsign(Value* input);
  Value* SpaceToDepth(Value* input, const onnx_attrs::SpaceToDepth& a);
  Node& Split(Value* input, Value* split, size_t num_results, const onnx_attrs::Split& a = {});
  Value* SplitToSequence(Value* input, Value* split = nullptr, const onnx_attrs::SplitToSequence& a = {});
  Value* Sqrt(Value* X);
  Value* Squeeze(Value* data, Value* axes = nullptr);
  Value* StringConcat(Value* X, Value* Y);
  Value* StringNormalizer(Value* X, const onnx_attrs::StringNormalizer& a = {});
  Node& StringSplit(Value* X, const onnx_attrs::StringSplit& a = {});  // Y, Z
  Value* Sub(Value* A, Value* B);
  Value* Sum(std::span<Value* const> data_0);
  Value* Sum(std::initializer_list<Value*> data_0) {
    return Sum(std::span<Value* const>(data_0.begin(), data_0.size()));
  }
  Value* SwiGLU(Value* A, Value* B, const onnx_attrs::SwiGLU& a = {});
  Value* Swish(Value* X, const onnx_attrs::Swish& a = {});
  Value* Tan(Value* input);
  Value* Tanh(Value* input);
  Value* TensorScatter(Value* past_cache, Value* update, Value* write_indices = nullptr, const onnx_attrs::TensorScatter& a = {});
  Value* TfIdfVectorizer(Value* X, const onnx_attrs::TfIdfVectorizer& a);
  Value* ThresholdedRelu(Value* X, const onnx_attrs::ThresholdedRelu& a = {});
  Value* Tile(Value* input, Value* repeats);
  Node& TopK(Value* X, Value* K, const onnx_attrs::TopK& a = {});  // Values, Indices
  Value* Transpose(Value* data, const onnx_attrs::Transpose& a = {});
  Value* Trilu(Value* input, Value* k = nullptr, const onnx_attrs::Trilu& a = {});
  Value* Unique(Value* X, const onnx_attrs::Unique& a = {});
  Node& Unique(Value* X, size_t num_results, const onnx_attrs::Unique& a = {});  // Y, indices, inverse_indices, counts
  Value* Unsqueeze(Value* data, Value* axes);
  Value* Where(Value* condition, Value* X, Value* Y);
  Value* Xor(Value* A, Value* B);


  // --- one meaning, spelled as the model's opset wants it (13 and later)

  // Reduce* of any name ("ReduceSum", "ReduceMax", ...) over `axes`; all axes when empty is given as std::nullopt.
  Value* reduce(std::string_view op_name, Value* x, std::optional<std::vector<int64_t>> axes, bool keepdims);
  Value* squeeze(Value* x, std::span<const int64_t> axes);
  Value* unsqueeze(Value* x, std::span<const int64_t> axes);
  // Pieces of the given sizes along `axis`.
  std::vector<Value*> split(Value* x, std::span<const int64_t> sizes, int64_t axis);
  // The version of the default domain that the model imports.
  int opset() const;
  // A Constant node (and not an initializer).
  Value* Constant(TensorPtr value);

 private:
  friend class NodeMaker;
};

}  // namespace sardonyx
