// The message of one step: what a micro-batch does in every stage. Made by the head, travels down
// the pipeline in front of the hidden states, executed by each stage in the order of arrival. It
// carries only what changed; each stage keeps block tables by slot. STEP_PLAN.md gives the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/swap_memory.h"
#include "model/kv_groups.h"
#include "model/token.h"
#include "runtime/sampling/sampling_params.h"

namespace headrace {

using StepId = std::int64_t;
using BlockId = std::int32_t;
/// Index of a running sequence's state in every stage: 0 .. max_num_seqs - 1, reused after release.
using Slot = std::int32_t;

/// A sequence enters (or, after preemption, enters again). Comes in the step of its first chunk.
struct Admission {
  Slot slot = 0;
  std::int32_t num_prompt_tokens = 0;  // tokens before this position belong to the prompt
  std::int32_t max_length = 0;         // tokens that prompt and completion may come to
  SamplingParams params;
};

/// Consecutive rows of one sequence. Rows of an entry follow those of the entry before it.
struct StepEntry {
  Slot slot = 0;
  std::int32_t first_position = 0;
  std::int32_t num_rows = 0;
  bool sample = false;  // the last row yields a token
  bool score = false;   // every row yields the log-probability of the token that follows it
  // Blocks appended to the slot's table of each KV group by this step, taken in order from
  // StepPlan::new_blocks.
  std::array<std::int32_t, kMaxKvGroups> num_new_blocks{};
};

struct StepPlan {
  StepId id = 0;
  bool last = false;                // nothing follows: the stage passes it on and ends
  int num_kv_groups = 1;            // those of the model
  std::vector<BlockSwap> saves;     // applied first: blocks that this step may write to are kept
  std::vector<Slot> released;       // then: table and sampling state of these are dropped
  std::vector<Admission> admitted;  // then
  std::vector<BlockSwap> restores;  // last before the rows; the blocks are among new_blocks
  std::vector<StepEntry> entries;
  std::vector<BlockId> new_blocks;  // entry by entry, in each group by group
  std::vector<TokenId> tokens;      // one a row
  // For entries with score: the token after the entry's last row, or -1 where the sequence ends
  // there.
  std::vector<TokenId> following;  // one an entry with score, in order

  int num_rows() const { return static_cast<int>(tokens.size()); }
};

/// Little-endian, versioned. encode appends to out; decode throws std::runtime_error naming the
/// field when bytes are short, of another version or contradictory.
void encode(const StepPlan& plan, std::vector<std::byte>& out);
StepPlan decode_step_plan(std::span<const std::byte> bytes);
std::size_t encoded_bytes(const Admission& admission);
std::size_t encoded_entry_bytes(int num_kv_groups);  // without its tokens and blocks
std::size_t encoded_bytes(const StepPlan& plan);

/// A token with its log-probability and, where asked for, the best alternatives (descending
/// log-probability, ties by ascending id).
struct ScoredToken {
  TokenId token = -1;
  float logprob = 0.0F;   // float32 log-softmax of the model's own logits
  std::int32_t rank = 0;  // 1: the best; 0: not asked for
  std::vector<std::pair<TokenId, float>> top;
};

/// The most that one takes in a message.
inline constexpr std::size_t kMaxScoredTokenBytes =
    16 + std::size_t{kMaxLogprobs} * (sizeof(TokenId) + sizeof(float));

/// What the last stage sends back to the head.
struct StepResult {
  StepId id = 0;
  struct Entry {
    Slot slot = 0;
    std::int32_t first_position = 0;  // of the entry's rows
    std::vector<ScoredToken> scored;  // one for each scored row that has a following token
    bool sampled = false;
    ScoredToken token;  // where sampled
  };
  std::vector<Entry> entries;  // of the plan's entries that sample or score, in order
};

void encode(const StepResult& result, std::vector<std::byte>& out);
StepResult decode_step_result(std::span<const std::byte> bytes);

}  // namespace headrace
