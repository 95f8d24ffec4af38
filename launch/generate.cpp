// `headrace generate`: the main job. Every rank runs this; rank 0 is dispatcher, host and head.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>

#include "comm/nccl_memory.h"
#include "launch/agreement.h"
#include "launch/commands.h"
#include "launch/exit_codes.h"
#include "launch/generate.h"
#include "launch/generate_options.h"
#include "launch/generate_setup.h"
#include "launch/generate_summary.h"
#include "launch/generate_trace.h"
#include "launch/guard.h"
#include "launch/load_weights.h"
#include "launch/rank_links.h"
#include "launch/rank_profile.h"
#include "runtime/dispatch/replica_loop.h"
#include "runtime/driver/job_loop.h"
#include "runtime/driver/progress.h"
#include "runtime/driver/stop_signal.h"
#include "runtime/pipeline/relay_stage.h"

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Sequences that wait or run beyond those that can run at once, so that the scheduler can choose.
constexpr int kLookaheadFactor = 2;

/// One rank's part of a job, from loaded weights to the last message.
class Job {
 public:
  Job(const Environment& environment, const GenerateOptions& options, RankSetup& setup)
      : environment_(environment),
        options_(options),
        setup_(setup),
        topology_(setup.layout, environment.rank()) {}

  int run(HostSetup* host) {
    reserve_device_memory(environment_, options_, setup_);
    links_ = make_rank_links(environment_, options_, setup_);
    load();
    setup_.pool->set_poll([this] { links_->poll(); });
    setup_.ops->arena().set_poll([this] { links_->poll(); });
    if (setup_.recorder) {
      tracer_.emplace(environment_, setup_, host != nullptr ? host->trace.get() : nullptr);
      tracer_->start();
    }
    if (host != nullptr) return run_root(*host);
    if (is_head()) return run_replica();
    return run_relay();
  }

 private:
  bool is_head() const { return setup_.at.pipeline == 0 && setup_.at.tensor == 0; }

  void load() {
    const Clock::time_point start = Clock::now();
    StageWeights weights = load_weights(environment_, options_, setup_);
    model_ =
        std::make_unique<StageModel>(setup_.checkpoint->config(), setup_.part(), std::move(weights),
                                     *setup_.ops, setup_.size, links_->of_operators());
    executor_ = std::make_unique<StageExecutor>(
        *model_, *setup_.pool,
        ExecutorLimits{.max_num_seqs = options_.max_num_seqs,
                       .max_length = setup_.max_model_len,
                       .max_logit_rows = setup_.size.max_logit_rows},
        links_->exchange.get());
    save_rank_profile(environment_, options_, setup_.device);
    load_s_ = seconds_since(start);
    loading_peak_bytes_ = peak_memory_bytes();
  }

  // The name of a rank of this pipeline.
  const std::string& name(int stage, int shard = 0) const {
    return setup_.name(
        topology_.rank_of({.data = setup_.at.data, .pipeline = stage, .tensor = shard}));
  }

  int run_relay() {
    const Coordinates at = setup_.at;
    const bool last = setup_.part().head;
    RelayStage relay(
        *executor_,
        {.upstream = links_->upstream.get(),
         .downstream = links_->downstream.get(),
         .results = links_->result_sender.get(),
         .hidden = links_->hidden()},
        {.stage = at.pipeline,
         .hidden_size = setup_.checkpoint->config().hidden_size,
         .max_rows = setup_.size.max_rows,
         .stall_timeout_s = options_.stall_timeout_s,
         .upstream_name = at.pipeline == 0 ? name(0) : name(at.pipeline - 1, at.tensor),
         .downstream_name = last ? name(0) : name(at.pipeline + 1, at.tensor),
         .recorder = setup_.recorder.get()});
    relay.run();
    return end_together(relay.times());
  }

