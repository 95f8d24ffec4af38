#include "kernels/cpu/cpu_products.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "kernels/ceil_div.h"
#include "kernels/cpu/run_flushed.h"
#include "kernels/thread_pool.h"

namespace headrace {
namespace {

// Products (multiply-adds) that are worth a task of their own: about 5 us at 100 G/s.
constexpr std::int64_t kProductsPerTask = 500'000;

// Elements of a product that its thread keeps for itself at a time: beside the weights that pass by
// they stay in the L2 cache (256 KiB).
constexpr std::int64_t kScratchFloats = 65536;

// Panels of the widest tile, and the rows that it has at most; of more rows, tiles have at most
// half as many panels (Lanes::tile_rows()).
constexpr std::int64_t kWidestTile = 4;
constexpr std::int64_t kRowsOfWidestTile = 5;

// Panels of which so many rows fit the scratch, in whole tiles.
std::int64_t panels_in_scratch(std::int64_t rows, std::int64_t floats_each) {
  return kScratchFloats / (floats_each * rows) / kWidestTile * kWidestTile;
}

bool is_gated(const TensorView& out, const Matrix& w) {
  return w.n() == 2 * out.cols;
}

}  // namespace

CpuProducts::CpuProducts(DType compute_dtype, ThreadPool& pool, const KernelTable& kernels,
                         const Int8Kernels& int8)
    : pool_(pool),
      kernels_(kernels),
      inputs_(compute_dtype, pool, kernels, int8),
      runs_(static_cast<std::size_t>(pool.num_threads())) {}

void CpuProducts::make_room_for(const PackedMatrix& matrix) {
  inputs_.make_room_for(matrix);
  const ProductKernels& kernels = inputs_.kernels_for(matrix);
  const std::int64_t dwords =
      kernels.expanded_panels * kPanelColumns * matrix.row_dwords(kernels.dwords_per_step);
  const std::size_t bytes = arena_bytes(static_cast<std::size_t>(dwords) * sizeof(std::uint32_t));
  if (bytes > expanded_bytes_) {
    expanded_bytes_ = bytes;
    expanded_ = Buffer(bytes * static_cast<std::size_t>(pool_.num_threads()));
  }
}

void CpuProducts::reserve() {
  const auto threads = static_cast<std::size_t>(pool_.num_threads());
  best_.resize(threads * kPackedRows);
  if (scratch_.bytes() == 0) scratch_ = Buffer(threads * kScratchFloats * sizeof(float));
}

// Some rows of x at a time, as many each time: body(rows, their product).
template <class Body>
void CpuProducts::over_packed_rows(const ProductInput& x, const PackedMatrix& matrix,
                                   const Body& body) {
  const std::int64_t pieces = ceil_div(x.view.rows, kPackedRows);
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t first = i * x.view.rows / pieces;
    const InputPacker::Rows rows{first, (i + 1) * x.view.rows / pieces - first};
    body(rows, inputs_.product_of(x, matrix, rows));
  }
}

void CpuProducts::multiply(const TensorView& out, const ProductInput& x, const PackedMatrix& matrix,
                           const ProductEnd& end) {
  const ProductKernels& kernels = inputs_.kernels_for(matrix);
  const Panels panels{.count = matrix.num_panels(),
                      .products_each = kPanelColumns * matrix.k(),
                      .most = matrix.num_panels()};
  over_packed_rows(x, matrix, [&](InputPacker::Rows rows, GemmArgs whole) {
    whole.out = out.f32() + rows.first * out.cols;
    whole.out_stride = out.cols;
    whole.value_stride = out.rows * out.cols;
    whole.bias = end.bias;
    whole.epilogue = end.epilogue;
    over_panels(panels, whole,
                [&](std::int64_t /*thread*/, const GemmArgs& part) { kernels.gemm(part); });
  });
}

void CpuProducts::best_logits(std::span<BestLogit> out, const ConstTensorView& x,
                              const PackedMatrix& matrix, const LogitChange& change) {
  if (best_.empty()) throw std::logic_error("best_logits: reserve() comes first");
  over_packed_rows(x, matrix, [&](InputPacker::Rows rows, const GemmArgs& whole) {
    const auto some =
        out.subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
    best_of_packed(some, matrix, whole, change);
  });
}

