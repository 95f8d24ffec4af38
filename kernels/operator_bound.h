// The least time that an operator can take on a machine: what it has to multiply at the measured
// peak, or what it has to read from memory at the measured bandwidth, whichever is more. What a job
// took beside the sum of these says how much a faster program could win at all.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/ops.h"
#include "kernels/peak.h"

namespace headrace {

/// Weights, keys and values come from memory; what operators hand to each other may stay in caches,
/// so it counts for nothing here.
struct OperatorWork {
  double flops = 0.0;
  double bytes = 0.0;
};

/// x [rows, k] times a matrix's transpose.
OperatorWork product_work(std::int64_t rows, const Matrix& w);

/// Of all heads of the shape. Keys and values of a sequence are read once, whatever its rows;
/// cache_dtype: what they are kept in where shape.kv_type does not say.
OperatorWork attention_work(const AttentionShape& shape, DType cache_dtype,
                            std::span<const SequenceRows> sequences);

/// What is multiplied: each kind has a peak of its own.
enum class Arithmetic : std::uint8_t { kFloat32, kBFloat16, kInt8 };

class MachineBound {
 public:
  /// Of a machine of which nothing is known: nothing takes any time.
  MachineBound() = default;
  explicit MachineBound(const MachinePeaks& peaks) : peaks_(peaks) {}

  /// Nanoseconds; 0 where a peak that it takes is not known.
  std::int64_t least_ns(const OperatorWork& work, Arithmetic arithmetic) const;

 private:
  MachinePeaks peaks_;
};

}  // namespace headrace
