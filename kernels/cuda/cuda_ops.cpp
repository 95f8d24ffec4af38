// The operators on one GPU: checks at the door, what kernels need from the host, launches. Kernels
// are in the .cu files; this file is plain C++ and knows them by their launch functions.
#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/ceil_div.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_arena.h"
#include "kernels/cuda/cuda_matrix.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/handles.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/statistics.h"
#include "kernels/cuda/step_buffers.h"
#include "kernels/cuda_backend.h"
#include "kernels/op_checks.h"

namespace headrace {
namespace {

constexpr std::int64_t kLeastTables = std::int64_t{1} << 18;  // 4 million tokens in blocks of 16
constexpr int kSmallestBlock = 16;

// Most sums that wait for each other while the tree is walked, the one being added included.
std::int64_t depth_of(const ReductionTree& tree) {
  std::int64_t depth = 0;
  std::int64_t most = 1;
  for (const std::int32_t merges : tree.merges) {
    // The first merge happens inside the product.
    most = std::max(most, depth + (merges == 0 ? 1 : 0));
    depth += 1 - merges;
  }
  return most;
}

void require_offered(const AttentionShape& shape) {
  require_attention_shape(shape);
  if (shape.kv_type != KvType::kCompute) {
    throw std::invalid_argument("a KV cache in int8 is not offered on the GPU");
  }
}

// Selects the device before anything is made on it.
struct SelectedDevice {
  explicit SelectedDevice(int device) {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
      throw std::runtime_error(
          std::string("no GPU can be used: ") +
          (status != cudaSuccess ? cudaGetErrorString(status) : "none is there"));
    }
    if (device < 0 || device >= count) {
      throw std::invalid_argument("GPU " + std::to_string(device) + " is not there: " +
                                  std::to_string(count) + " can be used, from 0 on");
    }
    HR_CUDA(cudaSetDevice(device));
  }
};

class CudaOps final : public Ops {
 public:
  explicit CudaOps(const CudaOptions& options)
      : dtype_(options.compute_dtype),
        deterministic_(options.deterministic),
        workspace_bytes_(options.workspace_bytes),
        device_(options.device),
        arena_(stream_.get()),
        gemm_({.dtype = dtype_,
               .workspace_bytes = workspace_bytes_,
               .deterministic = deterministic_,
               .profile = options.profile,
               .warn = options.warn},
              arena_),
        sums_(workspace_bytes_) {}

  ~CudaOps() override { cudaStreamSynchronize(stream_.get()); }

  DType compute_dtype() const override { return dtype_; }
  DeviceArena& arena() override { return arena_; }

  std::unique_ptr<Matrix> make_matrix(MatrixSpec spec) override {
    require_matrix(spec, dtype_);
    if (spec.quantization != Quantization::kNone) {
      throw std::invalid_argument("quantised weights are not offered on the GPU, only weights in " +
                                  std::string(dtype_name(dtype_)));
    }
    if (!deterministic_) spec.tree = without_slices(spec.tree);
    auto matrix = std::make_unique<CudaMatrix>(spec.n, std::move(spec.tree), dtype_, arena_);
    choose_algorithms(*matrix);
    return matrix;
  }

  void reserve(int max_rows, int max_context, const AttentionShape& shape) override {
    require_offered(shape);
    const StepLimits limits = limits_of(max_context, shape);
    step_.emplace(stream_.get(), arena_, StepBytes(limits, shape, max_rows));
    step_->builder.reserve(limits, shape, max_rows);
    records_.resize(step_->max_leaders);
  }

  std::size_t reserve_bytes(int max_rows, int max_context,
                            const AttentionShape& shape) const override {
    require_offered(shape);
    return StepBytes(limits_of(max_context, shape), shape, max_rows).taken();
  }

