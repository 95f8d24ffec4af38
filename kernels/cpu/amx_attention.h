// Attention by tiles: up to sixteen rows times the keys of a chunk, sixteen at a time, and their
// probabilities times its values, 32 tokens at a time, counted from the chunk's beginning. Keys are
// tiles as they lie in the cache, and so are values where blocks hold 32 tokens; of smaller blocks
// they are brought together first. The tile products take a quarter of the time, the soft-max most
// of the rest. See simd_math.h for the unnamed namespace.
#pragma once

#include <cstdint>

#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/simd_attention.h"

namespace headrace {
namespace {

inline constexpr int kAmxTokens = 2 * kAmxDwords;  // of a tile of values

static_assert(kMaxTileRows == kAmxRows);
static_assert(kChunk % kAmxTokens == 0);

// Tiles: 0 and 1 sums, 4 rows, 6 keys or values; 5 and 7 the same of the last dimensions, where
// they do not fill a tile.
template <class F, class Tiles>
class AmxAttentionTask : private SoftMaxRows<F> {
  using L = typename F::Lanes;

 public:
  AmxAttentionTask(const AttentionArgs& args, const AttentionArgs* next)
      : SoftMaxRows<F>(args, next), last_steps_(args.layout.key_steps % kAmxDwords) {}

  void run() {
    configure();
    this->load_queries();
    this->walk(*this);
    this->template store_result<F>(state_.sums, state_.soft_max);
  }

 private:
  friend class AttentionRows;
  using AttentionRows::args_;
  using AttentionRows::heads_;
  using AttentionRows::next_chunk_;
  using AttentionRows::reader_;
  using AttentionRows::rows_;
  using SoftMaxRows<F>::state_;

  void configure() {
    AmxShapes shapes;
    shapes.set(0, rows_);
    shapes.set(1, rows_);
    shapes.set(4, rows_);
    shapes.set(6, kAmxDwords);
    const auto last = static_cast<int>(last_steps_);
    if (last > 0) {
      shapes.set(5, rows_, last);
      shapes.set(7, last);
    }
    tiles_.configure(shapes);
  }

  void score(int begin, int most, int rows) {
    for (int t = 0; t < most; t += kAmxDwords) {
      score_keys(reader_.keys(begin + t), next_chunk_.keys(begin + t), this->scores(0) + t);
    }
    const int registers = (most + 15) / 16;
    const auto scale = L::set1(args_.shape.scale);
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < registers; ++i) {
        float* const at = this->scores(r) + i * 16;
        L::store(at, L::mul(L::load(at), scale));
      }
    }
  }

  void score_keys(const std::uint32_t* keys, const std::uint32_t* next_keys, float* scores) {
    tiles_.template zero<0>();
    const std::int64_t whole = args_.layout.key_steps - last_steps_;
    for (std::int64_t step = 0; step < whole; step += kAmxDwords) {
      fetch(next_keys + step * kPanelColumns, kPanelColumns);
      tiles_.template load<4>(state_.operands + step, kOperandStride);
      tiles_.template load<6>(keys + step * kPanelColumns);
      tiles_.template add_bf16<0, 4, 6>();
    }
    if (last_steps_ > 0) {
      tiles_.template load<5>(state_.operands + whole, kOperandStride);
      tiles_.template load<7>(keys + whole * kPanelColumns);
      tiles_.template add_bf16<0, 5, 7>();
    }
    tiles_.template store<0>(scores, kOperandStride);
  }

  // A line of each row of a tile.
  static void fetch(const std::uint32_t* from, std::int64_t stride) {
    for (int i = 0; i < kAmxDwords; ++i) __builtin_prefetch(from + i * stride, 0, 3);
  }

  void add_values(int begin, int fewest, int most, int rows) {
    const int whole = fewest / kAmxTokens * kAmxTokens;
    for (int t = 0; t < whole; t += kAmxTokens) find_whole_values(begin, t);
    bool finite = true;
    for (int t = whole; t < most; t += kAmxTokens) finite &= copy_seen_values(begin, t, most);
    if (finite || fewest == most) {
      multiply(most);
      add_products(0, rows);
      return;
    }
    // A row must not see what comes after it, not even times zero.
    for (int r = 0; r < rows; r += heads_) {
      const int visible = fewest + r / heads_;
      for (int t = whole; t < most; t += kAmxTokens) copy_seen_values(begin, t, visible);
      multiply(visible);
      add_products(r, heads_);
    }
  }

