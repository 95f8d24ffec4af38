// The bfloat16 kernels of attention, apart from the others so that they compile beside them.
#include "kernels/cuda/attention_kernels.h"

namespace headrace {

template void launch_tile_attention<BFloat16>(const AttentionLaunch& args, Stream stream);

}  // namespace headrace
