// Everything about a `generate` job that is settled before weights are loaded. Each part throws
// std::invalid_argument for a user's mistake.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/environment.h"
#include "comm/message_channel.h"
#include "kernels/ops.h"
#include "kernels/span_recorder.h"
#include "kernels/thread_pool.h"
#include "launch/generate_options.h"
#include "launch/memory_plan.h"
#include "launch/model_text.h"
#include "launch/rank_device.h"
#include "launch/rank_transport.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/partial_file.h"
#include "model/stage_model.h"
#include "partition/topology.h"
#include "runtime/job/answer_builder.h"
#include "runtime/job/job_store.h"
#include "runtime/job/request_parser.h"
#include "runtime/schedule/scheduler.h"

namespace headrace {

/// On every rank.
struct RankSetup {
  ParallelLayout layout;
  Coordinates at;                // this rank's place in it
  std::vector<int> torn_groups;  // those whose ranks are on several nodes, by first rank
  std::unique_ptr<Checkpoint> checkpoint;
  RankDevice device;
  GpuTransport transport;
  DType dtype = DType::kFloat32;
  Quantization quantization = Quantization::kNone;
  QuantizedInputs quantized_inputs = QuantizedInputs::kInt8;
  int num_threads = 1;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<SpanRecorder> recorder;  // with --trace
  std::unique_ptr<Ops> ops;
  std::vector<StagePart> parts;  // of all stages, as their first ranks have them
  StageSize size;
  int max_model_len = 0;
  int num_micro_batches = 1;
  std::size_t max_plan_bytes = 0;
  std::uint64_t kv_bytes = 0;                // that the KV cache may take
  std::vector<std::string> names;            // of all ranks: "rank 1 on host a (stage 1)"
  std::vector<std::string> devices;          // of all ranks: "GPU 0"
  std::vector<std::string> numeric_classes;  // of all stages

  StagePart part() const { return part_of(at); }
  StagePart part_of(const Coordinates& place) const;
  int num_stages() const { return layout.pipeline; }
  const std::string& name(int rank) const { return names[static_cast<std::size_t>(rank)]; }
  /// Columns of hidden states that step messages between neighbouring stages carry: none where the
  /// GPUs' transport does.
  int sent_columns(int rank, int neighbour) const;
  /// Of steps; hidden_size 0: of plans alone.
  ChannelShape step_channel(int hidden_size) const;
  ChannelShape result_channel(int max_num_seqs) const;
  SchedulerLimits scheduler_limits(const GenerateOptions& options) const;
};

/// Gives each process its rank in the layout, so that ranks which share a stage share a node where
/// they can. Collective over the world, before anything else is made from it.
void place_processes(Environment& environment, const GenerateOptions& options);

/// "stage 1", and which shard and replica where there are several.
std::string place_text(const ParallelLayout& layout, const Coordinates& at);

/// Opens the model and splits it. Every rank for itself.
RankSetup set_up_rank(const Environment& environment, const GenerateOptions& options,
                      RankDevice device);

/// Settles how many KV blocks may wait in host memory. Collective over the world. Throws
/// std::invalid_argument where --swap-space is less than a block, or more than the host has.
void plan_swap_space(const Environment& environment, const GenerateOptions& options,
                     RankSetup& setup);

/// Settles the number of KV blocks and learns of the other ranks. Collective over the world.
void plan_memory(const Environment& environment, const GenerateOptions& options, RankSetup& setup);

/// Bytes of a rank's buffer in the exchange that its stage has in host memory: for sums where it
/// computes on the host, for drawn tokens on the last stage. 0 where none is needed.
std::size_t host_exchange_bytes(const RankSetup& setup, const GenerateOptions& options, int rank);

/// Memory of each stage's largest rank, for the table.
std::vector<StageMemory> stage_memories(const RankSetup& setup, const GenerateOptions& options);

/// What this machine or its launcher makes slower than need be, one line each.
std::vector<std::string> placement_warnings(const Environment& environment, const RankSetup& setup);

/// On rank 0.
struct HostSetup {
  ModelText text;
  std::unique_ptr<RequestParser> parser;
  AnswerContext context;
  JobStore store;
  std::unique_ptr<PartialFile> trace;  // with --trace
};

/// Loads tokenizer and template, checks the inputs, opens the job. The template's date is that of
/// the job's first start.
std::unique_ptr<HostSetup> set_up_host(const RankSetup& setup, const GenerateOptions& options);

/// How the job's lines are read.
InputOptions input_options(const GenerateOptions& options);

}  // namespace headrace
