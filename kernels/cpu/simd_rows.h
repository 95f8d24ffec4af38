// Operators that work on one row at a time, apart from norms: activation, scaling, rotation,
// soft-max facts. Bound by reading their rows. See simd_math.h for the unnamed namespace.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd_format.h"

namespace headrace {
namespace {

// apply(x) for every element of the rows, times the other half of the row where it is gated.
template <class F, class Apply>
[[gnu::always_inline]] inline void activate_rows(const ActivationArgs& args, const Apply& apply) {
  using L = typename F::Lanes;
  for (std::int64_t r = args.row_begin; r < args.row_end; ++r) {
    const float* x = args.x + r * args.cols * (args.gated ? 2 : 1);
    for (std::int64_t i = 0; i < args.cols; i += 16) {
      const int n = lanes_at(i, args.cols);
      auto value = apply(L::load_first(x + i, n));
      if (args.gated) value = L::mul(value, L::load_first(x + args.cols + i, n));
      F::store_elements(args.out, r * args.out_stride + i, value, n);
    }
  }
}

template <class F>
void add_partials(const AddPartialsArgs& args) {
  using L = typename F::Lanes;
  using Register = decltype(L::zero());
  for (std::int64_t r = args.row_begin; r < args.row_end; ++r) {
    for (std::int64_t i = 0; i < args.cols; i += 16) {
      const int n = lanes_at(i, args.cols);
      const std::int64_t at = r * args.cols + i;
      Register stack[kMaxTreeDepth];
      int depth = 0;
      Register sum = L::zero();
      for (int p = 0; p < args.num_parts; ++p) {
        sum = L::load_first(args.parts[p] + at, n);
        for (int merge = 0; merge < args.merges[p]; ++merge) sum = L::add(stack[--depth], sum);
        if (p + 1 < args.num_parts) stack[depth++] = sum;
      }
      if (args.bias != nullptr) sum = L::add(sum, L::load_first(args.bias + i, n));
      L::store_first(args.inout + at, L::add(L::load_first(args.inout + at, n), sum), n);
    }
  }
}

template <class F>
void activate(const ActivationArgs& args) {
  using L = typename F::Lanes;
  using V = typename L::V;
  switch (args.activation) {
    case Activation::kSilu:
      return activate_rows<F>(args, [](V x) { return silu16<L>(x); });
    case Activation::kGeluTanh:
      return activate_rows<F>(args, [](V x) { return gelu_tanh16<L>(x); });
    case Activation::kGeluErf:
      return activate_rows<F>(args, [](V x) { return gelu_erf16<L>(x); });
  }
}

template <class F>
void convert(const float* x, std::byte* out, std::int64_t begin, std::int64_t end) {
  using L = typename F::Lanes;
  for (std::int64_t i = begin; i < end; i += 16) {
    const int n = lanes_at(i, end);
    F::store_elements(out, i, L::load_first(x + i, n), n);
  }
}

template <class F>
void scale(float* values, std::int64_t count, float factor) {
  using L = typename F::Lanes;
  for (std::int64_t i = 0; i < count; i += 16) {
    const int n = lanes_at(i, count);
    L::store_first(values + i, L::mul(L::load_first(values + i, n), L::set1(factor)), n);
  }
}

template <class F>
void add_scaled(float* sums, const float* x, std::int64_t count, float factor) {
  using L = typename F::Lanes;
  for (std::int64_t i = 0; i < count; i += 16) {
    const int n = lanes_at(i, count);
    const auto scaled = L::mul(L::load_first(x + i, n), L::set1(factor));
    L::store_first(sums + i, L::add(L::load_first(sums + i, n), scaled), n);
  }
}

template <class F>
void soft_cap(float* values, std::int64_t count, float cap) {
  using L = typename F::Lanes;
  for (std::int64_t i = 0; i < count; i += 16) {
    const int n = lanes_at(i, count);
    L::store_first(values + i, soft_cap16<L>(L::load_first(values + i, n), L::set1(cap)), n);
  }
}

template <class F>
RowStatistics row_statistics(const float* row, std::int64_t cols) {
  using L = typename F::Lanes;
  constexpr std::int64_t kSlice = 1024;
  const auto lowest = L::set1(-__builtin_inff());
  auto max = lowest;
  for (std::int64_t i = 0; i < cols; i += 16) {
    const int n = lanes_at(i, cols);
    max = L::max(max, L::select_first(n, L::load_first(row + i, n), lowest));
  }
  const float row_max = L::max_lane(max) + 0.0F;  // never a negative zero
  float total = 0.0F;
  for (std::int64_t begin = 0; begin < cols; begin += kSlice) {
    const std::int64_t end = begin + kSlice < cols ? begin + kSlice : cols;
    auto sum = L::zero();
    for (std::int64_t i = begin; i < end; i += 16) {
      const int n = lanes_at(i, end);
      const auto e = exp16<L>(L::sub(L::load_first(row + i, n), L::set1(row_max)));
      sum = L::add(sum, L::select_first(n, e, L::zero()));
    }
    total += L::sum(sum);
  }
  return {.max = row_max, .log_sum_exp = log_sum_exp_of(row_max, total)};
}

template <class F>
void take_in_logits(BestLogit& best, const float* logits, std::int64_t cols,
                    std::int64_t first_id) {
  using L = typename F::Lanes;
  const auto lowest = L::set1(-__builtin_inff());
  auto max = lowest;
  auto zeros = L::zero();  // not a number from the first logit on that is not finite
  for (std::int64_t i = 0; i < cols; i += 16) {
    const int n = lanes_at(i, cols);
    const auto values = L::load_first(logits + i, n);
    zeros = L::fma(values, L::zero(), zeros);
    max = L::max(max, L::select_first(n, values, lowest));
  }
  const float row_max = L::max_lane(max);
  if (!(L::sum(zeros) == 0.0F) || best.value != best.value) {
    best = {.value = __builtin_nanf(""), .id = -1};
  } else if (row_max > best.value || (row_max == best.value && first_id < best.id)) {
    std::int64_t i = 0;
    while (logits[i] != row_max) ++i;
    best = {.value = logits[i], .id = static_cast<std::int32_t>(first_id + i)};
  }
}

// head [head_dim] with its leading dimensions turned.
template <class L>
void rotate(float* out, const float* head, const float* cos_sin, const AttentionShape& shape) {
  const int half = shape.rotary_dim / 2;
  for (int i = 0; i < half; i += 16) {
    const int n = lanes_at(i, half);
    const auto a = L::load_first(head + i, n);
    const auto b = L::load_first(head + half + i, n);
    const auto cos = L::load_first(cos_sin + i, n);
    const auto sin = L::load_first(cos_sin + half + i, n);
    L::store_first(out + i, L::sub(L::mul(a, cos), L::mul(b, sin)), n);
    L::store_first(out + half + i, L::add(L::mul(b, cos), L::mul(a, sin)), n);
  }
  for (int i = shape.rotary_dim; i < shape.head_dim; i += 16) {
    const int n = lanes_at(i, shape.head_dim);
    L::store_first(out + i, L::load_first(head + i, n), n);
  }
}

// A key [head_dim] into its column of a group of sixteen tokens.
template <class F>
void store_key(std::uint32_t* column, const float* key, int head_dim) {
  using L = typename F::Lanes;
  alignas(64) std::uint32_t dwords[16];
  for (int d = 0; d < head_dim; d += 16) {
    const int n = lanes_at(d, head_dim);
    F::store_elements(reinterpret_cast<std::byte*>(dwords), 0, L::load_first(key + d, n), n);
    for (int i = 0; i < n / F::kGroup; ++i) {
      column[(d / F::kGroup + i) * kPanelColumns] = dwords[i];
    }
  }
}

// A value [head_dim] into its row, or into its half of the dwords of a row of token pairs.
template <class F>
void store_value(std::uint32_t* row, int half, const float* value, int head_dim) {
  using L = typename F::Lanes;
  if constexpr (F::kGroup == 1) {
    for (int d = 0; d < head_dim; d += 16) {
      const int n = lanes_at(d, head_dim);
      L::store_first(reinterpret_cast<float*>(row) + d, L::load_first(value + d, n), n);
    }
  } else {
    alignas(64) std::uint16_t rounded[16];
    auto* halves = reinterpret_cast<std::uint16_t*>(row);
    for (int d = 0; d < head_dim; d += 16) {
      const int n = lanes_at(d, head_dim);
      F::store_elements(reinterpret_cast<std::byte*>(rounded), 0, L::load_first(value + d, n), n);
      for (int i = 0; i < n; ++i) halves[2 * (d + i) + half] = rounded[i];
    }
  }
}

// What is stored of one token and KV head, and where.
struct KvToken {
  std::uint32_t* head;  // of the block
  const KvLayout& layout;
  int block_tokens;
  int slot;
  int head_dim;

