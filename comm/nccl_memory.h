// What NCCL takes of a GPU beside the buffers that it is given, by arithmetic, so that the memory
// plan can leave room for it.
//
// A connection, of a channel to one peer in one direction, has a buffer for each protocol (LL:
// 8 lines x 512 threads x 8 steps x 16 bytes; LL128: 120 elements x 640 threads x 8 steps x 8
// bytes; simple: 4 MiB) behind a header, rounded up to 2 MiB: DEFAULT_*_BUFFSIZE in NCCL's init.cc,
// p2pSendSetup() and p2pRecvSetup() in its transport/p2p.cc, 2.18 to 2.28. With the sizes that are
// the default a receiver so takes 10 MiB and a sender 2, as users' logs show (NVIDIA/nccl issue
// 1685); or the simple buffer lies with the sender. Channels are as many as a communicator's
// maxCTAs allow, which is why these are set. Since 2.22 connections are made when they are first
// used. NVLink SHARP has 2 x 8 steps of 128 KiB a channel and rank of the node
// (ncclNvlsBufferSetup()). What is not counted: the library's code and small structures, some
// hundred MiB with CUDA's own; they come out of what --gpu-memory-utilization leaves.
#pragma once

#include <cstddef>

#include "comm/device_transport.h"

namespace headrace {

/// Channels of an edge between two stages and of a tensor group: multiprocessors that a transfer
/// takes from the layers, about 20 GB/s each over NVLink.
inline constexpr int kNcclEdgeChannels = 8;
inline constexpr int kNcclGroupChannels = 16;

/// The most that NCCL takes for the edges and the group of these options. NCCL_BUFFSIZE,
/// NCCL_LL_BUFFSIZE and NCCL_LL128_BUFFSIZE of the environment count.
std::size_t nccl_bytes(const TransportOptions& options);

}  // namespace headrace
