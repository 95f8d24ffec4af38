// `headrace compare`: two output files, request by request.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "launch/compare_answers.h"

namespace headrace {

struct CompareOptions {
  std::vector<std::string> files;  // A and B
  double tolerance = 0.0;          // largest log-prob distance that counts as equal
  int list = 5;                    // differences shown of each kind
  bool json = false;
};

/// A difference and the request it belongs to.
struct ListedDifference {
  std::string request;  // custom_id in quotes, or "line N"
  Difference difference;
};

/// What an OUTPUT.summary.json says about the run that completed it.
struct OutputSpeed {
  double wall_s = 0.0;
  double output_tokens_per_s = 0.0;
};

struct ComparedFile {
  std::string path;
  std::int64_t lines = 0;
  std::int64_t failed = 0;
  std::int64_t only_here = 0;                // requests that the other file lacks
  std::vector<std::string> only_here_names;  // the first of them
  std::optional<OutputSpeed> speed;
};

struct Comparison {
  bool identical = false;  // byte for byte; then nothing below is counted
  ComparedFile a;
  ComparedFile b;
  std::int64_t compared = 0;   // requests that are in both
  std::int64_t different = 0;  // of them
  std::array<std::int64_t, kNumDifferenceKinds> requests_by_kind{};
  std::vector<ListedDifference> listed;  // the first of each kind, in A's order
  LogprobDistance logprobs;
  std::int64_t requests_with_logprobs = 0;
  std::map<std::string, std::int64_t> one_sided;

  bool equal() const {
    return identical || (different == 0 && a.only_here == 0 && b.only_here == 0);
  }
};

/// Throws std::invalid_argument for a file that is missing or is not an output.
Comparison compare_outputs(const CompareOptions& options);

std::string comparison_text(const Comparison& comparison, const CompareOptions& options);
nlohmann::ordered_json comparison_json(const Comparison& comparison, const CompareOptions& options);

}  // namespace headrace
