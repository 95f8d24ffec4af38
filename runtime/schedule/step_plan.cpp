#include "runtime/schedule/step_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/schedule/step_wire.h"

// The layout is STEP_PLAN.md; a change here is a change there and a new version.
namespace headrace {
namespace {

constexpr char kMagic[4] = {'H', 'R', 'S', 'P'};
constexpr std::uint16_t kVersion = 4;
constexpr std::uint16_t kFlagLast = 1;
constexpr std::uint32_t kFlagSample = 1;
constexpr std::uint32_t kFlagScore = 2;
constexpr std::size_t kHeaderBytes = 56;
constexpr std::size_t kAdmissionBytes = 80;
constexpr std::size_t kBiasBytes = 8;
constexpr std::size_t kEntryBytes = 16;
constexpr std::size_t kEntryGroupBytes = 4;
constexpr std::size_t kSwapBytes = 8;

std::uint32_t count_of(std::size_t size) {
  return static_cast<std::uint32_t>(size);
}

}  // namespace

void put_admission(ByteWriter& writer, const Admission& admission) {
  const SamplingParams& params = admission.params;
  writer.put(admission.slot);
  writer.put(admission.num_prompt_tokens);
  writer.put(params.temperature);
  writer.put(params.top_p);
  writer.put(static_cast<std::int32_t>(params.top_k));
  writer.put(params.min_p);
  writer.put(params.presence_penalty);
  writer.put(params.frequency_penalty);
  writer.put(params.repetition_penalty);
  writer.put(static_cast<std::int32_t>(params.min_tokens));
  writer.put(params.key);
  writer.put(params.stream);
  writer.put(params.choice);
  writer.put(static_cast<std::int32_t>(params.num_logprobs));
  writer.put(static_cast<std::int32_t>(params.num_prompt_logprobs));
  writer.put(count_of(params.logit_bias.size()));
  writer.put(count_of(params.banned_before_min.size()));
  writer.put(admission.max_length);
  for (const auto& [token, bias] : params.logit_bias) {
    writer.put(token);
    writer.put(bias);
  }
  writer.put_all(std::span<const TokenId>(params.banned_before_min));
}

namespace {

bool in_range(float value, float low, float high) {
  return value >= low && value <= high;
}

void check_ascending_ids(const ByteReader& reader, std::span<const TokenId> ids,
                         const char* field) {
  TokenId before = -1;
  for (const TokenId id : ids) {
    reader.require(id > before, field, "must be ascending ids from 0");
    before = id;
  }
}

void check_params(const ByteReader& reader, const SamplingParams& params) {
  constexpr float kMax = std::numeric_limits<float>::max();
  reader.require(in_range(params.temperature, 0, kMax), "temperature", "must be finite, from 0");
  reader.require(params.top_p > 0 && params.top_p <= 1, "top_p", "must be above 0, at most 1");
  reader.require(params.top_k >= 0, "top_k", "must not be negative");
  reader.require(in_range(params.min_p, 0, 1), "min_p", "must be from 0 to 1");
  reader.require(std::isfinite(params.presence_penalty), "presence_penalty", "must be finite");
  reader.require(std::isfinite(params.frequency_penalty), "frequency_penalty", "must be finite");
  reader.require(params.repetition_penalty > 0 && params.repetition_penalty <= kMax,
                 "repetition_penalty", "must be finite, above 0");
  reader.require(params.min_tokens >= 0, "min_tokens", "must not be negative");
  reader.require(params.num_logprobs >= -1 && params.num_logprobs <= kMaxLogprobs, "num_logprobs",
                 "must be from -1 to 20");
  reader.require(params.num_prompt_logprobs >= -1 && params.num_prompt_logprobs <= kMaxLogprobs,
                 "num_prompt_logprobs", "must be from -1 to 20");
}

void get_logit_bias(ByteReader& reader, std::size_t count, SamplingParams& params) {
  reader.require(count <= std::size_t{kMaxLogitBias}, "num_logit_bias", "must be at most 1024");
  reader.need(count, kBiasBytes, "logit_bias");
  params.logit_bias.resize(count);
  TokenId before = -1;
  for (auto& [token, bias] : params.logit_bias) {
    token = reader.get<TokenId>("logit_bias");
    bias = reader.get<float>("logit_bias");
    reader.require(token > before, "logit_bias", "must have ascending ids from 0");
    reader.require(std::isfinite(bias), "logit_bias", "must be finite");
    before = token;
  }
}

}  // namespace

Admission get_admission(ByteReader& reader) {
  Admission admission;
  SamplingParams& params = admission.params;
  admission.slot = reader.get<Slot>("admitted slot");
  admission.num_prompt_tokens = reader.get<std::int32_t>("num_prompt_tokens");
  params.temperature = reader.get<float>("temperature");
  params.top_p = reader.get<float>("top_p");
  params.top_k = reader.get<std::int32_t>("top_k");
  params.min_p = reader.get<float>("min_p");
  params.presence_penalty = reader.get<float>("presence_penalty");
  params.frequency_penalty = reader.get<float>("frequency_penalty");
  params.repetition_penalty = reader.get<float>("repetition_penalty");
  params.min_tokens = reader.get<std::int32_t>("min_tokens");
  params.key = reader.get<std::uint64_t>("key");
  params.stream = reader.get<std::uint64_t>("stream");
  params.choice = reader.get<std::uint32_t>("choice");
  params.num_logprobs = reader.get<std::int32_t>("num_logprobs");
  params.num_prompt_logprobs = reader.get<std::int32_t>("num_prompt_logprobs");
  const auto num_bias = reader.get<std::uint32_t>("num_logit_bias");
  const auto num_banned = reader.get<std::uint32_t>("num_banned_before_min");
  admission.max_length = reader.get<std::int32_t>("max_length");
  reader.require(admission.slot >= 0, "admitted slot", "must not be negative");
  reader.require(admission.num_prompt_tokens >= 1, "num_prompt_tokens", "must be at least 1");
  reader.require(admission.max_length >= admission.num_prompt_tokens, "max_length",
                 "must not be below num_prompt_tokens");
  check_params(reader, params);
  get_logit_bias(reader, num_bias, params);
  reader.require(num_banned <= std::uint32_t{kMaxStopIds}, "num_banned_before_min",
                 "must be at most 256");
  reader.get_all(num_banned, params.banned_before_min, "banned_before_min");
  check_ascending_ids(reader, params.banned_before_min, "banned_before_min");
  return admission;
}

namespace {

void put_entry(ByteWriter& writer, const StepEntry& entry, int num_kv_groups) {
  writer.put(entry.slot);
  writer.put(entry.first_position);
  writer.put(entry.num_rows);
  writer.put((entry.sample ? kFlagSample : 0U) | (entry.score ? kFlagScore : 0U));
  for (int g = 0; g < num_kv_groups; ++g) {
    writer.put(entry.num_new_blocks[static_cast<std::size_t>(g)]);
  }
}

StepEntry get_entry(ByteReader& reader, int num_kv_groups) {
  StepEntry entry;
  entry.slot = reader.get<Slot>("entry slot");
  entry.first_position = reader.get<std::int32_t>("first_position");
  entry.num_rows = reader.get<std::int32_t>("num_rows");
  const auto flags = reader.get<std::uint32_t>("entry flags");
  entry.sample = (flags & kFlagSample) != 0;
  entry.score = (flags & kFlagScore) != 0;
  constexpr std::int32_t kMax = std::numeric_limits<std::int32_t>::max();
  reader.require((flags & ~(kFlagSample | kFlagScore)) == 0, "entry flags", "has unknown bits");
  reader.require(entry.slot >= 0, "entry slot", "must not be negative");
  reader.require(entry.num_rows >= 1, "num_rows", "must be at least 1");
  reader.require(entry.first_position >= 0 && entry.first_position <= kMax - entry.num_rows,
                 "first_position", "must not be negative, and the rows must end below 2^31");
  for (int g = 0; g < num_kv_groups; ++g) {
    const auto count = reader.get<std::int32_t>("num_new_blocks");
    reader.require(count >= 0, "num_new_blocks", "must not be negative");
    entry.num_new_blocks[static_cast<std::size_t>(g)] = count;
  }
  return entry;
}

void put_swaps(ByteWriter& writer, std::span<const BlockSwap> swaps) {
  for (const BlockSwap& swap : swaps) {
    writer.put(swap.block);
    writer.put(swap.swap_block);
  }
}

void get_swaps(ByteReader& reader, std::size_t count, std::vector<BlockSwap>& swaps,
               const char* field) {
  reader.need(count, kSwapBytes, field);
  swaps.resize(count);
  for (BlockSwap& swap : swaps) {
    swap.block = reader.get<BlockId>(field);
    swap.swap_block = reader.get<BlockId>(field);
  }
}

// Slots or blocks.
void check_unique(const ByteReader& reader, std::vector<std::int32_t> ids, const char* field) {
  std::sort(ids.begin(), ids.end());
  reader.require(ids.empty() || ids.front() >= 0, field, "must not be negative");
  reader.require(std::adjacent_find(ids.begin(), ids.end()) == ids.end(), field,
                 "names the same one twice");
}

// The device copies them in any order.
void check_swaps(const ByteReader& reader, std::span<const BlockSwap> swaps, const char* field) {
  std::vector<BlockId> blocks;
  std::vector<BlockId> swap_blocks;
  for (const BlockSwap& swap : swaps) {
    blocks.push_back(swap.block);
    swap_blocks.push_back(swap.swap_block);
  }
  check_unique(reader, std::move(blocks), field);
  check_unique(reader, std::move(swap_blocks), field);
}

void check_at_least(const ByteReader& reader, std::span<const std::int32_t> values,
                    std::int32_t low, const char* field) {
  const bool good = std::all_of(values.begin(), values.end(), [low](auto v) { return v >= low; });
  if (!good) reader.fail(field, "must be at least " + std::to_string(low));
}

// What the parts of a plan say about each other.
void check_sums(const ByteReader& reader, const StepPlan& plan) {
  std::size_t num_rows = 0;
  std::size_t num_blocks = 0;
  std::size_t num_scored = 0;
  for (const StepEntry& entry : plan.entries) {
    num_rows += static_cast<std::size_t>(entry.num_rows);
    for (const std::int32_t count : entry.num_new_blocks) {
      num_blocks += static_cast<std::size_t>(count);
    }
    num_scored += entry.score ? 1 : 0;
  }
  reader.require(num_rows == plan.tokens.size(), "tokens", "must be one a row of the entries");
  reader.require(num_blocks == plan.new_blocks.size(), "new_blocks",
                 "must be as many as entries take");
  reader.require(num_scored == plan.following.size(), "following",
                 "must be one an entry with score");
}

}  // namespace

std::size_t encoded_bytes(const Admission& admission) {
  return kAdmissionBytes + kBiasBytes * admission.params.logit_bias.size() +
         sizeof(TokenId) * admission.params.banned_before_min.size();
}

std::size_t encoded_entry_bytes(int num_kv_groups) {
  return kEntryBytes + kEntryGroupBytes * static_cast<std::size_t>(num_kv_groups);
}

std::size_t encoded_bytes(const StepPlan& plan) {
  std::size_t bytes = kHeaderBytes + encoded_entry_bytes(plan.num_kv_groups) * plan.entries.size();
  for (const Admission& admission : plan.admitted) bytes += encoded_bytes(admission);
  bytes += kSwapBytes * (plan.saves.size() + plan.restores.size());
  return bytes + sizeof(std::int32_t) * (plan.released.size() + plan.new_blocks.size() +
                                         plan.tokens.size() + plan.following.size());
}

void encode(const StepPlan& plan, std::vector<std::byte>& out) {
  out.reserve(out.size() + encoded_bytes(plan));
  ByteWriter writer(out);
  writer.put_all(std::span<const char>(kMagic));
  writer.put(kVersion);
  writer.put(plan.last ? kFlagLast : std::uint16_t{0});
  writer.put(count_of(encoded_bytes(plan)));
  writer.put(count_of(plan.released.size()));
  writer.put(plan.id);
  writer.put(count_of(plan.admitted.size()));
  writer.put(count_of(plan.entries.size()));
  writer.put(count_of(plan.new_blocks.size()));
  writer.put(count_of(plan.tokens.size()));
  writer.put(count_of(plan.following.size()));
  writer.put(static_cast<std::uint32_t>(plan.num_kv_groups));
  writer.put(count_of(plan.saves.size()));
  writer.put(count_of(plan.restores.size()));
  put_swaps(writer, plan.saves);
  writer.put_all(std::span<const Slot>(plan.released));
  for (const Admission& admission : plan.admitted) put_admission(writer, admission);
  put_swaps(writer, plan.restores);
  for (const StepEntry& entry : plan.entries) put_entry(writer, entry, plan.num_kv_groups);
  writer.put_all(std::span<const BlockId>(plan.new_blocks));
  writer.put_all(std::span<const TokenId>(plan.tokens));
  writer.put_all(std::span<const TokenId>(plan.following));
}

StepPlan decode_step_plan(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "step plan");
  for (const char letter : kMagic) {
    reader.require(reader.get<char>("magic") == letter, "magic", "must be HRSP");
  }
  const auto version = reader.get<std::uint16_t>("version");
  if (version != kVersion) {
    reader.fail("version",
                "is " + std::to_string(version) + ", must be " + std::to_string(kVersion));
  }
  const auto flags = reader.get<std::uint16_t>("flags");
  reader.require((flags & ~kFlagLast) == 0, "flags", "has unknown bits");
  const auto num_bytes = reader.get<std::uint32_t>("num_bytes");
  reader.require(num_bytes == bytes.size(), "num_bytes", "must be the length of the message");

