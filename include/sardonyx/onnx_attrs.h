// Written by scripts/tables/gen_onnx_ops.py from the schemas of onnx 1.23.2. Do not edit.
// Attributes of ONNX operators, for designated initializers: b.CumSum(x, axis, {.reverse = true}).
// Fields are in alphabetical order. An attribute that is unset, or equal to the operator's default, is not written.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/dtype.h"
#include "sardonyx/tensor.h"

namespace sardonyx {
class Type;
}

namespace sardonyx::onnx_attrs {

// An attribute without default that must be given: leaving it out does not compile.
template <class T>
struct Required {
  template <class U>
    requires std::convertible_to<U, T>
  Required(U v) : value(static_cast<T>(v)) {}
  T value;
};

struct AffineGrid {
  bool align_corners = false;
};

struct ArgMax {
  int64_t axis = 0;
  bool keepdims = true;
  bool select_last_index = false;
};

struct ArgMin {
  int64_t axis = 0;
  bool keepdims = true;
  bool select_last_index = false;
};

struct Attention {
  bool is_causal = false;
  std::optional<int64_t> kv_num_heads = {};
  int64_t left_window_size = -1;
  std::optional<int64_t> q_num_heads = {};
  int64_t qk_matmul_output_mode = 0;
  int64_t right_window_size = -1;
  std::optional<double> scale = {};
  double softcap = 0.0;
  DType softmax_precision = DType::kUndefined;
};

struct AveragePool {
  std::string_view auto_pad = "NOTSET";
  bool ceil_mode = false;
  bool count_include_pad = false;
  std::vector<int64_t> dilations = {};
  std::vector<int64_t> kernel_shape = {};  // required
  std::vector<int64_t> pads = {};
  std::vector<int64_t> strides = {};
};

struct BatchNormalization {
  double epsilon = 1e-05;
  double momentum = 0.9;
  bool training_mode = false;
};

struct Bernoulli {
  DType dtype = DType::kUndefined;
  std::optional<double> seed = {};
};

struct BitCast {
  Required<DType> to;
};

struct BitShift {
  Required<std::string_view> direction;
};

struct BlackmanWindow {
  DType output_datatype = DType{1};
  bool periodic = true;
};

struct Cast {
  std::string_view round_mode = "up";
  bool saturate = true;
  Required<DType> to;
};

struct CastLike {
  std::string_view round_mode = "up";
  bool saturate = true;
};

struct CausalConvWithState {
  std::string_view activation = "none";
};

struct Celu {
  double alpha = 1.0;
};

struct CenterCropPad {
  std::vector<int64_t> axes = {};
};

struct Col2Im {
  std::vector<int64_t> dilations = {};
  std::vector<int64_t> pads = {};
  std::vector<int64_t> strides = {};
};

struct Compress {
  std::optional<int64_t> axis = {};
};

struct Concat {
  Required<int64_t> axis;
};

struct ConcatFromSequence {
  Required<int64_t> axis;
  bool new_axis = false;
};

struct ConstantOfShape {
  TensorPtr value = nullptr;
};

struct Conv {
  std::string_view auto_pad = "NOTSET";
  std::vector<int64_t> dilations = {};
  int64_t group = 1;
  std::vector<int64_t> kernel_shape = {};
  std::vector<int64_t> pads = {};
  std::vector<int64_t> strides = {};
};

struct ConvInteger {
  std::string_view auto_pad = "NOTSET";
  std::vector<int64_t> dilations = {};
  int64_t group = 1;
  std::vector<int64_t> kernel_shape = {};
  std::vector<int64_t> pads = {};
  std::vector<int64_t> strides = {};
};

struct ConvTranspose {
  std::string_view auto_pad = "NOTSET";
  std::vector<int64_t> dilations = {};
  int64_t group = 1;
  std::vector<int64_t> kernel_shape = {};
  std::vector<int64_t> output_padding = {};
  std::vector<int64_t> output_shape = {};
  std::vector<int64_t> pads = {};
  std::vector<int64_t> strides = {};
};

struct CumProd {
  bool exclusive = false;
  bool reverse = false;
};

struct CumSum {
  bool exclusive = false;
  bool reverse = false;
};

struct DFT {
  bool inverse = false;
  bool onesided = false;
};

struct DeformConv {
  std::vector<int64_t> dilations = {};
  int64_t group = 1;
  std::vector<int64_t> kernel_shape = {};
  int64_t offset_group = 1;
  std::vector<int64_t> pads = {};
  std::vector<int64_t> strides = {};
};

struct DepthToSpace {
  Required<int64_t> blocksize;
  std::string_view mode = "DCR";
};

struct DequantizeLinear {
  int64_t axis = 1;
  int64_t block_size = 0;
  DType output_dtype = DType{0};
};

struct Dropout {
  std::optional<int64_t> seed = {};
};

struct Einsum {
  Required<std::string_view> equation;
};

struct Elu {
  double alpha = 1.0;
};

struct EyeLike {
  DType dtype = DType::kUndefined;
  int64_t k = 0;
};

struct Flatten {
  int64_t axis = 1;
};

struct GRU {
  std::vector<double> activation_alpha = {};
  std::vector<double> activation_beta = {};
  std::vector<std::string> activations = {};
  std::optional<double> clip = {};
  std::string_view direction = "forward";
  std::optional<int64_t> hidden_size = {};
  int64_t layout = 0;
  bool linear_before_reset = false;
};

struct Gather {
  int64_t axis = 0;
};

struct GatherElements {
  int64_t axis = 0;
};

struct GatherND {
  int64_t batch_dims = 0;
};

struct Gelu {
  std::string_view approximate = "none";
};

struct Gemm {
  double alpha = 1.0;
  double beta = 1.0;
  bool transA = false;
  bool transB = false;
};

struct GlobalLpPool {
  int64_t p = 2;
};

struct GridSample {
  bool align_corners = false;
  std::string_view mode = "linear";
  std::string_view padding_mode = "zeros";
};

struct GroupNormalization {
  double epsilon = 1e-05;
  Required<int64_t> num_groups;
  DType stash_type = DType{1};
};

struct HammingWindow {
  DType output_datatype = DType{1};
  bool periodic = true;
};

struct HannWindow {
  DType output_datatype = DType{1};
  bool periodic = true;
};

struct HardSigmoid {
  double alpha = 0.2;
  double beta = 0.5;
};

struct Hardmax {
  int64_t axis = -1;
};

struct ImageDecoder {
  std::string_view pixel_format = "RGB";
};

struct InstanceNormalization {
  double epsilon = 1e-05;
};

struct IsInf {
  bool detect_negative = true;
  bool detect_positive = true;
};

struct LRN {
  double alpha = 0.0001;
  double beta = 0.75;
  double bias = 1.0;
  Required<int64_t> size;
};

struct LSTM {
  std::vector<double> activation_alpha = {};
  std::vector<double> activation_beta = {};
  std::vector<std::string> activations = {};
  std::optional<double> clip = {};
  std::string_view direction = "forward";
  std::optional<int64_t> hidden_size = {};
  bool input_forget = false;
  int64_t layout = 0;
};

struct LayerNormalization {
  int64_t axis = -1;
  double epsilon = 1e-05;
  DType stash_type = DType{1};
};

struct LeakyRelu {
  double alpha = 0.01;
};

struct LinearAttention {
  int64_t chunk_size = 64;
  Required<int64_t> kv_num_heads;
  Required<int64_t> q_num_heads;
  double scale = 0.0;
  std::string_view update_rule = "gated_delta";
};

struct LogSoftmax {
  int64_t axis = -1;
};

struct LpNormalization {
  int64_t axis = -1;
  int64_t p = 2;
};

struct LpPool {
  std::string_view auto_pad = "NOTSET";
  bool ceil_mode = false;
  std::vector<int64_t> dilations = {};
  std::vector<int64_t> kernel_shape = {};  // required
  int64_t p = 2;
  std::vector<int64_t> pads = {};
  std::vector<int64_t> strides = {};
};

struct MaxPool {
  std::string_view auto_pad = "NOTSET";
  bool ceil_mode = false;
  std::vector<int64_t> dilations = {};
  std::vector<int64_t> kernel_shape = {};  // required
  std::vector<int64_t> pads = {};
  int64_t storage_order = 0;
  std::vector<int64_t> strides = {};
};

struct MaxRoiPool {
  std::vector<int64_t> pooled_shape = {};  // required
  double spatial_scale = 1.0;
};

struct MaxUnpool {
  std::vector<int64_t> kernel_shape = {};  // required
  std::vector<int64_t> pads = {};
  std::vector<int64_t> strides = {};
};

struct MeanVarianceNormalization {
  std::vector<int64_t> axes = {};  // empty = 0, 2, 3
};

struct MelWeightMatrix {
  DType output_datatype = DType{1};
};

struct Mod {
  int64_t fmod = 0;
};

struct Multinomial {
  DType dtype = DType{6};
  int64_t sample_size = 1;
  std::optional<double> seed = {};
};

struct NegativeLogLikelihoodLoss {
  std::optional<int64_t> ignore_index = {};
  std::string_view reduction = "mean";
};

struct NonMaxSuppression {
  bool center_point_box = false;
};

struct OneHot {
  int64_t axis = -1;
};

struct Optional {
  const Type* type = nullptr;
};

struct Pad {
  std::string_view mode = "constant";
};

struct QLinearConv {
  std::string_view auto_pad = "NOTSET";
  std::vector<int64_t> dilations = {};
  int64_t group = 1;
  std::vector<int64_t> kernel_shape = {};
  std::vector<int64_t> pads = {};
  std::vector<int64_t> strides = {};
};

struct QuantizeLinear {
  int64_t axis = 1;
  int64_t block_size = 0;
  DType output_dtype = DType{0};
  DType precision = DType{0};
  bool saturate = true;
};

struct RMSNormalization {
  int64_t axis = -1;
  double epsilon = 1e-05;
  DType stash_type = DType{1};
};

struct RNN {
  std::vector<double> activation_alpha = {};
  std::vector<double> activation_beta = {};
  std::vector<std::string> activations = {};  // empty = Tanh, Tanh
  std::optional<double> clip = {};
  std::string_view direction = "forward";
  std::optional<int64_t> hidden_size = {};
  int64_t layout = 0;
};

struct RandomNormal {
  DType dtype = DType{1};
  double mean = 0.0;
  double scale = 1.0;
  std::optional<double> seed = {};
  std::vector<int64_t> shape = {};  // required
};

struct RandomNormalLike {
  DType dtype = DType::kUndefined;
  double mean = 0.0;
  double scale = 1.0;
  std::optional<double> seed = {};
};

struct RandomUniform {
  DType dtype = DType{1};
  double high = 1.0;
  double low = 0.0;
  std::optional<double> seed = {};
  std::vector<int64_t> shape = {};  // required
};

struct RandomUniformLike {
  DType dtype = DType::kUndefined;
  double high = 1.0;
  double low = 0.0;
  std::optional<double> seed = {};
};

struct Range {
  DType stash_type = DType{1};
};

struct ReduceL1 {
  bool keepdims = true;
  bool noop_with_empty_axes = false;
};

struct ReduceL2 {
  bool keepdims = true;
  bool noop_with_empty_axes = false;
};

struct ReduceLogSum {
  bool keepdims = true;
  bool noop_with_empty_axes = false;
};

struct ReduceLogSumExp {
  bool keepdims = true;
  bool noop_with_empty_axes = false;
};

struct ReduceMax {
  bool keepdims = true;
  bool noop_with_empty_axes = false;
};

struct ReduceMean {
  bool keepdims = true;
  bool noop_with_empty_axes = false;
};

struct ReduceMin {
  bool keepdims = true;
  bool noop_with_empty_axes = false;
};

struct ReduceProd {
  bool keepdims = true;
  bool noop_with_empty_axes = false;
};

struct ReduceSum {
  bool keepdims = true;
  bool noop_with_empty_axes = false;
};

struct ReduceSumSquare {
  bool keepdims = true;
  bool noop_with_empty_axes = false;
};

struct RegexFullMatch {
  std::string_view pattern = {};
};

struct Reshape {
  bool allowzero = false;
};

struct Resize {
  bool antialias = false;
  std::vector<int64_t> axes = {};
  std::string_view coordinate_transformation_mode = "half_pixel";
  double cubic_coeff_a = -0.75;
  bool exclude_outside = false;
  double extrapolation_value = 0.0;
  std::string_view keep_aspect_ratio_policy = "stretch";
  std::string_view mode = "nearest";
  std::string_view nearest_mode = "round_prefer_floor";
};

struct ReverseSequence {
  int64_t batch_axis = 1;
  int64_t time_axis = 0;
};

struct RoiAlign {
  std::string_view coordinate_transformation_mode = "half_pixel";
  std::string_view mode = "avg";
  int64_t output_height = 1;
  int64_t output_width = 1;
  int64_t sampling_ratio = 0;
  double spatial_scale = 1.0;
};

struct RotaryEmbedding {
  bool interleaved = false;
  std::optional<int64_t> num_heads = {};
  int64_t rotary_embedding_dim = 0;
};

struct STFT {
  bool onesided = true;
};

struct Scan {
  Required<int64_t> num_scan_inputs;
  std::vector<int64_t> scan_input_axes = {};
  std::vector<int64_t> scan_input_directions = {};
  std::vector<int64_t> scan_output_axes = {};
  std::vector<int64_t> scan_output_directions = {};
};

struct ScatterElements {
  int64_t axis = 0;
  std::string_view reduction = "none";
};

struct ScatterND {
  std::string_view reduction = "none";
};

struct Selu {
  double alpha = 1.6732632;
  double gamma = 1.050701;
};

struct SequenceEmpty {
  DType dtype = DType::kUndefined;
};

struct Shape {
  std::optional<int64_t> end = {};
  int64_t start = 0;
};

struct Shrink {
  double bias = 0.0;
  double lambd = 0.5;
};

struct Softmax {
  int64_t axis = -1;
};

struct SoftmaxCrossEntropyLoss {
  std::optional<int64_t> ignore_index = {};
  std::string_view reduction = "mean";
};

struct SpaceToDepth {
  Required<int64_t> blocksize;
  std::string_view mode = "DCR";
};

struct Split {
  int64_t axis = 0;
  std::optional<int64_t> num_outputs = {};
};

struct SplitToSequence {
  int64_t axis = 0;
  bool keepdims = true;
};

struct StringNormalizer {
  std::string_view case_change_action = "NONE";
  bool is_case_sensitive = false;
  std::string_view locale = {};
  std::vector<std::string> stopwords = {};
};

struct StringSplit {
  std::string_view delimiter = {};
  std::optional<int64_t> maxsplit = {};
};

struct SwiGLU {
  double alpha = 1.0;
};

struct Swish {
  double alpha = 1.0;
};

struct TensorScatter {
  int64_t axis = -2;
  std::string_view mode = "linear";
};

struct TfIdfVectorizer {
  Required<int64_t> max_gram_length;
  Required<int64_t> max_skip_count;
  Required<int64_t> min_gram_length;
  Required<std::string_view> mode;
  std::vector<int64_t> ngram_counts = {};  // required
  std::vector<int64_t> ngram_indexes = {};  // required
  std::vector<int64_t> pool_int64s = {};
  std::vector<std::string> pool_strings = {};
  std::vector<double> weights = {};
};

struct ThresholdedRelu {
  double alpha = 1.0;
};

struct TopK {
  int64_t axis = -1;
  bool largest = true;
  bool sorted = true;
};

struct Transpose {
  std::vector<int64_t> perm = {};
};

struct Trilu {
  bool upper = true;
};

struct Unique {
  std::optional<int64_t> axis = {};
  bool sorted = true;
};

}  // namespace sardonyx::onnx_attrs
