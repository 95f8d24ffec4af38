#include "launch/rank_links.h"

#include "comm/mpi_channel.h"
#include "comm/mpi_exchange.h"
#include "comm/traced_exchange.h"
#include "comm/transport_exchange.h"
#include "kernels/cuda_backend.h"
#include "partition/rank_peers.h"
#include "runtime/dispatch/dispatcher.h"

namespace headrace {
namespace {

// Buffers of a link between rank 0 and another head.
constexpr int kDispatchBuffers = 3;

class Builder {
 public:
  Builder(const Environment& environment, const GenerateOptions& options, const RankSetup& setup,
          RankLinks& links)
      : environment_(environment),
        options_(options),
        setup_(setup),
        topology_(setup.layout, environment.rank()),
        peers_(rank_peers(topology_)),
        links_(links) {}

  void link_pipeline() {
    links_.steps.emplace(Communicator::duplicate(environment_.world().get()));
    links_.results.emplace(Communicator::duplicate(environment_.world().get()));
    const ChannelShape plans = setup_.step_channel(0);
    const auto steps = [&](int peer) {
      return setup_.step_channel(setup_.sent_columns(topology_.rank(), peer));
    };
    if (const auto peer = peers_.steps_from) {
      links_.upstream = make_mpi_receiver(*links_.steps, *peer, steps(*peer));
    }
    if (const auto peer = peers_.steps_to) {
      links_.downstream = make_mpi_sender(*links_.steps, *peer, steps(*peer));
    }
    if (const auto peer = peers_.plans_from) {
      links_.upstream = make_mpi_receiver(*links_.steps, *peer, plans);
    }
    for (const int peer : peers_.plans_to) {
      links_.peers.push_back(make_mpi_sender(*links_.steps, peer, plans));
    }
    const ChannelShape results = setup_.result_channel(options_.max_num_seqs);
    if (const auto peer = peers_.results_from) {
      links_.result_receiver = make_mpi_receiver(*links_.results, *peer, results);
    }
    if (const auto peer = peers_.results_to) {
      links_.result_sender = make_mpi_sender(*links_.results, *peer, results);
    }
  }

  void link_stage() {
    const int first = topology_.rank_of({setup_.at.data, setup_.at.pipeline, 0});
    links_.stage_group.emplace(Communicator::split(environment_.world(), first));
    const std::size_t bytes = host_exchange_bytes(setup_, options_, topology_.rank());
    if (bytes == 0) return;
    ExchangeWait wait{.stall_timeout_s = options_.stall_timeout_s,
                      .names = {},
                      .poll = [links = &links_] { links->poll(); }};
    for (int shard = 0; shard < setup_.layout.tensor; ++shard) {
      wait.names.push_back("the sums of " + setup_.name(first + shard));
    }
    const auto make =
        links_.stage_group->shares_memory() ? make_shared_exchange : make_message_exchange;
    links_.exchange = make(*links_.stage_group, bytes, std::move(wait));
    if (setup_.recorder) {
      links_.exchange = make_traced_exchange(std::move(links_.exchange), *setup_.recorder);
    }
  }

  void link_gpus() {
    std::optional<TransportOptions> transport =
        transport_options(options_, setup_, topology_.rank());
    if (!transport) return;
    transport->compute = cuda_stream(setup_.ops->arena());
    transport->poll = [links = &links_] { links->poll(); };
    for (const int rank : setup_.transport.ranks) transport->names.push_back(setup_.name(rank));
    links_.gpus.emplace(Communicator::subset(environment_.world(), setup_.transport.ranks));
    links_.transport = make_device_transport(*links_.gpus, *transport);
    if (links_.transport->exchange() == nullptr) return;
    links_.device_exchange =
        make_transport_exchange(*links_.transport->exchange(), {.bytes = transport->exchange_bytes,
                                                                .adds = !options_.deterministic,
                                                                .recorder = setup_.recorder.get()});
  }

  void link_replicas() {
    links_.work.emplace(Communicator::duplicate(environment_.world().get()));
    const ChannelShape work{.max_bytes = max_work_message_bytes(setup_.max_model_len),
                            .num_buffers = kDispatchBuffers};
    const ChannelShape reports{
        .max_bytes = max_report_message_bytes(
            setup_.result_channel(options_.max_num_seqs).max_bytes, setup_.num_stages()),
        .num_buffers = kDispatchBuffers};
    for (const int head : peers_.work_to) {
      links_.work_senders.push_back(make_mpi_sender(*links_.work, head, work));
      links_.report_receivers.push_back(make_mpi_receiver(*links_.work, head, reports));
    }
    if (const auto root = peers_.work_from) {
      links_.work_receiver = make_mpi_receiver(*links_.work, *root, work);
      links_.report_sender = make_mpi_sender(*links_.work, *root, reports);
    }
  }

 private:
  const Environment& environment_;
  const GenerateOptions& options_;
  const RankSetup& setup_;
  Topology topology_;
  RankPeers peers_;
  RankLinks& links_;
};

}  // namespace

void RankLinks::poll() {
  if (upstream) upstream->poll();
  if (downstream) downstream->poll();
  if (result_receiver) result_receiver->poll();
  if (result_sender) result_sender->poll();
  for (const auto& peer : peers) peer->poll();
  for (const auto& sender : work_senders) sender->poll();
  for (const auto& receiver : report_receivers) receiver->poll();
  if (work_receiver) work_receiver->poll();
  if (report_sender) report_sender->poll();
  if (transport) transport->poll();
}

TensorExchange* RankLinks::of_operators() const {
  return device_exchange ? device_exchange.get() : exchange.get();
}

HiddenLinks RankLinks::hidden() {
  if (!transport) return {};
  return {.from = transport->receiver(), .to = transport->sender(), .poll = [this] { poll(); }};
}

std::unique_ptr<RankLinks> make_rank_links(const Environment& environment,
                                           const GenerateOptions& options, const RankSetup& setup) {
  auto links = std::make_unique<RankLinks>();
  Builder builder(environment, options, setup, *links);
  if (setup.layout.pipeline * setup.layout.tensor > 1) builder.link_pipeline();
  if (setup.layout.tensor > 1) builder.link_stage();
  if (setup.layout.data > 1) builder.link_replicas();
  builder.link_gpus();
  return links;
}

}  // namespace headrace