bool CpuProducts::activates(const TensorView& out, const ActivatedProduct& product) {
  return !is_gated(out, product.w) || out.cols % kPanelColumns == 0;
}

ProductInput CpuProducts::multiply_and_activate(const TensorView& out, const ProductInput& x,
                                                const ActivatedProduct& product) {
  if (scratch_.bytes() == 0) throw std::logic_error("matmul_activate: reserve() comes first");
  const auto& matrix = dynamic_cast<const PackedMatrix&>(product.w);
  ActivatedEnd end{.activation = product.activation,
                   .reader = dynamic_cast<const PackedMatrix*>(product.reader)};
  if (end.reader != nullptr && !inputs_.packs_for(out, *end.reader)) end.reader = nullptr;
  const auto row_bytes = out.cols * static_cast<std::int64_t>(dtype_bytes(out.dtype));
  over_packed_rows(x, matrix, [&](InputPacker::Rows rows, GemmArgs whole) {
    whole.bias = product.bias;
    const TensorView some{out.data + rows.first * row_bytes, rows.count, out.cols, out.dtype};
    activate_packed(some, matrix, whole, end);
  });
  ProductInput result(out);
  result.packed_for = end.reader;
  return result;
}

// The panels in groups: work(thread, part) for each. A thread goes through a run of groups that lie
// behind each other, so that the panels that it fetches ahead are its own, and helps with the
// others' runs when it is through: one that loses its core for a while holds up a group, not its
// share of the product.
template <class Work>
void CpuProducts::over_panels(const Panels& panels, const GemmArgs& whole, const Work& work) {
  const std::int64_t group = std::min(panels.most, panels_of_group(panels, whole.rows));
  const std::int64_t groups = ceil_div(panels.count, group);
  const std::int64_t threads = pool_.num_threads();
  for (std::int64_t t = 0; t < threads; ++t) {
    GroupRun& own = runs_[static_cast<std::size_t>(t)];
    own.next.store(groups * t / threads, std::memory_order_relaxed);
    own.end = groups * (t + 1) / threads;
  }
  run_flushed(pool_, groups, [&](std::int64_t /*one of as many*/) {
    const std::int64_t thread = pool_.thread_index();
    GemmArgs part = whole;
    part.panel_begin = take_group(thread) * group;
    part.panel_end = std::min(panels.count, part.panel_begin + group);
    part.expanded = expanded_of(thread);
    work(thread, part);
  });
}

// A group of the thread's own run, or else of the next one that has some. As many are taken as
// there are.
std::int64_t CpuProducts::take_group(std::int64_t thread) {
  const auto threads = static_cast<std::size_t>(pool_.num_threads());
  for (std::size_t i = static_cast<std::size_t>(thread);; i = (i + 1) % threads) {
    GroupRun& run = runs_[i];
    if (run.next.load(std::memory_order_relaxed) >= run.end) continue;
    const std::int64_t taken = run.next.fetch_add(1, std::memory_order_relaxed);
    if (taken < run.end) return taken;
  }
}

// Several groups for each thread, each worth it, and of whole tiles.
std::int64_t CpuProducts::panels_of_group(const Panels& panels, std::int64_t rows) const {
  const std::int64_t products = std::max<std::int64_t>(1, panels.products_each * rows);
  const std::int64_t worth = ceil_div(kProductsPerTask, products);
  const std::int64_t fair = panels.count / (std::int64_t{8} * pool_.num_threads());
  const std::int64_t tile =
      std::max(panels.multiple, rows <= kRowsOfWidestTile ? kWidestTile : kWidestTile / 2);
  return std::max(ceil_div(worth, tile), fair / tile) * tile;
}

