#include "model/tokenizer/model_fingerprint.h"

#include <fmt/format.h>

#include <array>
#include <bit>

#include "model/tokenizer/text_hash.h"

namespace headrace {
namespace {

// One 64-bit half.
std::uint64_t hash_all(std::uint64_t seed, std::string_view description,
                       const RawVocabulary& vocabulary, const RawMerges& merges) {
  std::uint64_t entries = 0;
  for (const RawVocabulary::Entry& entry : vocabulary.entries) {
    const std::uint64_t numbers =
        mix_product(static_cast<std::uint64_t>(entry.id) ^ seed, 0x9E3779B97F4A7C15U) ^
        std::bit_cast<std::uint64_t>(entry.score);
    entries += hash_text(vocabulary.token(entry), numbers);
  }
  std::uint64_t hash = hash_text(description, seed ^ entries);
  for (const RawMerges::Entry& entry : merges.entries) {
    hash = hash_text(merges.left(entry), hash);
    hash = hash_text(merges.right(entry), hash);
  }
  return hash;
}

}  // namespace

std::string fingerprint_of(std::string_view description, const RawVocabulary& vocabulary,
                           const RawMerges& merges) {
  return fmt::format("{:016x}{:016x}", hash_all(1, description, vocabulary, merges),
                     hash_all(2, description, vocabulary, merges));
}

}  // namespace headrace
