// A whole model for scheduler tests: it follows plans as a stage does, with a paged cache that
// holds token ids instead of keys and values, and "predicts" by hashing what it reads back. A block
// used by two sequences, a wrong table or a wrong position changes the tokens that come out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/schedule/step_plan.h"

namespace headrace::testing {

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6) + (hash >> 2);
  hash *= 0xBF58476D1CE4E5B9ULL;
  return hash ^ (hash >> 29);
}

/// window 0: of all tokens, else of the last so many.
inline std::uint64_t hash_of(std::span<const TokenId> tokens, int window = 0) {
  const auto most = static_cast<std::size_t>(window);
  if (window > 0 && tokens.size() > most) tokens = tokens.last(most);
  std::uint64_t hash = 1;
  for (const TokenId token : tokens) hash = mix(hash, static_cast<std::uint64_t>(token));
  return hash;
}

/// The fake model: the token after a prefix, and the score of a given one.
inline TokenId next_token(std::uint64_t prefix_hash, int vocab) {
  return static_cast<TokenId>(prefix_hash % static_cast<std::uint64_t>(vocab));
}
inline float score_of(std::uint64_t prefix_hash, TokenId token) {
  return -static_cast<float>(mix(prefix_hash, static_cast<std::uint64_t>(token)) % 1000U);
}

class FakeStage {
 public:
  /// window: a row looks at so many positions, its own included; 0: at all.
  FakeStage(int num_blocks, int block_tokens, int max_num_seqs, int vocab, int window = 0)
      : block_tokens_(block_tokens),
        vocab_(vocab),
        window_(window),
        cache_(static_cast<std::size_t>(num_blocks) * static_cast<std::size_t>(block_tokens), -1),
        tables_(static_cast<std::size_t>(max_num_seqs)),
        live_(static_cast<std::size_t>(max_num_seqs), false) {}

  StepResult execute(const StepPlan& plan) {
    for (const Slot slot : plan.released) {
      require(live_.at(index(slot)), "a slot is released that is not in use");
      live_[index(slot)] = false;
      tables_[index(slot)].clear();
    }
    for (const Admission& admission : plan.admitted) {
      require(!live_.at(index(admission.slot)), "a slot is admitted twice");
      live_[index(admission.slot)] = true;
    }
    StepResult result;
    result.id = plan.id;
    const TokenId* tokens = plan.tokens.data();
    const BlockId* blocks = plan.new_blocks.data();
    const TokenId* following = plan.following.data();
    for (const StepEntry& entry : plan.entries) {
      require(live_.at(index(entry.slot)), "rows for a slot that is not in use");
      std::vector<BlockId>& table = tables_[index(entry.slot)];
      table.insert(table.end(), blocks, blocks + entry.num_new_blocks);
      blocks += entry.num_new_blocks;
      const int end = entry.first_position + entry.num_rows;
      require(static_cast<int>(table.size()) == (end + block_tokens_ - 1) / block_tokens_,
              "a table does not cover its rows exactly");
      run(entry, tokens, entry.score ? *following++ : -1, result);
      tokens += entry.num_rows;
    }
    return result;
  }

 private:
  static std::size_t index(Slot slot) { return static_cast<std::size_t>(slot); }
  static void require(bool good, const char* why) {
    if (!good) throw std::runtime_error(why);
  }

  TokenId& cell(Slot slot, int position) {
    const BlockId block =
        tables_[index(slot)].at(static_cast<std::size_t>(position / block_tokens_));
    return cache_.at(static_cast<std::size_t>(block) * static_cast<std::size_t>(block_tokens_) +
                     static_cast<std::size_t>(position % block_tokens_));
  }

  // Of what a row at this position looks at, read back from the cache.
  std::uint64_t hash_at(Slot slot, int position) {
    std::uint64_t hash = 1;
    for (int p = window_ == 0 ? 0 : std::max(0, position - window_ + 1); p <= position; ++p) {
      hash = mix(hash, static_cast<std::uint64_t>(cell(slot, p)));
    }
    return hash;
  }

  void run(const StepEntry& entry, const TokenId* tokens, TokenId following, StepResult& result) {
    for (int row = 0; row < entry.num_rows; ++row) {
      cell(entry.slot, entry.first_position + row) = tokens[row];
    }
    if (!entry.sample && !entry.score) return;
    StepResult::Entry out;
    out.slot = entry.slot;
    out.first_position = entry.first_position;
    std::uint64_t hash = 0;
    for (int row = 0; row < entry.num_rows; ++row) {
      hash = hash_at(entry.slot, entry.first_position + row);
      if (!entry.score) continue;
      const TokenId next = row + 1 < entry.num_rows ? tokens[row + 1] : following;
      if (next >= 0) out.scored.push_back({next, score_of(hash, next), 1, {}});
    }
    out.sampled = entry.sample;
    if (entry.sample) out.token = {next_token(hash, vocab_), -0.5F, 1, {}};
    result.entries.push_back(std::move(out));
  }

  int block_tokens_;
  int vocab_;
  int window_;
  std::vector<TokenId> cache_;
  std::vector<std::vector<BlockId>> tables_;
  std::vector<bool> live_;
};

}  // namespace headrace::testing
