// The fast backend: cuts each operator into tasks for the pool and hands them to the kernels of the
// chosen instruction set. How it cuts never changes a bit of the result.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/ceil_div.h"
#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/cpu_products.h"
#include "kernels/cpu/integer_matrix.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/run_flushed.h"
#include "kernels/op_checks.h"
#include "kernels/ops.h"
#include "kernels/thread_pool.h"

namespace headrace {
namespace {

// Elements of a row-wise operator that are worth a task of their own: about 10 us of work.
constexpr std::int64_t kElementsPerTask = 16384;

// Tasks of attention that each thread should find, so that all end together; and most tiles of one.
constexpr int kAttentionTasksPerThread = 8;
constexpr std::int64_t kMostTilesPerTask = 8;

class CpuOps final : public Ops {
 public:
  CpuOps(DType compute_dtype, ThreadPool& pool, std::string_view isa)
      : dtype_(compute_dtype),
        pool_(pool),
        kernels_(choose_kernels(isa, compute_dtype)),
        int8_(choose_int8_kernels(isa, compute_dtype)),
        products_(compute_dtype, pool, kernels_, int8_) {}

  DType compute_dtype() const override { return dtype_; }
  DeviceArena& arena() override { return *arena_; }

  std::unique_ptr<Matrix> make_matrix(MatrixSpec spec) override {
    require_matrix(spec, dtype_);
    std::unique_ptr<PackedMatrix> matrix;
    if (spec.quantization != Quantization::kNone) {
      const bool is_signed = int8_.signed_weights && spec.inputs == QuantizedInputs::kInt8;
      matrix = std::make_unique<IntegerMatrix>(spec, is_signed, pool_);
    } else {
      matrix = std::make_unique<ComputeMatrix>(spec, dtype_, pool_);
    }
    products_.make_room_for(*matrix);
    return matrix;
  }

  void reserve(int max_rows, int /*max_context*/, const AttentionShape& shape) override {
    require_attention_shape(shape);
    tiles_.reserve(max_rows, shape, attention_kernels(shape).tile_rows);
    products_.reserve();
  }

  // What it takes lies beside the arena.
  std::size_t reserve_bytes(int /*max_rows*/, int /*max_context*/,
                            const AttentionShape& /*shape*/) const override {
    return 0;
  }

  void embed(TensorView out, const Matrix& table, std::span<const std::int32_t> ids) override {
    require_view(out, {.name = "embed: out", .rows = std::ssize(ids), .cols = table.k()});
    require_ids(ids, table.n());
    const auto& matrix = dynamic_cast<const PackedMatrix&>(table);
    over_rows(out.rows, out.cols, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        matrix.copy_row(out.f32() + r * out.cols, ids[static_cast<std::size_t>(r)]);
      }
    });
  }

  void norm(TensorView out, ConstTensorView x, const Norm& norm) override {
    require_view(x, {.name = "norm: x", .rows = out.rows, .cols = out.cols});
    const bool float_out = out.dtype == DType::kFloat32;
    require_view(out, {"norm: out", out.rows, out.cols, float_out ? DType::kFloat32 : dtype_});
    norm_rows({.x = x.f32(),
               .out = out.data,
               .norm = norm,
               .parts = {.width = x.cols},
               .float_out = float_out,
               .row_cols = x.cols,
               .row_end = x.rows});
  }

  void norm_parts(TensorView inout, const RowParts& parts, const Norm& norm) override {
    require_parts(parts, inout.cols);
    require_view(inout, {.name = "norm_parts: inout", .rows = inout.rows, .cols = inout.cols});
    norm_rows({.x = inout.f32(),
               .out = inout.data,
               .norm = norm,
               .parts = parts,
               .float_out = true,
               .row_cols = inout.cols,
               .row_end = inout.rows});
  }

  void convert(TensorView out, ConstTensorView x) override {
    require_view(x, {.name = "convert: x", .rows = out.rows, .cols = out.cols});
    require_view(out, {"convert: out", out.rows, out.cols, dtype_});
    over_rows(out.rows, out.cols, [&](std::int64_t begin, std::int64_t end) {
      kernels_.convert(x.f32(), out.data, begin * out.cols, end * out.cols);
    });
  }

  bool norms_inputs() const override { return true; }

  void matmul(TensorView out, const ProductInput& x, const Matrix& w, const float* bias) override {
    require_whole_sum(w);
    multiply(out, x, w, {.bias = bias});
  }

  void matmul_add(TensorView inout, const ProductInput& x, const Matrix& w,
                  const float* bias) override {
    require_whole_sum(w);
    multiply(inout, x, w, {.bias = bias, .epilogue = Epilogue::kAddTo});
  }

  void matmul_partial(TensorView out, const ProductInput& x, const Matrix& w) override {
    require_view(
        out, {.name = "matmul_partial: out", .rows = w.num_values() * x.view.rows, .cols = w.n()});
    TensorView first = out;
    first.rows = x.view.rows;
    multiply(first, x, w, {});
  }

