// Every operator as plain loops: the statement of the numerics. Denormals are flushed (see
// flush_denormals.h); std::fma is a fused multiply-add and nothing else is fused.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/flush_denormals.h"
#include "kernels/numeric.h"
#include "kernels/op_checks.h"
#include "kernels/ops.h"
#include "kernels/read_element.h"
#include "kernels/reference/reference_attention.h"
#include "kernels/reference/reference_math.h"
#include "kernels/reference/reference_matrix.h"

namespace headrace {
namespace {

constexpr std::int64_t kStatisticsSlice = 1024;

std::vector<float> read_row(const ConstTensorView& view, std::int64_t row) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < view.cols; ++i) {
    values.push_back(read_element(view, row * view.cols + i));
  }
  return values;
}

void write_element(const TensorView& view, std::int64_t index, float value) {
  if (view.dtype == DType::kBFloat16) {
    view.u16()[index] = float_to_bf16(value);
  } else {
    view.f32()[index] = value;
  }
}

std::vector<float> normed(const float* x, std::int64_t count, const Norm& norm) {
  const bool centred = norm.kind == NormKind::kLayer;
  InterleavedSum sum;
  for (std::int64_t i = 0; i < count; ++i) sum.add(i, x[i]);
  const float mean = centred ? sum.total() / static_cast<float>(count) : 0.0F;
  InterleavedSum squares;
  for (std::int64_t i = 0; i < count; ++i) squares.add_square(i, x[i] - mean);
  const float variance = squares.total() / static_cast<float>(count);
  const float scale = 1.0F / std::sqrt(variance + norm.eps);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    float value = (x[i] - mean) * scale * norm.weight[i];
    if (norm.bias != nullptr) value += norm.bias[i];
    values.push_back(value);
  }
  return values;
}

float activation_of(float x, Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return silu_f32(x);
    case Activation::kGeluTanh:
      return gelu_tanh_f32(x);
    case Activation::kGeluErf:
      return gelu_erf_f32(x);
  }
  throw std::logic_error("an activation that the reference backend lacks");
}

BestLogit best_of(std::span<const float> logits) {
  BestLogit best{.value = -INFINITY, .id = -1};
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) return {.value = NAN, .id = -1};
    if (logits[i] > best.value) best = {logits[i], static_cast<std::int32_t>(i)};
  }
  return best;
}

// Turns a head in place: dimension i with dimension i + rotary_dim / 2.
void rotate(float* head, const float* cos_sin, int rotary_dim) {
  const int half = rotary_dim / 2;
  for (int i = 0; i < half; ++i) {
    const float a = head[i];
    const float b = head[i + half];
    const float cos = cos_sin[i];
    const float sin = cos_sin[half + i];
    head[i] = a * cos - b * sin;
    head[i + half] = b * cos + a * sin;
  }
}

class ReferenceOps final : public Ops {
 public:
  ReferenceOps(DType compute_dtype, SumOrder order) : dtype_(compute_dtype), order_(order) {}

  DType compute_dtype() const override { return dtype_; }
  DeviceArena& arena() override { return *arena_; }

  std::unique_ptr<Matrix> make_matrix(MatrixSpec spec) override {
    return std::make_unique<ReferenceMatrix>(std::move(spec), dtype_);
  }

  void reserve(int /*max_rows*/, int /*max_context*/, const AttentionShape& shape) override {
    require_attention_shape(shape);
  }

  // Nothing is taken.
  std::size_t reserve_bytes(int /*max_rows*/, int /*max_context*/,
                            const AttentionShape& /*shape*/) const override {
    return 0;
  }

  void embed(TensorView out, const Matrix& table, std::span<const std::int32_t> ids) override {
    const FlushDenormals guard;
    require_view(out, {.name = "embed: out", .rows = std::ssize(ids), .cols = table.k()});
    require_ids(ids, table.n());
    const auto& weights = dynamic_cast<const ReferenceMatrix&>(table);
    for (std::size_t r = 0; r < ids.size(); ++r) {
      weights.copy_row(out.f32() + static_cast<std::int64_t>(r) * out.cols, ids[r]);
    }
  }

