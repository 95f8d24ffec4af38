// The id of a token: an index into a model's vocabulary.
#pragma once

#include <cstdint>

namespace headrace {

using TokenId = std::int32_t;

}  // namespace headrace
