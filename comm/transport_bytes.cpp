#include "comm/device_transport.h"

namespace headrace {

std::size_t device_transport_bytes(const TransportOptions& options) {
  const int num_edges = (options.upstream ? 1 : 0) + (options.downstream ? 1 : 0);
  const std::size_t edges = static_cast<std::size_t>(num_edges) *
                            static_cast<std::size_t>(options.hidden.num_buffers) *
                            options.hidden.max_bytes;
  if (options.group.size() < 2) return edges;
  // A part of every rank; NCCL gathers this rank's own once more.
  const std::size_t num_parts =
      options.group.size() + (options.kind == TransportKind::kNccl ? 1 : 0);
  return edges + num_parts * options.exchange_bytes;
}

}  // namespace headrace
