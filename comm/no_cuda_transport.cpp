// In the place of comm/cuda where the program is built without CUDA.
#include <stdexcept>

#include "comm/device_transport.h"

namespace headrace {

std::string why_not(TransportKind /*kind*/) {
  return "this build was configured without CUDA (HEADRACE_CUDA)";
}

std::unique_ptr<DeviceTransport> make_device_transport(const Communicator& /*communicator*/,
                                                       const TransportOptions& options) {
  throw std::invalid_argument("--transport " + std::string(transport_name(options.kind)) + ": " +
                              why_not(options.kind));
}

}  // namespace headrace
