// The fast backend: cuts each operator into tasks for the pool and hands them to the kernels of the
// chosen instruction set. How it cuts never changes a bit of the result.
#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/cpu/integer_matrix.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/flush_denormals.h"
#include "kernels/op_checks.h"
#include "kernels/ops.h"
#include "kernels/thread_pool.h"

namespace headrace {
namespace {

// Rows of a product that are packed at a time: with K up to a few thousand they stay in the L2
// cache while every panel passes by.
constexpr std::int64_t kPackedRows = 240;

// Elements of a row-wise operator that are worth a task of their own: about 10 us of work.
constexpr std::int64_t kElementsPerTask = 16384;

// Elements of packed rows that are: the same product waits for them, so threads have to end
// together.
constexpr std::int64_t kPackedPerTask = 8192;

// Products (multiply-adds) that are worth a task of their own: about 5 us at 100 G/s.
constexpr std::int64_t kProductsPerTask = 500'000;

// Logits that best_logits() looks through at a time: their thread has just made them, and beside
// the weights that pass by they stay in the L2 cache (256 KiB).
constexpr std::int64_t kLogitsPerTask = 65536;

// Panels of the widest tile, and the rows that it has at most; of more rows, tiles have at most
// half as many panels (Lanes::tile_rows()).
constexpr std::int64_t kWidestTile = 4;
constexpr std::int64_t kRowsOfWidestTile = 5;

// Keys of a chunk of the online soft-max; tiles of attention never cross a multiple of it.
constexpr std::int32_t kChunk = kAttentionChunk;

// Tasks of attention that each thread should find, so that all end together; and most tiles of one.
constexpr int kAttentionTasksPerThread = 8;
constexpr std::int64_t kMostTilesPerTask = 8;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Groups of panels that a thread has to do, and others may take.
struct alignas(64) GroupRun {
  std::atomic<std::int64_t> next = 0;
  std::int64_t end = 0;
};

struct AttentionTile {
  std::int32_t sequence;
  std::int32_t kv_head;
  std::int32_t head_begin;
  std::int32_t head_end;
  std::int32_t row_begin;
  std::int32_t row_end;
  std::int64_t cost;
};

class CpuOps final : public Ops {
 public:
  CpuOps(DType compute_dtype, ThreadPool& pool, std::string_view isa)
      : dtype_(compute_dtype),
        pool_(pool),
        kernels_(choose_kernels(isa, compute_dtype)),
        int8_(choose_int8_kernels(isa, compute_dtype)),
        runs_(static_cast<std::size_t>(pool.num_threads())) {}

  DType compute_dtype() const override { return dtype_; }
  DeviceArena& arena() override { return *arena_; }

  std::unique_ptr<Matrix> make_matrix(MatrixSpec spec) override {
    require_matrix(spec, dtype_);
    std::unique_ptr<PackedMatrix> matrix;
    if (spec.quantization != Quantization::kNone) {
      auto quantized = std::make_unique<IntegerMatrix>(spec, pool_);
      const auto scales = static_cast<std::size_t>(kPackedRows * quantized->num_groups());
      row_scales_.resize(std::max(row_scales_.size(), scales));
      row_offsets_.resize(row_scales_.size());
      row_half_sums_.resize(2 * row_scales_.size());
      matrix = std::move(quantized);
    } else {
      matrix = std::make_unique<ComputeMatrix>(spec, dtype_, pool_);
    }
    const std::size_t packed_bytes = static_cast<std::size_t>(
        kPackedRows * matrix->row_dwords(products(*matrix).dwords_per_step) *
        static_cast<std::int64_t>(sizeof(std::uint32_t)));
    if (packed_bytes > packed_.bytes()) packed_ = Buffer(packed_bytes);
    return matrix;
  }

