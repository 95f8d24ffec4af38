#include "kernels/observed_ops.h"

#include <utility>

#include "kernels/op_checks.h"
#include "kernels/wrapped_ops.h"

namespace headrace {
namespace {

class ObservedOps final : public WrappedOps {
 public:
  ObservedOps(Ops& ops, ProductObserver observer)
      : WrappedOps(ops), ops_(ops), observer_(std::move(observer)) {}

  void embed(TensorView out, const Matrix& table, std::span<const std::int32_t> ids) override {
    ops_.embed(out, table, ids);
  }
  void norm(TensorView out, ConstTensorView x, const Norm& norm) override {
    ops_.norm(out, x, norm);
  }
  void norm_parts(TensorView inout, const RowParts& parts, const Norm& norm) override {
    ops_.norm_parts(inout, parts, norm);
  }
  void convert(TensorView out, ConstTensorView x) override { ops_.convert(out, x); }
  void matmul(TensorView out, const ProductInput& x, const Matrix& w, const float* bias) override {
    observer_(w, plain_rows(x));
    ops_.matmul(out, x, w, bias);
  }
  void matmul_add(TensorView inout, const ProductInput& x, const Matrix& w,
                  const float* bias) override {
    observer_(w, plain_rows(x));
    ops_.matmul_add(inout, x, w, bias);
  }
  void matmul_partial(TensorView out, const ProductInput& x, const Matrix& w) override {
    ops_.matmul_partial(out, x, w);
  }
  void add_partials(TensorView inout, std::span<const float* const> parts,
                    std::span<const std::int32_t> merges, const float* bias) override {
    ops_.add_partials(inout, parts, merges, bias);
  }
  void rope_and_store_kv(TensorView q_out, ConstTensorView qkv, const float* cos_sin,
                         const AttentionShape& shape, const KvLayer& kv,
                         std::span<const SequenceRows> sequences) override {
    ops_.rope_and_store_kv(q_out, qkv, cos_sin, shape, kv, sequences);
  }
  void attention(TensorView out, ConstTensorView q, const AttentionShape& shape, const KvLayer& kv,
                 std::span<const SequenceRows> sequences) override {
    ops_.attention(out, q, shape, kv, sequences);
  }
  void activate(TensorView out, ConstTensorView x, Activation activation) override {
    ops_.activate(out, x, activation);
  }
  ProductInput matmul_activate(TensorView out, const ProductInput& x,
                               const ActivatedProduct& product) override {
    observer_(product.w, plain_rows(x));
    ActivatedProduct unpacked = product;
    unpacked.reader = nullptr;
    return ops_.matmul_activate(out, x, unpacked);
  }
  void scale(TensorView inout, float factor) override { ops_.scale(inout, factor); }
  void add_scaled(TensorView inout, ConstTensorView x, float factor) override {
    ops_.add_scaled(inout, x, factor);
  }
  void soft_cap(TensorView inout, float cap) override { ops_.soft_cap(inout, cap); }
  void row_statistics(std::span<RowStatistics> out, ConstTensorView logits) override {
    ops_.row_statistics(out, logits);
  }
  void best_logits(std::span<BestLogit> out, ConstTensorView x, const Matrix& w,
                   const LogitChange& change, TensorView room) override {
    observer_(w, x);
    ops_.best_logits(out, x, w, change, room);
  }
  std::span<const RowLeaders> leading_logits(ConstTensorView logits,
                                             std::span<const float> temperatures) override {
    return ops_.leading_logits(logits, temperatures);
  }

 private:
  Ops& ops_;
  ProductObserver observer_;
};

}  // namespace

std::unique_ptr<Ops> make_observed_ops(Ops& ops, ProductObserver observer) {
  return std::make_unique<ObservedOps>(ops, std::move(observer));
}

}  // namespace headrace
