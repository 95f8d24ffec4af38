// Products with packed weights on the pool's threads: rows are packed a few hundred at a time, and
// normed by the thread that packs them where they are to be, then
// each thread takes panels of the weights over all of them. What a product is only made for (the
// best logit, the MLP's activation) is taken by the same thread from its cache, and the product
// itself is never stored.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/cpu/input_packer.h"
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
  CpuProducts(DType compute_dtype, ThreadPool& pool, const KernelTable& kernels,
              const Int8Kernels& int8);

  /// Loading: before the first product with it.
  void make_room_for(const PackedMatrix& matrix);

  /// Before the first of the products that are not stored.
  void reserve();

  /// As Ops::matmul(), matmul_add() and, for the first value, matmul_partial() say; views fit.
  void multiply(const TensorView& out, const ProductInput& x, const PackedMatrix& matrix,
                const ProductEnd& end);

  /// As in Ops.
  void best_logits(std::span<BestLogit> out, const ConstTensorView& x, const PackedMatrix& matrix,
                   const LogitChange& change);

  /// Whether multiply_and_activate() serves: gates and what they multiply begin with a panel.
  static bool activates(const TensorView& out, const ActivatedProduct& product);

  /// As Ops::matmul_activate().
  ProductInput multiply_and_activate(const TensorView& out, const ProductInput& x,
                                     const ActivatedProduct& product);

 private:
  /// What becomes of a product that is activated; reader: null where it is stored as it is.
  struct ActivatedEnd {
    Activation activation = Activation::kSilu;
    const PackedMatrix* reader = nullptr;
  };

  /// Panels that threads share out. Of a gated product, one stands for its twin as well.
  struct Panels {
    std::int64_t count = 0;
    std::int64_t products_each = 0;  // multiply-adds
    std::int64_t most = 0;           // that a task may have
    std::int64_t multiple = 1;       // of what a task has, where it is not the last
  };

  /// Groups of panels that a thread has to do, and others may take.
  struct alignas(64) GroupRun {
    std::atomic<std::int64_t> next = 0;
    std::int64_t end = 0;
  };

  template <class Body>
  void over_packed_rows(const ProductInput& x, const PackedMatrix& matrix, const Body& body);
  template <class Work>
  void over_panels(const Panels& panels, const GemmArgs& whole, const Work& work);
  std::int64_t take_group(std::int64_t thread);
  std::int64_t panels_of_group(const Panels& panels, std::int64_t rows) const;
  void best_of_packed(std::span<BestLogit> out, const PackedMatrix& matrix, const GemmArgs& whole,
                      const LogitChange& change);
  void take_in_panels(std::int64_t thread, const PackedMatrix& matrix, GemmArgs part,
                      const LogitChange& change);
  void activate_packed(const TensorView& out, const PackedMatrix& matrix, const GemmArgs& whole,
                       const ActivatedEnd& end);
  float* scratch_of(std::int64_t thread);
  std::uint32_t* expanded_of(std::int64_t thread);

  ThreadPool& pool_;
  const KernelTable& kernels_;
  InputPacker inputs_;
  std::vector<GroupRun> runs_;      // by thread: of the product in progress
  Buffer scratch_;                  // by thread, of the task in progress
  std::size_t expanded_bytes_ = 0;  // of a thread
  Buffer expanded_;                 // by thread: panels of weights that are expanded
  std::vector<BestLogit> best_;     // by thread: of all its tasks, by row
};

}  // namespace headrace
