#include "tests/runtime/driver/threads_job.h"

#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "comm/loopback_channel.h"
#include "kernels/thread_pool.h"
#include "model/checkpoint/checkpoint.h"
#include "partition/rank_peers.h"
#include "runtime/dispatch/replica_loop.h"
#include "runtime/pipeline/relay_stage.h"

namespace headrace {
namespace {

constexpr int kBlockTokens = 16;
constexpr ChannelShape kChannel{.max_bytes = std::size_t{1} << 20, .num_buffers = 3};
constexpr double kStallTimeout_s = 60.0;

// The channels between the ranks of a job, made on first use. The two ends may be asked for by
// different threads, so all are made before any starts.
class Channels {
 public:
  enum class Kind { kStep, kResult, kWork, kReport };

  void make(Kind kind, int from, int to) {
    channels_.emplace(Key{kind, from, to}, make_loopback_channel(kChannel));
  }
  MessageSender* sender(Kind kind, int from, int to) { return find(kind, from, to)->sender.get(); }
  MessageReceiver* receiver(Kind kind, int from, int to) {
    return find(kind, from, to)->receiver.get();
  }

 private:
  using Key = std::tuple<Kind, int, int>;
  LoopbackChannel* find(Kind kind, int from, int to) { return &channels_.at(Key{kind, from, to}); }
  std::map<Key, LoopbackChannel> channels_;
};
using Kind = Channels::Kind;

// What every rank has.
struct Rank {
  Topology topology;
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<ShardExchange> exchange;
  std::unique_ptr<StageModel> model;
  std::unique_ptr<StageExecutor> executor;

