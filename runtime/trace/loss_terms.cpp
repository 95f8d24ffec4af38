#include "runtime/trace/loss_terms.h"

namespace headrace {

std::string_view loss_term_name(LossTerm term) {
  constexpr std::array<std::string_view, kNumLossTerms> kNames = {
      "gemm", "attention", "other", "transfer", "wait", "host", "tail"};
  return kNames[static_cast<std::size_t>(term)];
}

LossTerm loss_term_of(Phase phase) {
  switch (phase) {
    case Phase::kGemm:
    case Phase::kHeadGemm:
      return LossTerm::kGemm;
    case Phase::kAttention:
      return LossTerm::kAttention;
    case Phase::kLayers:
    case Phase::kSampling:
    case Phase::kEmbed:
    case Phase::kNorm:
    case Phase::kRope:
    case Phase::kActivation:
    case Phase::kElementwise:
    case Phase::kStatistics:
      return LossTerm::kOther;
    case Phase::kExchange:
    case Phase::kReceive:
    case Phase::kSend:
      return LossTerm::kTransfer;
    case Phase::kWait:
      return LossTerm::kWait;
    case Phase::kHost:
    case Phase::kPlan:
    case Phase::kResults:
    case Phase::kRead:
    case Phase::kAnswer:
    case Phase::kJournal:
      return LossTerm::kHost;
  }
  return LossTerm::kHost;
}

namespace {

LossTerms by_term(const PhaseTimes& times) {
  LossTerms terms{};
  for (std::size_t i = 0; i < kNumPhases; ++i) {
    terms[static_cast<std::size_t>(loss_term_of(static_cast<Phase>(i)))] += times[i];
  }
  return terms;
}

}  // namespace

LossTerms bound_terms(const PhaseTimes& bounds) {
  return by_term(bounds);
}

LossTerms loss_terms(const PhaseTimes& times, const RankStretch& stretch) {
  LossTerms terms = by_term(times);
  terms[static_cast<std::size_t>(LossTerm::kWait)] += stretch.begin_ns - stretch.job_begin_ns;
  terms[static_cast<std::size_t>(LossTerm::kTail)] += stretch.job_end_ns - stretch.worked_ns;
  return terms;
}

}  // namespace headrace
