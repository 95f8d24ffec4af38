#include "model/quantizer/calibration_text.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace headrace {
namespace {

constexpr int kBlockTokens = 16;

}  // namespace

CalibrationText::CalibrationText(std::vector<TokenId> tokens, int passage_tokens)
    : tokens_(std::move(tokens)), passage_tokens_(passage_tokens) {}

int CalibrationText::num_passages() const {
  return static_cast<int>((num_tokens() + passage_tokens_ - 1) / passage_tokens_);
}

IndexRange CalibrationText::passage(int index) const {
  const int begin = index * passage_tokens_;
  return {begin, std::min(begin + passage_tokens_, static_cast<int>(num_tokens()))};
}

std::span<const TokenId> CalibrationText::tokens(IndexRange range) const {
  return std::span(tokens_).subspan(static_cast<std::size_t>(range.begin),
                                    static_cast<std::size_t>(range.size()));
}

StageSize CalibrationText::stage_size(int max_logit_rows) const {
  return {.max_rows = passage_tokens_,
          .max_logit_rows = max_logit_rows,
          .max_context = passage_tokens_,
          .num_blocks = (passage_tokens_ + kBlockTokens - 1) / kBlockTokens,
          .block_tokens = kBlockTokens};
}

HiddenStates::HiddenStates(const CalibrationText& text, int hidden_size)
    : text_(text),
      hidden_size_(hidden_size),
      values_(static_cast<std::size_t>(text.num_tokens() * hidden_size)) {}

TensorView HiddenStates::passage(int index) {
  const IndexRange range = text_.passage(index);
  return {.data = reinterpret_cast<std::byte*>(values_.data() +
                                               std::int64_t{range.begin} * hidden_size_),
          .rows = range.size(),
          .cols = hidden_size_,
          .dtype = DType::kFloat32};
}

void HiddenStates::run(StageModel& part) {
  std::vector<std::int32_t> blocks(static_cast<std::size_t>(part.size().num_blocks));
  std::iota(blocks.begin(), blocks.end(), 0);
  for (int p = 0; p < text_.num_passages(); ++p) {
    const IndexRange range = text_.passage(p);
    const SequenceRows rows{.first_row = 0,
                            .num_rows = range.size(),
                            .first_position = 0,
                            .blocks = blocks.data(),
                            .max_length = range.size()};
    const std::span<const SequenceRows> sequences(&rows, 1);
    part.forward(passage(p), text_.tokens(range), RowsOfGroups(&sequences, 1));
  }
}

HeadOutcome run_head(StageModel& head, const CalibrationText& text, HiddenStates& hidden) {
  HeadOutcome outcome;
  std::vector<std::int32_t> rows;
  for (int p = 0; p < text.num_passages(); ++p) {
    const IndexRange range = text.passage(p);
    const std::span<const TokenId> tokens = text.tokens(range);
    for (int first = 0; first + 1 < range.size(); first += head.size().max_logit_rows) {
      const int count = std::min(head.size().max_logit_rows, range.size() - 1 - first);
      rows.resize(static_cast<std::size_t>(count));
      std::iota(rows.begin(), rows.end(), first);
      const StageModel::Logits logits = head.logits(hidden.passage(p), rows);
      for (int r = 0; r < count; ++r) {
        const float* row = logits.values.f32() + r * logits.values.cols;
        const int next_place = first + r + 1;
        const TokenId next = tokens[static_cast<std::size_t>(next_place)];
        outcome.likeliest.push_back(
            static_cast<TokenId>(std::max_element(row, row + logits.values.cols) - row));
        outcome.log_probability +=
            static_cast<double>(row[next]) -
            static_cast<double>(logits.statistics[static_cast<std::size_t>(r)].log_sum_exp);
      }
    }
  }
  return outcome;
}

}  // namespace headrace