  ReplicaHead make_head(Scheduler& scheduler) {
    HeadLinks links{.peers = {},
                    .downstream = links_->downstream.get(),
                    .results = links_->result_receiver.get(),
                    .hidden = links_->hidden()};
    for (const auto& peer : links_->peers) links.peers.push_back(peer.get());
    const int last = setup_.num_stages() - 1;
    return {scheduler, *executor_, std::move(links),
            HeadSettings{.num_stages = setup_.num_stages(),
                         .hidden_size = setup_.checkpoint->config().hidden_size,
                         .max_rows = setup_.size.max_rows,
                         .stall_timeout_s = options_.stall_timeout_s,
                         .downstream_name = name(std::min(1, last)),
                         .last_name = name(last),
                         .recorder = setup_.recorder.get()}};
  }

  int run_replica() {
    Scheduler scheduler(setup_.scheduler_limits(options_));
    ReplicaHead head = make_head(scheduler);
    ReplicaLoop loop({.work = links_->work_receiver.get(),
                      .reports = links_->report_sender.get(),
                      .name = setup_.name(0),
                      .stall_timeout_s = options_.stall_timeout_s},
                     scheduler, head);
    loop.run();
    return end_together(head.times()[0]);
  }

  std::vector<RankReport> gather_reports(const StageTimes& times) {
    const StageMemory planned =
        stage_memories(setup_, options_).at(static_cast<std::size_t>(setup_.at.pipeline));
    const std::vector<std::string> texts =
        environment_.world().gather(encode_report({.at = setup_.at,
                                                   .times = times,
                                                   .weight_bytes = planned.weight_bytes,
                                                   .kv_cache_bytes = planned.kv_bytes,
                                                   .loading_peak_bytes = loading_peak_bytes_,
                                                   .peak_memory_bytes = peak_memory_bytes(),
                                                   .num_threads = setup_.num_threads,
                                                   .draws = executor_->draw_counts(),
                                                   .host = environment_.host()}),
                                    0);
    std::vector<RankReport> reports;
    reports.reserve(texts.size());
    for (const std::string& text : texts) reports.push_back(decode_report(text));
    return reports;
  }

  // Every rank but 0: the exit code is rank 0's.
  int end_together(const StageTimes& times) {
    if (tracer_) tracer_->finish(/*brief=*/false);
    gather_reports(times);
    return std::stoi(environment_.world().broadcast(std::string(), 0));
  }

  Dispatcher make_dispatcher() {
    std::vector<ReplicaLink> links;
    for (std::size_t i = 0; i < links_->work_senders.size(); ++i) {
      const Coordinates head{.data = static_cast<int>(i) + 1, .pipeline = 0, .tensor = 0};
      links.push_back({.work = links_->work_senders[i].get(),
                       .reports = links_->report_receivers[i].get(),
                       .name = setup_.name(topology_.rank_of(head))});
    }
    constexpr int kWaiting = 8;  // for each, one in so many beyond those that run
    return {std::move(links),
            {.max_outstanding = options_.max_num_seqs + options_.max_num_seqs / kWaiting + 1,
             .stall_timeout_s = options_.stall_timeout_s}};
  }

  int run_root(HostSetup& host) {
    Scheduler scheduler(setup_.scheduler_limits(options_));
    ReplicaHead head = make_head(scheduler);
    Dispatcher dispatcher = make_dispatcher();
    const Clock::time_point start = Clock::now();
    HostSide host_side(
        InputReader(input_options(options_)), *host.parser, host.context, host.store,
        {.max_outstanding = options_.max_num_seqs * kLookaheadFactor * setup_.layout.data,
         .recorder = tracer_ ? tracer_->host_recorder() : nullptr});
    Progress progress(stderr);
    const auto replicas = [&] {
      std::vector<ReplicaView> views{
          {.scheduler = scheduler.stats(), .head = head.counters(), .times = head.times()}};
      for (ReplicaView& view : dispatcher.views()) views.push_back(std::move(view));
      return views;
    };
    const auto view = [&](double elapsed_s) {
      return ProgressView{.host = host_side.counts(),
                          .replicas = replicas(),
                          .num_blocks = setup_.size.num_blocks,
                          .elapsed_s = elapsed_s};
    };
    const LoopEnd end = run_job_loop(
        {.host = host_side, .dispatcher = dispatcher, .scheduler = scheduler, .head = head},
        {.on_tick =
             [&](double elapsed_s) {
               if (progress.is_due(elapsed_s)) progress.show(view(elapsed_s));
             },
         .stop_requested = stop_signal});
    const double wall_s = seconds_since(start);
    progress.clear();
    if (end == LoopEnd::kStoppedInFlight) stop_now();
    if (tracer_) tracer_->finish(/*brief=*/end != LoopEnd::kFinished);

    const RunReport report{.layout = to_string(setup_.layout),
                           .layers = layer_counts(),
                           .wall_s = wall_s,
                           .load_s = load_s_,
                           .start_up_s = start_up_s(host_side.latencies()),
                           .counts = host_side.counts(),
                           .latencies = host_side.latencies(),
                           .replicas = replicas(),
                           .ranks = gather_reports(head.times()[0])};
    int exit_code = kExitResumable;
    if (end == LoopEnd::kFinished) {
      host.store.complete(summary_json(report));
      exit_code = host.store.exit_code();
    }
    fmt::print(stderr, "{}", summary_text(report));
    fmt::print(stderr, "{}\n", closing_line(end));
    environment_.world().broadcast(std::to_string(exit_code), 0);
    return exit_code;
  }

