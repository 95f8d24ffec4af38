// Products with packed weights on the pool's threads: rows are packed a few hundred at a time, then
// each thread takes panels of the weights over all of them. What a product is only made for (the
// best logit, the MLP's activation) is taken by the same thread from its cache, and the product
// itself is never stored.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/ops.h"

namespace headrace {

class ThreadPool;

/// What becomes of the finished sums.
struct ProductEnd {
  const float* bias = nullptr;  // [n] or null
  Epilogue epilogue = Epilogue::kStore;
};

class CpuProducts {
 public:
  /// The pool must outlive it.
  CpuProducts(ThreadPool& pool, const KernelTable& kernels, const Int8Kernels& int8);

  /// Loading: before the first product with it.
  void make_room_for(const PackedMatrix& matrix);

  /// Before the first of the products that are not stored.
  void reserve();

  /// As Ops::matmul(), matmul_add() and, for the first value, matmul_partial() say; views fit.
  void multiply(const TensorView& out, const ConstTensorView& x, const PackedMatrix& matrix,
                const ProductEnd& end);

  /// As in Ops.
  void best_logits(std::span<BestLogit> out, const ConstTensorView& x, const PackedMatrix& matrix,
                   const LogitChange& change);

  /// Whether multiply_and_activate() serves: gates and what they multiply begin with a panel.
  static bool activates(const TensorView& out, const ActivatedProduct& product);

  /// As Ops::matmul_activate().
  void multiply_and_activate(const TensorView& out, const ConstTensorView& x,
                             const ActivatedProduct& product);

 private:
  struct Rows {
    std::int64_t first;
    std::int64_t count;
  };

  /// Panels that threads share out. Of a gated product, one stands for its twin as well.
  struct Panels {
    std::int64_t count = 0;
    std::int64_t products_each = 0;  // multiply-adds
    std::int64_t most = 0;           // that a task may have
  };

  /// Groups of panels that a thread has to do, and others may take.
  struct alignas(64) GroupRun {
    std::atomic<std::int64_t> next = 0;
    std::int64_t end = 0;
  };

  template <class Body>
  void over_packed_rows(const ConstTensorView& x, const PackedMatrix& matrix, const Body& body);
  GemmArgs packed_product(const ConstTensorView& x, const PackedMatrix& matrix, Rows rows);
  void pack(const ConstTensorView& x, const PackedMatrix& matrix, Rows rows);
  template <class Work>
  void over_panels(const Panels& panels, const GemmArgs& whole, const Work& work);
  std::int64_t take_group(std::int64_t thread);
  std::int64_t panels_of_group(const Panels& panels, std::int64_t rows) const;
  void best_of_packed(std::span<BestLogit> out, const PackedMatrix& matrix, const GemmArgs& whole,
                      const LogitChange& change);
  void take_in_panels(std::int64_t thread, const PackedMatrix& matrix, GemmArgs part,
                      const LogitChange& change);
  void activate_packed(const TensorView& out, const PackedMatrix& matrix, const GemmArgs& whole,
                       Activation activation);
  const ProductKernels& kernels_for(const PackedMatrix& matrix) const;
  float* scratch_of(std::int64_t thread);
  std::uint32_t* packed_rows() const { return reinterpret_cast<std::uint32_t*>(packed_.data()); }

  ThreadPool& pool_;
  const KernelTable& kernels_;
  const Int8Kernels& int8_;
  Buffer packed_;                  // rows of the product in progress, as the kernels read them
  std::vector<float> row_scales_;  // of the same rows' groups, where they are quantised
  std::vector<std::int32_t> row_offsets_;
  std::vector<float> row_half_sums_;
  std::vector<GroupRun> runs_;   // by thread: of the product in progress
  Buffer scratch_;               // by thread, of the task in progress
  std::vector<BestLogit> best_;  // by thread: of all its tasks, by row
};

}  // namespace headrace
