// Rounding up or down by chance, with the odds that make what a weight becomes what it was, on the
// average (Gupta et al., Deep Learning with Limited Numerical Precision, 2015). Each single weight
// is farther off than with rounding to the nearest, but errors of a row have no direction in
// common.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/quantize.h"

namespace headrace {

class StochasticRounding {
 public:
  /// Of one tensor. What chance decides depends on seed, name, row and column alone.
  StochasticRounding(std::uint64_t seed, std::string_view tensor);

  /// quantize_row() of row number `row`. type: int8 or int4.
  void quantize(std::int64_t row, const float* values, std::span<const IntegerUnit> units,
                Quantization type, IntegerRow& out) const;

 private:
  std::uint64_t seed_;
};

}  // namespace headrace
