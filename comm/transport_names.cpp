#include <array>
#include <utility>

#include "comm/device_transport.h"

namespace headrace {
namespace {

constexpr std::array<std::pair<TransportKind, std::string_view>, 3> kNames{{
    {TransportKind::kNccl, "nccl"},
    {TransportKind::kMpiStaged, "mpi-staged"},
    {TransportKind::kMpiCudaAware, "mpi-cuda-aware"},
}};

}  // namespace

std::string_view transport_name(TransportKind kind) {
  return kNames[static_cast<std::size_t>(kind)].second;
}

std::optional<TransportKind> transport_of(std::string_view name) {
  for (const auto& [kind, text] : kNames) {
    if (text == name) return kind;
  }
  return std::nullopt;
}

}  // namespace headrace