  ProductInput matmul_activate(TensorView out, const ProductInput& x,
                               const ActivatedProduct& product) override {
    require_activated_product(out, product, dtype_);
    require_input(x, out.rows, product.w);
    if (!products_.activates(out, product)) return Ops::matmul_activate(out, x, product);
    return products_.multiply_and_activate(out, x, product);
  }

  void add_partials(TensorView inout, std::span<const float* const> parts,
                    std::span<const std::int32_t> merges, const float* bias) override {
    require_merges(parts.size(), merges);
    const auto elements = inout.cols * static_cast<std::int64_t>(parts.size());
    over_rows(inout.rows, elements, [&](std::int64_t begin, std::int64_t end) {
      kernels_.add_partials({.inout = inout.f32(),
                             .parts = parts.data(),
                             .merges = merges.data(),
                             .num_parts = static_cast<int>(parts.size()),
                             .bias = bias,
                             .cols = inout.cols,
                             .row_begin = begin,
                             .row_end = end});
    });
  }

  void rope_and_store_kv(TensorView q_out, ConstTensorView qkv, const float* cos_sin,
                         const AttentionShape& shape, const KvLayer& kv,
                         std::span<const SequenceRows> sequences) override {
    require_attention_shape(shape);
    const std::int64_t q_cols = std::int64_t{shape.num_heads} * shape.head_dim;
    const std::int64_t kv_cols = std::int64_t{shape.num_kv_heads} * shape.head_dim;
    require_view(qkv, {.name = "rope: qkv", .rows = q_out.rows, .cols = q_cols + 2 * kv_cols});
    require_view(q_out, {"rope: q_out", q_out.rows, q_cols, dtype_});
    const KvLayout layout = make_kv_layout(shape, kv.block_tokens, dtype_);
    const auto rope_and_store = attention_kernels(shape).rope_and_store;
    over_rows(q_out.rows, qkv.cols, [&](std::int64_t begin, std::int64_t end) {
      for (const SequenceRows& sequence : sequences) {
        const std::int64_t from = std::max<std::int64_t>(begin - sequence.first_row, 0);
        const std::int64_t to = std::min<std::int64_t>(end - sequence.first_row, sequence.num_rows);
        if (from >= to) continue;
        rope_and_store({.qkv = qkv.f32(),
                        .cos_sin = cos_sin,
                        .q_out = q_out.data,
                        .shape = shape,
                        .kv = kv,
                        .layout = layout,
                        .sequence = sequence,
                        .row_begin = static_cast<int>(from),
                        .row_end = static_cast<int>(to)});
      }
    });
  }

  void attention(TensorView out, ConstTensorView q, const AttentionShape& shape, const KvLayer& kv,
                 std::span<const SequenceRows> sequences) override {
    require_attention_shape(shape);
    const std::int64_t cols = std::int64_t{shape.num_heads} * shape.head_dim;
    require_view(q, {"attention: q", out.rows, cols, dtype_});
    require_view(out, {"attention: out", out.rows, cols, dtype_});
    const AttentionKernels& kernels = attention_kernels(shape);
    tiles_.list(shape, kernels.tile_rows, sequences);
    const KvLayout layout = make_kv_layout(shape, kv.block_tokens, dtype_);
    const auto args_of = [&](std::int64_t i) -> AttentionArgs {
      const AttentionTile& tile = tiles_[i];
      return {.q = q.data,
              .out = out.data,
              .shape = shape,
              .kv = kv,
              .layout = layout,
              .sequence = sequences[static_cast<std::size_t>(tile.sequence)],
              .kv_head = tile.kv_head,
              .head_begin = tile.head_begin,
              .head_end = tile.head_end,
              .row_begin = tile.row_begin,
              .row_end = tile.row_end};
    };
    // A thread does a few tiles one after the other, so that it knows what to fetch for the next.
    const std::int64_t tiles = tiles_.size();
    const std::int64_t per_task = std::clamp<std::int64_t>(
        tiles / (std::int64_t{kAttentionTasksPerThread} * pool_.num_threads()), 1,
        kMostTilesPerTask);
    run_flushed(pool_, ceil_div(tiles, per_task), [&](std::int64_t task) {
      const std::int64_t end = std::min(tiles, (task + 1) * per_task);
      AttentionArgs args = args_of(task * per_task);
      for (std::int64_t i = task * per_task; i < end; ++i) {
        const bool more = i + 1 < end;
        const AttentionArgs next = more ? args_of(i + 1) : args;
        kernels.attend(args, more ? &next : nullptr);
        args = next;
      }
    });
  }

  void activate(TensorView out, ConstTensorView x, Activation activation) override {
    const bool gated = require_activation_views(out, x, dtype_);
    over_rows(out.rows, 4 * out.cols, [&](std::int64_t begin, std::int64_t end) {
      kernels_.activate({.x = x.f32(),
                         .out = out.data,
                         .activation = activation,
                         .gated = gated,
                         .cols = out.cols,
                         .out_stride = out.cols,
                         .row_begin = begin,
                         .row_end = end});
    });
  }

