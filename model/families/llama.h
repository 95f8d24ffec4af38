// Llama 1 to 3 and the many models of other names that are built the same way (SmolLM2, TinyLlama,
// Yi).
#pragma once

#include "model/families/family.h"

namespace headrace {

extern const Family kLlamaFamily;

}  // namespace headrace
