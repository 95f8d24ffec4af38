// Inputs of products as the kernels read them. Rows are packed in blocks of a register tile's, and
// go through their norm on the way where they have one; what made them may have packed them
// already.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/buffer.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/ops.h"

namespace headrace {

class ThreadPool;

/// Rows of a product that are packed at a time, at most: with K up to a few thousand they stay in
/// the L2 cache while every panel passes by.
inline constexpr std::int64_t kPackedRows = 256;

/// Columns that can be packed by themselves: whole runs of dwords, and whole groups of a scale.
inline constexpr std::int64_t kPackedColumns = kQuantizationGroup;

class InputPacker {
 public:
  struct Rows {
    std::int64_t first;
    std::int64_t count;  // at most kPackedRows
  };

  /// The pool must outlive it.
  InputPacker(DType compute_dtype, ThreadPool& pool, const KernelTable& kernels,
              const Int8Kernels& int8);

  const ProductKernels& kernels_for(const PackedMatrix& matrix) const;

  /// Loading: before the first product with it.
  void make_room_for(const PackedMatrix& matrix);

  /// Packs the rows, where they are not; what their product takes, apart from where it goes. Valid
  /// until the next call.
  GemmArgs product_of(const ProductInput& x, const PackedMatrix& matrix, Rows rows);

  /// Whether rows in the compute type fit their memory packed, in pieces of kPackedColumns.
  bool packs_for(const TensorView& out, const PackedMatrix& reader) const;

  /// Consecutive columns of some rows in the compute type, on their way into packed rows.
  struct Columns {
    const std::byte* values = nullptr;  // [rows, count]
    std::int64_t first = 0;             // a multiple of kPackedColumns
    std::int64_t count = 0;
  };

  /// Into their places among so many packed rows from `to` on; by any thread.
  void pack_columns(std::byte* to, const PackedMatrix& reader, std::int64_t rows,
                    const Columns& columns) const;

 private:
  /// Packed rows of inputs of one matrix, one part after the other: the dwords that kernels read,
  /// and where inputs are quantised, what PackArgs says of their groups.
  class PackedLayout {
   public:
    PackedLayout(const PackedMatrix& matrix, int dwords_per_step, std::int64_t rows);
    std::int64_t row_dwords() const { return row_dwords_; }
    std::size_t scales_at() const { return bytes_of(row_dwords_); }
    std::size_t offsets_at() const { return scales_at() + bytes_of(groups_); }
    std::size_t half_sums_at() const { return offsets_at() + bytes_of(groups_); }
    std::size_t bytes() const { return half_sums_at() + bytes_of(2 * groups_); }

   private:
    std::size_t bytes_of(std::int64_t words_of_a_row) const {
      return static_cast<std::size_t>(rows_ * words_of_a_row) * sizeof(std::uint32_t);
    }
    std::int64_t rows_;
    std::int64_t row_dwords_;
    std::int64_t groups_;
  };

  PackedLayout layout_of(const PackedMatrix& matrix, std::int64_t rows) const;
  PackArgs block_of(std::byte* to, const PackedMatrix& matrix, std::int64_t rows,
                    std::int64_t b) const;
  void pack(const ProductInput& x, const PackedMatrix& matrix, Rows rows);
  const std::byte* norm(const ProductInput& x, Rows rows);

  DType dtype_;
  ThreadPool& pool_;
  const KernelTable& kernels_;
  const Int8Kernels& int8_;
  Buffer packed_;                 // rows of the product in progress (PackedLayout)
  std::size_t normed_bytes_ = 0;  // of a thread
  Buffer normed_;                 // by thread: rows that it packs next, in the compute type
};

}  // namespace headrace
