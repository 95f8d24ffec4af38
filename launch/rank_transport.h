// How the GPUs of a job reach each other: which transport, who takes part, and what it needs.
// Stages that compute on GPUs on both sides of an edge, and the ranks that share such a stage, use
// it; all else goes by messages in host memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/device_transport.h"
#include "comm/environment.h"
#include "launch/generate_options.h"
#include "partition/rank_peers.h"

namespace headrace {

struct RankSetup;

struct GpuTransport {
  std::vector<int> ranks;             // that compute on GPUs, ascending
  std::optional<TransportKind> kind;  // none where these give each other nothing
  std::string why;                    // --transport auto took mpi-staged; in words

  bool computes_on_gpu(int rank) const;
  /// Hidden states go from one to the other by the transport.
  bool links(int rank, std::optional<int> other) const;
  /// "nccl", or with what speaks against NCCL; empty where nothing is exchanged.
  std::string text() const;
};

/// By --transport. auto is NCCL, the fastest between GPUs, where every rank has a GPU of its own
/// (NCCL refuses two ranks on one) and all find the library; mpi-staged otherwise, which always
/// works. Collective over the world. Throws std::invalid_argument where what was asked for cannot
/// be had.
GpuTransport choose_transport(const Environment& environment, const GenerateOptions& options,
                              const RankSetup& setup);

/// What a rank's transport is made for, but for stream, names and poll. Nothing for a rank that
/// takes no part.
std::optional<TransportOptions> transport_options(const GenerateOptions& options,
                                                  const RankSetup& setup, int rank);

}  // namespace headrace