  double start_up_s(const HostLatencies& latencies) const {
    if (latencies.earliest_token == Clock::time_point{}) return 0.0;
    return std::chrono::duration<double>(latencies.earliest_token - environment_.begin()).count();
  }

  std::string closing_line(LoopEnd end) const {
    if (end == LoopEnd::kFinished) return "answers: " + options_.output;
    return fmt::format("stopped by signal {}: everything so far is saved; the same command goes on",
                       stop_signal());
  }

  // Steps are still out, but everything that came back is saved: nothing is lost by not waiting.
  [[noreturn]] void stop_now() {
    fmt::print(stderr, "{}\n", closing_line(LoopEnd::kStopped));
    if (tracer_) tracer_->finish_alone();
    MPI_Abort(MPI_COMM_WORLD, kExitResumable);
    std::_Exit(kExitResumable);
  }

  std::vector<int> layer_counts() const {
    std::vector<int> counts;
    for (const StagePart& part : setup_.parts) counts.push_back(part.num_layers());
    return counts;
  }

  const Environment& environment_;
  const GenerateOptions& options_;
  RankSetup& setup_;
  Topology topology_;
  std::unique_ptr<RankLinks> links_;
  std::unique_ptr<StageModel> model_;
  std::unique_ptr<StageExecutor> executor_;
  std::optional<JobTracer> tracer_;
  double load_s_ = 0.0;
  std::uint64_t loading_peak_bytes_ = 0;
};

// A finished job is only checked: its input must be the one it was made from.
int check_finished(HostSetup& host, const GenerateOptions& options) {
  InputReader reader(input_options(options));
  InputLine line;
  while (reader.next(line)) host.store.begin_line(line, reader.place(line));
  host.store.end_input();
  fmt::print(stderr,
             "{} is complete: {} answered, {} failed; nothing to do (--overwrite starts afresh)\n",
             options.output, host.store.counts().num_answered, host.store.counts().num_failed);
  return host.store.exit_code();
}

void print_setup(const Environment& environment, const RankSetup& setup,
                 const GenerateOptions& options, const HostSetup& host) {
  const ModelConfig& config = setup.checkpoint->config();
  std::string quantization;
  if (options.quantization != "none")
    quantization = fmt::format(", {} weights", options.quantization);
  if (options.kv_cache_dtype != "auto") {
    quantization += fmt::format(", {} KV cache", options.kv_cache_dtype);
  }
  fmt::print(stderr, "{}: {}, {} layers, hidden {}, {}/{} heads, vocabulary {}, {}{}\n",
             options.model, config.architecture, config.num_layers, config.hidden_size,
             config.num_heads, config.num_kv_heads, config.vocab_size, dtype_name(setup.dtype),
             quantization);
  fmt::print(stderr, "layout {} (P×T×D), {} micro-batch{}, {} thread{} a rank\n",
             to_string(setup.layout), setup.num_micro_batches,
             setup.num_micro_batches == 1 ? "" : "es", setup.num_threads,
             setup.num_threads == 1 ? "" : "s");
  if (setup.device.is_gpu) {
    fmt::print(stderr, "{} with {}, sums of {}\n", setup.device.name(),
               bytes_text(setup.device.gpu.total_bytes), setup.numeric_classes[0]);
  }
  if (setup.transport.kind) {
    const auto transport = transport_options(options, setup, environment.rank());
    const std::size_t nccl = transport ? nccl_bytes(*transport) : 0;
    fmt::print(stderr, "between GPUs: {}{}\n", setup.transport.text(),
               nccl == 0 ? "" : fmt::format(", which may take {} of this GPU", bytes_text(nccl)));
  }
  fmt::print(stderr, "{}", memory_table(stage_memories(setup, options), setup.size));
  for (const std::string& warning : placement_warnings(environment, setup)) {
    fmt::print(stderr, "warning: {}\n", warning);
  }
  if (!host.store.found().empty()) fmt::print(stderr, "{}\n", host.store.found());
}

