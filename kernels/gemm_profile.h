// Which algorithm each product of a model takes on a kind of GPU, as trials on it have shown
// (kernels/cuda/gemm_algorithm.h): kept for as long as operators live, and in device profiles
// (launch/device_profile.h) from one run to the next. Nothing of CUDA is needed to include this.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "kernels/tensor.h"

namespace headrace {

enum class GemmRows : std::uint8_t {
  kSteady,   // the bits of a row depend on nothing but the row
  kFilled,   // only where there are always `most_rows` rows: fewer have to be filled up
  kUnsteady  // they depend on the number of rows
};

/// What an algorithm is for.
struct GemmShape {
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t stride = 0;  // elements between rows of x and w
  DType dtype = DType::kBFloat16;
  std::uint32_t alignment = 0;   // bytes that all operands are multiples of: 2, 4, 8 or 16
  std::int64_t filled_rows = 0;  // as many as there always may be; 0: nothing is filled up

  friend bool operator==(const GemmShape&, const GemmShape&) = default;
  friend bool operator<(const GemmShape& a, const GemmShape& b) {
    return std::tie(a.n, a.k, a.stride, a.dtype, a.alignment, a.filled_rows) <
           std::tie(b.n, b.k, b.stride, b.dtype, b.alignment, b.filled_rows);
  }
};

struct GemmAnswer {
  // cublasLtMatmulAlgo_t, which means the same to the same version of the library.
  std::array<std::uint64_t, 8> algorithm{};
  GemmRows rows = GemmRows::kSteady;
  std::int64_t most_rows = 0;  // for which `rows` has been seen to hold

  friend bool operator==(const GemmAnswer&, const GemmAnswer&) = default;
};

using GemmAnswers = std::map<GemmShape, GemmAnswer>;

/// The rows of a trial at most, and so of an answer.
inline constexpr std::int64_t kMostTriedRows = 1024;

/// What was known of one device before, and what its operators found out since. Used by the thread
/// that makes matrices.
class GemmProfile {
 public:
  explicit GemmProfile(GemmAnswers known = {}) : known_(std::move(known)) {}

  /// Null where it is not known.
  const GemmAnswer* find(const GemmShape& shape) const {
    const auto entry = known_.find(shape);
    return entry == known_.end() ? nullptr : &entry->second;
  }

  /// Products have taken what was known.
  void count_taken() { ++num_taken_; }
  /// It was not known, or could not be taken.
  void add_found(const GemmShape& shape, const GemmAnswer& answer) {
    known_[shape] = answer;
    found_[shape] = answer;
  }

  int num_known() const { return static_cast<int>(known_.size()); }
  int num_taken() const { return num_taken_; }
  const GemmAnswers& found() const { return found_; }

 private:
  GemmAnswers known_;
  GemmAnswers found_;
  int num_taken_ = 0;
};

}  // namespace headrace