  void embed(TensorView out, const Matrix& table, std::span<const std::int32_t> ids) override {
    require_view(out, {.name = "embed: out", .rows = std::ssize(ids), .cols = table.k()});
    require_ids(ids, table.n());
    const auto& matrix = dynamic_cast<const CudaMatrix&>(table);
    const std::byte* sent = step().ids.send(std::as_bytes(ids));
    launch_embed({.out = out.f32(),
                  .table = matrix.weights(),
                  .ids = reinterpret_cast<const std::int32_t*>(sent),
                  .rows = out.rows,
                  .k = out.cols,
                  .table_dtype = matrix.dtype()},
                 stream_.get());
  }

  void norm(TensorView out, ConstTensorView x, const Norm& norm) override {
    require_view(x, {.name = "norm: x", .rows = out.rows, .cols = out.cols});
    const bool keep = out.dtype == DType::kFloat32;
    require_view(out, {"norm: out", out.rows, out.cols, keep ? DType::kFloat32 : dtype_});
    launch_norm({.x = x.f32(),
                 .out = out.data,
                 .rows = x.rows,
                 .row_cols = x.cols,
                 .parts = {.width = x.cols},
                 .norm = norm,
                 .out_dtype = out.dtype},
                stream_.get());
  }

  void norm_parts(TensorView inout, const RowParts& parts, const Norm& norm) override {
    require_parts(parts, inout.cols);
    require_view(inout, {.name = "norm_parts: inout", .rows = inout.rows, .cols = inout.cols});
    launch_norm({.x = inout.f32(),
                 .out = inout.data,
                 .rows = inout.rows,
                 .row_cols = inout.cols,
                 .parts = parts,
                 .norm = norm},
                stream_.get());
  }

  void convert(TensorView out, ConstTensorView x) override {
    require_view(x, {.name = "convert: x", .rows = out.rows, .cols = out.cols});
    require_view(out, {"convert: out", out.rows, out.cols, dtype_});
    launch_convert({.out = out.data, .x = x.f32(), .count = x.rows * x.cols, .out_dtype = dtype_},
                   stream_.get());
  }

  void matmul(TensorView out, const ProductInput& x, const Matrix& w, const float* bias) override {
    require_whole_sum(w);
    multiply(out, plain_rows(x), w, {.base = nullptr, .bias = bias});
  }

  void matmul_add(TensorView inout, const ProductInput& x, const Matrix& w,
                  const float* bias) override {
    require_whole_sum(w);
    multiply(inout, plain_rows(x), w, {.base = inout.f32(), .bias = bias});
  }

  void matmul_partial(TensorView out, const ProductInput& input, const Matrix& w) override {
    const ConstTensorView& x = plain_rows(input);
    require_view(out,
                 {.name = "matmul_partial: out", .rows = w.num_values() * x.rows, .cols = w.n()});
    const CudaMatrix& matrix = checked({out.data, x.rows, out.cols, out.dtype}, x, w);
    for_row_chunks(x, matrix, [&](std::int64_t row, const ConstTensorView& rows) {
      places_.clear();
      for (int v = 0; v < w.num_values(); ++v) {
        places_.push_back(out.f32() + (v * x.rows + row) * out.cols);
      }
      walk_tree(rows, matrix);
    });
  }

  void add_partials(TensorView inout, std::span<const float* const> parts,
                    std::span<const std::int32_t> merges, const float* bias) override {
    require_merges(parts.size(), merges);
    launch_add_partials({.out = inout.f32(),
                         .base = inout.f32(),
                         .parts = parts,
                         .merges = merges,
                         .bias = bias,
                         .rows = inout.rows,
                         .cols = inout.cols},
                        stream_.get());
  }

