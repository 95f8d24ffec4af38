#include <gtest/gtest.h>

#include "runtime/sampling/sampler.h"

namespace headrace {
namespace {

void expect_words(PhiloxCounter counter, std::uint64_t key, PhiloxCounter expected) {
  const PhiloxCounter words = philox4x32_10(counter, key);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(words.word[i], expected.word[i]) << i;
}

// Known answers for philox4x32, 10 rounds, from the Random123 distribution (kat_vectors). Keys
// there are two words, low first.
TEST(Philox, GivesTheKnownAnswers) {
  expect_words({{0, 0, 0, 0}}, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  expect_words({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, 0xffffffffffffffffULL,
               {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  expect_words({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822ULL,
               {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

}  // namespace
}  // namespace headrace
