#include "kernels/traced_ops.h"

#include <unordered_set>
#include <utility>

#include "kernels/wrapped_ops.h"

namespace headrace {
namespace {

class TracedOps final : public WrappedOps {
 public:
  TracedOps(std::unique_ptr<Ops> ops, SpanRecorder& recorder, const MachineBound& bound)
      : WrappedOps(*ops), ops_(std::move(ops)), recorder_(recorder), bound_(bound) {}

  std::unique_ptr<Matrix> make_matrix(MatrixSpec spec) override {
    const bool quantized = spec.quantization != Quantization::kNone;
    std::unique_ptr<Matrix> matrix = ops_->make_matrix(std::move(spec));
    if (quantized) quantized_.insert(matrix.get());
    return matrix;
  }

  void embed(TensorView out, const Matrix& table, std::span<const std::int32_t> ids) override {
    const ScopedPhase phase(&recorder_, Phase::kEmbed);
    ops_->embed(out, table, ids);
  }
  void norm(TensorView out, ConstTensorView x, const Norm& norm) override {
    const ScopedPhase phase(&recorder_, Phase::kNorm);
    ops_->norm(out, x, norm);
  }
  void norm_parts(TensorView inout, const RowParts& parts, const Norm& norm) override {
    const ScopedPhase phase(&recorder_, Phase::kNorm);
    ops_->norm_parts(inout, parts, norm);
  }
  void convert(TensorView out, ConstTensorView x) override {
    const ScopedPhase phase(&recorder_, Phase::kElementwise);
    ops_->convert(out, x);
  }
  bool norms_inputs() const override { return ops_->norms_inputs(); }
  void matmul(TensorView out, const ProductInput& x, const Matrix& w, const float* bias) override {
    const ScopedPhase phase(&recorder_, product_phase());
    add_bound(x.view.rows, w);
    ops_->matmul(out, x, w, bias);
  }
  void matmul_add(TensorView inout, const ProductInput& x, const Matrix& w,
                  const float* bias) override {
    const ScopedPhase phase(&recorder_, product_phase());
    add_bound(x.view.rows, w);
    ops_->matmul_add(inout, x, w, bias);
  }
  void matmul_partial(TensorView out, const ProductInput& x, const Matrix& w) override {
    const ScopedPhase phase(&recorder_, product_phase());
    add_bound(x.view.rows, w);
    ops_->matmul_partial(out, x, w);
  }
  void add_partials(TensorView inout, std::span<const float* const> parts,
                    std::span<const std::int32_t> merges, const float* bias) override {
    const ScopedPhase phase(&recorder_, Phase::kElementwise);
    ops_->add_partials(inout, parts, merges, bias);
  }
  void rope_and_store_kv(TensorView q_out, ConstTensorView qkv, const float* cos_sin,
                         const AttentionShape& shape, const KvLayer& kv,
                         std::span<const SequenceRows> sequences) override {
    const ScopedPhase phase(&recorder_, Phase::kRope);
    ops_->rope_and_store_kv(q_out, qkv, cos_sin, shape, kv, sequences);
  }
  void attention(TensorView out, ConstTensorView q, const AttentionShape& shape, const KvLayer& kv,
                 std::span<const SequenceRows> sequences) override {
    const ScopedPhase phase(&recorder_, Phase::kAttention);
    const bool of_integers = shape.kv_type == KvType::kInt8;
    recorder_.add_bound(bound_.least_ns(attention_work(shape, compute_dtype(), sequences),
                                        of_integers ? Arithmetic::kInt8 : arithmetic()));
    ops_->attention(out, q, shape, kv, sequences);
  }
  void activate(TensorView out, ConstTensorView x, Activation activation) override {
    const ScopedPhase phase(&recorder_, Phase::kActivation);
    ops_->activate(out, x, activation);
  }
  ProductInput matmul_activate(TensorView out, const ProductInput& x,
                               const ActivatedProduct& product) override {
    const ScopedPhase phase(&recorder_, product_phase());
    add_bound(x.view.rows, product.w);
    return ops_->matmul_activate(out, x, product);
  }
  void scale(TensorView inout, float factor) override {
    const ScopedPhase phase(&recorder_, Phase::kElementwise);
    ops_->scale(inout, factor);
  }
  void add_scaled(TensorView inout, ConstTensorView x, float factor) override {
    const ScopedPhase phase(&recorder_, Phase::kElementwise);
    ops_->add_scaled(inout, x, factor);
  }
  void soft_cap(TensorView inout, float cap) override {
    const ScopedPhase phase(&recorder_, Phase::kElementwise);
    ops_->soft_cap(inout, cap);
  }
  void row_statistics(std::span<RowStatistics> out, ConstTensorView logits) override {
    const ScopedPhase phase(&recorder_, Phase::kStatistics);
    ops_->row_statistics(out, logits);
  }
  void best_logits(std::span<BestLogit> out, ConstTensorView x, const Matrix& w,
                   const LogitChange& change, TensorView room) override {
    const ScopedPhase phase(&recorder_, product_phase());
    add_bound(x.rows, w);
    ops_->best_logits(out, x, w, change, room);
  }
  std::span<const RowLeaders> leading_logits(ConstTensorView logits,
                                             std::span<const float> temperatures) override {
    const ScopedPhase phase(&recorder_, Phase::kStatistics);
    return ops_->leading_logits(logits, temperatures);
  }

 private:
  Phase product_phase() const {
    return recorder_.current() == Phase::kSampling ? Phase::kHeadGemm : Phase::kGemm;
  }

  Arithmetic arithmetic() const {
    return compute_dtype() == DType::kFloat32 ? Arithmetic::kFloat32 : Arithmetic::kBFloat16;
  }

  void add_bound(std::int64_t rows, const Matrix& w) {
    const bool of_integers = quantized_.count(&w) > 0;
    recorder_.add_bound(
        bound_.least_ns(product_work(rows, w), of_integers ? Arithmetic::kInt8 : arithmetic()));
  }

  std::unique_ptr<Ops> ops_;
  SpanRecorder& recorder_;
  MachineBound bound_;
  std::unordered_set<const Matrix*> quantized_;  // of the matrices made here
};

}  // namespace

std::unique_ptr<Ops> make_traced_ops(std::unique_ptr<Ops> ops, SpanRecorder& recorder,
                                     const MachineBound& bound) {
  return std::make_unique<TracedOps>(std::move(ops), recorder, bound);
}

}  // namespace headrace