// A thread takes the logits of a group in while they are in its cache.
void CpuProducts::best_of_packed(std::span<BestLogit> out, const PackedMatrix& matrix,
                                 const GemmArgs& whole, const LogitChange& change) {
  const Panels panels{.count = matrix.num_panels(),
                      .products_each = kPanelColumns * matrix.k(),
                      .most = panels_in_scratch(whole.rows, kPanelColumns)};
  const BestLogit none{.value = -std::numeric_limits<float>::infinity(), .id = -1};
  std::fill(best_.begin(), best_.end(), none);
  over_panels(panels, whole, [&](std::int64_t thread, const GemmArgs& part) {
    take_in_panels(thread, matrix, part, change);
  });
  for (std::size_t row = 0; row < out.size(); ++row) {
    out[row] = best_[row];
    for (std::size_t at = row + kPackedRows; at < best_.size(); at += kPackedRows) {
      out[row] = better(out[row], best_[at]);
    }
  }
}

void CpuProducts::take_in_panels(std::int64_t thread, const PackedMatrix& matrix, GemmArgs part,
                                 const LogitChange& change) {
  const std::int64_t first = part.panel_begin * kPanelColumns;
  const std::int64_t cols = std::min(part.n, part.panel_end * kPanelColumns) - first;
  part.out = scratch_of(thread);
  part.out_stride = cols;
  part.first_column = first;
  inputs_.kernels_for(matrix).gemm(part);
  const std::int64_t count = part.rows * cols;
  if (change.scale != 1.0F) kernels_.scale(part.out, count, change.scale);
  if (change.soft_cap > 0.0F) kernels_.soft_cap(part.out, count, change.soft_cap);
  BestLogit* best = best_.data() + thread * kPackedRows;
  for (std::int64_t row = 0; row < part.rows; ++row) {
    kernels_.take_in_logits(best[row], part.out + row * cols, cols, first);
  }
}

// A task makes some columns of `out`: gates into the left half of the product in its scratch, what
// they multiply into the right one, and behind these what is packed at once.
void CpuProducts::activate_packed(const TensorView& out, const PackedMatrix& matrix,
                                  const GemmArgs& whole, const ActivatedEnd& end) {
  const bool gated = is_gated(out, matrix);
  const std::int64_t parts = gated ? 2 : 1;
  const std::int64_t own_panels = ceil_div(out.cols, kPanelColumns);
  const Panels panels{.count = own_panels,
                      .products_each = parts * kPanelColumns * matrix.k(),
                      .most = panels_in_scratch(whole.rows, (parts + 1) * kPanelColumns),
                      .multiple = end.reader == nullptr ? 1 : kPackedColumns / kPanelColumns};
  over_panels(panels, whole, [&](std::int64_t thread, GemmArgs part) {
    const std::int64_t first = part.panel_begin * kPanelColumns;
    const std::int64_t cols = std::min(out.cols, part.panel_end * kPanelColumns) - first;
    float* scratch = scratch_of(thread);
    part.out_stride = parts * cols;
    for (std::int64_t i = 0; i < parts; ++i) {
      part.out = scratch + i * cols;
      part.first_column = i * out.cols + first;
      inputs_.kernels_for(matrix).gemm(part);
      part.panel_begin += own_panels;
      part.panel_end += own_panels;
    }
    ActivationArgs activated{
        .x = scratch,
        .out = out.data + first * static_cast<std::int64_t>(dtype_bytes(out.dtype)),
        .activation = end.activation,
        .gated = gated,
        .cols = cols,
        .out_stride = out.cols,
        .row_begin = 0,
        .row_end = whole.rows};
    if (end.reader == nullptr) {
      kernels_.activate(activated);
      return;
    }
    activated.out = reinterpret_cast<std::byte*>(scratch + whole.rows * parts * cols);
    activated.out_stride = cols;
    kernels_.activate(activated);
    inputs_.pack_columns(out.data, *end.reader, whole.rows,
                         {.values = activated.out, .first = first, .count = cols});
  });
}

std::uint32_t* CpuProducts::expanded_of(std::int64_t thread) {
  return reinterpret_cast<std::uint32_t*>(expanded_.data() +
                                          static_cast<std::size_t>(thread) * expanded_bytes_);
}

float* CpuProducts::scratch_of(std::int64_t thread) {
  return reinterpret_cast<float*>(scratch_.data()) + thread * kScratchFloats;
}

}  // namespace headrace
