#include "model/checkpoint/stored_layout.h"

#include <stdexcept>

namespace headrace {
namespace {

PartRows one_run(std::int64_t first, std::int64_t rows, std::int64_t stored_rows) {
  return {.runs = {.first = first, .length = rows, .stride = rows},
          .rows = rows,
          .stored_rows = stored_rows};
}

// Part by part, or group by group of `num_groups`: a group is a small tensor of its own.
PartRows rows_of_heads(const ModelConfig& model, FusedPart part, int num_groups) {
  const std::int64_t queries = std::int64_t{model.num_heads} * model.head_dim / num_groups;
  const std::int64_t keys = std::int64_t{model.num_kv_heads} * model.head_dim / num_groups;
  const std::int64_t group = queries + 2 * keys;
  const std::int64_t length = part == FusedPart::kQuery ? queries : keys;
  const std::int64_t first = part == FusedPart::kQuery ? 0
                             : part == FusedPart::kKey ? queries
                                                       : queries + keys;
  return {.runs = {.first = first, .length = length, .stride = group},
          .rows = length * num_groups,
          .stored_rows = group * num_groups};
}

}  // namespace

PartRows rows_of_part(const ModelConfig& model, const StoredLayout& layout) {
  const std::int64_t inner = model.intermediate_size;
  switch (layout.part) {
    case FusedPart::kQuery:
    case FusedPart::kKey:
    case FusedPart::kValue:
      return rows_of_heads(model, layout.part,
                           layout.form == StoredForm::kHeadGroups ? model.num_kv_heads : 1);
    case FusedPart::kGate:
      return one_run(0, inner, 2 * inner);
    case FusedPart::kUp:
      return one_run(inner, inner, 2 * inner);
    case FusedPart::kWhole:
      break;
  }
  throw std::logic_error("a tensor that is stored whole has no part");
}

}  // namespace headrace
