// Written by scripts/tables/gen_mil_ops.py from the op definitions of coremltools 9.0. Do not edit.
// MilBuilder: one method per Core ML op, typed and checked.
//
//   Value* y = b.conv(x, weight, {.bias = bias, .pad_type = "same", .strides = {2, 2}});
//   Value* z = b.concat({y, b.mul(y, 0.5)}, {.axis = 1});
//
// Required operands that may be computed come first, then lists, blocks, and the number of results where it
// varies. All other operands are named, in alphabetical order. Operands that are not given are not written:
// Core ML uses the default, which the comments of mil_params note. Numbers, strings and flags become constants
// of the slot's type (mil_operand.h), created in slot order. The function's op set decides the version of the op.
// Slots are those of the newest version; giving one that the chosen version lacks is an error.
#pragma once

#include "sardonyx/builder.h"
#include "sardonyx/mil_operand.h"

namespace sardonyx {

// The named operands of each op.
namespace mil_params {

struct affine {
  Required<Flags> align_corners;
  Required<Text> coordinates_mode;
  Required<Ints> output_height;
  Required<Ints> output_width;
  Required<Text> padding_mode;
  Required<Numbers> padding_value;
  Required<Text> sampling_mode;
};

struct argsort {
  Flags ascending = {};  // false
  Ints axis = {};  // -1
};

struct avg_pool {
  Flags ceil_mode = {};  // false
  Flags exclude_padding_from_average = {};  // false
  Required<Ints> kernel_sizes;
  Ints pad = {};
  Required<Text> pad_type;
  Ints strides = {};
};

struct band_part {
  Ints lower = {};  // -1
  Ints upper = {};  // -1
};

struct batch_norm {
  Numbers beta = {};
  Numbers epsilon = {};  // 1e-05
  Numbers gamma = {};
  Required<Numbers> mean;
  Required<Numbers> variance;
};

struct batch_to_space {
  Required<Ints> block_shape;
  Required<Ints> crops;
};

struct cast {
  Required<Text> dtype;
};

struct clamped_relu {
  Required<Numbers> alpha;
  Required<Numbers> beta;
};

struct classify {
  Required<Operand> classes;
};

struct clip {
  Required<Numbers> alpha;
  Required<Numbers> beta;
};

struct complex_fft {
  Ints dim = {};  // -1
  Ints n = {};
  Text norm = {};  // "backward"
};

struct complex_fftn {
  Ints dims = {};
  Text norm = {};  // "backward"
  Ints shapes = {};
};

struct complex_ifft {
  Ints dim = {};  // -1
  Ints n = {};
  Text norm = {};  // "backward"
};

struct complex_ifftn {
  Ints dims = {};
  Text norm = {};  // "backward"
  Ints shapes = {};
};

struct complex_irfft {
  Ints dim = {};  // -1
  Ints n = {};
  Text norm = {};  // "backward"
};

struct complex_irfftn {
  Ints dims = {};
  Text norm = {};  // "backward"
  Ints shapes = {};
};

struct complex_rfft {
  Ints dim = {};  // -1
  Ints n = {};
  Text norm = {};  // "backward"
};

struct complex_rfftn {
  Ints dims = {};
  Text norm = {};  // "backward"
  Ints shapes = {};
};

struct complex_stft {
  Ints hop_length = {};
  Required<Ints> n_fft;
  Flags normalized = {};  // false
  Flags onesided = {};  // true
  Ints win_length = {};
  Numbers window = {};
};

struct concat {
  Required<Ints> axis;
  Flags interleave = {};  // false
};

struct constexpr_affine_dequantize {
  Required<Ints> axis;
  Required<Ints> quantized_data;
  Required<Numbers> scale;
  Required<Numbers> zero_point;
};

struct constexpr_blockwise_shift_scale {
  Required<Numbers> data;
  Numbers offset = {};
  Required<Numbers> scale;
};

struct constexpr_cast {
  Required<Text> output_dtype;
  Required<Numbers> source_val;
};

struct constexpr_lut_to_dense {
  Required<Ints> indices;
  Required<Numbers> lut;
  Ints vector_axis = {};
};

struct constexpr_lut_to_sparse {
  Required<Ints> indices_mask;
  Required<Ints> indices_nonzero_data;
  Required<Numbers> lut;
  Ints vector_axis = {};
};

struct constexpr_sparse_blockwise_shift_scale {
  Required<Ints> data_mask;
  Required<Numbers> nonzero_data;
  Numbers offset = {};
  Required<Numbers> scale;
};

struct constexpr_sparse_to_dense {
  Required<Ints> mask;
  Required<Numbers> nonzero_data;
};

struct conv {
  Numbers bias = {};
  Ints dilations = {};
  Ints groups = {};  // 1
  Ints pad = {};
  Text pad_type = {};  // "valid"
  Ints strides = {};
};

struct conv_quantized {
  Ints bias = {};
  Ints dilations = {};
  Ints groups = {};  // 1
  Ints nbits = {};  // 8
  Ints pad = {};
  Text pad_type = {};  // "valid"
  Required<Numbers> quant_bias;
  Required<Numbers> quant_scale;
  Required<Text> quantization_type;
  Ints strides = {};
};

struct conv_transpose {
  Numbers bias = {};
  Ints dilations = {};
  Ints groups = {};  // 1
  Ints output_shape = {};
  Ints pad = {};
  Text pad_type = {};  // "valid"
  Ints strides = {};
};

struct crop {
  Required<Ints> crop_height;
  Required<Ints> crop_width;
};

struct crop_resize {
  Text box_coordinate_mode = {};  // "CORNERS_HEIGHT_FIRST"
  Ints box_indices = {};
  Flags normalized_coordinates = {};  // false
  Numbers pad_value = {};  // 0.0
  Text sampling_mode = {};  // "DEFAULT"
  Numbers spatial_scale = {};  // 1.0
  Ints target_height = {};  // 1
  Ints target_width = {};  // 1
};

struct cumsum {
  Ints axis = {};  // 0
  Flags exclusive = {};  // false
  Flags reverse = {};  // false
};

struct depth_to_space {
  Required<Ints> block_size;
};

struct dequantize {
  Ints axis = {};
  Required<Numbers> scale;
  Ints zero_point = {};
};

struct einsum {
  Required<Text> equation;
};

struct elu {
  Required<Numbers> alpha;
};

struct expand_dims {
  Required<Ints> axes;
};

struct fill {
  Numbers value = {};  // 0.0
};

struct fill_like {
  Numbers value = {};  // 0.0
};

struct flatten2d {
  Ints axis = {};  // 1
};

struct gather {
  Ints axis = {};  // 0
  Ints batch_dims = {};  // 0
  Flags validate_indices = {};  // false
};

struct gather_along_axis {
  Ints axis = {};  // 0
  Flags validate_indices = {};  // false
};

struct gather_nd {
  Ints batch_dims = {};  // 0
  Flags validate_indices = {};  // false
};

struct gelu {
  Text mode = {};  // "EXACT"
};

struct gru {
  Text activation = {};  // "tanh"
  Numbers bias = {};
  Text direction = {};  // "forward"
  Numbers input_bias = {};
  Flags output_sequence = {};  // false
  Text recurrent_activation = {};  // "sigmoid"
  Flags reset_after = {};
  Required<Numbers> weight_hh;
  Required<Numbers> weight_ih;
};

struct instance_norm {
  Numbers beta = {};
  Numbers epsilon = {};  // 1e-05
  Numbers gamma = {};
};

struct inverse {
  Numbers epsilon = {};
};

struct l2_norm {
  Numbers epsilon = {};  // 1e-06
};

struct l2_pool {
  Flags ceil_mode = {};  // false
  Required<Ints> kernel_sizes;
  Ints pad = {};
  Required<Text> pad_type;
  Ints strides = {};
};

struct layer_norm {
  Ints axes = {};
  Numbers beta = {};
  Numbers epsilon = {};  // 1e-05
  Numbers gamma = {};
};

struct leaky_relu {
  Required<Numbers> alpha;
};

struct linear {
  Numbers bias = {};
  Required<Numbers> weight;
};

struct linear_activation {
  Required<Numbers> alpha;
  Required<Numbers> beta;
};

struct local_response_norm {
  Numbers alpha = {};  // 0.0001
  Numbers beta = {};  // 0.75
  Numbers k = {};  // 1.0
  Required<Ints> size;
};

struct log {
  Numbers epsilon = {};
};

struct lstm {
  Text activation = {};  // "tanh"
  Numbers bias = {};
  Numbers bias_back = {};
  Text cell_activation = {};  // "tanh"
  Numbers clip = {};
  Text direction = {};  // "forward"
  Flags output_sequence = {};  // false
  Numbers peephole = {};
  Numbers peephole_back = {};
  Text recurrent_activation = {};  // "sigmoid"
  Required<Numbers> weight_hh;
  Numbers weight_hh_back = {};
  Required<Numbers> weight_ih;
  Numbers weight_ih_back = {};
};

struct make_list {
  Text dtype = {};  // "fp32"
  Flags dynamic_length = {};  // true
  Ints init_length = {};  // 1
};

struct matmul {
  Flags transpose_x = {};  // false
  Flags transpose_y = {};  // false
};

struct max_pool {
  Flags ceil_mode = {};  // false
  Required<Ints> kernel_sizes;
  Ints pad = {};
  Required<Text> pad_type;
  Ints strides = {};
};

struct non_maximum_suppression {
  Required<Numbers> iou_threshold;
  Required<Ints> max_boxes;
  Flags per_class_suppression = {};  // false
};

struct one_hot {
  Ints axis = {};  // -1
  Numbers off_value = {};  // 0
  Numbers on_value = {};  // 1
};

struct pad {
  Numbers constant_val = {};  // 0.0
  Text mode = {};  // "constant"
};

struct pixel_shuffle {
  Required<Ints> upscale_factor;
};

struct pixel_unshuffle {
  Required<Ints> downscale_factor;
};

struct prelu {
  Required<Numbers> alpha;
};

struct quantize {
  Ints axis = {};
  Required<Text> output_dtype;
  Required<Numbers> scale;
  Ints zero_point = {};
};

struct random_bernoulli {
  Numbers prob = {};  // 0.5
  Ints seed = {};  // -1
};

struct random_categorical {
  Text mode = {};  // "logits"
  Ints seed = {};  // -1
  Ints size = {};  // 1
};

struct random_normal {
  Numbers mean = {};  // 0.0
  Ints seed = {};  // -1
  Numbers stddev = {};  // 1.0
};

struct random_uniform {
  Numbers high = {};  // 1.0
  Numbers low = {};  // 0.0
  Ints seed = {};  // -1
};

struct reduce_argmax {
  Ints axis = {};  // -1
  Flags keep_dims = {};  // false
  Text output_dtype = {};  // "int32"
};

struct reduce_argmin {
  Ints axis = {};  // -1
  Flags keep_dims = {};  // false
  Text output_dtype = {};  // "int32"
};

struct reduce_l1_norm {
  Ints axes = {};
  Flags keep_dims = {};  // false
};

struct reduce_l2_norm {
  Ints axes = {};
  Flags keep_dims = {};  // false
};

struct reduce_log_sum {
  Ints axes = {};
  Flags keep_dims = {};  // false
};

struct reduce_log_sum_exp {
  Ints axes = {};
  Flags keep_dims = {};  // false
};

struct reduce_max {
  Ints axes = {};
  Flags keep_dims = {};  // false
};

struct reduce_mean {
  Ints axes = {};
  Flags keep_dims = {};  // false
};

struct reduce_min {
  Ints axes = {};
  Flags keep_dims = {};  // false
};

struct reduce_prod {
  Ints axes = {};
  Flags keep_dims = {};  // false
};

struct reduce_sum {
  Ints axes = {};
  Flags keep_dims = {};  // false
};

struct reduce_sum_square {
  Ints axes = {};
  Flags keep_dims = {};  // false
};

struct resample {
  Required<Flags> align_corners;
  Required<Text> coordinates_mode;
  Required<Text> padding_mode;
  Required<Numbers> padding_value;
  Required<Text> sampling_mode;
};

struct resize {
  Text interpolation_mode = {};  // "LINEAR"
  Required<Ints> resized_dims;
  Text sampling_mode = {};  // "DEFAULT"
};

struct resize_bilinear {
  Text sampling_mode = {};  // "DEFAULT"
  Ints target_size_height = {};  // 1
  Ints target_size_width = {};  // 1
};

struct resize_nearest_neighbor {
  Required<Ints> target_size_height;
  Required<Ints> target_size_width;
};

struct reverse {
  Ints axes = {};
};

struct reverse_sequence {
  Ints batch_axis = {};  // 0
  Ints seq_axis = {};  // 0
};

struct rnn {
  Text activation = {};  // "tanh"
  Numbers bias = {};
  Text direction = {};  // "forward"
  Flags output_sequence = {};  // false
  Required<Numbers> weight_hh;
  Required<Numbers> weight_ih;
};

struct rsqrt {
  Numbers epsilon = {};
};

struct scaled_dot_product_attention {
  Numbers attn_mask = {};
};

struct scaled_tanh {
  Required<Numbers> alpha;
  Required<Numbers> beta;
};

struct scatter {
  Ints axis = {};  // 0
  Text mode = {};  // "add"
  Flags validate_indices = {};  // false
};

struct scatter_along_axis {
  Ints axis = {};  // 0
  Text mode = {};  // "add"
  Flags validate_indices = {};  // false
};

struct scatter_nd {
  Text mode = {};  // "add"
  Flags validate_indices = {};  // false
};

struct sigmoid_hard {
  Required<Numbers> alpha;
  Required<Numbers> beta;
};

struct slice_by_index {
  Flags begin_mask = {};
  Flags end_mask = {};
  Flags squeeze_mask = {};
  Ints stride = {};
};

struct slice_update {
  Flags begin_mask = {};
  Flags end_mask = {};
  Flags squeeze_mask = {};
  Ints stride = {};
};

struct sliding_windows {
  Required<Ints> axis;
  Required<Ints> size;
  Ints stride = {};  // 1
};

struct softmax {
  Ints axis = {};  // -1
};

struct softplus_parametric {
  Required<Numbers> alpha;
  Required<Numbers> beta;
};

struct space_to_batch {
  Required<Ints> block_shape;
  Required<Ints> paddings;
};

struct space_to_depth {
  Required<Ints> block_size;
};

struct split {
  Required<Ints> axis;
  Ints num_splits = {};
  Ints split_sizes = {};
};

struct squeeze {
  Ints axes = {};
};

struct stack {
  Required<Ints> axis;
};

struct threshold {
  Required<Numbers> alpha;
};

struct thresholded_relu {
  Required<Numbers> alpha;
};

struct topk {
  Flags ascending = {};  // false
  Ints axis = {};  // -1
  Ints k = {};  // 1
  Text output_indices_dtype = {};
  Flags return_indices = {};  // true
  Flags sort = {};  // true
};

struct transpose {
  Required<Ints> perm;
};

struct upsample_bilinear {
  Flags align_corners = {};  // true
  Flags half_pixel_centers = {};
  Numbers scale_factor_height = {};  // 1
  Numbers scale_factor_width = {};  // 1
};

struct upsample_nearest_neighbor {
  Numbers scale_factor_height = {};  // 1
  Numbers scale_factor_width = {};  // 1
};

}  // namespace mil_params

class MilBuilder : public Builder {
 public:
  using Builder::Builder;
  using Flags = mil_params::Flags;
  using Ints = mil_params::Ints;
  using Numbers = mil_params::Numbers;
  using Operand = mil_params::Operand;
  using Text = mil_params::Text;

