// A whole model for scheduler tests: it follows plans as a stage does, with a paged cache that
// holds token ids instead of keys and values, and "predicts" by hashing what it reads back. A block
// used by two sequences or by two KV groups, a wrong table or a wrong position changes the tokens
// that come out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/schedule/scheduler.h"
#include "runtime/schedule/sequence_blocks.h"

namespace headrace::testing {

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6) + (hash >> 2);
  hash *= 0xBF58476D1CE4E5B9ULL;
  return hash ^ (hash >> 29);
}

/// Of what each KV group looks at: all tokens, or the last so many.
inline std::uint64_t hash_of(std::span<const TokenId> tokens, const KvGroups& kv = {}) {
  std::uint64_t hash = 1;
  for (const KvGroup& group : kv.groups) {
    const auto most = static_cast<std::size_t>(group.positions_read);
    const bool all = most == 0 || tokens.size() <= most;
    for (const TokenId token : all ? tokens : tokens.last(most)) {
      hash = mix(hash, static_cast<std::uint64_t>(token));
    }
  }
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
  FakeStage(const SchedulerLimits& limits, int vocab)
      : limits_(limits),
        vocab_(vocab),
        tables_(index(limits.kv.size())),
        live_(index(limits.max_num_seqs), false) {
    for (int g = 0; g < limits.kv.size(); ++g) {
      block_cells_ = std::max(block_cells_, tokens_per_block(limits, g));
      tables_[index(g)].resize(index(limits.max_num_seqs));
    }
    cache_.resize(index(limits.num_blocks) * index(block_cells_), -1);
    swap_.resize(index(limits.num_swap_blocks) * index(block_cells_), -1);
  }

  StepResult execute(const StepPlan& plan) {
    // What was copied is worth nothing where it was, which shows should anything look there.
    for (const BlockSwap& save : plan.saves) {
      move_block(cache_, save.block, swap_, save.swap_block);
    }
    for (const Slot slot : plan.released) {
      require(live_.at(index(slot)), "a slot is released that is not in use");
      live_[index(slot)] = false;
      for (auto& tables : tables_) tables[index(slot)].clear();
    }
    for (const Admission& admission : plan.admitted) {
      require(!live_.at(index(admission.slot)), "a slot is admitted twice");
      live_[index(admission.slot)] = true;
    }
    for (const BlockSwap& restore : plan.restores) {
      move_block(swap_, restore.swap_block, cache_, restore.block);
    }
    const TokenId* tokens = plan.tokens.data();
    const BlockId* blocks = plan.new_blocks.data();
    for (const StepEntry& entry : plan.entries) {
      require(live_.at(index(entry.slot)), "rows for a slot that is not in use");
      const int end = entry.first_position + entry.num_rows;
      for (int g = 0; g < limits_.kv.size(); ++g) {
        std::vector<BlockId>& table = tables_[index(g)][index(entry.slot)];
        table.insert(table.end(), blocks, blocks + entry.num_new_blocks[index(g)]);
        blocks += entry.num_new_blocks[index(g)];
        const int block = tokens_per_block(limits_, g);
        require(static_cast<int>(table.size()) == (end + block - 1) / block,
                "a table does not cover its rows exactly");
      }
      store(entry, tokens);
      tokens += entry.num_rows;
    }
    StepResult result;
    result.id = plan.id;
    tokens = plan.tokens.data();
    const TokenId* following = plan.following.data();
    for (const StepEntry& entry : plan.entries) {
      run(entry, tokens, entry.score ? *following++ : -1, result);
      tokens += entry.num_rows;
    }
    return result;
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static void require(bool good, const char* why) {
    if (!good) throw std::runtime_error(why);
  }

  void move_block(std::vector<std::int64_t>& from, BlockId source, std::vector<std::int64_t>& to,
                  BlockId target) const {
    for (std::size_t i = 0; i < index(block_cells_); ++i) {
      to.at(index(target) * index(block_cells_) + i) =
          std::exchange(from.at(index(source) * index(block_cells_) + i), -1);
    }
  }

  // What a group keeps there is the token and which group it is.
  std::int64_t& cell(int group, Slot slot, int position) {
    const int block = tokens_per_block(limits_, group);
    const BlockId id = tables_[index(group)][index(slot)].at(index(position / block));
    return cache_.at(index(id) * index(block_cells_) + index(position % block));
  }
  std::int64_t kept(int group, TokenId token) const { return std::int64_t{group} * vocab_ + token; }

  // Of what a row at this position looks at, read back from the cache.
  std::uint64_t hash_at(Slot slot, int position) {
    std::uint64_t hash = 1;
    for (int g = 0; g < limits_.kv.size(); ++g) {
      const int window = limits_.kv.groups[index(g)].positions_read;
      for (int p = window == 0 ? 0 : std::max(0, position - window + 1); p <= position; ++p) {
        hash = mix(hash, static_cast<std::uint64_t>(cell(g, slot, p) - kept(g, 0)));
      }
    }
    return hash;
  }

  // All rows of a step are stored before any looks at the cache, as in a layer.
  void store(const StepEntry& entry, const TokenId* tokens) {
    for (int row = 0; row < entry.num_rows; ++row) {
      for (int g = 0; g < limits_.kv.size(); ++g) {
        cell(g, entry.slot, entry.first_position + row) = kept(g, tokens[row]);
      }
    }
  }

  void run(const StepEntry& entry, const TokenId* tokens, TokenId following, StepResult& result) {
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

  SchedulerLimits limits_;
  int vocab_;
  int block_cells_ = 0;
  std::vector<std::int64_t> cache_;                        // [num_blocks, block_cells_]
  std::vector<std::int64_t> swap_;                         // [num_swap_blocks, block_cells_]
  std::vector<std::vector<std::vector<BlockId>>> tables_;  // [groups, slots]
  std::vector<bool> live_;
};

}  // namespace headrace::testing
