// The connections of one rank of a job: to its pipeline's neighbours, to the ranks that share its
// stage, and between rank 0 and the heads of the other replicas. What a rank has no use for is
// null.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "comm/device_transport.h"
#include "comm/environment.h"
#include "comm/message_channel.h"
#include "comm/shard_exchange.h"
#include "launch/generate_options.h"
#include "launch/generate_setup.h"
#include "runtime/pipeline/hidden_states.h"

namespace headrace {

struct RankLinks {
  RankLinks() = default;
  RankLinks(const RankLinks&) = delete;  // the exchange polls the others where they are
  RankLinks& operator=(const RankLinks&) = delete;

  // One communicator a kind of traffic, so that nothing has to be told apart by tags. Declared
  // first: they outlive what is made from them.
  std::optional<Communicator> steps;
  std::optional<Communicator> results;
  std::optional<Communicator> work;
  std::optional<Communicator> stage_group;
  std::optional<Communicator> gpus;  // of the ranks that compute on any

  std::unique_ptr<MessageReceiver> upstream;
  std::unique_ptr<MessageSender> downstream;
  std::unique_ptr<MessageSender> result_sender;       // of the last stage's first rank
  std::unique_ptr<MessageReceiver> result_receiver;   // of a head
  std::vector<std::unique_ptr<MessageSender>> peers;  // of a head, to those that share its stage
  std::vector<std::unique_ptr<MessageSender>> work_senders;  // of rank 0, to the other heads
  std::vector<std::unique_ptr<MessageReceiver>> report_receivers;
  std::unique_ptr<MessageReceiver> work_receiver;  // of another head
  std::unique_ptr<MessageSender> report_sender;
  std::unique_ptr<ShardExchange> exchange;          // in host memory; null where it is not needed
  std::unique_ptr<DeviceTransport> transport;       // of a rank that computes on a GPU
  std::unique_ptr<TensorExchange> device_exchange;  // over it

  /// The one whose buffers the operators reach; null for one rank a stage.
  TensorExchange* of_operators() const;
  /// How hidden states get to neighbours on GPUs.
  HiddenLinks hidden();

  /// Lets transfers advance.
  void poll();
};

/// Collective over the world.
std::unique_ptr<RankLinks> make_rank_links(const Environment& environment,
                                           const GenerateOptions& options, const RankSetup& setup);

}  // namespace headrace
