#include "comm/device_transport.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "comm/cuda/cuda_aware.h"
#include "comm/cuda/device_ends.h"
#include "comm/cuda/mpi_device_channel.h"
#include "comm/cuda/mpi_device_exchange.h"
#include "comm/cuda/nccl_library.h"

namespace headrace {
namespace {

class Transport final : public DeviceTransport {
 public:
  explicit Transport(DeviceEnds ends) : ends_(std::move(ends)) {}

  DeviceSender* sender() override { return ends_.sender.get(); }
  DeviceReceiver* receiver() override { return ends_.receiver.get(); }
  DeviceExchange* exchange() override { return ends_.exchange.get(); }

  void poll() override {
    if (ends_.receiver) ends_.receiver->poll();
    if (ends_.sender) ends_.sender->poll();
    if (ends_.exchange) ends_.exchange->poll();
  }

 private:
  DeviceEnds ends_;
};

void require_sound(const Communicator& communicator, const TransportOptions& options) {
  const std::vector<int>& group = options.group;
  const bool ordered = std::is_sorted(group.begin(), group.end()) &&
                       std::adjacent_find(group.begin(), group.end()) == group.end();
  const bool included =
      group.empty() || std::count(group.begin(), group.end(), communicator.rank()) == 1;
  if (ordered && included && options.compute != nullptr &&
      static_cast<int>(options.names.size()) == communicator.size()) {
    return;
  }
  throw std::logic_error("a transport without a stream, names or its own rank in an ordered group");
}

}  // namespace

DeviceEnds make_mpi_ends(const Communicator& communicator, const TransportOptions& options) {
  DeviceEnds ends;
  ends.communicators.reserve(2);
  ends.communicators.push_back(Communicator::duplicate(communicator.get()));
  const int first = has_group(options) ? options.group.front() : communicator.rank();
  ends.communicators.push_back(Communicator::split(communicator, first));
  const auto memory =
      options.kind == TransportKind::kMpiStaged ? MpiMemory::kPinned : MpiMemory::kDevice;
  const auto edge_to = [&](int peer) {
    return MpiEdge{.communicator = ends.communicators[0],
                   .peer = peer,
                   .peer_name = options.names[static_cast<std::size_t>(peer)],
                   .memory = memory,
                   .shape = options.hidden,
                   .compute = options.compute,
                   .stall_timeout_s = options.stall_timeout_s};
  };
  if (options.downstream) ends.sender = make_mpi_device_sender(edge_to(*options.downstream));
  if (options.upstream) ends.receiver = make_mpi_device_receiver(edge_to(*options.upstream));
  if (!has_group(options)) return ends;
  std::vector<std::string> names;
  for (const int rank : options.group) {
    names.push_back(options.names[static_cast<std::size_t>(rank)]);
  }
  ends.exchange = make_mpi_device_exchange({.communicator = ends.communicators[1],
                                            .names = std::move(names),
                                            .memory = memory,
                                            .bytes = options.exchange_bytes,
                                            .compute = options.compute,
                                            .stall_timeout_s = options.stall_timeout_s,
                                            .poll = options.poll});
  return ends;
}

std::string why_not(TransportKind kind) {
  if (kind == TransportKind::kNccl) return nccl_library_problem();
  if (kind == TransportKind::kMpiCudaAware && !mpi_is_cuda_aware()) {
    return "this MPI does not take memory of a GPU (MPIX_Query_cuda_support); mpi-staged needs no "
           "such MPI";
  }
  return {};
}

std::unique_ptr<DeviceTransport> make_device_transport(const Communicator& communicator,
                                                       const TransportOptions& options) {
  const std::string problem = why_not(options.kind);
  if (!problem.empty()) {
    throw std::invalid_argument("--transport " + std::string(transport_name(options.kind)) + ": " +
                                problem);
  }
  require_sound(communicator, options);
  DeviceEnds ends = options.kind == TransportKind::kNccl ? make_nccl_ends(communicator, options)
                                                         : make_mpi_ends(communicator, options);
  return std::make_unique<Transport>(std::move(ends));
}

}  // namespace headrace
