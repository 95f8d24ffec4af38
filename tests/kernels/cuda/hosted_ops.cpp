#include "tests/kernels/cuda/hosted_ops.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cuda/handles.h"
#include "kernels/op_checks.h"
#include "kernels/wrapped_ops.h"

namespace headrace::testing_ops {
namespace {

/// The operands of one call on the device, until it returns.
class Staged {
 public:
  explicit Staged(DeviceArena& arena) : arena_(arena) {}

  /// Where the device finds these bytes of the host. The same place for the same bytes, so that
  /// operators may work in place.
  std::byte* place(const std::byte* host, std::size_t bytes) {
    if (host == nullptr || bytes == 0) return nullptr;
    for (const Operand& operand : operands_) {
      if (operand.host == host && operand.bytes == bytes) return operand.device;
    }
    constexpr std::uintptr_t kWidestAccess = 16;
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(host) % kWidestAccess;
    Operand& operand = operands_.emplace_back();
    operand.memory = DeviceMemory(offset + bytes);
    operand.device = operand.memory.data() + offset;
    operand.host = host;
    operand.bytes = bytes;
    arena_.upload(operand.device, {host, bytes});
    return operand.device;
  }

  TensorView tensor(const TensorView& view) {
    return {place(view.data, view.bytes()), view.rows, view.cols, view.dtype};
  }
  ConstTensorView tensor(const ConstTensorView& view) {
    return {place(view.data, view.bytes()), view.rows, view.cols, view.dtype};
  }
  const float* floats(const float* host, std::int64_t count) {
    return reinterpret_cast<const float*>(place(reinterpret_cast<const std::byte*>(host),
                                                static_cast<std::size_t>(count) * sizeof(float)));
  }
  Norm norm(Norm norm, std::int64_t cols) {
    norm.weight = floats(norm.weight, cols);
    norm.bias = floats(norm.bias, cols);
    return norm;
  }

  /// Every block that the sequences name.
  KvLayer cache(KvLayer kv, std::span<const SequenceRows> sequences) {
    kv.data = place(kv.data, cache_bytes(kv, sequences));
    return kv;
  }

  /// Gives the host what the device made of it.
  void bring_back(std::byte* host, std::size_t bytes) {
    if (host != nullptr && bytes > 0) arena_.download({host, bytes}, place(host, bytes));
  }
  void bring_back(const TensorView& view) { bring_back(view.data, view.bytes()); }
  void bring_back(const KvLayer& kv, std::span<const SequenceRows> sequences) {
    bring_back(kv.data, cache_bytes(kv, sequences));
  }

 private:
  struct Operand {
    DeviceMemory memory;
    std::byte* device = nullptr;
    const std::byte* host = nullptr;
    std::size_t bytes = 0;
  };

  static std::size_t cache_bytes(const KvLayer& kv, std::span<const SequenceRows> sequences) {
    std::size_t blocks = 0;
    for (const SequenceRows& sequence : sequences) {
      const int count =
          (sequence.first_position + sequence.num_rows + kv.block_tokens - 1) / kv.block_tokens;
      for (int b = 0; b < count; ++b) {
        blocks = std::max(blocks, static_cast<std::size_t>(sequence.blocks[b]) + 1);
      }
    }
    return blocks * kv.block_bytes;
  }

  DeviceArena& arena_;
  std::vector<Operand> operands_;
};

class HostedOps final : public WrappedOps {
 public:
  explicit HostedOps(std::unique_ptr<Ops> ops) : WrappedOps(*ops), ops_(std::move(ops)) {}

