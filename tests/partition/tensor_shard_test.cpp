#include "partition/tensor_shard.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <string>

namespace headrace {
namespace {

constexpr ShardedSizes kSmolLm2{.num_heads = 9,
                                .num_kv_heads = 3,
                                .head_dim = 64,
                                .intermediate_size = 1536,
                                .vocab_size = 49152};

// Adds up named leaves as a post-order program says: "((a+b)+c)".
class Adder {
 public:
  void push(std::string value, int merges) {
    stack_.push_back(std::move(value));
    for (int i = 0; i < merges; ++i) {
      const std::string later = std::move(stack_.back());
      stack_.pop_back();
      stack_.back() = "(" + stack_.back() + "+" + later + ")";
    }
  }
  const std::vector<std::string>& values() const { return stack_; }

 private:
  std::vector<std::string> stack_;
};

std::string sum_of(const ReductionSlices& whole) {
  Adder adder;
  for (std::size_t s = 0; s < whole.merges.size(); ++s) {
    adder.push(std::to_string(s), whole.merges[s]);
  }
  return adder.values().at(0);
}

// Every rank adds its own slices, then the values of all are added.
std::string sum_of(const ShardedSum& sum) {
  Adder all;
  std::size_t slice = 0;
  std::size_t value = 0;
  for (std::size_t rank = 0; rank < sum.parts.size(); ++rank) {
    Adder own;
    for (const std::int32_t merges : sum.parts[rank].merges) {
      own.push(std::to_string(slice++), merges);
    }
    EXPECT_EQ(static_cast<int>(own.values().size()), sum.num_values[rank]);
    for (const std::string& text : own.values()) all.push(text, sum.merges.at(value++));
  }
  EXPECT_EQ(value, sum.merges.size());
  EXPECT_EQ(all.values().size(), 1U);
  return all.values().at(0);
}

TEST(TensorShard, NineHeadsOverTwoRanksAreTwoKvHeadsAndOne) {
  const std::vector<TensorShard> shards = tensor_shards(kSmolLm2, 2);
  EXPECT_EQ(shards[0].kv_heads, (IndexRange{0, 2}));
  EXPECT_EQ(shards[0].heads, (IndexRange{0, 6}));
  EXPECT_EQ(shards[1].kv_heads, (IndexRange{2, 3}));
  EXPECT_EQ(shards[1].heads, (IndexRange{6, 9}));
  EXPECT_EQ(shards[1].intermediate, (IndexRange{768, 1536}));
  EXPECT_EQ(shards[1].vocab, (IndexRange{24576, 49152}));
}

TEST(TensorShard, RanksBeyondTheKvHeadsShareThem) {
  const std::vector<TensorShard> shards = tensor_shards(kSmolLm2, 4);
  EXPECT_EQ(shards[0].kv_heads, (IndexRange{0, 1}));
  EXPECT_EQ(shards[0].heads, (IndexRange{0, 2}));
  EXPECT_EQ(shards[1].kv_heads, (IndexRange{0, 1}));
  EXPECT_EQ(shards[1].heads, (IndexRange{2, 3}));
  EXPECT_EQ(shards[2].heads, (IndexRange{3, 6}));
  EXPECT_EQ(shards[3].heads, (IndexRange{6, 9}));
}

TEST(TensorShard, ASizeThatMakesNoSenseIsRefusedWithThoseThatCanBeHad) {
  try {
    tensor_shards(kSmolLm2, 9);
    FAIL() << "9 ranks were accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "tensor-parallel size 9: this model can be split over 1 to 8 ranks (9 query "
                 "heads, intermediate size 1536)");
  }
  EXPECT_THROW(tensor_shards(kSmolLm2, 0), std::invalid_argument);
}

ShardedSizes random_sizes(std::mt19937& random) {
  const auto up_to = [&](int most) { return static_cast<int>(random() % most) + 1; };
  const int kv_heads = up_to(12);
  return {.num_heads = kv_heads * up_to(9),
          .num_kv_heads = kv_heads,
          .head_dim = 2 * up_to(64),
          .intermediate_size = up_to(20000),
          .vocab_size = up_to(20000)};
}

// The ranges follow each other and cover [0, n).
void expect_cover(const std::vector<IndexRange>& ranges, int n) {
  int at = 0;
  for (const IndexRange& range : ranges) {
    ASSERT_EQ(range.begin, at);
    ASSERT_LE(range.begin, range.end);
    at = range.end;
  }
  ASSERT_EQ(at, n);
}

TEST(TensorShard, EveryElementIsOwnedOnceAndEverySumKeepsItsOrder) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 5000; ++trial) {
    const ShardedSizes sizes = random_sizes(random);
    const int most = std::min(max_tensor_parallel_size(sizes), 16);
    const int size = static_cast<int>(random() % static_cast<unsigned>(most)) + 1;
    const std::vector<TensorShard> shards = tensor_shards(sizes, size);
    std::vector<IndexRange> heads;
    std::vector<IndexRange> inner;
    std::vector<IndexRange> vocab;
    const int group = sizes.num_heads / sizes.num_kv_heads;
    for (const TensorShard& shard : shards) {
      heads.push_back(shard.heads);
      inner.push_back(shard.intermediate);
      vocab.push_back(shard.vocab);
      ASSERT_FALSE(shard.heads.empty());
      ASSERT_FALSE(shard.intermediate.empty());
      // The KV heads held are those of the query heads, as a whole number of groups.
      ASSERT_EQ(shard.kv_heads.begin, shard.heads.begin / group);
      ASSERT_EQ(shard.kv_heads.end, (shard.heads.end - 1) / group + 1);
      ASSERT_EQ(shard.heads.size() % shard.kv_heads.size(), 0);
      ASSERT_TRUE(shard.kv_heads.size() == 1 ||
                  shard.heads.size() == shard.kv_heads.size() * group);
      ASSERT_EQ(shard.vocab.begin % kVocabSlice == 0 || shard.vocab.empty(), true);
    }
    expect_cover(heads, sizes.num_heads);
    expect_cover(inner, sizes.intermediate_size);
    expect_cover(vocab, sizes.vocab_size);
    ASSERT_EQ(sum_of(attention_output_sum(sizes, shards)),
              sum_of(attention_output_slices(sizes.num_heads, sizes.num_kv_heads, sizes.head_dim)));
    ASSERT_EQ(sum_of(mlp_down_sum(sizes, shards)),
              sum_of(mlp_down_slices(sizes.intermediate_size)));
  }
}

TEST(TensorShard, APowerOfTwoSendsOneValueARank) {
  const ShardedSizes sizes{.num_heads = 32,
                           .num_kv_heads = 8,
                           .head_dim = 128,
                           .intermediate_size = 14336,
                           .vocab_size = 128256};
  for (const int size : {1, 2, 4, 8, 16, 32}) {
    const std::vector<TensorShard> shards = tensor_shards(sizes, size);
    for (const ShardedSum& sum :
         {attention_output_sum(sizes, shards), mlp_down_sum(sizes, shards)}) {
      EXPECT_EQ(sum.num_values, std::vector<int>(static_cast<std::size_t>(size), 1)) << size;
    }
  }
}

TEST(TensorShard, PartsCountTheirBoundsFromZero) {
  const std::vector<TensorShard> shards = tensor_shards(kSmolLm2, 2);
  const ShardedSum sum = attention_output_sum(kSmolLm2, shards);
  EXPECT_EQ(sum.parts[0].bounds.back(), 6 * 64);
  EXPECT_EQ(sum.parts[1].bounds, (std::vector<std::int32_t>{0, 64, 128, 192}));
}

}  // namespace
}  // namespace headrace
