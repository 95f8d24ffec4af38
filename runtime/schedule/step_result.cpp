#include <utility>

#include "runtime/schedule/step_plan.h"
#include "runtime/schedule/step_wire.h"

// The layout is STEP_PLAN.md; a change here is a change there and a new version.
namespace headrace {
namespace {

constexpr char kMagic[4] = {'H', 'R', 'S', 'R'};
constexpr std::uint16_t kVersion = 1;
constexpr std::uint32_t kFlagSampled = 1;
constexpr std::size_t kNumBytesOffset = 8;
constexpr std::size_t kEntryBytes = 16;
constexpr std::size_t kScoredBytes = 16;
constexpr std::size_t kTopBytes = 8;

}  // namespace

void put_scored(ByteWriter& writer, const ScoredToken& scored) {
  writer.put(scored.token);
  writer.put(scored.logprob);
  writer.put(scored.rank);
  writer.put(static_cast<std::uint32_t>(scored.top.size()));
  for (const auto& [token, logprob] : scored.top) {
    writer.put(token);
    writer.put(logprob);
  }
}

ScoredToken get_scored(ByteReader& reader) {
  ScoredToken scored;
  scored.token = reader.get<TokenId>("token");
  scored.logprob = reader.get<float>("logprob");
  scored.rank = reader.get<std::int32_t>("rank");
  const auto num_top = reader.get<std::uint32_t>("num_top");
  reader.require(scored.token >= 0, "token", "must not be negative");
  reader.require(scored.rank >= 0, "rank", "must not be negative");
  reader.require(num_top <= std::uint32_t{kMaxLogprobs}, "num_top", "must be at most 20");
  reader.need(num_top, kTopBytes, "top");
  scored.top.reserve(num_top);
  for (std::uint32_t i = 0; i < num_top; ++i) {
    const auto token = reader.get<TokenId>("top");
    reader.require(token >= 0, "top", "must have ids from 0");
    scored.top.emplace_back(token, reader.get<float>("top"));
  }
  return scored;
}

namespace {

StepResult::Entry get_entry(ByteReader& reader) {
  StepResult::Entry entry;
  entry.slot = reader.get<Slot>("slot");
  entry.first_position = reader.get<std::int32_t>("first_position");
  const auto flags = reader.get<std::uint32_t>("flags");
  const auto num_scored = reader.get<std::uint32_t>("num_scored");
  reader.require(entry.slot >= 0, "slot", "must not be negative");
  reader.require(entry.first_position >= 0, "first_position", "must not be negative");
  reader.require((flags & ~kFlagSampled) == 0, "flags", "has unknown bits");
  reader.need(num_scored, kScoredBytes, "scored");
  entry.scored.reserve(num_scored);
  for (std::uint32_t i = 0; i < num_scored; ++i) entry.scored.push_back(get_scored(reader));
  entry.sampled = (flags & kFlagSampled) != 0;
  if (entry.sampled) entry.token = get_scored(reader);
  return entry;
}

}  // namespace

void encode(std::span<const ScoredToken> tokens, std::vector<std::byte>& out) {
  ByteWriter writer(out);
  for (const ScoredToken& token : tokens) put_scored(writer, token);
}

std::vector<ScoredToken> decode_scored_tokens(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "scored tokens");
  std::vector<ScoredToken> tokens;
  while (reader.num_left() > 0) tokens.push_back(get_scored(reader));
  return tokens;
}

void encode(const StepResult& result, std::vector<std::byte>& out) {
  const std::size_t begin = out.size();
  ByteWriter writer(out);
  writer.put_all(std::span<const char>(kMagic));
  writer.put(kVersion);
  writer.put(std::uint16_t{0});
  writer.put(std::uint32_t{0});  // num_bytes, known at the end
  writer.put(static_cast<std::uint32_t>(result.entries.size()));
  writer.put(result.id);
  for (const StepResult::Entry& entry : result.entries) {
    writer.put(entry.slot);
    writer.put(entry.first_position);
    writer.put(entry.sampled ? kFlagSampled : 0U);
    writer.put(static_cast<std::uint32_t>(entry.scored.size()));
    for (const ScoredToken& scored : entry.scored) put_scored(writer, scored);
    if (entry.sampled) put_scored(writer, entry.token);
  }
  const auto num_bytes = static_cast<std::uint32_t>(out.size() - begin);
  std::memcpy(out.data() + begin + kNumBytesOffset, &num_bytes, sizeof(num_bytes));
}

StepResult decode_step_result(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "step result");
  for (const char letter : kMagic) {
    reader.require(reader.get<char>("magic") == letter, "magic", "must be HRSR");
  }
  const auto version = reader.get<std::uint16_t>("version");
  if (version != kVersion) reader.fail("version", "is " + std::to_string(version) + ", must be 1");
  reader.require(reader.get<std::uint16_t>("reserved") == 0, "reserved", "must be 0");
  const auto num_bytes = reader.get<std::uint32_t>("num_bytes");
  reader.require(num_bytes == bytes.size(), "num_bytes", "must be the length of the message");
  const auto num_entries = reader.get<std::uint32_t>("num_entries");
  StepResult result;
  result.id = reader.get<StepId>("id");
  reader.need(num_entries, kEntryBytes, "entries");
  result.entries.reserve(num_entries);
  for (std::uint32_t i = 0; i < num_entries; ++i) result.entries.push_back(get_entry(reader));
  reader.require(reader.num_left() == 0, "num_bytes", "must end after the entries");
  return result;
}

}  // namespace headrace
