// Two answers to the same request: where they part.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launch/answers_file.h"

namespace headrace {

enum class DifferenceKind {
  kOutcome,  // answered in one file, failed in the other
  kError,    // failed in both, for different reasons
  kTokens,   // token ids, where both lines hold them
  kText,     // text, where the token ids do not already differ
  kFinishReason,
  kLogprobs,  // further apart than the tolerance
  kOther,     // any other field that both have
};
inline constexpr int kNumDifferenceKinds = 7;

/// "tokens", "finish_reason": the word that reports use.
std::string_view kind_name(DifferenceKind kind);

struct Difference {
  DifferenceKind kind = DifferenceKind::kOther;
  std::string where;  // "choice 0, token 12"
  std::string a;      // what each file has there, short
  std::string b;
};

/// Of log-probabilities of the same token at the same place in both files.
struct LogprobDistance {
  std::int64_t pairs = 0;
  double sum = 0.0;
  double max = 0.0;

  void add(double distance);
  void merge(const LogprobDistance& other);
  double mean() const { return pairs == 0 ? 0.0 : sum / static_cast<double>(pairs); }
};

struct AnswerComparison {
  std::vector<Difference> differences;  // at most one of a kind and choice, the first
  LogprobDistance logprobs;
  /// Fields that only one line has, such as logprobs asked for in one run only: not a difference,
  /// for there is nothing to compare, but worth a note. Name and how often.
  std::map<std::string, std::int64_t> one_sided;
};

/// Fields that name the job rather than the answer (id, request_id, model, created) are left out.
AnswerComparison compare_answers(const Answer& a, const Answer& b, double tolerance);

}  // namespace headrace
