#include "kernels/cpu/input_packer.h"

#include <algorithm>

#include "kernels/ceil_div.h"
#include "kernels/cpu/run_flushed.h"
#include "kernels/thread_pool.h"

namespace headrace {
namespace {

// Elements of packed rows that are worth a task of their own: the same product waits for them, so
// threads have to end together.
constexpr std::int64_t kPackedPerTask = 8192;

}  // namespace

InputPacker::InputPacker(DType compute_dtype, ThreadPool& pool, const KernelTable& kernels,
                         const Int8Kernels& int8)
    : dtype_(compute_dtype), pool_(pool), kernels_(kernels), int8_(int8) {}

void InputPacker::make_room_for(const PackedMatrix& matrix) {
  const std::size_t bytes = layout_of(matrix, kPackedRows).bytes();
  if (bytes > packed_.bytes()) packed_ = Buffer(bytes);
  const std::size_t normed = arena_bytes(static_cast<std::size_t>(
      kernels_for(matrix).tile_rows * matrix.k() * static_cast<std::int64_t>(dtype_bytes(dtype_))));
  if (normed > normed_bytes_) {
    normed_bytes_ = normed;
    normed_ = Buffer(normed * static_cast<std::size_t>(pool_.num_threads()));
  }
}

InputPacker::PackedLayout::PackedLayout(const PackedMatrix& matrix, int dwords_per_step,
                                        std::int64_t rows)
    : rows_(rows),
      row_dwords_(matrix.row_dwords(dwords_per_step)),
      groups_(matrix.inputs() == QuantizedInputs::kInt8 ? matrix.num_input_groups() : 0) {}

InputPacker::PackedLayout InputPacker::layout_of(const PackedMatrix& matrix,
                                                 std::int64_t rows) const {
  return {matrix, kernels_for(matrix).dwords_per_step, rows};
}

GemmArgs InputPacker::product_of(const ProductInput& x, const PackedMatrix& matrix, Rows rows) {
  const std::byte* packed = packed_.data();
  if (x.packed_for == nullptr) {
    pack(x, matrix, rows);
  } else {
    packed = x.view.data +
             rows.first * x.view.cols * static_cast<std::int64_t>(dtype_bytes(x.view.dtype));
  }
  const PackedLayout layout = layout_of(matrix, rows.count);
  GemmArgs args{.packed = reinterpret_cast<const std::uint32_t*>(packed),
                .rows = rows.count,
                .weights = matrix.panels(),
                .steps = matrix.steps(),
                .n = matrix.n(),
                .segments = matrix.segments().data(),
                .num_segments = static_cast<int>(matrix.segments().size()),
                .row_dwords = layout.row_dwords(),
                .row_scales = reinterpret_cast<const float*>(packed + layout.scales_at()),
                .row_offsets = reinterpret_cast<const std::int32_t*>(packed + layout.offsets_at()),
                .row_half_sums = reinterpret_cast<const float*>(packed + layout.half_sums_at())};
  matrix.describe_columns(args);
  return args;
}

// Of so many packed rows from `to` on, where block b goes.
PackArgs InputPacker::block_of(std::byte* to, const PackedMatrix& matrix, std::int64_t rows,
                               std::int64_t b) const {
  const std::int64_t blocks = num_row_blocks(rows, kernels_for(matrix).tile_rows);
  const std::int64_t begin = b * rows / blocks;
  const PackedLayout layout = layout_of(matrix, rows);
  return {.first_row = begin,
          .num_rows = static_cast<int>((b + 1) * rows / blocks - begin),
          .packed = reinterpret_cast<std::uint32_t*>(to) + begin * layout.row_dwords(),
          .scales = reinterpret_cast<float*>(to + layout.scales_at()) + begin,
          .offsets = reinterpret_cast<std::int32_t*>(to + layout.offsets_at()) + begin,
          .group_stride = rows,
          .half_sums = reinterpret_cast<float*>(to + layout.half_sums_at()) + begin};
}

void InputPacker::pack(const ProductInput& x, const PackedMatrix& matrix, Rows rows) {
  const ProductKernels& kernels = kernels_for(matrix);
  const std::int64_t blocks = num_row_blocks(rows.count, kernels.tile_rows);
  const std::int64_t per_task =
      std::max<std::int64_t>(1, kPackedPerTask / (kernels.tile_rows * matrix.k()));
  run_flushed(pool_, ceil_div(blocks, per_task), [&](std::int64_t task) {
    for (std::int64_t b = task * per_task; b < std::min(blocks, (task + 1) * per_task); ++b) {
      PackArgs block = block_of(packed_.data(), matrix, rows.count, b);
      block.first_row += rows.first;
      block.x = x.view.data;
      if (x.norm) {
        block.x = norm(x, {block.first_row, block.num_rows});
        block.first_row = 0;
      }
      block.k = matrix.k();
      block.segments = matrix.segments().data();
      block.num_segments = static_cast<int>(matrix.segments().size());
      kernels.pack(block);
    }
  });
}

bool InputPacker::packs_for(const TensorView& out, const PackedMatrix& reader) const {
  if (out.cols % kPackedColumns != 0 || out.cols != reader.k()) return false;
  const bool of_floats = reader.quantization() == Quantization::kNone;
  const auto begins_with_columns = [&](const Segment& segment) {
    return of_floats || segment.first_element % kPackedColumns == 0;
  };
  const std::vector<Segment>& segments = reader.segments();
  return std::all_of(segments.begin(), segments.end(), begins_with_columns) &&
         layout_of(reader, out.rows).bytes() <= out.bytes();
}

void InputPacker::pack_columns(std::byte* to, const PackedMatrix& reader, std::int64_t rows,
                               const Columns& columns) const {
  const ProductKernels& kernels = kernels_for(reader);
  const std::int64_t units = reader.k() / kPackedColumns;
  const std::int64_t unit = columns.first / kPackedColumns;
  const std::int64_t unit_dwords = layout_of(reader, rows).row_dwords() / units;
  const Segment all{.num_elements = static_cast<std::int32_t>(columns.count)};
  for (std::int64_t b = 0; b < num_row_blocks(rows, kernels.tile_rows); ++b) {
    PackArgs block = block_of(to, reader, rows, b);
    block.x = columns.values;
    block.k = columns.count;
    block.packed += unit * unit_dwords * block.num_rows;
    block.segments = &all;
    block.num_segments = 1;
    block.scales += unit * rows;
    block.offsets += unit * rows;
    block.half_sums += 2 * unit * rows;
    kernels.pack(block);
  }
}

// The rows as the product takes them, in the thread's own cache.
const std::byte* InputPacker::norm(const ProductInput& x, Rows rows) {
  std::byte* const own =
      normed_.data() + static_cast<std::size_t>(pool_.thread_index()) * normed_bytes_;
  const std::int64_t cols = x.view.cols;
  kernels_.norm({.x = x.view.f32() + rows.first * cols,
                 .out = own,
                 .norm = *x.norm,
                 .parts = {.width = cols},
                 .float_out = dtype_ == DType::kFloat32,
                 .row_cols = cols,
                 .row_end = rows.count});
  return own;
}

const ProductKernels& InputPacker::kernels_for(const PackedMatrix& matrix) const {
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

}  // namespace headrace
