// How a stored tensor relates to the canonical ones that it holds: fused, interleaved, transposed
// or shifted. Reading undoes it, so that nothing behind a Checkpoint knows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/config.h"

namespace headrace {

/// Which of the tensors that a stored one holds. Queries, keys and values are fused in this order,
/// gates come before ups.
enum class FusedPart { kWhole, kQuery, kKey, kValue, kGate, kUp };

enum class StoredForm {
  kPlain,
  /// The rows of each head stand in the pairs that RoPE turns together: row 2i is the canonical row
  /// i, row 2i + 1 the canonical row head_dim / 2 + i.
  kInterleavedHeads,
  /// Queries, keys and values are fused group by group: the query heads of a KV head, its key, its
  /// value.
  kHeadGroups,
  /// [columns, rows].
  kTransposed,
  /// Values are one less than they count.
  kOneLess,
  /// A matrix whose rows, one behind the other, are the canonical vector.
  kVectorInRows,
};

struct StoredLayout {
  FusedPart part = FusedPart::kWhole;
  StoredForm form = StoredForm::kPlain;
};

/// Where the rows of a matrix (the values of a vector) lie among the stored ones: in runs of
/// `length`, the first at `first`, each `stride` behind the one before.
struct RowRuns {
  std::int64_t first = 0;
  std::int64_t length = 0;
  std::int64_t stride = 0;
};

/// Calls take(offset, count, stored) for each piece of rows [begin, end) that lies in one run:
/// `count` rows, the first of them `offset` behind `begin` and stored as row `stored`.
template <class Take>
void for_each_run(const RowRuns& runs, std::int64_t begin, std::int64_t end, const Take& take) {
  for (std::int64_t row = begin; row < end;) {
    const std::int64_t in_run = row % runs.length;
    const std::int64_t count = std::min(end - row, runs.length - in_run);
    take(row - begin, count, runs.first + row / runs.length * runs.stride + in_run);
    row += count;
  }
}

/// A part of a fused tensor.
struct PartRows {
  RowRuns runs;
  std::int64_t rows = 0;         // of the part
  std::int64_t stored_rows = 0;  // of all parts together
};

/// layout.part is not kWhole.
PartRows rows_of_part(const ModelConfig& model, const StoredLayout& layout);

}  // namespace headrace