  void scale(TensorView inout, float factor) override {
    require_view(inout, {.name = "scale: inout", .rows = inout.rows, .cols = inout.cols});
    over_rows(inout.rows, inout.cols, [&](std::int64_t begin, std::int64_t end) {
      kernels_.scale(inout.f32() + begin * inout.cols, (end - begin) * inout.cols, factor);
    });
  }

  void add_scaled(TensorView inout, ConstTensorView x, float factor) override {
    require_view(inout, {.name = "add_scaled: inout", .rows = inout.rows, .cols = inout.cols});
    require_view(x, {.name = "add_scaled: x", .rows = inout.rows, .cols = inout.cols});
    over_rows(inout.rows, inout.cols, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t first = begin * inout.cols;
      kernels_.add_scaled(inout.f32() + first, x.f32() + first, (end - begin) * inout.cols, factor);
    });
  }

  void soft_cap(TensorView inout, float cap) override {
    require_view(inout, {.name = "soft_cap: inout", .rows = inout.rows, .cols = inout.cols});
    over_rows(inout.rows, 4 * inout.cols, [&](std::int64_t begin, std::int64_t end) {
      kernels_.soft_cap(inout.f32() + begin * inout.cols, (end - begin) * inout.cols, cap);
    });
  }

  void row_statistics(std::span<RowStatistics> out, ConstTensorView logits) override {
    require_view(logits, {"row_statistics: logits", std::ssize(out), logits.cols});
    over_rows(logits.rows, 4 * logits.cols, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        out[static_cast<std::size_t>(r)] =
            kernels_.row_statistics(logits.f32() + r * logits.cols, logits.cols);
      }
    });
  }

  void best_logits(std::span<BestLogit> out, ConstTensorView x, const Matrix& w,
                   const LogitChange& change, TensorView room) override {
    require_best_logits(out, x, w, room);
    products_.best_logits(out, x, dynamic_cast<const PackedMatrix&>(w), change);
  }

  std::span<const RowLeaders> leading_logits(ConstTensorView /*logits*/,
                                             std::span<const float> /*temperatures*/) override {
    return {};
  }

  std::size_t kv_block_bytes(const AttentionShape& shape, int block_tokens) const override {
    return kv_layout_bytes(shape, block_tokens, dtype_);
  }

 private:
  const AttentionKernels& attention_kernels(const AttentionShape& shape) const {
    return shape.kv_type == KvType::kInt8 ? int8_.attention : kernels_.attention;
  }

  // body(begin, end) over ranges of rows.
  template <class Body>
  void over_rows(std::int64_t rows, std::int64_t elements_per_row, const Body& body) {
    const std::int64_t per_task =
        std::max<std::int64_t>(1, kElementsPerTask / std::max<std::int64_t>(1, elements_per_row));
    run_flushed(pool_, ceil_div(rows, per_task),
                [&](std::int64_t i) { body(i * per_task, std::min(rows, (i + 1) * per_task)); });
  }

  void norm_rows(const NormArgs& whole) {
    over_rows(whole.row_end, whole.parts.width * whole.parts.count,
              [&](std::int64_t begin, std::int64_t end) {
                NormArgs part = whole;
                part.row_begin = begin;
                part.row_end = end;
                kernels_.norm(part);
              });
  }

  void require_input(const ProductInput& x, std::int64_t rows, const Matrix& w) const {
    require_view(x.view, {"matmul: x", rows, w.k(), x.norm ? DType::kFloat32 : dtype_});
    if (x.packed_for == nullptr || x.packed_for == &w) return;
    throw std::invalid_argument("matmul: x is packed for another matrix");
  }

  void multiply(const TensorView& out, const ProductInput& x, const Matrix& w,
                const ProductEnd& end) {
    require_input(x, out.rows, w);
    require_view(out, {.name = "matmul: out", .rows = out.rows, .cols = w.n()});
    products_.multiply(out, x, dynamic_cast<const PackedMatrix&>(w), end);
  }

  DType dtype_;
  std::unique_ptr<DeviceArena> arena_ = make_host_arena();
  ThreadPool& pool_;
  const KernelTable& kernels_;
  const Int8Kernels& int8_;
  CpuProducts products_;
  AttentionTiles tiles_;  // of the attention in progress
};

}  // namespace

SumOrder cpu_sum_order(DType compute_dtype, std::string_view isa) {
  const bool tiles = choose_kernels(isa, compute_dtype).isa.starts_with("amx");
  return tiles ? SumOrder::kTiles : SumOrder::kChain;
}

bool cpu_has(std::string_view feature) {
  const std::string all = " " + std::string(cpu_features()) + " ";
  return all.find(" " + std::string(feature) + " ") != std::string::npos;
}

std::unique_ptr<Ops> make_cpu_ops(DType compute_dtype, ThreadPool& pool, std::string_view isa) {
  if (compute_dtype == DType::kFloat16) {
    throw std::invalid_argument(
        "compute type float16 is not offered on the CPU: float32, bfloat16");
  }
  return std::make_unique<CpuOps>(compute_dtype, pool, isa);
}

}  // namespace headrace