  // The values of 32 tokens of the chunk from t on, all of which all rows see: where they lie, or
  // brought together from several blocks.
  void find_whole_values(int begin, int t) {
    ValueRows& found = values_[t / kAmxTokens];
    const std::int64_t stride = args_.layout.value_stride;
    found.next = next_chunk_.values(begin + t, 2);
    const int slot = (begin + t) % args_.kv.block_tokens;
    if (slot + kAmxTokens <= args_.kv.block_tokens) {
      found.rows = reader_.values(begin + t, 2);
      return;
    }
    found.rows = found.copied;
    const int tokens = args_.kv.block_tokens;  // a tile begins where a block does
    for (int i = 0; i < kAmxTokens; i += tokens) {
      const std::uint32_t* const from = reader_.values(begin + t + i, 2);
      std::uint32_t* const to = found.copied + i / 2 * stride;
      for (std::int64_t d = 0; d < tokens / 2 * stride; d += 16) {
        L::store(reinterpret_cast<float*>(to + d),
                 L::load(reinterpret_cast<const float*>(from + d)));
      }
    }
  }

  // The same of tokens that not all rows see: zeros from `end` on. Gives whether they are finite.
  bool copy_seen_values(int begin, int t, int end) {
    ValueRows& found = values_[t / kAmxTokens];
    const std::int64_t stride = args_.layout.value_stride;
    found.next = next_chunk_.values(begin + t, 2);
    found.rows = found.copied;
    auto exponents = L::zero();
    for (int pair = 0; pair < kAmxDwords; ++pair) {
      std::uint32_t* const to = found.copied + pair * stride;
      const int token = t + 2 * pair;
      const int left = end - token;
      if (left <= 0) {
        for (std::int64_t d = 0; d < stride; d += 16) {
          L::store(reinterpret_cast<float*>(to + d), L::zero());
        }
        continue;
      }
      const std::uint32_t* const from = reader_.values(begin + token, 2);
      for (std::int64_t d = 0; d < stride; d += 16) {
        const auto dwords = L::load_dwords(from + d);
        const auto even = L::even(dwords);
        const auto odd = left > 1 ? L::odd(dwords) : L::zero();
        L::store_pair(to + d, even, odd);
        exponents = L::fma(even, L::zero(), L::fma(odd, L::zero(), exponents));
      }
    }
    return L::sum(exponents) == 0.0F;
  }

  // products_ = the probabilities of all rows times the values of tokens [0, end).
  void multiply(int end) {
    const std::int64_t stride = args_.layout.value_stride;
    for (std::int64_t d = 0; d < stride; d += kPanelColumns) {
      tiles_.template zero<1>();
      for (int t = 0; t < end; t += kAmxTokens) {
        const ValueRows& values = values_[t / kAmxTokens];
        fetch(values.next + d, stride);
        tiles_.template load<4>(state_.weights + t / 2, kOperandStride);
        tiles_.template load<6>(values.rows + d, stride);
        tiles_.template add_bf16<1, 4, 6>();
      }
      tiles_.template store<1>(products_ + d, kOperandStride);
    }
  }

  void add_products(int first, int count) {
    const std::int64_t stride = args_.layout.value_stride;
    for (int r = first; r < first + count; ++r) {
      const auto rescale = L::set1(state_.soft_max.rescale[r]);
      for (std::int64_t d = 0; d < stride; d += 16) {
        float* const sum = state_.sums + r * kOperandStride + d;
        L::store(sum, L::fma(L::load(sum), rescale, L::load(products_ + r * kOperandStride + d)));
      }
    }
  }

  struct ValueRows {
    const std::uint32_t* rows;  // [kAmxDwords, value_stride]
    const std::uint32_t* next;  // of the next chunk
    alignas(64) std::uint32_t copied[kAmxDwords * kOperandStride];
  };

  std::int64_t last_steps_;
  ValueRows values_[kChunk / kAmxTokens];
  alignas(64) float products_[kMaxTileRows * kOperandStride];
  Tiles tiles_;
};

template <class F, class Tiles>
void amx_attention(const AttentionArgs& args, const AttentionArgs* next) {
  AmxAttentionTask<F, Tiles> task(args, next);
  task.run();
}

}  // namespace
}  // namespace headrace