  Coordinates at() const { return topology.coordinates(); }
  RankPeers peers() const { return rank_peers(topology); }
};

StagePart part_at(const ParallelLayout& layout, const Coordinates& at, int num_layers) {
  return {.begin_layer = num_layers * at.pipeline / layout.pipeline,
          .end_layer = num_layers * (at.pipeline + 1) / layout.pipeline,
          .embedding = at.pipeline == 0,
          .head = at.pipeline == layout.pipeline - 1,
          .tensor_rank = at.tensor,
          .tensor_size = layout.tensor};
}

KvGroups groups_of(const ThreadsJob& job, const ModelConfig& config) {
  std::vector<StagePart> stages;
  for (int stage = 0; stage < job.layout.pipeline; ++stage) {
    stages.push_back(part_at(job.layout, {0, stage, 0}, config.num_layers));
  }
  return kv_groups(config, stages, job.max_model_len);
}

Rank make_rank(const ThreadsJob& job, int index, std::unique_ptr<ShardExchange> exchange) {
  Rank rank{.topology = Topology(job.layout, index),
            .checkpoint = Checkpoint::open(job.model),
            .pool = make_thread_pool(1),
            .ops = nullptr,
            .exchange = std::move(exchange),
            .model = nullptr,
            .executor = nullptr};
  rank.ops = rank.at().data == job.slow_replica ? make_reference_ops(DType::kFloat32)
                                                : make_cpu_ops(DType::kFloat32, *rank.pool);
  const ModelConfig& config = rank.checkpoint->config();
  const StagePart part = part_at(job.layout, rank.at(), config.num_layers);
  const StageSize size{.max_rows = job.max_rows,
                       .max_logit_rows = 5,
                       .max_context = job.max_model_len,
                       .num_blocks = job.num_blocks,
                       .block_tokens = kBlockTokens,
                       .kv = groups_of(job, config)};
  rank.model = std::make_unique<StageModel>(
      config, part, load_stage_weights(*rank.checkpoint, part, *rank.ops, {}), *rank.ops, size,
      rank.exchange.get());
  rank.executor =
      std::make_unique<StageExecutor>(*rank.model, *rank.pool,
                                      ExecutorLimits{.max_num_seqs = job.max_num_seqs,
                                                     .max_length = job.max_model_len,
                                                     .max_logit_rows = size.max_logit_rows},
                                      rank.exchange.get());
  return rank;
}

std::vector<Rank> make_ranks(const ThreadsJob& job) {
  std::vector<Rank> ranks;
  std::vector<std::unique_ptr<ShardExchange>> ends;
  for (int index = 0; index < job.layout.num_ranks(); ++index) {
    const auto shard = static_cast<std::size_t>(index % job.layout.tensor);
    if (job.layout.tensor > 1 && shard == 0) {
      ends = make_thread_exchange(job.layout.tensor, std::size_t{1} << 20);
    }
    ranks.push_back(make_rank(job, index, ends.empty() ? nullptr : std::move(ends[shard])));
  }
  return ranks;
}

void make_channels(const std::vector<Rank>& ranks, Channels& channels) {
  for (const Rank& rank : ranks) {
    const int own = rank.topology.rank();
    const RankPeers peers = rank.peers();
    if (peers.steps_to) channels.make(Kind::kStep, own, *peers.steps_to);
    for (const int shard : peers.plans_to) channels.make(Kind::kStep, own, shard);
    if (peers.results_to) channels.make(Kind::kResult, own, *peers.results_to);
    if (!peers.work_from) continue;
    channels.make(Kind::kWork, *peers.work_from, own);
    channels.make(Kind::kReport, own, *peers.work_from);
  }
}

void run_relay(Rank& rank, Channels& channels, int max_rows) {
  const int own = rank.topology.rank();
  const RankPeers peers = rank.peers();
  const int from = peers.plans_from ? *peers.plans_from : peers.steps_from.value();
  const auto sender = [&](Kind kind, std::optional<int> to) {
    return to ? channels.sender(kind, own, *to) : nullptr;
  };
  RelayStage relay(*rank.executor,
                   {.upstream = channels.receiver(Kind::kStep, from, own),
                    .downstream = sender(Kind::kStep, peers.steps_to),
                    .results = sender(Kind::kResult, peers.results_to)},
                   {.stage = rank.at().pipeline,
                    .hidden_size = rank.checkpoint->config().hidden_size,
                    .max_rows = max_rows,
                    .stall_timeout_s = kStallTimeout_s,
                    .upstream_name = "the stage before",
                    .downstream_name = "the stage after"});
  relay.run();
}

ReplicaHead make_head(Rank& rank, Channels& channels, Scheduler& scheduler, int max_rows) {
  const int own = rank.topology.rank();
  const RankPeers peers = rank.peers();
  HeadLinks links;
  for (const int shard : peers.plans_to) {
    links.peers.push_back(channels.sender(Kind::kStep, own, shard));
  }
  if (peers.steps_to) {
    links.downstream = channels.sender(Kind::kStep, own, *peers.steps_to);
    links.results = channels.receiver(Kind::kResult, peers.results_from.value(), own);
  }
  return {scheduler, *rank.executor, std::move(links),
          HeadSettings{.num_stages = rank.topology.layout().pipeline,
                       .hidden_size = rank.checkpoint->config().hidden_size,
                       .max_rows = max_rows,
                       .stall_timeout_s = kStallTimeout_s,
                       .downstream_name = "the second stage",
                       .last_name = "the last stage"}};
}

void run_replica(const ThreadsJob& job, Rank& rank, Channels& channels) {
  Scheduler scheduler(limits_of(job, rank.checkpoint->config()));
  ReplicaHead head = make_head(rank, channels, scheduler, job.max_rows);
  const int own = rank.topology.rank();
  ReplicaLoop({.work = channels.receiver(Kind::kWork, 0, own),
               .reports = channels.sender(Kind::kReport, own, 0),
               .name = "rank 0",
               .stall_timeout_s = kStallTimeout_s},
              scheduler, head)
      .run();
}

ThreadsJobEnd run_root(const ThreadsJob& job, Rank& rank, Channels& channels) {
  Scheduler scheduler(limits_of(job, rank.checkpoint->config()));
  ReplicaHead head = make_head(rank, channels, scheduler, job.max_rows);
  std::vector<ReplicaLink> others;
  for (const int other : rank.peers().work_to) {
    others.push_back({.work = channels.sender(Kind::kWork, 0, other),
                      .reports = channels.receiver(Kind::kReport, other, 0),
                      .name = "rank " + std::to_string(other)});
  }
  Dispatcher dispatcher(std::move(others), {.max_outstanding = job.max_num_seqs + 2,
                                            .stall_timeout_s = kStallTimeout_s});
  const std::shared_ptr<const Tokenizer> tokenizer =
      Tokenizer::load(job.tokenizer.empty() ? job.model : job.tokenizer);
  const ModelConfig& config = rank.checkpoint->config();
  const RequestParser parser(ParserConfig{.tokenizer = tokenizer,
                                          .chat = {},
                                          .max_model_len = job.max_model_len,
                                          .vocab_size = config.vocab_size,
                                          .end_ids = config.eos_token_ids,
                                          .defaults = {},
                                          .seed = 0,
                                          .served_model_names = {}});
  JobStore store({.paths = {.output = job.output, .error_file = "", .journal_dir = ""},
                  .key = {{"model", "tiny", ""}}});
  const AnswerContext context{
      .tokenizer = tokenizer, .job_key = store.job_key(), .model = "tiny", .created = 0};
  HostSide host(InputReader(InputOptions{.paths = {job.input}, .shard = {}}), parser, context,
                store, {.max_outstanding = 4 * job.max_num_seqs});
  const LoopEnd end =
      run_job_loop({.host = host, .dispatcher = dispatcher, .scheduler = scheduler, .head = head},
                   {.on_tick = [](double) {}, .stop_requested = job.stop_requested});
  if (end == LoopEnd::kFinished) store.complete({});
  return {.end = end, .counts = host.counts()};
}

}  // namespace

SchedulerLimits limits_of(const ThreadsJob& job, const ModelConfig& config) {
  return {.num_micro_batches = job.layout.pipeline,
          .max_num_seqs = job.max_num_seqs,
          .max_rows = job.max_rows,
          .num_blocks = job.num_blocks,
          .block_tokens = kBlockTokens,
          .kv = groups_of(job, config),
          .max_model_len = job.max_model_len,
          .max_plan_bytes = 0};
}

ThreadsJobEnd run_threads_job(const ThreadsJob& job) {
  std::vector<Rank> ranks = make_ranks(job);
  Channels channels;
  make_channels(ranks, channels);
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    others.emplace_back([&, i] {
      Rank& rank = ranks[i];
      const bool is_head = rank.topology.is_first_stage() && rank.at().tensor == 0;
      is_head ? run_replica(job, rank, channels) : run_relay(rank, channels, job.max_rows);
    });
  }
  return run_root(job, ranks[0], channels);
}

}  // namespace headrace