  void rope_and_store_kv(TensorView q_out, ConstTensorView qkv, const float* cos_sin,
                         const AttentionShape& shape, const KvLayer& kv,
                         std::span<const SequenceRows> sequences) override {
    require_offered(shape);
    const std::int64_t q_cols = std::int64_t{shape.num_heads} * shape.head_dim;
    const std::int64_t kv_cols = std::int64_t{shape.num_kv_heads} * shape.head_dim;
    require_view(qkv, {.name = "rope: qkv", .rows = q_out.rows, .cols = q_cols + 2 * kv_cols});
    require_view(q_out, {"rope: q_out", q_out.rows, q_cols, dtype_});
    for_groups(sequences, shape, kv, false, [&](const StepImage& image, const std::byte* sent) {
      launch_rope_and_store_kv({.q_out = q_out.data,
                                .qkv = qkv.f32(),
                                .cos_sin = cos_sin,
                                .row_sequence = at<std::int32_t>(sent, image.row_sequence),
                                .rows = image.num_rows,
                                .first_row = image.first_row,
                                .shape = shape,
                                .cache = cache_of(kv, shape, image, sent),
                                .dtype = dtype_},
                               stream_.get());
    });
  }

  void attention(TensorView out, ConstTensorView q, const AttentionShape& shape, const KvLayer& kv,
                 std::span<const SequenceRows> sequences) override {
    require_offered(shape);
    const std::int64_t cols = std::int64_t{shape.num_heads} * shape.head_dim;
    require_view(q, {"attention: q", out.rows, cols, dtype_});
    require_view(out, {"attention: out", out.rows, cols, dtype_});
    const bool tiles = takes_tensor_cores(shape, dtype_);
    for_groups(sequences, shape, kv, tiles, [&](const StepImage& image, const std::byte* sent) {
      launch_attention({.out = out.data,
                        .q = q.data,
                        .shape = shape,
                        .cache = cache_of(kv, shape, image, sent),
                        .dtype = dtype_,
                        .row_sequence = at<std::int32_t>(sent, image.row_sequence),
                        .first_row = image.first_row,
                        .rows = image.num_rows,
                        .small_tiles = at<AttentionTile>(sent, image.small_tiles),
                        .large_tiles = at<AttentionTile>(sent, image.large_tiles),
                        .merges = at<AttentionMerge>(sent, image.merges),
                        .num_small_tiles = image.num_small_tiles,
                        .num_large_tiles = image.num_large_tiles,
                        .num_merges = image.num_merges,
                        .large_tiles_merge = image.large_tiles_merge,
                        .partials = step().partials},
                       stream_.get());
    });
  }

  void activate(TensorView out, ConstTensorView x, Activation activation) override {
    const bool gated = require_activation_views(out, x, dtype_);
    launch_activate({.out = out.data,
                     .x = x.f32(),
                     .rows = out.rows,
                     .cols = out.cols,
                     .activation = activation,
                     .gated = gated,
                     .out_dtype = dtype_},
                    stream_.get());
  }

  ProductInput matmul_activate(TensorView out, const ProductInput& x,
                               const ActivatedProduct& product) override {
    require_activated_product(out, product, dtype_);
    return Ops::matmul_activate(out, x, product);
  }

  void scale(TensorView inout, float factor) override {
    require_view(inout, {.name = "scale: inout", .rows = inout.rows, .cols = inout.cols});
    launch_scale({inout.f32(), inout.rows * inout.cols, factor}, stream_.get());
  }

  void add_scaled(TensorView inout, ConstTensorView x, float factor) override {
    require_view(inout, {.name = "add_scaled: inout", .rows = inout.rows, .cols = inout.cols});
    require_view(x, {.name = "add_scaled: x", .rows = inout.rows, .cols = inout.cols});
    launch_add_scaled({inout.f32(), x.f32(), x.rows * x.cols, factor}, stream_.get());
  }

  void soft_cap(TensorView inout, float cap) override {
    require_view(inout, {.name = "soft_cap: inout", .rows = inout.rows, .cols = inout.cols});
    launch_soft_cap({inout.f32(), inout.rows * inout.cols, cap}, stream_.get());
  }

