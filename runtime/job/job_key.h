// What decides a job's answers besides its input. A journal belongs to one key; another key is
// refused with the option that would restore it.
#pragma once

#include <string>
#include <vector>

#include "runtime/job/hash.h"

namespace headrace {

struct JobKeyPart {
  std::string name;    // "dtype"
  std::string value;   // "bfloat16"
  std::string option;  // "--dtype bfloat16": what to give to get this value; may be empty
};

/// Weights, tokenizer, dtype, quantisation, KV type, numeric class, --seed, template, defaults; in
/// an order that never changes. The template's date is kept by the JobStore and cannot differ.
using JobKey = std::vector<JobKeyPart>;

/// Of names and values; options have no influence.
Hash128 hash_of(const JobKey& key);

/// Empty where the keys agree; else one sentence that names each differing part, both values and
/// the option that restores the earlier one.
std::string describe_difference(const JobKey& earlier, const JobKey& now);

}  // namespace headrace
