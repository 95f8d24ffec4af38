// Operators that stand in front of others (to time them, to watch them, to fail in their place).
// What is set up is the others'; each operator has to be written, so that none is forgotten.
#pragma once

#include <memory>
#include <utility>

#include "kernels/ops.h"

namespace headrace {

class WrappedOps : public Ops {
 public:
  /// ops must outlive this object's calls.
  explicit WrappedOps(Ops& ops) : wrapped_(ops) {}

  DType compute_dtype() const override { return wrapped_.compute_dtype(); }
  DeviceArena& arena() override { return wrapped_.arena(); }
  std::unique_ptr<Matrix> make_matrix(MatrixSpec spec) override {
    return wrapped_.make_matrix(std::move(spec));
  }
  void reserve(int max_rows, int max_context, const AttentionShape& shape) override {
    wrapped_.reserve(max_rows, max_context, shape);
  }
  std::size_t reserve_bytes(int max_rows, int max_context,
                            const AttentionShape& shape) const override {
    return wrapped_.reserve_bytes(max_rows, max_context, shape);
  }
  std::size_t kv_block_bytes(const AttentionShape& shape, int block_tokens) const override {
    return wrapped_.kv_block_bytes(shape, block_tokens);
  }

 private:
  Ops& wrapped_;
};

}  // namespace headrace