  void row_statistics(std::span<RowStatistics> out, ConstTensorView logits) override {
    require_view(logits, {"row_statistics: logits", std::ssize(out), logits.cols});
    if (out.empty()) return;
    StepBuffers& buffers = buffers_for_facts("row_statistics", out.size());
    launch_row_statistics({.logits = logits.f32(),
                           .out = buffers.statistics,
                           .rows = logits.rows,
                           .vocab = logits.cols},
                          stream_.get());
    arena_.download(std::as_writable_bytes(out),
                    reinterpret_cast<const std::byte*>(buffers.statistics));
  }

  void best_logits(std::span<BestLogit> out, ConstTensorView x, const Matrix& w,
                   const LogitChange& change, TensorView room) override {
    require_best_logits(out, x, w, room);
    if (out.empty()) return;
    StepBuffers& buffers = buffers_for_facts("best_logits", out.size());
    matmul(room, x, w, nullptr);
    change_logits(*this, room, change);
    launch_best_logits(
        {.logits = room.f32(), .out = buffers.best, .rows = room.rows, .vocab = room.cols},
        stream_.get());
    arena_.download(std::as_writable_bytes(out), reinterpret_cast<const std::byte*>(buffers.best));
  }

  std::span<const RowLeaders> leading_logits(ConstTensorView logits,
                                             std::span<const float> temperatures) override {
    require_view(logits, {"leading_logits: logits", std::ssize(temperatures), logits.cols});
    leaders_.assign(temperatures.size(), {});
    records_.resize(std::max(records_.size(), temperatures.size()));
    const std::size_t most = step().max_leaders;
    for (std::size_t row = 0; row < temperatures.size(); row += most) {
      take_leaders(logits, temperatures.subspan(row, std::min(most, temperatures.size() - row)),
                   row);
    }
    return leaders_;
  }

  std::size_t kv_block_bytes(const AttentionShape& shape, int block_tokens) const override {
    require_offered(shape);
    return paged_block_bytes(shape, block_tokens, dtype_);
  }

 private:
  // What is added to a finished sum: out = base + (sum + bias), each null for none.
  struct Finish {
    const float* base = nullptr;
    const float* bias = nullptr;
  };

  // Of the rows from `first` on, as many as there are temperatures.
  void take_leaders(const ConstTensorView& logits, std::span<const float> temperatures,
                    std::size_t first) {
    StepBuffers& buffers = step();
    const std::byte* sent = buffers.ids.send(std::as_bytes(temperatures));
    launch_leaders({.logits = logits.f32() + static_cast<std::int64_t>(first) * logits.cols,
                    .temperatures = reinterpret_cast<const float*>(sent),
                    .out = buffers.leaders,
                    .rows = std::ssize(temperatures),
                    .vocab = logits.cols},
                   stream_.get());
    const auto records = std::span(records_).subspan(first, temperatures.size());
    arena_.download(std::as_writable_bytes(records),
                    reinterpret_cast<const std::byte*>(buffers.leaders));
    for (std::size_t i = 0; i < records.size(); ++i) {
      const LeadersRecord& record = records[i];
      if (record.count == 0) continue;
      leaders_[first + i] = {
          .max = record.max,
          .total = record.total,
          .floor = record.floor,
          .leading = std::span(record.leading).first(static_cast<std::size_t>(record.count))};
    }
  }

  StepLimits limits_of(int max_context, const AttentionShape& shape) const {
    const std::int64_t partial_bytes =
        partial_floats(shape) * static_cast<std::int64_t>(sizeof(float));
    return {.tables = std::max<std::int64_t>(kLeastTables, ceil_div(max_context, kSmallestBlock)),
            .partials = std::max<std::int64_t>(
                ceil_div(max_context, kSplitKeys) + 1,
                static_cast<std::int64_t>(workspace_bytes_) / partial_bytes)};
  }