  void reserve(int max_rows, int /*max_context*/, const AttentionShape& shape) override {
    require_attention_shape(shape);
    const int subsets = head_subsets(shape);
    tiles_.reserve(static_cast<std::size_t>(max_rows) *
                   static_cast<std::size_t>(shape.num_kv_heads * subsets));
    const auto threads = static_cast<std::size_t>(pool_.num_threads());
    best_.resize(threads * kPackedRows);
    if (logits_.bytes() == 0) logits_ = Buffer(threads * kLogitsPerTask * sizeof(float));
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

  void matmul(TensorView out, ConstTensorView x, const Matrix& w, const float* bias) override {
    require_whole_sum(w);
    multiply(out, x, w, bias, Epilogue::kStore);
  }

  void matmul_add(TensorView inout, ConstTensorView x, const Matrix& w,
                  const float* bias) override {
    require_whole_sum(w);
    multiply(inout, x, w, bias, Epilogue::kAddTo);
  }

  void matmul_partial(TensorView out, ConstTensorView x, const Matrix& w) override {
    require_view(out,
                 {.name = "matmul_partial: out", .rows = w.num_values() * x.rows, .cols = w.n()});
    TensorView first = out;
    first.rows = x.rows;
    multiply(first, x, w, nullptr, Epilogue::kStore);
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
    const auto rope_and_store =
        shape.kv_type == KvType::kInt8 ? int8_.rope_and_store : kernels_.rope_and_store;
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
    list_tiles(shape, sequences);
    const KvLayout layout = make_kv_layout(shape, kv.block_tokens, dtype_);
    const auto args_of = [&](std::int64_t i) -> AttentionArgs {
      const AttentionTile& tile = tiles_[static_cast<std::size_t>(i)];
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
    const auto attend = shape.kv_type == KvType::kInt8 ? int8_.attention : kernels_.attention;
    // A thread does a few tiles one after the other, so that it knows what to fetch for the next.
    const std::int64_t tiles = std::ssize(tiles_);
    const std::int64_t per_task = std::clamp<std::int64_t>(
        tiles / (std::int64_t{kAttentionTasksPerThread} * pool_.num_threads()), 1,
        kMostTilesPerTask);
    run(ceil_div(tiles, per_task), [&](std::int64_t task) {
      const std::int64_t end = std::min(tiles, (task + 1) * per_task);
      AttentionArgs args = args_of(task * per_task);
      for (std::int64_t i = task * per_task; i < end; ++i) {
        const bool more = i + 1 < end;
        const AttentionArgs next = more ? args_of(i + 1) : args;
        attend(args, more ? &next : nullptr);
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
    if (best_.empty()) throw std::logic_error("best_logits: reserve() comes first");
    const auto& matrix = dynamic_cast<const PackedMatrix&>(w);
    for (std::int64_t row = 0; row < x.rows; row += kPackedRows) {
      const std::int64_t rows = std::min(kPackedRows, x.rows - row);
      best_of_packed(out.subspan(static_cast<std::size_t>(row), static_cast<std::size_t>(rows)),
                     matrix, packed_product(x, matrix, {row, rows}), change);
    }
  }

  std::span<const RowLeaders> leading_logits(ConstTensorView /*logits*/,
                                             std::span<const float> /*temperatures*/) override {
    return {};
  }

  std::size_t kv_block_bytes(const AttentionShape& shape, int block_tokens) const override {
    return kv_layout_bytes(shape, block_tokens, dtype_);
  }

 private:
  // task(0) .. task(num_tasks - 1) on the pool, denormals flushed. By reference, because a
  // std::function of a lambda that captures more than a pointer or two would allocate.
  template <class Task>
  void run(std::int64_t num_tasks, const Task& task) {
    const auto flushed = [&task](int i) {
      const FlushDenormals guard;
      task(static_cast<std::int64_t>(i));
    };
    pool_.parallel_for(static_cast<int>(num_tasks), std::cref(flushed));
  }

  // body(begin, end) over ranges of rows.
  template <class Body>
  void over_rows(std::int64_t rows, std::int64_t elements_per_row, const Body& body) {
    const std::int64_t per_task =
        std::max<std::int64_t>(1, kElementsPerTask / std::max<std::int64_t>(1, elements_per_row));
    run(ceil_div(rows, per_task),
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

  void multiply(const TensorView& out, const ConstTensorView& x, const Matrix& w, const float* bias,
                Epilogue epilogue) {
    require_view(x, {"matmul: x", out.rows, w.k(), dtype_});
    require_view(out, {.name = "matmul: out", .rows = out.rows, .cols = w.n()});
    const auto& matrix = dynamic_cast<const PackedMatrix&>(w);
    for (std::int64_t row = 0; row < out.rows; row += kPackedRows) {
      const std::int64_t rows = std::min(kPackedRows, out.rows - row);
      GemmArgs args = packed_product(x, matrix, {row, rows});
      args.out = out.f32() + row * out.cols;
      args.out_stride = out.cols;
      args.value_stride = out.rows * out.cols;
      args.bias = bias;
      args.epilogue = epilogue;
      multiply_packed(matrix, args);
    }
  }

  struct Rows {
    std::int64_t first;
    std::int64_t count;
  };

  // Packs the rows; what their product takes, apart from where it goes.
  GemmArgs packed_product(const ConstTensorView& x, const PackedMatrix& matrix, Rows rows) {
    pack(x, matrix, rows.first, rows.count);
    GemmArgs args{.packed = packed_rows(),
                  .rows = rows.count,
                  .weights = matrix.panels(),
                  .steps = matrix.steps(),
                  .n = matrix.n(),
                  .segments = matrix.segments().data(),
                  .num_segments = static_cast<int>(matrix.segments().size()),
                  .row_dwords = matrix.row_dwords(products(matrix).dwords_per_step),
                  .row_scales = row_scales_.data(),
                  .row_offsets = row_offsets_.data(),
                  .row_half_sums = row_half_sums_.data()};
    matrix.describe_columns(args);
    return args;
  }

  // The product in groups of `most` panels at most: work(thread, part) for each. A thread goes
  // through a run of groups that lie behind each other, so that the panels that it fetches ahead
  // are its own, and helps with the others' runs when it is through: one that loses its core for a
  // while holds up a group, not its share of the product.
  template <class Work>
  void over_panels(const PackedMatrix& matrix, const GemmArgs& whole, std::int64_t most,
                   const Work& work) {
    const std::int64_t panels = matrix.num_panels();
    const std::int64_t group = std::min(most, panels_of_group(matrix, whole.rows));
    const std::int64_t groups = ceil_div(panels, group);
    const std::int64_t threads = pool_.num_threads();
    for (std::int64_t t = 0; t < threads; ++t) {
      GroupRun& own = runs_[static_cast<std::size_t>(t)];
      own.next.store(groups * t / threads, std::memory_order_relaxed);
      own.end = groups * (t + 1) / threads;
    }
    run(groups, [&](std::int64_t /*one of as many*/) {
      const std::int64_t thread = pool_.thread_index();
      GemmArgs part = whole;
      part.panel_begin = take_group(thread) * group;
      part.panel_end = std::min(panels, part.panel_begin + group);
      work(thread, part);
    });
  }

  // A group of the thread's own run, or else of the next one that has some. As many are taken as
  // there are.
  std::int64_t take_group(std::int64_t thread) {
    const auto threads = static_cast<std::size_t>(pool_.num_threads());
    for (std::size_t i = static_cast<std::size_t>(thread);; i = (i + 1) % threads) {
      GroupRun& run = runs_[i];
      if (run.next.load(std::memory_order_relaxed) >= run.end) continue;
      const std::int64_t taken = run.next.fetch_add(1, std::memory_order_relaxed);
      if (taken < run.end) return taken;
    }
  }

  // Several groups for each thread, each worth it, and of whole tiles.
  std::int64_t panels_of_group(const PackedMatrix& matrix, std::int64_t rows) const {
    const std::int64_t products = kPanelColumns * matrix.k() * rows;  // of one panel
    const std::int64_t worth = ceil_div(kProductsPerTask, std::max<std::int64_t>(1, products));
    const std::int64_t fair = matrix.num_panels() / (std::int64_t{8} * pool_.num_threads());
    const std::int64_t tile = rows <= kRowsOfWidestTile ? kWidestTile : kWidestTile / 2;
    return std::max(ceil_div(worth, tile), fair / tile) * tile;
  }

  // A thread takes the logits of a group in while they are in its cache.
  void best_of_packed(std::span<BestLogit> out, const PackedMatrix& matrix, const GemmArgs& whole,
                      const LogitChange& change) {
    const std::int64_t most =
        kLogitsPerTask / (kPanelColumns * whole.rows) / kWidestTile * kWidestTile;
    const BestLogit none{.value = -std::numeric_limits<float>::infinity(), .id = -1};
    std::fill(best_.begin(), best_.end(), none);
    over_panels(matrix, whole, most, [&](std::int64_t thread, const GemmArgs& part) {
      take_in_panels(thread, matrix, part, change);
    });
    for (std::size_t row = 0; row < out.size(); ++row) {
      out[row] = best_[row];
      for (std::size_t at = row + kPackedRows; at < best_.size(); at += kPackedRows) {
        out[row] = better(out[row], best_[at]);
      }
    }
  }

  void take_in_panels(std::int64_t thread, const PackedMatrix& matrix, GemmArgs part,
                      const LogitChange& change) {
    const std::int64_t first = part.panel_begin * kPanelColumns;
    const std::int64_t cols = std::min(part.n, part.panel_end * kPanelColumns) - first;
    part.out = reinterpret_cast<float*>(logits_.data()) + thread * kLogitsPerTask;
    part.out_stride = cols;
    part.first_column = first;
    products(matrix).gemm(part);
    const std::int64_t count = part.rows * cols;
    if (change.scale != 1.0F) kernels_.scale(part.out, count, change.scale);
    if (change.soft_cap > 0.0F) kernels_.soft_cap(part.out, count, change.soft_cap);
    BestLogit* best = best_.data() + thread * kPackedRows;
    for (std::int64_t row = 0; row < part.rows; ++row) {
      kernels_.take_in_logits(best[row], part.out + row * cols, cols, first);
    }
  }

  const ProductKernels& products(const PackedMatrix& matrix) const {
    const bool integers = matrix.inputs() == QuantizedInputs::kInt8;
    switch (matrix.quantization()) {
      case Quantization::kInt8:
        return integers ? int8_.products : kernels_.int8_weights;
      case Quantization::kInt4:
        return integers ? int8_.int4_products : kernels_.int4_weights;
      case Quantization::kNone:
        break;
    }
    return kernels_.products;
  }

  std::uint32_t* packed_rows() const { return reinterpret_cast<std::uint32_t*>(packed_.data()); }

  void pack(const ConstTensorView& x, const PackedMatrix& matrix, std::int64_t first_row,
            std::int64_t rows) {
    const ProductKernels& kernels = products(matrix);
    const std::int64_t blocks = num_row_blocks(rows, kernels.tile_rows);
    const std::int64_t row_dwords = matrix.row_dwords(kernels.dwords_per_step);
    const std::int64_t per_task =
        std::max<std::int64_t>(1, kPackedPerTask / (kernels.tile_rows * x.cols));
    run(ceil_div(blocks, per_task), [&](std::int64_t task) {
      for (std::int64_t b = task * per_task; b < std::min(blocks, (task + 1) * per_task); ++b) {
        const std::int64_t begin = b * rows / blocks;
        kernels.pack({.x = x.data,
                      .k = x.cols,
                      .steps = matrix.steps(),
                      .first_row = first_row + begin,
                      .num_rows = static_cast<int>((b + 1) * rows / blocks - begin),
                      .packed = packed_rows() + begin * row_dwords,
                      .segments = matrix.segments().data(),
                      .num_segments = static_cast<int>(matrix.segments().size()),
                      .scales = row_scales_.data() + begin,
                      .offsets = row_offsets_.data() + begin,
                      .group_stride = rows,
                      .half_sums = row_half_sums_.data() + begin});
      }
    });
  }

  void multiply_packed(const PackedMatrix& matrix, const GemmArgs& whole) {
    const ProductKernels& kernels = products(matrix);
    over_panels(matrix, whole, matrix.num_panels(),
                [&](std::int64_t /*thread*/, const GemmArgs& part) { kernels.gemm(part); });
  }

  // Query heads of one KV head that do not fit a tile are worked on in this many near-equal
  // subsets.
  int head_subsets(const AttentionShape& shape) const {
    return static_cast<int>(ceil_div(shape.num_heads / shape.num_kv_heads, kernels_.tile_rows));
  }

  // Keys that a tile reads whose first row is at `position`.
  static std::int64_t keys_read(const AttentionShape& shape, std::int32_t position) {
    const std::int64_t all = std::int64_t{position} + 1;
    return shape.window > 0 ? std::min<std::int64_t>(all, std::int64_t{shape.window} + kChunk)
                            : all;
  }

  // Fills tiles_, the costliest first, so that none is left over at the end.
  void list_tiles(const AttentionShape& shape, std::span<const SequenceRows> sequences) {
    tiles_.clear();
    const int group = shape.num_heads / shape.num_kv_heads;
    const int subsets = head_subsets(shape);
    const std::int32_t tile_positions = std::max<std::int32_t>(
        1, kernels_.tile_rows / static_cast<std::int32_t>(ceil_div(group, subsets)));
    for (std::int32_t s = 0; s < std::ssize(sequences); ++s) {
      const SequenceRows& sequence = sequences[static_cast<std::size_t>(s)];
      for (std::int32_t begin = 0; begin < sequence.num_rows;) {
        const std::int32_t position = sequence.first_position + begin;
        const std::int32_t end = std::min(
            {begin + tile_positions, begin + kChunk - position % kChunk, sequence.num_rows});
        for (int kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
          for (int subset = 0; subset < subsets; ++subset) {
            tiles_.push_back({.sequence = s,
                              .kv_head = kv_head,
                              .head_begin = kv_head * group + subset * group / subsets,
                              .head_end = kv_head * group + (subset + 1) * group / subsets,
                              .row_begin = begin,
                              .row_end = end,
                              .cost = std::int64_t{end - begin} * keys_read(shape, position)});
          }
        }
        begin = end;
      }
    }
    std::sort(tiles_.begin(), tiles_.end(), [](const AttentionTile& a, const AttentionTile& b) {
      if (a.cost != b.cost) return a.cost > b.cost;
      if (a.sequence != b.sequence) return a.sequence < b.sequence;
      return a.kv_head < b.kv_head;
    });
  }

  DType dtype_;
  std::unique_ptr<DeviceArena> arena_ = make_host_arena();
  ThreadPool& pool_;
  const KernelTable& kernels_;
  const Int8Kernels& int8_;
  Buffer packed_;                  // rows of the product in progress, as the kernels read them
  std::vector<float> row_scales_;  // of the same rows' groups, where they are quantised
  std::vector<std::int32_t> row_offsets_;
  std::vector<float> row_half_sums_;
  std::vector<AttentionTile> tiles_;  // of the attention in progress
  std::vector<GroupRun> runs_;        // by thread: of the product in progress
  Buffer logits_;                     // by thread, of the task in progress
  std::vector<BestLogit> best_;       // by thread: of all its tasks, by row
};

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(DType compute_dtype, ThreadPool& pool, std::string_view isa) {
  if (compute_dtype == DType::kFloat16) {
    throw std::invalid_argument(
        "compute type float16 is not offered on the CPU: float32, bfloat16");
  }
  return std::make_unique<CpuOps>(compute_dtype, pool, isa);
}

}  // namespace headrace
