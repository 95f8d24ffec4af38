#include "runtime/schedule/scheduler_input.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "runtime/schedule/sequence_blocks.h"
#include "runtime/schedule/swap_space.h"

namespace headrace {

std::size_t Scheduler::min_plan_bytes(const SchedulerLimits& limits) {
  const auto num_seqs = static_cast<std::size_t>(limits.max_num_seqs);
  const auto max_rows = static_cast<std::size_t>(limits.max_rows);
  StepPlan plan;
  plan.num_kv_groups = limits.kv.size();
  plan.released.resize(num_seqs);
  plan.entries.resize(std::min(num_seqs, max_rows));
  plan.tokens.resize(max_rows);
  plan.following.resize(plan.entries.size());
  // Each entry may begin in the middle of a block, and no entry has more blocks of a group than
  // rows.
  std::size_t num_blocks = 0;
  for (int g = 0; g < limits.kv.size(); ++g) {
    const auto block = static_cast<std::size_t>(tokens_per_block(limits, g));
    num_blocks += std::min(max_rows, max_rows / block + plan.entries.size());
  }
  // A sequence that comes back brings its tables with it.
  if (limits.num_swap_blocks > 0) {
    num_blocks += static_cast<std::size_t>(most_places(limits));
    plan.saves.resize(static_cast<std::size_t>(most_saves(limits)));
    plan.restores.resize(static_cast<std::size_t>(most_restores(limits)));
  }
  plan.new_blocks.resize(num_blocks);
  plan.admitted.resize(1);
  plan.admitted[0].params.logit_bias.resize(std::size_t{kMaxLogitBias});
  plan.admitted[0].params.banned_before_min.resize(std::size_t{kMaxStopIds});
  return encoded_bytes(plan);
}

int Scheduler::blocks_for(const SchedulerLimits& limits, int num_tokens) {
  int blocks = 0;
  for (int g = 0; g < limits.kv.size(); ++g) {
    blocks += blocks_while_prefilled(limits, g, num_tokens);
  }
  return blocks;
}

void check_limits(const SchedulerLimits& limits) {
  const auto check = [](bool good, const char* name, const std::string& value,
                        const char* accepted) {
    if (good) return;
    throw std::invalid_argument(std::string("scheduler: ") + name + " is " + value + ", must be " +
                                accepted);
  };
  const auto at_least_one = [&](const char* name, int value) {
    check(value >= 1, name, std::to_string(value), "at least 1");
  };
  at_least_one("num_micro_batches", limits.num_micro_batches);
  at_least_one("max_num_seqs", limits.max_num_seqs);
  at_least_one("max_rows", limits.max_rows);
  at_least_one("efficient_rows", limits.efficient_rows);
  at_least_one("num_blocks", limits.num_blocks);
  check(limits.num_swap_blocks >= 0, "num_swap_blocks", std::to_string(limits.num_swap_blocks),
        "0 or more");
  at_least_one("block_tokens", limits.block_tokens);
  at_least_one("max_model_len", limits.max_model_len);
  check(limits.kv.size() >= 1 && limits.kv.size() <= kMaxKvGroups, "number of KV groups",
        std::to_string(limits.kv.size()), "1 or 2");
  for (const KvGroup& group : limits.kv.groups) {
    at_least_one("pages_per_block", group.pages_per_block);
    check(group.positions_read >= 0, "positions_read", std::to_string(group.positions_read),
          "0 or more");
  }
  const std::size_t min_bytes = Scheduler::min_plan_bytes(limits);
  check(limits.max_plan_bytes == 0 || limits.max_plan_bytes >= min_bytes, "max_plan_bytes",
        std::to_string(limits.max_plan_bytes),
        ("0 or at least " + std::to_string(min_bytes)).c_str());
}

void check_sequence(const NewSequence& sequence) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument("sequence " + std::to_string(sequence.id) + ": " + why);
  };
  const auto num_tokens = static_cast<std::int64_t>(sequence.tokens.size());
  if (sequence.num_prompt_tokens < 1 || sequence.num_prompt_tokens > num_tokens) {
    refuse("num_prompt_tokens is " + std::to_string(sequence.num_prompt_tokens) +
           ", must be from 1 to the number of tokens, " + std::to_string(num_tokens));
  }
  if (sequence.max_tokens < num_tokens - sequence.num_prompt_tokens) {
    refuse("max_tokens is " + std::to_string(sequence.max_tokens) +
           ", must not be below the number of tokens generated earlier");
  }
  if (sequence.params.logit_bias.size() > std::size_t{kMaxLogitBias} ||
      sequence.params.banned_before_min.size() > std::size_t{kMaxStopIds}) {
    refuse("at most " + std::to_string(kMaxLogitBias) + " logit biases and " +
           std::to_string(kMaxStopIds) + " banned ids can travel");
  }
}

}  // namespace headrace