  // For facts of rows of logits that the device makes for the host.
  StepBuffers& buffers_for_facts(std::string_view name, std::size_t rows) {
    StepBuffers& buffers = step();
    if (rows > buffers.max_statistics) {
      throw std::invalid_argument(std::string(name) + ": " + std::to_string(rows) +
                                  " rows are more than were reserved");
    }
    return buffers;
  }

  StepBuffers& step() {
    if (!step_) throw std::logic_error("reserve() comes before the operators of a step");
    return *step_;
  }

  template <class Element>
  static const Element* at(const std::byte* sent, std::int64_t offset) {
    return reinterpret_cast<const Element*>(sent + offset);
  }

  static PagedCache cache_of(const KvLayer& kv, const AttentionShape& shape, const StepImage& image,
                             const std::byte* sent) {
    return {.data = kv.data,
            .block_bytes = static_cast<std::int64_t>(kv.block_bytes),
            .block_shift = std::countr_zero(static_cast<unsigned>(kv.block_tokens)),
            .head_dim = shape.head_dim,
            .sequences = at<DeviceSequence>(sent, image.sequences),
            .tables = at<std::int32_t>(sent, image.tables)};
  }

  // body(image, where the device has it) for groups of sequences that fit what was reserved.
  template <class Body>
  void for_groups(std::span<const SequenceRows> sequences, const AttentionShape& shape,
                  const KvLayer& kv, bool tiles, const Body& body) {
    StepBuffers& buffers = step();
    while (!sequences.empty()) {
      const std::size_t count = buffers.builder.build(sequences, shape, kv.block_tokens, tiles);
      const StepImage& image = buffers.builder.image();
      if (image.num_rows > 0) body(image, buffers.images.send(image.bytes));
      sequences = sequences.subspan(count);
    }
  }

  const CudaMatrix& checked(const TensorView& out, const ConstTensorView& x,
                            const Matrix& w) const {
    require_view(x, {"matmul: x", out.rows, w.k(), dtype_});
    require_view(out, {.name = "matmul: out", .rows = out.rows, .cols = w.n()});
    return dynamic_cast<const CudaMatrix&>(w);
  }

  // The product of one slice of K, without its rows.
  GemmArgs slice_of(const CudaMatrix& matrix, int slice) const {
    const auto s = static_cast<std::size_t>(slice);
    const std::int64_t begin = matrix.tree().bounds[s];
    return {.w = matrix.weights() + static_cast<std::size_t>(begin) * dtype_bytes(dtype_),
            .n = matrix.n(),
            .k = matrix.tree().bounds[s + 1] - begin,
            .stride = matrix.k()};
  }

  // Algorithms are tried out on the weights' own memory, which is still to be loaded.
  void choose_algorithms(CudaMatrix& matrix) {
    bool has_values = false;
    for (int s = 0; s < matrix.tree().num_slices(); ++s) {
      const GemmArgs slice = slice_of(matrix, s);
      if (gemm_.is_pinned(slice) || gemm_.pin_known(slice)) continue;
      if (!has_values) {
        matrix.make_rows(0, {.values = {.half_width = 1.0F},
                             .stride = static_cast<std::uint64_t>(matrix.k()),
                             .rows = matrix.n()});
        has_values = true;
      }
      gemm_.pin(slice, {sums_.data(), sums_.bytes()});
    }
  }

  // body(first row, rows of x) for as many rows at a time as the workspace has room for.
  template <class Body>
  void for_row_chunks(const ConstTensorView& x, const CudaMatrix& matrix, const Body& body) {
    const std::int64_t row_bytes = depth_of(matrix.tree()) * matrix.n() * 4;
    const std::int64_t most = static_cast<std::int64_t>(sums_.bytes()) / row_bytes;
    if (most < 1) {
      throw std::invalid_argument("matmul: the sums of one row take " + std::to_string(row_bytes) +
                                  " bytes, the workspace has " + std::to_string(sums_.bytes()));
    }
    for (std::int64_t row = 0; row < x.rows; row += most) {
      const std::int64_t count = std::min(most, x.rows - row);
      const std::size_t offset = static_cast<std::size_t>(row * x.cols) * dtype_bytes(dtype_);
      body(row, ConstTensorView{x.data + offset, count, x.cols, x.dtype});
    }
  }

