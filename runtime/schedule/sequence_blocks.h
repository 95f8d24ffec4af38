// The KV blocks of one sequence: a table for every KV group, blocks taken ahead for it, and how
// many blocks it takes at all.
#pragma once

#include <array>
#include <vector>

#include "runtime/schedule/block_pool.h"
#include "runtime/schedule/scheduler.h"

namespace headrace {

/// Positions that one block of the group holds.
int tokens_per_block(const SchedulerLimits& limits, int group);

/// Blocks of the group that a sequence of so many tokens holds at most while it is prefilled: with
/// a window, those of the window of a whole step's rows, wherever it begins in its block.
int blocks_while_prefilled(const SchedulerLimits& limits, int group, int num_tokens);

/// Positions of a decoding sequence that the group keeps at most; 0: all. Those of its window, and
/// of the block in which the window begins.
int most_held_tokens(const SchedulerLimits& limits, int group);

/// Places in a table are a sequence's positions in runs of tokens_per_block(). All members take the
/// limits with which the first was called.
class SequenceBlocks {
 public:
  /// Room for so many positions, so that nothing is allocated later.
  void reserve(const SchedulerLimits& limits, int num_positions);

  /// Takes ahead what a prefill of so many tokens needs. The pool must have it.
  void take_for_prefill(const SchedulerLimits& limits, BlockPool& pool, int num_tokens);

  /// Blocks that the rows from this position on read, of a sequence whose positions before it are
  /// computed. append_kept() gives their ids, group by group in order of places.
  static int num_kept(const SchedulerLimits& limits, int num_computed);
  void append_kept(const SchedulerLimits& limits, int num_computed,
                   std::vector<BlockId>& out) const;

  /// Of a sequence that is admitted again with what it had computed.
  struct Progress {
    int num_computed = 0;
    int num_tokens = 0;
  };

  /// As take_for_prefill(), but the first of the blocks taken are those of append_kept(), in their
  /// places. Places before them name block 0, which no row reads.
  void take_for_return(const SchedulerLimits& limits, BlockPool& pool, const Progress& progress);

  /// Consecutive positions.
  struct Rows {
    int begin = 0;
    int end = 0;
  };

  /// Makes every table cover positions [0, rows.end), before these rows are planned: with blocks
  /// taken ahead, with own ones behind the window of the first row, and with those of the pool
  /// where one is given. False where these do not suffice; the tables keep what was found. Stages
  /// that have not executed earlier steps yet still find a block behind a window as it was, since
  /// they execute plans in order.
  bool cover(const SchedulerLimits& limits, Rows rows, BlockPool* pool);

  /// Appends the blocks of the group up to position end - 1 that were not appended before; returns
  /// how many.
  int append_unsent(const SchedulerLimits& limits, int group, int end, std::vector<BlockId>& out);

  /// Gives back what a sequence whose known tokens are planned does not need: what was taken ahead,
  /// and all but one of the blocks behind the window of the row at first_row, the first of its rows
  /// in this step: others may store theirs in what is given back before any row of the step looks.
  /// The one serves as the next place.
  void release_unneeded(const SchedulerLimits& limits, BlockPool& pool, int first_row);

  /// Gives everything back.
  void release_all(BlockPool& pool);

 private:
  struct Table {
    std::vector<BlockId> blocks;  // in order of places; owned but for the first num_gone
    std::vector<BlockId> ahead;   // owned, without a place yet
    int num_gone = 0;             // behind the window: used for later places, or given back
    int num_sent = 0;             // of `blocks`, those that stages know
  };
  /// Places of a table.
  struct Places {
    int begin = 0;
    int end = 0;
  };
  static Places kept_places(const SchedulerLimits& limits, int group, int num_computed);
  static int num_behind(const SchedulerLimits& limits, int group, const Table& table, int row);
  bool add_own_place(const SchedulerLimits& limits, int group, int first_row);

  std::array<Table, kMaxKvGroups> tables_;
};

}  // namespace headrace