  StepPlan plan;
  plan.last = (flags & kFlagLast) != 0;
  const auto num_released = reader.get<std::uint32_t>("num_released");
  plan.id = reader.get<StepId>("id");
  const auto num_admitted = reader.get<std::uint32_t>("num_admitted");
  const auto num_entries = reader.get<std::uint32_t>("num_entries");
  const auto num_new_blocks = reader.get<std::uint32_t>("num_new_blocks");
  const auto num_tokens = reader.get<std::uint32_t>("num_tokens");
  const auto num_following = reader.get<std::uint32_t>("num_following");
  const auto num_kv_groups = reader.get<std::uint32_t>("num_kv_groups");
  reader.require(num_kv_groups >= 1 && num_kv_groups <= std::uint32_t{kMaxKvGroups},
                 "num_kv_groups", "must be 1 or 2");
  plan.num_kv_groups = static_cast<int>(num_kv_groups);
  const auto num_saves = reader.get<std::uint32_t>("num_saves");
  const auto num_restores = reader.get<std::uint32_t>("num_restores");

  get_swaps(reader, num_saves, plan.saves, "saves");
  reader.get_all(num_released, plan.released, "released");
  reader.need(num_admitted, kAdmissionBytes, "admitted");
  std::vector<Slot> admitted_slots;
  for (std::uint32_t i = 0; i < num_admitted; ++i) {
    plan.admitted.push_back(get_admission(reader));
    admitted_slots.push_back(plan.admitted.back().slot);
  }
  get_swaps(reader, num_restores, plan.restores, "restores");
  reader.need(num_entries, encoded_entry_bytes(plan.num_kv_groups), "entries");
  for (std::uint32_t i = 0; i < num_entries; ++i) {
    plan.entries.push_back(get_entry(reader, plan.num_kv_groups));
  }
  reader.get_all(num_new_blocks, plan.new_blocks, "new_blocks");
  reader.get_all(num_tokens, plan.tokens, "tokens");
  reader.get_all(num_following, plan.following, "following");
  reader.require(reader.num_left() == 0, "num_bytes", "must end after following");

  check_swaps(reader, plan.saves, "saves");
  check_unique(reader, plan.released, "released");
  check_unique(reader, std::move(admitted_slots), "admitted slot");
  check_swaps(reader, plan.restores, "restores");
  check_at_least(reader, plan.new_blocks, 0, "new_blocks");
  check_at_least(reader, plan.tokens, 0, "tokens");
  check_at_least(reader, plan.following, -1, "following");
  check_sums(reader, plan);
  return plan;
}

}  // namespace headrace
