#include "runtime/schedule/admission_control.h"

#include <algorithm>
#include <cmath>

#include "runtime/schedule/sequence_blocks.h"

namespace headrace {
namespace {

// The prior counts as this many sequences that used all their tokens; after kWindow sequences the
// estimate forgets, so that it follows a file whose parts differ.
constexpr int kPriorWeight = 8;
constexpr int kWindow = 64;
constexpr double kStepBack = 0.1;

// Sequences that blocks can hold at a time when each has generated output_share of its tokens.
double sequences_in_blocks(const SchedulerLimits& limits, const Workload& workload,
                           double output_share) {
  const double tokens = (static_cast<double>(workload.num_prompt_tokens) +
                         output_share * workload.num_output_tokens) /
                        static_cast<double>(workload.num_sequences);
  double blocks = 0;
  for (int g = 0; g < limits.kv.size(); ++g) {
    const int most = most_held_tokens(limits, g);
    const double held = most == 0 ? tokens : std::min<double>(tokens, most);
    blocks += held / tokens_per_block(limits, g) + 0.5;
  }
  return limits.num_blocks / blocks;
}

}  // namespace

void OutputEstimate::sequence_ended(int num_generated, int max_tokens) {
  if (max_tokens < 1) return;
  num_seen_ = std::min(num_seen_ + 1, kWindow);
  const double used = static_cast<double>(num_generated) / max_tokens;
  fraction_ += (used - fraction_) / (kPriorWeight + num_seen_);
}

void OutputEstimate::blocks_ran_out() {
  fraction_ = std::min(1.0, fraction_ + kStepBack);
}

int OutputEstimate::remaining(int num_generated, int max_tokens) const {
  const int allowed = std::max(0, max_tokens - num_generated);
  const int expected = static_cast<int>(std::ceil(max_tokens * fraction_)) - num_generated;
  // One that outlived the expectation is given a block's worth more rather than nothing.
  constexpr int kOverdue = 16;
  return std::clamp(expected, std::min(allowed, kOverdue), allowed);
}

KvProjection::KvProjection(const SchedulerLimits& limits) {
  for (int g = 0; g < limits.kv.size(); ++g) {
    groups_.push_back({.block_tokens = tokens_per_block(limits, g),
                       .max_held_tokens = most_held_tokens(limits, g)});
  }
  sequences_.reserve(static_cast<std::size_t>(limits.max_num_seqs) + 1);
}

std::vector<KvProjection::Item>::iterator KvProjection::insert(Item item) {
  const auto place =
      std::upper_bound(sequences_.begin(), sequences_.end(), item,
                       [](const Item& a, const Item& b) { return a.remaining > b.remaining; });
  return sequences_.insert(place, item);
}

void KvProjection::add(int num_tokens, int remaining) {
  insert({num_tokens, remaining});
}

// Blocks of a group that the first `count` sequences hold after so many rounds; each may leave its
// last one part empty. `tokens` is what they have now.
std::int64_t KvProjection::blocks_after(int rounds, const Group& group, std::size_t count,
                                        std::int64_t tokens) const {
  const auto num_sequences = static_cast<std::int64_t>(count);
  std::int64_t held = tokens + num_sequences * rounds;
  if (group.max_held_tokens > 0) {
    held = 0;
    for (std::size_t i = 0; i < count; ++i) {
      held += std::min(sequences_[i].num_tokens + rounds, group.max_held_tokens);
    }
  }
  return (held + num_sequences * (group.block_tokens - 1)) / group.block_tokens;
}

std::int64_t KvProjection::peak_blocks() const {
  std::int64_t peak = 0;
  std::int64_t tokens = 0;
  std::size_t count = 0;
  for (const Item& item : sequences_) {
    tokens += item.num_tokens;
    ++count;
    // Just before this one ends all counted so far live.
    std::int64_t blocks = 0;
    for (const Group& group : groups_) {
      blocks += blocks_after(item.remaining, group, count, tokens);
    }
    peak = std::max(peak, blocks);
  }
  return peak;
}

bool KvProjection::add_if_it_fits(int num_tokens, int remaining, int num_blocks) {
  const auto place = insert({num_tokens, remaining});
  if (peak_blocks() <= num_blocks) return true;
  sequences_.erase(place);
  return false;
}

int prefill_rows(const SchedulerLimits& limits, const Workload& workload, int num_decode_rows) {
  const int room = limits.max_rows - num_decode_rows;
  if (room <= 0 || workload.num_sequences == 0) return 0;
  const double slots = std::min<double>(limits.max_num_seqs, workload.num_sequences);
  const double target = std::min(slots, sequences_in_blocks(limits, workload, 0.5));
  const double decode_rows = target / limits.num_micro_batches;
  const double ratio = workload.num_prompt_tokens / std::max(1.0, workload.num_output_tokens);
  double rows = decode_rows * ratio;
  const bool all_fit = workload.num_sequences <= slots &&
                       workload.num_sequences <= sequences_in_blocks(limits, workload, 1.0);
  if (all_fit) {
    // No steady mix to keep: the sooner all decode, the fuller the steps. A quarter of the
    // pipeline's depth at a time keeps the filling of the pipeline short.
    const double spread = 4.0 * limits.num_micro_batches;
    rows = std::max(rows, static_cast<double>(workload.num_uncomputed_tokens) / spread);
    rows = std::max<double>(rows, limits.efficient_rows - num_decode_rows);
  } else {
    // While few sequences decode, the step is filled up to where rows are cheapest, but not beyond
    // the steady total, since what is admitted too early leaves a gap later.
    const double filled = std::min<double>(limits.efficient_rows, decode_rows + rows);
    rows = std::max(rows, filled - num_decode_rows);
  }
  return static_cast<int>(std::clamp(std::ceil(rows), 1.0, static_cast<double>(room)));
}

}  // namespace headrace