  // The specification version of the function's op set (8 is iOS 17); the newest if the function names none.
  int version() const;
  // The op's version in this op set, or null. For ops named by data; pass it to make().
  const Op* find(std::string_view op) const;
  // Constants as values, for setting an operand in place.
  Value* i32(int32_t v) { return scalar_int(DType::kI32, v); }
  Value* i32s(std::span<const int64_t> v);
  // The same op with other operands in some slots; nullptr leaves a slot empty. Not for ops with blocks.
  Value* like(const Node& n, std::initializer_list<mil_params::Change> changes);

  Value* abs(const Numbers& x);
  Value* acos(const Numbers& x);
  Value* add(const Numbers& x, const Numbers& y);
  Value* affine(const Numbers& x, const Numbers& transform_matrix, const mil_params::affine& p);
  Value* argsort(const Numbers& x, const mil_params::argsort& p = {});
  Value* asin(const Numbers& x);
  Value* atan(const Numbers& x);
  Value* atanh(const Numbers& x);
  Value* avg_pool(const Numbers& x, const mil_params::avg_pool& p);
  Value* band_part(const Numbers& x, const mil_params::band_part& p = {});
  Value* batch_norm(const Numbers& x, const mil_params::batch_norm& p);
  Value* batch_to_space(const Numbers& x, const mil_params::batch_to_space& p);
  Value* cast(const Numbers& x, const mil_params::cast& p);
  Value* ceil(const Numbers& x);
  Value* clamped_relu(const Numbers& x, const mil_params::clamped_relu& p);
  Node& classify(const Numbers& probabilities, const mil_params::classify& p);  // label, probabilities
  Value* clip(const Numbers& x, const mil_params::clip& p);
  Value* complex(const Numbers& real_data, const Numbers& imag_data);
  Value* complex_abs(const Numbers& x);
  Value* complex_fft(const Numbers& data, const mil_params::complex_fft& p = {});
  Value* complex_fftn(const Numbers& data, const mil_params::complex_fftn& p = {});
  Value* complex_ifft(const Numbers& data, const mil_params::complex_ifft& p = {});
  Value* complex_ifftn(const Numbers& data, const mil_params::complex_ifftn& p = {});
  Value* complex_imag(const Numbers& data);
  Value* complex_irfft(const Numbers& data, const mil_params::complex_irfft& p = {});
  Value* complex_irfftn(const Numbers& data, const mil_params::complex_irfftn& p = {});
  Value* complex_real(const Numbers& data);
  Value* complex_rfft(const Numbers& data, const mil_params::complex_rfft& p = {});
  Value* complex_rfftn(const Numbers& data, const mil_params::complex_rfftn& p = {});
  Value* complex_shape(const Numbers& x);
  Value* complex_stft(const Numbers& input, const mil_params::complex_stft& p);
  Value* concat(std::span<Value* const> values, const mil_params::concat& p);
  Value* concat(std::initializer_list<Value*> values, const mil_params::concat& p) {
    return concat(std::span<Value* const>(values.begin(), values.size()), p);
  }
  Node& cond(const Flags& pred, Graph& true_fn, Graph& false_fn, size_t num_results);
  Value* constexpr_affine_dequantize(const mil_params::constexpr_affine_dequantize& p);
  Value* constexpr_blockwise_shift_scale(const mil_params::constexpr_blockwise_shift_scale& p);
  Value* constexpr_cast(const mil_params::constexpr_cast& p);
  Value* constexpr_lut_to_dense(const mil_params::constexpr_lut_to_dense& p);
  Node& constexpr_lut_to_sparse(const mil_params::constexpr_lut_to_sparse& p);  // mask, nonzero data
  Node& constexpr_sparse_blockwise_shift_scale(const mil_params::constexpr_sparse_blockwise_shift_scale& p);  // mask, nonzero data
  Value* constexpr_sparse_to_dense(const mil_params::constexpr_sparse_to_dense& p);
  Value* conv(const Numbers& x, const Numbers& weight, const mil_params::conv& p = {});
  Value* conv_quantized(const Numbers& x, const Ints& weight, const mil_params::conv_quantized& p);
  Value* conv_transpose(const Numbers& x, const Numbers& weight, const mil_params::conv_transpose& p = {});
  Value* coreml_update_state(const Operand& state, const Numbers& value);
  Value* cos(const Numbers& x);
  Value* cosh(const Numbers& x);
  Value* crop(const Numbers& x, const mil_params::crop& p);
  Value* crop_resize(const Numbers& x, const Numbers& boxes, const mil_params::crop_resize& p = {});
  Value* cumsum(const Numbers& x, const mil_params::cumsum& p = {});
  Value* depth_to_space(const Numbers& x, const mil_params::depth_to_space& p);
  Value* dequantize(const Ints& input, const mil_params::dequantize& p);
  Value* einsum(std::span<Value* const> values, const mil_params::einsum& p);
  Value* einsum(std::initializer_list<Value*> values, const mil_params::einsum& p) {
    return einsum(std::span<Value* const>(values.begin(), values.size()), p);
  }
  Value* elu(const Numbers& x, const mil_params::elu& p);
  Value* equal(const Numbers& x, const Numbers& y);
  Value* erf(const Numbers& x);
  Value* exp(const Numbers& x);
  Value* exp2(const Numbers& x);
  Value* expand_dims(const Numbers& x, const mil_params::expand_dims& p);
  Value* fill(const Ints& shape, const mil_params::fill& p = {});
  Value* fill_like(const Numbers& ref_tensor, const mil_params::fill_like& p = {});
  Value* flatten2d(const Numbers& x, const mil_params::flatten2d& p = {});
  Value* floor(const Numbers& x);
  Value* floor_div(const Numbers& x, const Numbers& y);
  Value* gather(const Numbers& x, const Ints& indices, const mil_params::gather& p = {});
  Value* gather_along_axis(const Numbers& x, const Ints& indices, const mil_params::gather_along_axis& p = {});
  Value* gather_nd(const Numbers& x, const Ints& indices, const mil_params::gather_nd& p = {});
  Value* gelu(const Numbers& x, const mil_params::gelu& p = {});
  Value* greater(const Numbers& x, const Numbers& y);
  Value* greater_equal(const Numbers& x, const Numbers& y);
  Node& gru(const Numbers& x, const Numbers& initial_h, const mil_params::gru& p);  // h of each step or the last, last h
  Value* identity(const Operand& x);
  Value* instance_norm(const Numbers& x, const mil_params::instance_norm& p = {});
  Value* inverse(const Numbers& x, const mil_params::inverse& p = {});
  Value* l2_norm(const Numbers& x, const mil_params::l2_norm& p = {});
  Value* l2_pool(const Numbers& x, const mil_params::l2_pool& p);
  Value* layer_norm(const Numbers& x, const mil_params::layer_norm& p = {});
  Value* leaky_relu(const Numbers& x, const mil_params::leaky_relu& p);
  Value* less(const Numbers& x, const Numbers& y);
  Value* less_equal(const Numbers& x, const Numbers& y);
  Value* linear(const Numbers& x, const mil_params::linear& p);
  Value* linear_activation(const Numbers& x, const mil_params::linear_activation& p);
  Value* list_gather(const Operand& ls, const Ints& indices);
  Value* list_length(const Operand& ls);
  Value* list_read(const Operand& ls, const Ints& index);
  Value* list_scatter(const Operand& ls, const Ints& indices, const Numbers& value);
  Value* list_write(const Operand& ls, const Ints& index, const Numbers& value);
  Value* local_response_norm(const Numbers& x, const mil_params::local_response_norm& p);
  Value* log(const Numbers& x, const mil_params::log& p = {});
  Value* logical_and(const Flags& x, const Flags& y);
  Value* logical_not(const Flags& x);
  Value* logical_or(const Flags& x, const Flags& y);
  Value* logical_xor(const Flags& x, const Flags& y);
  Node& lstm(const Numbers& x, const Numbers& initial_h, const Numbers& initial_c, const mil_params::lstm& p);  // h of each step or the last, last h, last c
  Value* make_list(std::span<Value* const> elem_shape, const mil_params::make_list& p = {});
  Value* make_list(std::initializer_list<Value*> elem_shape, const mil_params::make_list& p = {}) {
    return make_list(std::span<Value* const>(elem_shape.begin(), elem_shape.size()), p);
  }
  Value* matmul(const Numbers& x, const Numbers& y, const mil_params::matmul& p = {});
  Value* max_pool(const Numbers& x, const mil_params::max_pool& p);
  Value* maximum(const Numbers& x, const Numbers& y);
  Value* minimum(const Numbers& x, const Numbers& y);
  Value* mod(const Numbers& x, const Numbers& y);
  Value* mul(const Numbers& x, const Numbers& y);
  Node& non_maximum_suppression(const Numbers& boxes, const Numbers& scores, size_t num_results, const mil_params::non_maximum_suppression& p);  // boxes, scores, indices, boxes that count
  Value* non_zero(const Numbers& x);
  Value* not_equal(const Numbers& x, const Numbers& y);
  Value* one_hot(const Ints& indices, const Ints& one_hot_vector_size, const mil_params::one_hot& p = {});
  Value* pad(const Numbers& x, const Ints& pad, const mil_params::pad& p = {});
  Value* pixel_shuffle(const Numbers& x, const mil_params::pixel_shuffle& p);
  Value* pixel_unshuffle(const Numbers& x, const mil_params::pixel_unshuffle& p);
  Value* pow(const Numbers& x, const Numbers& y);
  Value* prelu(const Numbers& x, const mil_params::prelu& p);
  Value* quantize(const Numbers& input, const mil_params::quantize& p);
  Value* random_bernoulli(const Ints& shape, const mil_params::random_bernoulli& p = {});
  Value* random_categorical(const Numbers& x, const mil_params::random_categorical& p = {});
  Value* random_normal(const Ints& shape, const mil_params::random_normal& p = {});
  Value* random_uniform(const Ints& shape, const mil_params::random_uniform& p = {});
  Value* range_1d(const Numbers& end, const Numbers& start, const Numbers& step);
  Value* read_state(const Operand& input);
  Value* real_div(const Numbers& x, const Numbers& y);
  Value* reduce_argmax(const Numbers& x, const mil_params::reduce_argmax& p = {});
  Value* reduce_argmin(const Numbers& x, const mil_params::reduce_argmin& p = {});
  Value* reduce_l1_norm(const Numbers& x, const mil_params::reduce_l1_norm& p = {});
  Value* reduce_l2_norm(const Numbers& x, const mil_params::reduce_l2_norm& p = {});
  Value* reduce_log_sum(const Numbers& x, const mil_params::reduce_log_sum& p = {});
  Value* reduce_log_sum_exp(const Numbers& x, const mil_params::reduce_log_sum_exp& p = {});
  Value* reduce_max(const Numbers& x, const mil_params::reduce_max& p = {});
  Value* reduce_mean(const Numbers& x, const mil_params::reduce_mean& p = {});
  Value* reduce_min(const Numbers& x, const mil_params::reduce_min& p = {});
  Value* reduce_prod(const Numbers& x, const mil_params::reduce_prod& p = {});
  Value* reduce_sum(const Numbers& x, const mil_params::reduce_sum& p = {});
  Value* reduce_sum_square(const Numbers& x, const mil_params::reduce_sum_square& p = {});
  Value* relu(const Numbers& x);
  Value* relu6(const Numbers& x);
  Value* resample(const Numbers& x, const Numbers& coordinates, const mil_params::resample& p);
  Value* reshape(const Numbers& x, const Ints& shape);
  Value* reshape_like(const Numbers& x, std::span<Value* const> ref_tensors, std::span<Value* const> begins, std::span<Value* const> ends, std::span<Value* const> end_masks);
  Value* resize(const Numbers& x, const Ints& shape, const mil_params::resize& p);
  Value* resize_bilinear(const Numbers& x, const mil_params::resize_bilinear& p = {});
  Value* resize_nearest_neighbor(const Numbers& x, const mil_params::resize_nearest_neighbor& p);
  Value* reverse(const Numbers& x, const mil_params::reverse& p = {});
  Value* reverse_sequence(const Numbers& x, const Ints& lengths, const mil_params::reverse_sequence& p = {});
  Node& rnn(const Numbers& x, const Numbers& initial_h, const mil_params::rnn& p);  // h of each step or the last, last h
  Value* round(const Numbers& x);
  Value* rsqrt(const Numbers& x, const mil_params::rsqrt& p = {});
  Value* scaled_dot_product_attention(const Numbers& query, const Numbers& key, const Numbers& value, const mil_params::scaled_dot_product_attention& p = {});
  Value* scaled_tanh(const Numbers& x, const mil_params::scaled_tanh& p);
  Value* scatter(const Numbers& data, const Ints& indices, const Numbers& updates, const mil_params::scatter& p = {});
  Value* scatter_along_axis(const Numbers& data, const Ints& indices, const Numbers& updates, const mil_params::scatter_along_axis& p = {});
  Value* scatter_nd(const Numbers& data, const Ints& indices, const Numbers& updates, const mil_params::scatter_nd& p = {});
  Value* select(const Flags& cond, const Numbers& a, const Numbers& b);
  Value* shape(const Numbers& x);
  Value* sigmoid(const Numbers& x);
  Value* sigmoid_hard(const Numbers& x, const mil_params::sigmoid_hard& p);
  Value* sign(const Numbers& x);
  Value* silu(const Numbers& x);
  Value* sin(const Numbers& x);
  Value* sinh(const Numbers& x);
  Value* slice_by_index(const Numbers& x, const Ints& begin, const Ints& end, const mil_params::slice_by_index& p = {});
  Value* slice_by_size(const Numbers& x, const Ints& begin, const Ints& size);
  Value* slice_update(const Numbers& x, const Numbers& update, const Ints& begin, const Ints& end, const mil_params::slice_update& p = {});
  Value* sliding_windows(const Numbers& x, const mil_params::sliding_windows& p);
  Value* softmax(const Numbers& x, const mil_params::softmax& p = {});
  Value* softplus(const Numbers& x);
  Value* softplus_parametric(const Numbers& x, const mil_params::softplus_parametric& p);
  Value* softsign(const Numbers& x);
  Value* space_to_batch(const Numbers& x, const mil_params::space_to_batch& p);
  Value* space_to_depth(const Numbers& x, const mil_params::space_to_depth& p);
  Node& split(const Numbers& x, size_t num_results, const mil_params::split& p);
  Value* sqrt(const Numbers& x);
  Value* square(const Numbers& x);
  Value* squeeze(const Numbers& x, const mil_params::squeeze& p = {});
  Value* stack(std::span<Value* const> values, const mil_params::stack& p);
  Value* stack(std::initializer_list<Value*> values, const mil_params::stack& p) {
    return stack(std::span<Value* const>(values.begin(), values.size()), p);
  }
  Value* sub(const Numbers& x, const Numbers& y);
  Value* tan(const Numbers& x);
  Value* tanh(const Numbers& x);
  Value* threshold(const Numbers& x, const mil_params::threshold& p);
  Value* thresholded_relu(const Numbers& x, const mil_params::thresholded_relu& p);
  Value* tile(const Numbers& x, const Ints& reps);
  Node& topk(const Numbers& x, size_t num_results, const mil_params::topk& p = {});  // values, indices
  Value* transpose(const Numbers& x, const mil_params::transpose& p);
  Value* upsample_bilinear(const Numbers& x, const mil_params::upsample_bilinear& p = {});
  Value* upsample_nearest_neighbor(const Numbers& x, const mil_params::upsample_nearest_neighbor& p = {});
  Node& while_loop(std::span<Value* const> loop_vars, Graph& cond, Graph& body);
  Node& while_loop(std::initializer_list<Value*> loop_vars, Graph& cond, Graph& body) {
    return while_loop(std::span<Value* const>(loop_vars.begin(), loop_vars.size()), cond, body);
  }
  Node& write_state(const Operand& input, const Operand& data);
};

}  // namespace sardonyx
