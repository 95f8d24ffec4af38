// In the place of what uses NCCL where it was not found.
#include <stdexcept>

#include "comm/cuda/device_ends.h"
#include "comm/cuda/nccl_library.h"

namespace headrace {

std::string nccl_library_problem() {
  return "this build was configured without NCCL";
}

DeviceEnds make_nccl_ends(const Communicator& /*communicator*/,
                          const TransportOptions& /*options*/) {
  throw std::logic_error(nccl_library_problem());
}

}  // namespace headrace
