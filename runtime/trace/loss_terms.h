// Where a job's time went on one rank, as terms that add up to the time it took: what a faster
// kernel, a better overlap or a better schedule could win.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "kernels/span_recorder.h"

namespace headrace {

enum class LossTerm : std::uint8_t {
  kGemm,       // matrix products, the head's included
  kAttention,  // over the cache
  kOther,      // all other computing of a step, sampling included
  kTransfer,   // moving messages and sums of shards, or waiting for room for them
  kWait,       // no step was there
  kHost,       // planning, taking results in, and what the main loop does besides
  kTail,       // after the rank's last step, while others still had work
};
inline constexpr std::size_t kNumLossTerms = static_cast<std::size_t>(LossTerm::kTail) + 1;

std::string_view loss_term_name(LossTerm term);

/// The term that a phase of a rank's main thread belongs to.
LossTerm loss_term_of(Phase phase);

/// Nanoseconds by term.
using LossTerms = std::array<std::int64_t, kNumLossTerms>;

/// A rank's part of a job's time, all on one clock.
struct RankStretch {
  std::int64_t job_begin_ns = 0;
  std::int64_t begin_ns = 0;   // the rank began to record
  std::int64_t worked_ns = 0;  // its last useful work ended
  std::int64_t job_end_ns = 0;
};

/// What phases take at least, by the terms that they belong to.
LossTerms bound_terms(const PhaseTimes& bounds);

/// times: of the phases from begin_ns to worked_ns. The terms add up to the job's length: what a
/// rank lacks at the beginning is wait, what follows its last work is tail.
LossTerms loss_terms(const PhaseTimes& times, const RankStretch& stretch);

}  // namespace headrace