  // Where the sum that waits at `depth` lies: places_ as far as there are any, then the workspace.
  float* place_at(std::int64_t depth, std::int64_t elements) const {
    if (depth < std::ssize(places_)) return places_[static_cast<std::size_t>(depth)];
    return reinterpret_cast<float*>(sums_.data()) + depth * elements;
  }

  // Slice after slice of the product, merged as the tree says; a slice that is merged at once is
  // added to the sum before it inside the product. The values end up at places 0, 1, ...
  void walk_tree(const ConstTensorView& rows, const CudaMatrix& matrix) {
    const ReductionTree& tree = matrix.tree();
    const std::int64_t elements = rows.rows * matrix.n();
    std::int64_t depth = 0;
    for (int s = 0; s < tree.num_slices(); ++s) {
      const auto i = static_cast<std::size_t>(s);
      const bool merges = tree.merges[i] > 0;
      GemmArgs args = slice_of(matrix, s);
      args.out = place_at(merges ? depth - 1 : depth, elements);
      args.x = rows.data + static_cast<std::size_t>(tree.bounds[i]) * dtype_bytes(dtype_);
      args.m = rows.rows;
      args.accumulate = merges;
      gemm_.multiply(args);
      if (!merges) ++depth;
      for (int merge = 1; merge < tree.merges[i]; ++merge) {
        --depth;
        add(place_at(depth - 1, elements), place_at(depth, elements), elements);
      }
    }
  }

  // earlier += later.
  void add(float* earlier, const float* later, std::int64_t elements) {
    const std::int32_t no_merge = 0;
    launch_add_partials({.out = earlier,
                         .base = earlier,
                         .parts = {&later, 1},
                         .merges = {&no_merge, 1},
                         .rows = 1,
                         .cols = elements},
                        stream_.get());
  }

  void multiply(const TensorView& out, const ConstTensorView& x, const Matrix& w,
                const Finish& finish) {
    const CudaMatrix& matrix = checked(out, x, w);
    if (out.rows == 0) return;
    if (matrix.tree().num_slices() == 1 && finish.bias == nullptr) {
      GemmArgs args = slice_of(matrix, 0);
      args.out = out.f32();
      args.x = x.data;
      args.m = x.rows;
      args.accumulate = finish.base != nullptr;
      gemm_.multiply(args);
      return;
    }
    for_row_chunks(x, matrix, [&](std::int64_t row, const ConstTensorView& rows) {
      places_.clear();
      walk_tree(rows, matrix);
      const float* sum = place_at(0, 0);
      const std::int32_t no_merge = 0;
      float* target = out.f32() + row * out.cols;
      launch_add_partials({.out = target,
                           .base = finish.base != nullptr ? target : nullptr,
                           .parts = {&sum, 1},
                           .merges = {&no_merge, 1},
                           .bias = finish.bias,
                           .rows = rows.rows,
                           .cols = out.cols},
                          stream_.get());
    });
  }

  DType dtype_;
  bool deterministic_;
  std::size_t workspace_bytes_;
  SelectedDevice device_;
  OwnedStream stream_;
  CudaArena arena_;
  CudaGemm gemm_;
  DeviceMemory sums_;  // of a product under way
  std::vector<float*> places_;
  std::optional<StepBuffers> step_;
  std::vector<RowLeaders> leaders_;  // as last asked for; they point into records_
  std::vector<LeadersRecord> records_;
};

}  // namespace

std::unique_ptr<Ops> make_cuda_ops(const CudaOptions& options) {
  return std::make_unique<CudaOps>(options);
}

}  // namespace headrace
