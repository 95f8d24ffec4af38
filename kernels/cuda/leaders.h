// What the draw of a token needs of a row of logits, so that the row itself can stay on the device:
// 8 KB instead of 4 bytes an id (Llama-3.1's 128,256 ids: 513 KB).
//
// Performance: a block works on one row and reads it six times (maximum, sum of weights, counts at
// two rounds of floors, its own count, leaders), the first time from memory and then from the L2
// cache. Up to 132 rows are bound by what one multiprocessor can have on its way, 8 KB each 0.3 us:
// about 20 us a pass and 120 us in all for 128,000 ids, where each row's way over PCIe and through
// the host's caches takes 60 us. To meet from 264 rows on, which no cache holds: six reads at 60 %
// of the memory's rate (A100 80GB 2.0 TB/s, H100 3.35, H200 4.8).
#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/ops.h"

namespace headrace {

/// Leaders that a row has room for.
inline constexpr int kMostLeaders = 1024;

/// RowLeaders as a row of the device gives them; the ids ascend in runs.
struct LeadersRecord {
  float max = 0.0F;
  float total = 0.0F;
  float floor = 0.0F;
  std::int32_t count = 0;  // the leading ones that are there
  LeadingLogit leading[kMostLeaders];
};

/// All on the device.
struct LeadersLaunch {
  const float* logits = nullptr;        // [rows, vocab]
  const float* temperatures = nullptr;  // [rows]; 0 for a row that is not wanted
  LeadersRecord* out = nullptr;         // [rows]
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
};
/// Throws std::invalid_argument for a vocabulary of more than 4 million ids.
void launch_leaders(const LeadersLaunch& args, Stream stream);

}  // namespace headrace