  std::uint32_t* key_column() const {
    return head + slot / 16 * layout.key_steps * kPanelColumns + slot % 16;
  }
  std::uint32_t* value_row(int group) const {
    return head + layout.values_offset + slot / group * layout.value_stride;
  }
};

// Keys and values in the compute type.
template <class F>
struct ComputeKvStore {
  static void store(const KvToken& token, const float* key, const float* value) {
    store_key<F>(token.key_column(), key, token.head_dim);
    store_value<F>(token.value_row(F::kGroup), token.slot % F::kGroup, value, token.head_dim);
  }
};

template <class F, class KvStore>
void rope_and_store(const RopeArgs& args) {
  using L = typename F::Lanes;
  const AttentionShape& shape = args.shape;
  const std::int64_t dim = shape.head_dim;
  const std::int64_t q_cols = shape.num_heads * dim;
  const std::int64_t kv_cols = shape.num_kv_heads * dim;
  float turned[512];  // kMaxHeadDim
  for (int i = args.row_begin; i < args.row_end; ++i) {
    const std::int64_t r = args.sequence.first_row + i;
    const float* row = args.qkv + r * (q_cols + 2 * kv_cols);
    const float* cos_sin = args.cos_sin + r * shape.rotary_dim;
    for (int head = 0; head < shape.num_heads; ++head) {
      rotate<L>(turned, row + head * dim, cos_sin, shape);
      for (std::int64_t d = 0; d < dim; d += 16) {
        const int n = lanes_at(d, dim);
        F::store_elements(args.q_out, r * q_cols + head * dim + d, L::load_first(turned + d, n), n);
      }
    }
    const int position = args.sequence.first_position + i;
    const int slot = position % args.kv.block_tokens;
    const std::int64_t block = args.sequence.blocks[position / args.kv.block_tokens];
    auto* heads = reinterpret_cast<std::uint32_t*>(
        args.kv.data + block * static_cast<std::int64_t>(args.kv.block_bytes));
    for (int head = 0; head < shape.num_kv_heads; ++head) {
      rotate<L>(turned, row + q_cols + head * dim, cos_sin, shape);
      KvStore::store({.head = heads + head * args.layout.head_dwords,
                      .layout = args.layout,
                      .block_tokens = args.kv.block_tokens,
                      .slot = slot,
                      .head_dim = shape.head_dim},
                     turned, row + q_cols + kv_cols + head * dim);
    }
  }
}

}  // namespace
}  // namespace headrace
