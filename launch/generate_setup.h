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
#include "kernels/thread_pool.h"
#include "launch/generate_options.h"
#include "launch/memory_plan.h"
#include "launch/model_text.h"
#include "model/checkpoint/checkpoint.h"
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
  int stage = 0;
  std::unique_ptr<Checkpoint> checkpoint;
  DType dtype = DType::kFloat32;
  int num_threads = 1;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Ops> ops;
  std::vector<StagePart> parts;  // of all stages
  StageSize size;
  int max_model_len = 0;
  int num_micro_batches = 1;
  std::size_t max_plan_bytes = 0;
  std::vector<std::string> names;  // of all stages: "rank 1 on host a (stage 1)"

  const StagePart& part() const { return parts[static_cast<std::size_t>(stage)]; }
  int num_stages() const { return layout.pipeline; }
  ChannelShape step_channel() const;
  ChannelShape result_channel(int max_num_seqs) const;
  SchedulerLimits scheduler_limits(const GenerateOptions& options) const;
};

/// Opens the model and splits it. Every rank for itself.
RankSetup set_up_rank(const Environment& environment, const GenerateOptions& options);

/// Settles the number of KV blocks and learns the stages' names. Collective over the world.
void plan_memory(const Environment& environment, const GenerateOptions& options, RankSetup& setup);

/// Memory of each stage, for the table.
std::vector<StageMemory> stage_memories(const RankSetup& setup, const GenerateOptions& options);

/// What this machine or its launcher makes slower than need be, one line each.
std::vector<std::string> placement_warnings(const Environment& environment, const RankSetup& setup);

/// On rank 0.
struct HostSetup {
  ModelText text;
  std::unique_ptr<RequestParser> parser;
  AnswerContext context;
  JobStore store;
};

/// Loads tokenizer and template, checks the inputs, opens the job. The template's date is that of
/// the job's first start.
std::unique_ptr<HostSetup> set_up_host(const RankSetup& setup, const GenerateOptions& options);

/// How the job's lines are read.
InputOptions input_options(const GenerateOptions& options);

}  // namespace headrace
