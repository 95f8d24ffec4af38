// The plain attention kernel (attention.h).
#pragma once

#include "kernels/cuda/attention.h"

namespace headrace {

void launch_plain_attention(const AttentionLaunch& args, Stream stream);

}  // namespace headrace
