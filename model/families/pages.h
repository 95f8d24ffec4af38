// The families' pages, one file each.
#pragma once

#include "model/families/family.h"

namespace headrace {

extern const Family kLlamaFamily;  // also the models of other names that are built the same way
extern const Family kMistralFamily;
extern const Family kQwen2Family;
extern const Family kQwen3Family;
extern const Family kGemma2Family;
extern const Family kGemma3Family;
extern const Family kPhi3Family;
extern const Family kSmolLm3Family;
extern const Family kGraniteFamily;
extern const Family kGraniteSwaFamily;
extern const Family kOlmo2Family;
extern const Family kGpt2Family;
extern const Family kGptNeoXFamily;
extern const Family kStarCoder2Family;
extern const Family kStableLmFamily;
extern const Family kFalconFamily;

}  // namespace headrace