  void norm(TensorView out, ConstTensorView x, const Norm& norm) override {
    const FlushDenormals guard;
    require_view(x, {.name = "norm: x", .rows = out.rows, .cols = out.cols});
    const bool keep = out.dtype == DType::kFloat32;
    require_view(out, {"norm: out", out.rows, out.cols, keep ? DType::kFloat32 : dtype_});
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const std::vector<float> values = normed(x.f32() + r * x.cols, x.cols, norm);
      for (std::int64_t i = 0; i < x.cols; ++i) {
        write_element(out, r * x.cols + i, values[static_cast<std::size_t>(i)]);
      }
    }
  }

  void norm_parts(TensorView inout, const RowParts& parts, const Norm& norm) override {
    const FlushDenormals guard;
    require_parts(parts, inout.cols);
    require_view(inout, {.name = "norm_parts: inout", .rows = inout.rows, .cols = inout.cols});
    for (std::int64_t r = 0; r < inout.rows; ++r) {
      for (std::int64_t p = 0; p < parts.count; ++p) {
        float* part = inout.f32() + r * inout.cols + parts.begin + p * parts.width;
        const std::vector<float> values = normed(part, parts.width, norm);
        std::copy(values.begin(), values.end(), part);
      }
    }
  }

  void convert(TensorView out, ConstTensorView x) override {
    const FlushDenormals guard;
    require_view(x, {.name = "convert: x", .rows = out.rows, .cols = out.cols});
    require_view(out, {"convert: out", out.rows, out.cols, dtype_});
    for (std::int64_t i = 0; i < x.rows * x.cols; ++i) write_element(out, i, x.f32()[i]);
  }

  void matmul(TensorView out, const ProductInput& x, const Matrix& w, const float* bias) override {
    require_whole_sum(w);
    multiply(out, plain_rows(x), w,
             [bias](float& element, float value, std::int64_t column, int /*index*/) {
               element = bias == nullptr ? value : value + bias[column];
             });
  }

  void matmul_add(TensorView inout, const ProductInput& x, const Matrix& w,
                  const float* bias) override {
    require_whole_sum(w);
    multiply(inout, plain_rows(x), w,
             [bias](float& element, float value, std::int64_t column, int /*index*/) {
               element += bias == nullptr ? value : value + bias[column];
             });
  }

  void matmul_partial(TensorView out, const ProductInput& input, const Matrix& w) override {
    const ConstTensorView& x = plain_rows(input);
    require_view(out,
                 {.name = "matmul_partial: out", .rows = w.num_values() * x.rows, .cols = w.n()});
    TensorView first = out;
    first.rows = x.rows;
    const std::int64_t stride = x.rows * out.cols;
    multiply(first, x, w,
             [stride](float& element, float value, std::int64_t /*column*/, int index) {
               (&element)[index * stride] = value;
             });
  }

  void add_partials(TensorView inout, std::span<const float* const> parts,
                    std::span<const std::int32_t> merges, const float* bias) override {
    const FlushDenormals guard;
    require_merges(parts.size(), merges);
    std::vector<float> stack;
    for (std::int64_t i = 0; i < inout.rows * inout.cols; ++i) {
      stack.clear();
      for (std::size_t p = 0; p < parts.size(); ++p) push_and_merge(stack, parts[p][i], merges[p]);
      inout.f32()[i] += bias == nullptr ? stack[0] : stack[0] + bias[i % inout.cols];
    }
  }

  void rope_and_store_kv(TensorView q_out, ConstTensorView qkv, const float* cos_sin,
                         const AttentionShape& shape, const KvLayer& kv,
                         std::span<const SequenceRows> sequences) override {
    const FlushDenormals guard;
    require_attention_shape(shape);
    const std::int64_t q_cols = std::int64_t{shape.num_heads} * shape.head_dim;
    const std::int64_t kv_cols = std::int64_t{shape.num_kv_heads} * shape.head_dim;
    require_view(qkv, {.name = "rope: qkv", .rows = q_out.rows, .cols = q_cols + 2 * kv_cols});
    require_view(q_out, {"rope: q_out", q_out.rows, q_cols, dtype_});
    const ReferenceCache cache(shape, kv, dtype_);
    for (const SequenceRows& sequence : sequences) {
      for (int i = 0; i < sequence.num_rows; ++i) {
        const std::int64_t r = sequence.first_row + i;
        std::vector<float> row = read_row(qkv, r);
        for (int head = 0; head < shape.num_heads + shape.num_kv_heads; ++head) {
          rotate(row.data() + std::int64_t{head} * shape.head_dim, cos_sin + r * shape.rotary_dim,
                 shape.rotary_dim);
        }
        for (std::int64_t c = 0; c < q_cols; ++c) {
          write_element(q_out, r * q_cols + c, row[static_cast<std::size_t>(c)]);
        }
        const int position = sequence.first_position + i;
        const std::int32_t block = sequence.blocks[position / kv.block_tokens];
        const int slot = position % kv.block_tokens;
        for (int head = 0; head < shape.num_kv_heads; ++head) {
          const float* key = row.data() + q_cols + std::int64_t{head} * shape.head_dim;
          cache.store_key(block, slot, head, key);
          cache.store_value(block, slot, head, key + kv_cols);
        }
      }
    }
  }

  void attention(TensorView out, ConstTensorView q, const AttentionShape& shape, const KvLayer& kv,
                 std::span<const SequenceRows> sequences) override {
    const FlushDenormals guard;
    require_attention_shape(shape);
    const std::int64_t cols = std::int64_t{shape.num_heads} * shape.head_dim;
    require_view(q, {"attention: q", out.rows, cols, dtype_});
    require_view(out, {"attention: out", out.rows, cols, dtype_});
    const ReferenceCache cache(shape, kv, dtype_);
    std::vector<float> result(static_cast<std::size_t>(shape.head_dim));
    for (const SequenceRows& sequence : sequences) {
      for (int i = 0; i < sequence.num_rows; ++i) {
        const std::int64_t r = sequence.first_row + i;
        const std::vector<float> queries = read_row(q, r);
        for (int head = 0; head < shape.num_heads; ++head) {
          const std::int64_t column = std::int64_t{head} * shape.head_dim;
          reference_attention(result.data(), queries.data() + column, cache, shape, sequence, head,
                              sequence.first_position + i, {dtype_, order_});
          for (int d = 0; d < shape.head_dim; ++d) {
            write_element(out, r * cols + column + d, result[static_cast<std::size_t>(d)]);
          }
        }
      }
    }
  }

  void activate(TensorView out, ConstTensorView x, Activation activation) override {
    const FlushDenormals guard;
    const bool gated = require_activation_views(out, x, dtype_);
    for (std::int64_t r = 0; r < out.rows; ++r) {
      const float* row = x.f32() + r * x.cols;
      for (std::int64_t i = 0; i < out.cols; ++i) {
        const float activated = activation_of(row[i], activation);
        write_element(out, r * out.cols + i, gated ? activated * row[out.cols + i] : activated);
      }
    }
  }

  ProductInput matmul_activate(TensorView out, const ProductInput& x,
                               const ActivatedProduct& product) override {
    require_activated_product(out, product, dtype_);
    return Ops::matmul_activate(out, x, product);
  }

  void scale(TensorView inout, float factor) override {
    const FlushDenormals guard;
    require_view(inout, {.name = "scale: inout", .rows = inout.rows, .cols = inout.cols});
    for (std::int64_t i = 0; i < inout.rows * inout.cols; ++i) inout.f32()[i] *= factor;
  }

  void add_scaled(TensorView inout, ConstTensorView x, float factor) override {
    const FlushDenormals guard;
    require_view(inout, {.name = "add_scaled: inout", .rows = inout.rows, .cols = inout.cols});
    require_view(x, {.name = "add_scaled: x", .rows = inout.rows, .cols = inout.cols});
    for (std::int64_t i = 0; i < x.rows * x.cols; ++i) {
      const float scaled = x.f32()[i] * factor;
      inout.f32()[i] += scaled;
    }
  }

  void soft_cap(TensorView inout, float cap) override {
    const FlushDenormals guard;
    require_view(inout, {.name = "soft_cap: inout", .rows = inout.rows, .cols = inout.cols});
    for (std::int64_t i = 0; i < inout.rows * inout.cols; ++i) {
      inout.f32()[i] = soft_cap_f32(inout.f32()[i], cap);
    }
  }

  void row_statistics(std::span<RowStatistics> out, ConstTensorView logits) override {
    const FlushDenormals guard;
    require_view(logits, {"row_statistics: logits", std::ssize(out), logits.cols});
    for (std::size_t r = 0; r < out.size(); ++r) {
      const float* row = logits.f32() + static_cast<std::int64_t>(r) * logits.cols;
      const float max = *std::max_element(row, row + logits.cols) + 0.0F;  // never a negative zero
      float sum = 0.0F;
      for (std::int64_t begin = 0; begin < logits.cols; begin += kStatisticsSlice) {
        const std::int64_t end = std::min(begin + kStatisticsSlice, logits.cols);
        InterleavedSum slice;
        for (std::int64_t i = begin; i < end; ++i) slice.add(i, exp_f32(row[i] - max));
        sum += slice.total();
      }
      out[r] = {.max = max, .log_sum_exp = log_sum_exp_of(max, sum)};
    }
  }

  void best_logits(std::span<BestLogit> out, ConstTensorView x, const Matrix& w,
                   const LogitChange& change, TensorView room) override {
    require_best_logits(out, x, w, room);
    std::vector<float> logits(static_cast<std::size_t>(x.rows * w.n()));
    const TensorView all{reinterpret_cast<std::byte*>(logits.data()), x.rows, w.n(),
                         DType::kFloat32};
    matmul(all, x, w, nullptr);
    change_logits(*this, all, change);
    for (std::size_t r = 0; r < out.size(); ++r) {
      const float* row = logits.data() + static_cast<std::int64_t>(r) * w.n();
      out[r] = best_of({row, static_cast<std::size_t>(w.n())});
    }
  }

  std::span<const RowLeaders> leading_logits(ConstTensorView /*logits*/,
                                             std::span<const float> /*temperatures*/) override {
    return {};
  }

  std::size_t kv_block_bytes(const AttentionShape& shape, int block_tokens) const override {
    return ReferenceCache::block_bytes(shape, block_tokens, dtype_);
  }

 private:
  // finish(element, value, column, index of the value) for every element of the product.
  template <class Finish>
  void multiply(const TensorView& out, const ConstTensorView& x, const Matrix& w,
                Finish finish) const {
    const FlushDenormals guard;
    require_view(x, {"matmul: x", out.rows, w.k(), dtype_});
    require_view(out, {.name = "matmul: out", .rows = out.rows, .cols = w.n()});
    const auto& weights = dynamic_cast<const ReferenceMatrix&>(w);
    const ReductionTree& tree = weights.tree();
    std::vector<float> scales;
    for (std::int64_t r = 0; r < out.rows; ++r) {
      std::vector<float> row = read_row(x, r);
      if (weights.quantizes_inputs()) scales = quantize_inputs(row.data(), tree);
      for (std::int64_t c = 0; c < out.cols; ++c) {
        const std::vector<float> values = product_of({row.data(), scales.data()}, weights, c);
        for (int i = 0; i < w.num_values(); ++i) {
          finish(out.f32()[r * out.cols + c], values[static_cast<std::size_t>(i)], c, i);
        }
      }
    }
  }

  std::vector<float> product_of(const QuantizedRow& inputs, const ReferenceMatrix& weights,
                                std::int64_t c) const {
    if (!weights.quantized()) {
      return inner_product(inputs.values, weights.row(c), weights.tree(), {dtype_, order_});
    }
    const QuantizedRow row{weights.row(c), weights.scales(c)};
    if (weights.quantizes_inputs()) {
      return quantized_inner_product(inputs, row, weights.tree(), weights.quantization());
    }
    const bool tiles = dtype_ == DType::kBFloat16 && order_ == SumOrder::kTiles;
    if (tiles && weights.quantization() == Quantization::kInt4) {
      std::vector<float> rounded(static_cast<std::size_t>(weights.k()));
      weights.copy_row(rounded.data(), c);
      for (float& weight : rounded) weight = round_to_bf16(weight);
      return inner_product(inputs.values, rounded.data(), weights.tree(), {dtype_, order_});
    }
    return weight_only_inner_product(inputs.values, row, weights.tree(),
                                     {weights.quantization(), {dtype_, order_}});
  }

  DType dtype_;
  SumOrder order_;
  std::unique_ptr<DeviceArena> arena_ = make_host_arena();
};

}  // namespace

std::unique_ptr<Ops> make_reference_ops(DType compute_dtype, SumOrder order) {
  if (compute_dtype == DType::kFloat16) {
    throw std::invalid_argument(
        "compute type float16 is not offered on the CPU: float32, bfloat16");
  }
  return std::make_unique<ReferenceOps>(compute_dtype, order);
}

}  // namespace headrace
