// The communicators of a job's links. Every split is collective over all ranks, so edges are dealt
// into rounds in which a rank has one at most: two rounds for a line of stages.
#include <algorithm>
#include <utility>

#include "comm/cuda/device_ends.h"
#include "comm/cuda/nccl_device_channel.h"
#include "comm/cuda/queued_work.h"
#include "comm/nccl_memory.h"
#include "comm/waiting.h"
#include "kernels/cuda/handles.h"

namespace headrace {
namespace {

constexpr int kNobody = -1;

struct Edge {
  int from = 0;
  int to = 0;

  bool touches(int rank) const { return from == rank || to == rank; }
};

using Round = std::vector<Edge>;

// The same on all ranks.
std::vector<Round> rounds_of(const Communicator& communicator, std::optional<int> downstream) {
  const std::vector<std::int64_t> targets = communicator.all_gather(downstream.value_or(kNobody));
  std::vector<Round> rounds;
  for (int from = 0; from < communicator.size(); ++from) {
    const Edge edge{from, static_cast<int>(targets[static_cast<std::size_t>(from)])};
    if (edge.to == kNobody) continue;
    const auto free = std::find_if(rounds.begin(), rounds.end(), [&](const Round& round) {
      return std::none_of(round.begin(), round.end(), [&](const Edge& other) {
        return other.touches(edge.from) || other.touches(edge.to);
      });
    });
    if (free == rounds.end()) {
      rounds.push_back({edge});
    } else {
      free->push_back(edge);
    }
  }
  return rounds;
}

// This rank's place in a round's split.
NcclPlace place_in(const Round& round, int rank, const TransportOptions& options) {
  for (const Edge& edge : round) {
    if (!edge.touches(rank)) continue;
    const bool sends = edge.from == rank;
    const int peer = sends ? edge.to : edge.from;
    return {.color = edge.from,
            .key = sends ? 0 : 1,
            .channels = kNcclEdgeChannels,
            .with = options.names[static_cast<std::size_t>(peer)]};
  }
  return {};
}

NcclPlace place_in_group(int rank, const TransportOptions& options) {
  if (!has_group(options)) return {};
  NcclPlace place{
      .color = options.group.front(), .key = rank, .channels = kNcclGroupChannels, .with = ""};
  for (const int other : options.group) {
    if (other == rank) continue;
    if (!place.with.empty()) place.with += ", ";
    place.with += options.names[static_cast<std::size_t>(other)];
  }
  return place;
}

// NCCL connects ranks at their first transfer: better now than in the first step.
void warm_up(const DeviceEnds& ends, const TransportOptions& options) {
  const DeviceMemory sum(sizeof(float));
  if (ends.receiver) {
    while (ends.receiver->try_receive(1) == nullptr) continue;
    ends.receiver->release();
  }
  if (ends.sender) {
    while (ends.sender->try_acquire() == nullptr) continue;
    ends.sender->post(1);
  }
  if (ends.exchange) ends.exchange->sum(reinterpret_cast<float*>(sum.data()), 1);
  QueuedWork queued;
  queued.mark(options.compute);
  const std::int64_t begin = now_ns();
  while (!queued.ended("on the first transfers") || (ends.sender && !ends.sender->drained())) {
    if (ends.receiver) ends.receiver->poll();
    if (ends.sender) ends.sender->poll();
    if (ends.exchange) ends.exchange->poll();
    pause_politely(now_ns() - begin);
  }
}

}  // namespace

DeviceEnds make_nccl_ends(const Communicator& communicator, const TransportOptions& options) {
  const int rank = communicator.rank();
  const auto world = NcclCommunicator::world(
      communicator, {.stall_timeout_s = options.stall_timeout_s, .poll = options.poll});
  const auto end_of = [&](std::unique_ptr<NcclCommunicator> made, ChannelShape shape) {
    return NcclEnd{.communicator = std::move(made),
                   .compute = options.compute,
                   .shape = shape,
                   .stall_timeout_s = options.stall_timeout_s};
  };
  DeviceEnds ends;
  for (const Round& round : rounds_of(communicator, options.downstream)) {
    auto edge = world->split(place_in(round, rank, options));
    if (edge == nullptr) continue;
    const bool sends =
        std::any_of(round.begin(), round.end(), [&](const Edge& one) { return one.from == rank; });
    if (sends) {
      ends.sender = make_nccl_sender(end_of(std::move(edge), options.hidden));
    } else {
      ends.receiver = make_nccl_receiver(end_of(std::move(edge), options.hidden));
    }
  }
  auto group = world->split(place_in_group(rank, options));
  if (group != nullptr) {
    ends.exchange = make_nccl_exchange(
        end_of(std::move(group), {.max_bytes = options.exchange_bytes, .num_buffers = 1}));
  }
  warm_up(ends, options);
  return ends;
}

}  // namespace headrace
