// Whether rows have the same bits: what the choice of a product's algorithm rests on.
//
// Performance: bound by memory, 4 bytes an element read; a thread takes four columns and goes down
// the rows. It runs only while weights are loaded, a few milliseconds for a model.
#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"

namespace headrace {

struct CompareRowsLaunch {
  const float* rows = nullptr;      // [num_rows, cols]
  const float* expected = nullptr;  // [cols]
  float* differs = nullptr;         // [cols]: becomes 1 where any row has other bits
  std::int64_t num_rows = 0;
  std::int64_t cols = 0;
};
void launch_compare_rows(const CompareRowsLaunch& args, Stream stream);

}  // namespace headrace