  void embed(TensorView out, const Matrix& table, std::span<const std::int32_t> ids) override {
    with(out, [&](Staged& staged) { ops_->embed(staged.tensor(out), table, ids); });
  }
  void norm(TensorView out, ConstTensorView x, const Norm& norm) override {
    with(out, [&](Staged& staged) {
      ops_->norm(staged.tensor(out), staged.tensor(x), staged.norm(norm, x.cols));
    });
  }
  void norm_parts(TensorView inout, const RowParts& parts, const Norm& norm) override {
    with(inout, [&](Staged& staged) {
      ops_->norm_parts(staged.tensor(inout), parts, staged.norm(norm, parts.width));
    });
  }
  void convert(TensorView out, ConstTensorView x) override {
    with(out, [&](Staged& staged) { ops_->convert(staged.tensor(out), staged.tensor(x)); });
  }
  void matmul(TensorView out, const ProductInput& x, const Matrix& w, const float* bias) override {
    with(out, [&](Staged& staged) {
      ops_->matmul(staged.tensor(out), staged.tensor(plain_rows(x)), w, staged.floats(bias, w.n()));
    });
  }
  void matmul_add(TensorView inout, const ProductInput& x, const Matrix& w,
                  const float* bias) override {
    with(inout, [&](Staged& staged) {
      ops_->matmul_add(staged.tensor(inout), staged.tensor(plain_rows(x)), w,
                       staged.floats(bias, w.n()));
    });
  }
  void matmul_partial(TensorView out, const ProductInput& x, const Matrix& w) override {
    with(out, [&](Staged& staged) {
      ops_->matmul_partial(staged.tensor(out), staged.tensor(plain_rows(x)), w);
    });
  }
  void add_partials(TensorView inout, std::span<const float* const> parts,
                    std::span<const std::int32_t> merges, const float* bias) override {
    with(inout, [&](Staged& staged) {
      std::vector<const float*> places;
      for (const float* part : parts) {
        places.push_back(staged.floats(part, inout.rows * inout.cols));
      }
      ops_->add_partials(staged.tensor(inout), places, merges, staged.floats(bias, inout.cols));
    });
  }
  void rope_and_store_kv(TensorView q_out, ConstTensorView qkv, const float* cos_sin,
                         const AttentionShape& shape, const KvLayer& kv,
                         std::span<const SequenceRows> sequences) override {
    with(q_out, [&](Staged& staged) {
      ops_->rope_and_store_kv(staged.tensor(q_out), staged.tensor(qkv),
                              staged.floats(cos_sin, q_out.rows * shape.rotary_dim), shape,
                              staged.cache(kv, sequences), sequences);
      staged.bring_back(kv, sequences);
    });
  }
  void attention(TensorView out, ConstTensorView q, const AttentionShape& shape, const KvLayer& kv,
                 std::span<const SequenceRows> sequences) override {
    with(out, [&](Staged& staged) {
      ops_->attention(staged.tensor(out), staged.tensor(q), shape, staged.cache(kv, sequences),
                      sequences);
    });
  }
  void activate(TensorView out, ConstTensorView x, Activation activation) override {
    with(out,
         [&](Staged& staged) { ops_->activate(staged.tensor(out), staged.tensor(x), activation); });
  }
  ProductInput matmul_activate(TensorView out, const ProductInput& x,
                               const ActivatedProduct& product) override {
    with(out, [&](Staged& staged) {
      ops_->matmul_activate(staged.tensor(out), staged.tensor(plain_rows(x)),
                            {.w = product.w,
                             .bias = staged.floats(product.bias, product.w.n()),
                             .activation = product.activation,
                             .room = staged.tensor(product.room)});
    });
    return out;
  }
  void scale(TensorView inout, float factor) override {
    with(inout, [&](Staged& staged) { ops_->scale(staged.tensor(inout), factor); });
  }
  void add_scaled(TensorView inout, ConstTensorView x, float factor) override {
    with(inout,
         [&](Staged& staged) { ops_->add_scaled(staged.tensor(inout), staged.tensor(x), factor); });
  }
  void soft_cap(TensorView inout, float cap) override {
    with(inout, [&](Staged& staged) { ops_->soft_cap(staged.tensor(inout), cap); });
  }
  void row_statistics(std::span<RowStatistics> out, ConstTensorView logits) override {
    Staged staged(ops_->arena());
    ops_->row_statistics(out, staged.tensor(logits));
  }
  void best_logits(std::span<BestLogit> out, ConstTensorView x, const Matrix& w,
                   const LogitChange& change, TensorView room) override {
    Staged staged(ops_->arena());
    ops_->best_logits(out, staged.tensor(x), w, change, staged.tensor(room));
  }
  std::span<const RowLeaders> leading_logits(ConstTensorView logits,
                                             std::span<const float> temperatures) override {
    Staged staged(ops_->arena());
    return ops_->leading_logits(staged.tensor(logits), temperatures);
  }

 private:
  // call(operands), then its result.
  template <class Call>
  void with(const TensorView& result, const Call& call) {
    Staged staged(ops_->arena());
    call(staged);
    staged.bring_back(result);
  }

  std::unique_ptr<Ops> ops_;
};

}  // namespace

std::unique_ptr<Ops> make_hosted_cuda_ops(const CudaOptions& options) {
  return std::make_unique<HostedOps>(make_cuda_ops(options));
}

}  // namespace headrace::testing_ops
