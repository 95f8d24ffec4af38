// In the place of nccl_ends.cpp where NCCL was not found.
#include <stdexcept>

#include "comm/cuda/device_ends.h"

namespace headrace {

DeviceEnds make_nccl_ends(const Communicator& /*communicator*/,
                          const TransportOptions& /*options*/) {
  throw std::logic_error("NCCL is not in this build");
}

bool nccl_is_built_in() {
  return false;
}

}  // namespace headrace
