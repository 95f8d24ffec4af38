// A tokenizer's identity: 128 bits over everything that decides ids and text.
#pragma once

#include <string>
#include <string_view>

#include "model/tokenizer/raw_model.h"

namespace headrace {

/// description: the rules around vocabulary and merges, spelled the same for equal rules. The order
/// of the vocabulary's entries does not matter.
std::string fingerprint_of(std::string_view description, const RawVocabulary& vocabulary,
                           const RawMerges& merges);

}  // namespace headrace
