#include "kernels/cuda/gemm.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "kernels/cuda/check.h"
#include "kernels/cuda/gemm_algorithm.h"

namespace headrace {

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(GemmAnswer::algorithm));

struct CudaGemm::Pinned {
  Pinned(const GemmArgs& shape, DType dtype) : plan(shape, dtype) {}

  GemmPlan plan;
  GemmAlgorithm chosen;
};

CudaGemm::CudaGemm(GemmOptions options, CudaArena& arena)
    : options_(std::move(options)), arena_(arena), workspace_(options_.workspace_bytes) {}

CudaGemm::~CudaGemm() {
  pinned_.clear();
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

// x and out are left out: the algorithm must not depend on where a step's tensors lie.
CudaGemm::Key CudaGemm::key_of(const GemmArgs& args) const {
  constexpr std::uintptr_t kWidestLoad = 16;
  const std::uintptr_t all =
      kWidestLoad | reinterpret_cast<std::uintptr_t>(args.w) |
      static_cast<std::uintptr_t>(args.stride) * dtype_bytes(options_.dtype) |
      static_cast<std::uintptr_t>(args.n) * sizeof(float);
  const auto alignment = static_cast<std::uint32_t>(std::uintptr_t{1} << std::countr_zero(all));
  return {args.n, args.k, args.stride, alignment};
}

GemmQueue CudaGemm::queue() const {
  return {.handle = handle_,
          .stream = arena_.stream(),
          .workspace = {workspace_.data(), workspace_.bytes() / 2}};
}

std::span<std::byte> CudaGemm::room_for_rows() const {
  const std::size_t begin = arena_bytes(workspace_.bytes() / 2);
  return {workspace_.data() + begin, workspace_.bytes() - begin};
}

// As many as there is room for beside what comes out of them, and no more than an algorithm is
// meant for.
std::int64_t CudaGemm::filled_rows(const GemmArgs& args) const {
  const std::size_t row_bytes =
      arena_bytes(static_cast<std::size_t>(args.stride) * dtype_bytes(options_.dtype)) +
      static_cast<std::size_t>(args.n) * sizeof(float);
  return std::min(kPinnedRows, static_cast<std::int64_t>(room_for_rows().size() / row_bytes));
}

GemmShape CudaGemm::shape_of(const GemmArgs& args) const {
  return {.n = args.n,
          .k = args.k,
          .stride = args.stride,
          .dtype = options_.dtype,
          .alignment = std::get<3>(key_of(args)),
          .filled_rows = options_.deterministic ? filled_rows(args) : 0};
}

// What has no products does without.
void CudaGemm::require_library() {
  if (handle_ == nullptr) HR_CUBLAS(cublasLtCreate(&handle_));
}

bool CudaGemm::pin_known(const GemmArgs& args) {
  if (options_.profile == nullptr) return false;
  const GemmAnswer* known = options_.profile->find(shape_of(args));
  if (known == nullptr) return false;
  require_library();
  auto pinned = std::make_unique<Pinned>(args, options_.dtype);
  pinned->chosen = {.rows = known->rows, .most_rows = known->most_rows};
  std::copy(known->algorithm.begin(), known->algorithm.end(), pinned->chosen.algorithm.data);
  const std::int64_t rows = known->rows == GemmRows::kFilled ? known->most_rows : kPinnedRows;
  if (!pinned->plan.takes(queue(), pinned->chosen.algorithm, rows)) {
    if (options_.warn) {
      options_.warn("cuBLASLt refuses the device profile's algorithm for products of " +
                    std::to_string(args.n) + " x " + std::to_string(args.k) +
                    ": one is looked for anew");
    }
    return false;
  }
  options_.profile->count_taken();
  keep(args, std::move(pinned));
  return true;
}

void CudaGemm::keep(const GemmArgs& args, std::unique_ptr<Pinned> pinned) {
  if (pinned->chosen.rows != GemmRows::kSteady) warn(args, *pinned);
  pinned_.emplace(key_of(args), std::move(pinned));
}

void CudaGemm::pin(const GemmArgs& args, std::span<std::byte> scratch) {
  if (is_pinned(args)) return;
  require_library();
  const GemmShape shape = shape_of(args);
  auto pinned = std::make_unique<Pinned>(args, options_.dtype);
  const GemmProbe probe{.plan = pinned->plan,
                        .queue = queue(),
                        .arena = arena_,
                        .inputs = room_for_rows(),
                        .outputs = scratch,
                        .filled_rows = shape.filled_rows};
  pinned->chosen = choose_algorithm(probe, args, options_.dtype, shape.alignment);
  if (options_.profile != nullptr) {
    GemmAnswer answer{.rows = pinned->chosen.rows, .most_rows = pinned->chosen.most_rows};
    std::ranges::copy(pinned->chosen.algorithm.data, answer.algorithm.begin());
    options_.profile->add_found(shape, answer);
  }
  keep(args, std::move(pinned));
}

void CudaGemm::warn(const GemmArgs& args, const Pinned& pinned) {
  if (warned_ || !options_.warn) return;
  warned_ = true;
  const std::string shape = std::to_string(args.n) + " x " + std::to_string(args.k);
  const std::string rows = std::to_string(pinned.chosen.most_rows);
  options_.warn(
      "cuBLASLt has no algorithm for products of " + shape +
      " whose rows have the same bits among any number of others: " +
      (pinned.chosen.rows == GemmRows::kFilled
           ? "rows are taken " + rows + " at a time and filled up, which slows down small steps"
           : "answers depend on the batch; --deterministic prevents that"));
}

void CudaGemm::multiply(const GemmArgs& args) {
  if (args.m == 0 || args.n == 0) return;
  const Key key = key_of(args);
  const std::uintptr_t misaligned =
      (reinterpret_cast<std::uintptr_t>(args.x) | reinterpret_cast<std::uintptr_t>(args.out)) %
      std::get<3>(key);
  if (misaligned != 0) {
    throw std::invalid_argument("matmul: tensors on the GPU have to begin at multiples of " +
                                std::to_string(std::get<3>(key)) + " bytes here");
  }
  const auto entry = pinned_.find(key);
  if (entry == pinned_.end()) {
    throw std::logic_error("a product of " + std::to_string(args.n) + " x " +
                           std::to_string(args.k) + " whose algorithm was not chosen before");
  }
  const Pinned& pinned = *entry->second;
  const bool fills = pinned.chosen.rows == GemmRows::kFilled;
  // What was seen to hold for so many rows is relied on for no more.
  const std::int64_t most = fills || options_.deterministic ? pinned.chosen.most_rows : args.m;
  GemmArgs piece = args;
  for (std::int64_t row = 0; row < args.m; row += most) {
    piece.m = std::min(most, args.m - row);
    piece.out = args.out + row * args.n;
    piece.x = args.x + static_cast<std::size_t>(row * args.stride) * dtype_bytes(options_.dtype);
    if (fills && piece.m < most) {
      run_filled(piece, pinned);
    } else {
      run(piece, pinned);
    }
  }
}

void CudaGemm::run(const GemmArgs& args, const Pinned& pinned) const {
  check_cublas(pinned.plan.run(args, queue(), pinned.chosen.algorithm), "cublasLtMatmul", __FILE__,
               __LINE__);
}

// The rows that fill up hold what was there before: no row has anything of another's values.
void CudaGemm::run_filled(const GemmArgs& args, const Pinned& pinned) const {
  const std::span<std::byte> room = room_for_rows();
  const std::size_t element = dtype_bytes(options_.dtype);
  const std::size_t x_bytes =
      static_cast<std::size_t>((args.m - 1) * args.stride + args.k) * element;
  const std::size_t out_bytes = static_cast<std::size_t>(args.m * args.n) * sizeof(float);
  const auto copy = [&](void* to, const void* from, std::size_t bytes) {
    HR_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, arena_.stream()));
  };
  GemmArgs filled = args;
  filled.m = pinned.chosen.most_rows;
  filled.x = room.data();
  filled.out = reinterpret_cast<float*>(
      room.data() + arena_bytes(static_cast<std::size_t>(filled.m * args.stride) * element));
  copy(room.data(), args.x, x_bytes);
  if (args.accumulate) copy(filled.out, args.out, out_bytes);
  run(filled, pinned);
  copy(args.out, filled.out, out_bytes);
}

}  // namespace headrace
