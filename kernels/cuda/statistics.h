// Facts of rows of logits: of their log-softmax, and their best. They have the bits of the
// reference backend: for the former half a warp takes a slice of 1,024 ids, its 16 lanes the
// slice's 16 chains.
//
// Performance: bound by memory where rows are many: 4 bytes an id from memory and again from the L2
// cache (a row of 128,000 ids is 0.5 MB). A block works on one row, so a step of few rows is bound
// by what one multiprocessor can load, about 60 GB/s: 20 us for 128,000 ids. To meet from 264 rows
// on: 60 % of the memory's rate (A100 80GB 2.0 TB/s, H100 3.35, H200 4.8). The best logit takes one
// pass instead of two, and is bound likewise.
#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/ops.h"

namespace headrace {

struct StatisticsLaunch {
  const float* logits = nullptr;  // [rows, vocab]
  RowStatistics* out = nullptr;   // [rows], on the device
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
};
/// Throws std::invalid_argument for a vocabulary of more than 4 million ids.
void launch_row_statistics(const StatisticsLaunch& args, Stream stream);

struct BestLogitsLaunch {
  const float* logits = nullptr;  // [rows, vocab]
  BestLogit* out = nullptr;       // [rows], on the device
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
};
/// Likewise.
void launch_best_logits(const BestLogitsLaunch& args, Stream stream);

}  // namespace headrace
