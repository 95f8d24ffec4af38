// e^x for weights of a soft-max, several at a time (kernels/exponential.h has one).
#pragma once

#include <cstdint>

#include "kernels/exponential.h"

namespace headrace {

/// Four floats in a vector register, and their bits: what x86-64 and AArch64 have at least.
using FloatLanes = float __attribute__((vector_size(16)));
using BitLanes = std::uint32_t __attribute__((vector_size(16)));

/// The same for each lane as for one float, with the same bits.
inline FloatLanes exp_nonpositive(const FloatLanes& x) {
  return detail::exp_nonpositive<FloatLanes, BitLanes>(x);
}

}  // namespace headrace
