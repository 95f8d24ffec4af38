// `headrace` with a fault in it: the linker puts this make_cpu_ops in front of the real one
// (--wrap), and the operators it gives fail where FAULT says so: "RANK CALL ACTION", for example "1
// 200 throw". A call is one operator on one rank; actions are throw, kill, stop (the process
// hangs), exit, segv, oom.
#include <csignal>
#include <cstdlib>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

#include "kernels/wrapped_ops.h"

namespace headrace {
namespace {

struct Fault {
  int rank = -1;
  long call = 0;
  std::string action;
};

Fault fault_from_environment() {
  Fault fault;
  const char* text = std::getenv("FAULT");
  if (text != nullptr) std::istringstream(text) >> fault.rank >> fault.call >> fault.action;
  return fault;
}

int own_rank() {
  const char* text = std::getenv("OMPI_COMM_WORLD_RANK");
  return text == nullptr ? 0 : std::atoi(text);
}

class FaultyOps : public WrappedOps {
 public:
  explicit FaultyOps(std::unique_ptr<Ops> real) : WrappedOps(*real), real_(std::move(real)) {}

  void embed(TensorView out, const Matrix& table, std::span<const std::int32_t> ids) override {
    count();
    real_->embed(out, table, ids);
  }
  void norm(TensorView out, ConstTensorView x, const Norm& norm) override {
    count();
    real_->norm(out, x, norm);
  }
  void norm_parts(TensorView inout, const RowParts& parts, const Norm& norm) override {
    count();
    real_->norm_parts(inout, parts, norm);
  }
  void convert(TensorView out, ConstTensorView x) override {
    count();
    real_->convert(out, x);
  }
  bool norms_inputs() const override { return real_->norms_inputs(); }
  void matmul(TensorView out, const ProductInput& x, const Matrix& w, const float* bias) override {
    count();
    real_->matmul(out, x, w, bias);
  }
  void matmul_add(TensorView inout, const ProductInput& x, const Matrix& w,
                  const float* bias) override {
    count();
    real_->matmul_add(inout, x, w, bias);
  }
  void matmul_partial(TensorView out, const ProductInput& x, const Matrix& w) override {
    count();
    real_->matmul_partial(out, x, w);
  }
  void add_partials(TensorView inout, std::span<const float* const> parts,
                    std::span<const std::int32_t> merges, const float* bias) override {
    count();
    real_->add_partials(inout, parts, merges, bias);
  }
  void rope_and_store_kv(TensorView q_out, ConstTensorView qkv, const float* cos_sin,
                         const AttentionShape& shape, const KvLayer& kv,
                         std::span<const SequenceRows> sequences) override {
    count();
    real_->rope_and_store_kv(q_out, qkv, cos_sin, shape, kv, sequences);
  }
  void attention(TensorView out, ConstTensorView q, const AttentionShape& shape, const KvLayer& kv,
                 std::span<const SequenceRows> sequences) override {
    count();
    real_->attention(out, q, shape, kv, sequences);
  }
  void activate(TensorView out, ConstTensorView x, Activation activation) override {
    count();
    real_->activate(out, x, activation);
  }
  ProductInput matmul_activate(TensorView out, const ProductInput& x,
                               const ActivatedProduct& product) override {
    count();
    return real_->matmul_activate(out, x, product);
  }
  void scale(TensorView inout, float factor) override {
    count();
    real_->scale(inout, factor);
  }
  void add_scaled(TensorView inout, ConstTensorView x, float factor) override {
    count();
    real_->add_scaled(inout, x, factor);
  }
  void soft_cap(TensorView inout, float cap) override {
    count();
    real_->soft_cap(inout, cap);
  }
  void row_statistics(std::span<RowStatistics> out, ConstTensorView logits) override {
    count();
    real_->row_statistics(out, logits);
  }
  void best_logits(std::span<BestLogit> out, ConstTensorView x, const Matrix& w,
                   const LogitChange& change, TensorView room) override {
    count();
    real_->best_logits(out, x, w, change, room);
  }
  std::span<const RowLeaders> leading_logits(ConstTensorView logits,
                                             std::span<const float> temperatures) override {
    count();
    return real_->leading_logits(logits, temperatures);
  }

 private:
  void count() {
    if (fault_.rank != own_rank() || ++calls_ != fault_.call) return;
    if (fault_.action == "throw") throw std::runtime_error("the planted fault");
    if (fault_.action == "oom") throw std::bad_alloc();
    if (fault_.action == "kill") std::raise(SIGKILL);
    if (fault_.action == "stop") std::raise(SIGSTOP);
    if (fault_.action == "segv") std::raise(SIGSEGV);
    if (fault_.action == "exit") std::_Exit(9);
    throw std::logic_error("FAULT names no known action: " + fault_.action);
  }

  std::unique_ptr<Ops> real_;
  Fault fault_ = fault_from_environment();
  long calls_ = 0;
};

}  // namespace

// The names that --wrap gives to the real function and to its replacement.
std::unique_ptr<Ops> real_make_cpu_ops(DType dtype, ThreadPool& pool, std::string_view isa) asm(
    "__real__ZN8headrace12make_cpu_opsENS_5DTypeERNS_10ThreadPoolESt17basic_string_viewIcSt11char_"
    "traitsIcEE");
std::unique_ptr<Ops> wrapped_make_cpu_ops(DType dtype, ThreadPool& pool, std::string_view isa) asm(
    "__wrap__ZN8headrace12make_cpu_opsENS_5DTypeERNS_10ThreadPoolESt17basic_string_viewIcSt11char_"
    "traitsIcEE");

std::unique_ptr<Ops> wrapped_make_cpu_ops(DType dtype, ThreadPool& pool, std::string_view isa) {
  return std::make_unique<FaultyOps>(real_make_cpu_ops(dtype, pool, isa));
}

}  // namespace headrace