struct Prepared {
  GenerateOptions options;
  RankSetup setup;
  std::unique_ptr<HostSetup> host;  // on rank 0
  bool finished = false;            // there is nothing to run
  int exit_code = kExitSuccess;     // then
};

void prepare(Environment& environment, const std::vector<std::string>& args, Prepared& p) {
  const Communicator& world = environment.world();
  const bool is_root = environment.rank() == 0;
  std::optional<std::string> help;
  prepare_together(world, [&] { help = parse_generate_options(args, p.options); });
  if (help) {
    if (is_root) fmt::print("{}", *help);
    p.finished = true;
    return;
  }
  prepare_together(world, [&] { place_processes(environment, p.options); });
  RankDevice device;
  prepare_together(world, [&] { device = choose_device(environment, p.options); });
  settle_isa(environment, p.options, device);
  open_rank_profile(environment, p.options, device);
  prepare_together(world, [&] { p.setup = set_up_rank(environment, p.options, device); });
  install_guard(fmt::format("rank {} ({}, {})", environment.rank(),
                            place_text(p.setup.layout, p.setup.at), environment.host()));
  prepare_together(world,
                   [&] { p.setup.transport = choose_transport(environment, p.options, p.setup); });
  prepare_together(world, [&] { plan_swap_space(environment, p.options, p.setup); });
  prepare_together(world, [&] { plan_device_memory(environment, p.options, p.setup); });
  prepare_together(world, [&] { plan_memory(environment, p.options, p.setup); });
  std::string answer;  // of rank 0: the exit code of a finished job, or nothing
  prepare_together(world, [&] {
    if (!is_root) return;
    p.host = set_up_host(p.setup, p.options);
    if (p.host->store.state() != JobState::kFinished) return;
    if (p.options.retry_failed && p.host->store.counts().num_failed > 0) {
      InputReader reader(input_options(p.options));
      p.host->store.reopen_failed(reader);
      return;
    }
    answer = std::to_string(check_finished(*p.host, p.options));
  });
  answer = world.broadcast(answer, 0);
  if (!answer.empty()) {
    p.finished = true;
    p.exit_code = std::stoi(answer);
    return;
  }
  if (is_root) print_setup(environment, p.setup, p.options, *p.host);
}

}  // namespace

std::unique_ptr<Environment> start_mpi() {
  // Waiting ranks give way to computing ones; costs 0.4 microseconds a message where cores suffice.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", /*overwrite=*/0);
  return std::make_unique<Environment>();
}

int generate(Environment& environment, const std::vector<std::string>& args) {
  install_guard(fmt::format("rank {} ({})", environment.rank(), environment.host()));
  Prepared prepared;
  try {
    prepare(environment, args, prepared);
  } catch (const std::invalid_argument& mistake) {
    if (environment.rank() == 0) fmt::print(stderr, "headrace: {}\n", mistake.what());
    return kExitUsage;
  }
  if (prepared.finished) return prepared.exit_code;
  install_stop_signals();
  return Job(environment, prepared.options, prepared.setup).run(prepared.host.get());
}

int run_generate(const std::vector<std::string>& args) {
  const std::unique_ptr<Environment> environment = start_mpi();
  return generate(*environment, args);
}

}  // namespace headrace
